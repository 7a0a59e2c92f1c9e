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
