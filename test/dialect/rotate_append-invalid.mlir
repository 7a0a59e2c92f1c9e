// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --split-input-file --verify-diagnostics -o %t

#rope = #heddle.rope<half, table = 0, attention_factor = 1.0, inverse_frequency = array<f32: 1.0, 0.1>>
func.func @rotate_append_c1(%x: tensor<?x16xf32>, %p: tensor<?xi32>, %t: tensor<?x4xf32>, %cache: !heddle.kv_cache<2 x 1 x 4 x bf16>, %layer: index, %out: tensor<?x12xf32>) {
  // expected-error @+1 {{input must be f32 (rows, 20) and the destination f32 (rows, 12)}}
  %q = heddle.rotate_append #rope ins(%x, %p, %t, %cache[%layer] : tensor<?x16xf32>, tensor<?xi32>, tensor<?x4xf32>, <2 x 1 x 4 x bf16>) outs(%out : tensor<?x12xf32>) {num_heads = 3 : i64} -> tensor<?x12xf32>
  return
}

// -----

#rope = #heddle.rope<half, table = 0, attention_factor = 1.0, inverse_frequency = array<f32: 1.0, 0.1>>
func.func @rotate_append_c2(%x: tensor<?x20xf32>, %p: tensor<?xi32>, %t: tensor<?x6xf32>, %cache: !heddle.kv_cache<2 x 1 x 4 x bf16>, %layer: index, %out: tensor<?x12xf32>) {
  // expected-error @+1 {{positions must be i32 (rows) and the table f32 (context, 4)}}
  %q = heddle.rotate_append #rope ins(%x, %p, %t, %cache[%layer] : tensor<?x20xf32>, tensor<?xi32>, tensor<?x6xf32>, <2 x 1 x 4 x bf16>) outs(%out : tensor<?x12xf32>) {num_heads = 3 : i64} -> tensor<?x12xf32>
  return
}

// -----

#rope = #heddle.rope<half, table = 0, attention_factor = 1.0, inverse_frequency = array<f32: 1.0, 0.1>>
func.func @rotate_append_c3(%x: tensor<?x20xf32>, %p: tensor<?xi32>, %t: tensor<?x4xf32>, %cache: !heddle.kv_cache<2 x 1 x 4 x bf16>, %layer: index, %out: tensor<?x12xf32>) {
  // expected-error @+1 {{offset (1) and rotary_dim (4) must lie in head_dim (4)}}
  %q = heddle.rotate_append #rope ins(%x, %p, %t, %cache[%layer] : tensor<?x20xf32>, tensor<?xi32>, tensor<?x4xf32>, <2 x 1 x 4 x bf16>) outs(%out : tensor<?x12xf32>) {num_heads = 3 : i64, offset = 1 : i64} -> tensor<?x12xf32>
  return
}

// -----

#rope = #heddle.rope<half, table = 0, attention_factor = 1.0, inverse_frequency = array<f32: 1.0, 0.1>>
func.func @rotate_append_c4(%x: tensor<?x160xf32>, %p: tensor<?xi32>, %t: tensor<?x4xf32>, %cache: !heddle.kv_cache<2 x 1 x 32 x i8>, %layer: index, %out: tensor<?x96xf32>) {
  // expected-error @+1 {{the cache must hold numbers of keys and values, got '!heddle.kv_cache<2 x 1 x 32 x i8>'}}
  %q = heddle.rotate_append #rope ins(%x, %p, %t, %cache[%layer] : tensor<?x160xf32>, tensor<?xi32>, tensor<?x4xf32>, <2 x 1 x 32 x i8>) outs(%out : tensor<?x96xf32>) {num_heads = 3 : i64} -> tensor<?x96xf32>
  return
}

// -----

#rope = #heddle.rope<half, table = 0, attention_factor = 1.0, inverse_frequency = array<f32: 1.0, 0.1>>
func.func @rotate_append_c5(%x: tensor<?x16xf32>, %p: tensor<?xi32>, %t: tensor<?x4xf32>, %cache: !heddle.kv_cache<2 x 1 x 4 x bf16>, %layer: index, %n: tensor<4xf32>, %out: tensor<?x8xf32>) {
  // expected-error @+1 {{norms of queries and keys, 'heads_eps' and 'heads_weight_offset' belong together}}
  %q = heddle.rotate_append #rope ins(%x, %p, %t, %cache[%layer] norms %n, %n : tensor<?x16xf32>, tensor<?xi32>, tensor<?x4xf32>, <2 x 1 x 4 x bf16> norms tensor<4xf32>, tensor<4xf32>) outs(%out : tensor<?x8xf32>) {num_heads = 2 : i64, heads_eps = 1.0e-6} -> tensor<?x8xf32>
  return
}

// -----

