// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --split-input-file --verify-diagnostics -o %t

func.func @flash_attention_c1(%q: tensor<6x?x8xf32>, %k: tensor<2x2x?x8xf32>, %v: tensor<2x2x?x8xf32>, %o: tensor<2x6x?x8xf32>) {
  // expected-error @+1 {{query, key, value and the one destination must have rank 4, in an order of axes that ends with 3}}
  %0 = heddle.flash_attention <causal> ins(%q, %k, %v : tensor<6x?x8xf32>, tensor<2x2x?x8xf32>, tensor<2x2x?x8xf32>) outs(%o : tensor<2x6x?x8xf32>) {scale = 1.0} -> tensor<2x6x?x8xf32>
  return
}

// -----

func.func @flash_attention_c1_no_order(%q: tensor<2x6x?x8xf32>, %k: tensor<2x2x?x8xf32>, %v: tensor<2x2x?x8xf32>, %o: tensor<2x6x?x8xf32>) {
  // expected-error @+1 {{query, key, value and the one destination must have rank 4, in an order of axes that ends with 3}}
  %0 = heddle.flash_attention <causal> ins(%q, %k, %v : tensor<2x6x?x8xf32>, tensor<2x2x?x8xf32>, tensor<2x2x?x8xf32>) outs(%o : tensor<2x6x?x8xf32>) {scale = 1.0, query_axes = array<i64: 0, 1, 1, 3>} -> tensor<2x6x?x8xf32>
  return
}

// -----

func.func @flash_attention_c1_scattered_rows(%q: tensor<2x6x?x8xf32>, %k: tensor<2x2x?x8xf32>, %v: tensor<2x2x?x8xf32>, %o: tensor<2x6x?x8xf32>) {
  // expected-error @+1 {{query, key, value and the one destination must have rank 4, in an order of axes that ends with 3}}
  %0 = heddle.flash_attention <causal> ins(%q, %k, %v : tensor<2x6x?x8xf32>, tensor<2x2x?x8xf32>, tensor<2x2x?x8xf32>) outs(%o : tensor<2x6x?x8xf32>) {scale = 1.0, key_axes = array<i64: 0, 1, 3, 2>} -> tensor<2x6x?x8xf32>
  return
}

// -----

func.func @flash_attention_c2(%q: tensor<2x6x?x8xf32>, %k: tensor<2x4x?x8xf32>, %v: tensor<2x4x?x8xf32>, %o: tensor<2x6x?x8xf32>) {
  // expected-error @+1 {{num_heads (6) must be a static, positive multiple of num_kv_heads (4)}}
  %0 = heddle.flash_attention <causal> ins(%q, %k, %v : tensor<2x6x?x8xf32>, tensor<2x4x?x8xf32>, tensor<2x4x?x8xf32>) outs(%o : tensor<2x6x?x8xf32>) {scale = 1.0} -> tensor<2x6x?x8xf32>
  return
}

// -----

func.func @flash_attention_c2_head_dim(%q: tensor<2x6x?x1025xf32>, %k: tensor<2x2x?x1025xf32>, %v: tensor<2x2x?x8xf32>, %o: tensor<2x6x?x8xf32>) {
  // expected-error @+1 {{head_dim (1025) must be static and 1 to 1024}}
  %0 = heddle.flash_attention <causal> ins(%q, %k, %v : tensor<2x6x?x1025xf32>, tensor<2x2x?x1025xf32>, tensor<2x2x?x8xf32>) outs(%o : tensor<2x6x?x8xf32>) {scale = 1.0} -> tensor<2x6x?x8xf32>
  return
}

// -----

func.func @flash_attention_c3(%q: tensor<2x6x?x8xf32>, %k: tensor<3x2x?x8xf32>, %v: tensor<3x2x?x8xf32>, %o: tensor<2x6x?x8xf32>) {
  // expected-error @+1 {{batch and head_dim of query 'tensor<2x6x?x8xf32>' must be those of key 'tensor<3x2x?x8xf32>'}}
  %0 = heddle.flash_attention <causal> ins(%q, %k, %v : tensor<2x6x?x8xf32>, tensor<3x2x?x8xf32>, tensor<3x2x?x8xf32>) outs(%o : tensor<2x6x?x8xf32>) {scale = 1.0} -> tensor<2x6x?x8xf32>
  return
}

// -----