#rope = #heddle.rope<half, table = 0, attention_factor = 1.0, inverse_frequency = array<f32: 1.0, 0.1>>
func.func @rotate_append_c5_width(%x: tensor<?x16xf32>, %p: tensor<?xi32>, %t: tensor<?x4xf32>, %cache: !heddle.kv_cache<2 x 1 x 4 x bf16>, %layer: index, %n: tensor<4xf32>, %m: tensor<8xf32>, %out: tensor<?x8xf32>) {
  // expected-error @+1 {{a norm of heads must be f32 (4), got 'tensor<8xf32>'}}
  %q = heddle.rotate_append #rope ins(%x, %p, %t, %cache[%layer] norms %n, %m : tensor<?x16xf32>, tensor<?xi32>, tensor<?x4xf32>, <2 x 1 x 4 x bf16> norms tensor<4xf32>, tensor<8xf32>) outs(%out : tensor<?x8xf32>) {num_heads = 2 : i64, heads_eps = 1.0e-6, heads_weight_offset = 0.0} -> tensor<?x8xf32>
  return
}

// -----

#rope = #heddle.rope<half, table = 0, attention_factor = 1.0, inverse_frequency = array<f32: 1.0, 0.1>>
func.func @rotate_append_c6(%x: tensor<?x64xf32>, %p: tensor<?xi32>, %t: tensor<?x4xf32>, %cache: !heddle.kv_cache<2 x 1 x 4 x bf16>, %layer: index, %w: tensor<4096xi8>, %out: tensor<?x8xf32>) {
  // expected-error @+1 {{weights, k, 'format' and a second destination belong together, and to a bias, a norm and a third one}}
  %q = heddle.rotate_append #rope ins(%x, %p, %t, %cache[%layer] weights %w : tensor<?x64xf32>, tensor<?xi32>, tensor<?x4xf32>, <2 x 1 x 4 x bf16> weights tensor<4096xi8>) outs(%out : tensor<?x8xf32>) {num_heads = 2 : i64, k = 64 : i64, format = "f32"} -> tensor<?x8xf32>
  return
}

// -----

#rope = #heddle.rope<half, table = 0, attention_factor = 1.0, inverse_frequency = array<f32: 1.0, 0.1>>
func.func @rotate_append_c6_input(%x: tensor<?x32xf32>, %p: tensor<?xi32>, %t: tensor<?x4xf32>, %cache: !heddle.kv_cache<2 x 1 x 4 x bf16>, %layer: index, %w: tensor<4096xi8>, %out: tensor<?x8xf32>, %rows: tensor<?x16xf32>) {
  // expected-error @+1 {{the input of a product must be f32 or bf16 (rows, 64) and the second destination f32 (rows, 16)}}
  %q, %0 = heddle.rotate_append #rope ins(%x, %p, %t, %cache[%layer] weights %w : tensor<?x32xf32>, tensor<?xi32>, tensor<?x4xf32>, <2 x 1 x 4 x bf16> weights tensor<4096xi8>) outs(%out, %rows : tensor<?x8xf32>, tensor<?x16xf32>) {num_heads = 2 : i64, k = 64 : i64, format = "f32"} -> tensor<?x8xf32>, tensor<?x16xf32>
  return
}

// -----

#rope = #heddle.rope<half, table = 0, attention_factor = 1.0, inverse_frequency = array<f32: 1.0, 0.1>>
func.func @rotate_append_c6_bias(%x: tensor<?x64xf32>, %p: tensor<?xi32>, %t: tensor<?x4xf32>, %cache: !heddle.kv_cache<2 x 1 x 4 x bf16>, %layer: index, %w: tensor<4096xi8>, %b: tensor<8xf32>, %out: tensor<?x8xf32>, %rows: tensor<?x16xf32>) {
  // expected-error @+1 {{bias must be (16)}}
  %q, %0 = heddle.rotate_append #rope ins(%x, %p, %t, %cache[%layer] weights %w bias %b : tensor<?x64xf32>, tensor<?xi32>, tensor<?x4xf32>, <2 x 1 x 4 x bf16> weights tensor<4096xi8> bias tensor<8xf32>) outs(%out, %rows : tensor<?x8xf32>, tensor<?x16xf32>) {num_heads = 2 : i64, k = 64 : i64, format = "f32"} -> tensor<?x8xf32>, tensor<?x16xf32>
  return
}

// -----

#rope = #heddle.rope<half, table = 0, attention_factor = 1.0, inverse_frequency = array<f32: 1.0, 0.1>>
func.func @rotate_append_c6_room(%x: tensor<?x64xf32>, %p: tensor<?xi32>, %t: tensor<?x4xf32>, %cache: !heddle.kv_cache<2 x 1 x 4 x bf16>, %layer: index, %w: tensor<4096xi8>, %out: tensor<?x8xf32>, %rows: tensor<?x16xf32>, %room: tensor<?x64xf32>) {
  // expected-error @+1 {{a third destination without a norm must be bf16}}
  %q, %0, %1 = heddle.rotate_append #rope ins(%x, %p, %t, %cache[%layer] weights %w : tensor<?x64xf32>, tensor<?xi32>, tensor<?x4xf32>, <2 x 1 x 4 x bf16> weights tensor<4096xi8>) outs(%out, %rows, %room : tensor<?x8xf32>, tensor<?x16xf32>, tensor<?x64xf32>) {num_heads = 2 : i64, k = 64 : i64, format = "f32"} -> tensor<?x8xf32>, tensor<?x16xf32>, tensor<?x64xf32>
  return
}