func.func @flash_attention_c3_sequence(%q: tensor<2x6x?x8xf32>, %k: tensor<2x2x7x8xf32>, %v: tensor<2x2x9x8xf32>, %o: tensor<2x6x?x8xf32>) {
  // expected-error @+1 {{batch, heads and sequence of key 'tensor<2x2x7x8xf32>' must be those of value 'tensor<2x2x9x8xf32>'}}
  %0 = heddle.flash_attention <causal> ins(%q, %k, %v : tensor<2x6x?x8xf32>, tensor<2x2x7x8xf32>, tensor<2x2x9x8xf32>) outs(%o : tensor<2x6x?x8xf32>) {scale = 1.0} -> tensor<2x6x?x8xf32>
  return
}

// -----

func.func @flash_attention_c4(%q: tensor<2x6x?x8xf32>, %k: tensor<2x2x?x8xf32>, %v: tensor<2x2x?x8xf32>, %o: tensor<2x6x?x9xf32>) {
  // expected-error @+1 {{destination 'tensor<2x6x?x9xf32>' must be (batch, num_heads, queries, head_dim of value) of query 'tensor<2x6x?x8xf32>'}}
  %0 = heddle.flash_attention <causal> ins(%q, %k, %v : tensor<2x6x?x8xf32>, tensor<2x2x?x8xf32>, tensor<2x2x?x8xf32>) outs(%o : tensor<2x6x?x9xf32>) {scale = 1.0} -> tensor<2x6x?x9xf32>
  return
}

// -----

func.func @flash_attention_c4_types(%q: tensor<2x6x?x8xf32>, %k: tensor<2x2x?x8xf32>, %v: tensor<2x2x?x8xf16>, %o: tensor<2x6x?x8xf32>) {
  // expected-error @+1 {{query must be of f32, f16 or bf16, key and value of one of them}}
  %0 = heddle.flash_attention <causal> ins(%q, %k, %v : tensor<2x6x?x8xf32>, tensor<2x2x?x8xf32>, tensor<2x2x?x8xf16>) outs(%o : tensor<2x6x?x8xf32>) {scale = 1.0} -> tensor<2x6x?x8xf32>
  return
}

// -----

func.func @flash_attention_c5(%q: tensor<2x6x?x8xf32>, %k: tensor<2x2x?x8xf32>, %v: tensor<2x2x?x8xf32>, %b: tensor<2x2x?x?xf32>, %o: tensor<2x6x?x8xf32>) {
  // expected-error @+1 {{bias 'tensor<2x2x?x?xf32>' must be f32 (batch, num_heads, queries, keys), any of them 1}}
  %0 = heddle.flash_attention <causal> ins(%q, %k, %v bias %b : tensor<2x6x?x8xf32>, tensor<2x2x?x8xf32>, tensor<2x2x?x8xf32> bias tensor<2x2x?x?xf32>) outs(%o : tensor<2x6x?x8xf32>) {scale = 1.0} -> tensor<2x6x?x8xf32>
  return
}

// -----

func.func @flash_attention_c6(%q: tensor<2x6x?x8xf32>, %k: tensor<2x2x?x8xf32>, %v: tensor<2x2x?x8xf32>, %s: tensor<2xf32>, %o: tensor<2x6x?x8xf32>) {
  // expected-error @+1 {{sinks must be f32 (6)}}
  %0 = heddle.flash_attention <causal> ins(%q, %k, %v sinks %s : tensor<2x6x?x8xf32>, tensor<2x2x?x8xf32>, tensor<2x2x?x8xf32> sinks tensor<2xf32>) outs(%o : tensor<2x6x?x8xf32>) {scale = 1.0} -> tensor<2x6x?x8xf32>
  return
}

// -----

func.func @flash_attention_c7(%q: memref<2x6x?x8xf32>, %k: memref<2x2x?x8xf32, strided<[?, ?, ?, 2]>>, %v: memref<2x2x?x8xf32>, %o: memref<2x6x?x8xf32>) {
  // expected-error @+1 {{elements of the last dimension of 'memref<2x2x?x8xf32, strided<[?, ?, ?, 2]>>' must lie side by side}}
  heddle.flash_attention <causal> ins(%q, %k, %v : memref<2x6x?x8xf32>, memref<2x2x?x8xf32, strided<[?, ?, ?, 2]>>, memref<2x2x?x8xf32>) outs(%o : memref<2x6x?x8xf32>) {scale = 1.0}
  return
}
