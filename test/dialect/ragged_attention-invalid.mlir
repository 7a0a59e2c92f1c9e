// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --verify-diagnostics --split-input-file

func.func @ragged_attention_c1_key(%q: tensor<?x48xf32>, %k: tensor<?x18xf32>, %v: tensor<?x16xf32>, %s: tensor<?x2xi32>, %o: tensor<?x48xf32>) {
  // expected-error @+1 {{query and the one destination must be f32 rows of 6 heads, key and value of 2 with their head dims}}
  %0 = heddle.ragged_attention <full> ins(%q, %k, %v, %s : tensor<?x48xf32>, tensor<?x18xf32>, tensor<?x16xf32>, tensor<?x2xi32>) outs(%o : tensor<?x48xf32>) {num_heads = 6, num_kv_heads = 2, scale = 1.0} -> tensor<?x48xf32>
  return
}

// -----

func.func @ragged_attention_c1_type(%q: tensor<?x48xbf16>, %k: tensor<?x16xf32>, %v: tensor<?x16xf32>, %s: tensor<?x2xi32>, %o: tensor<?x48xf32>) {
  // expected-error @+1 {{query and the one destination must be f32 rows of 6 heads}}
  %0 = heddle.ragged_attention <full> ins(%q, %k, %v, %s : tensor<?x48xbf16>, tensor<?x16xf32>, tensor<?x16xf32>, tensor<?x2xi32>) outs(%o : tensor<?x48xf32>) {num_heads = 6, num_kv_heads = 2, scale = 1.0} -> tensor<?x48xf32>
  return
}

// -----

func.func @ragged_attention_c1_out(%q: tensor<?x48xf32>, %k: tensor<?x16xf32>, %v: tensor<?x16xf32>, %s: tensor<?x2xi32>, %o: tensor<?x50xf32>) {
  // expected-error @+1 {{query and the one destination must be f32 rows of 6 heads}}
  %0 = heddle.ragged_attention <full> ins(%q, %k, %v, %s : tensor<?x48xf32>, tensor<?x16xf32>, tensor<?x16xf32>, tensor<?x2xi32>) outs(%o : tensor<?x50xf32>) {num_heads = 6, num_kv_heads = 2, scale = 1.0} -> tensor<?x50xf32>
  return
}

// -----

func.func @ragged_attention_c2_heads(%q: tensor<?x48xf32>, %k: tensor<?x16xf32>, %v: tensor<?x16xf32>, %s: tensor<?x2xi32>, %o: tensor<?x48xf32>) {
  // expected-error @+1 {{num_heads (6) must be a positive multiple of num_kv_heads (4)}}
  %0 = heddle.ragged_attention <full> ins(%q, %k, %v, %s : tensor<?x48xf32>, tensor<?x16xf32>, tensor<?x16xf32>, tensor<?x2xi32>) outs(%o : tensor<?x48xf32>) {num_heads = 6, num_kv_heads = 4, scale = 1.0} -> tensor<?x48xf32>
  return
}

// -----

func.func @ragged_attention_c2_head_dim(%q: tensor<?x1025xf32>, %k: tensor<?x1025xf32>, %v: tensor<?x1025xf32>, %s: tensor<?x2xi32>, %o: tensor<?x1025xf32>) {
  // expected-error @+1 {{head_dim (1025) must be 1 to 1024}}
  %0 = heddle.ragged_attention <full> ins(%q, %k, %v, %s : tensor<?x1025xf32>, tensor<?x1025xf32>, tensor<?x1025xf32>, tensor<?x2xi32>) outs(%o : tensor<?x1025xf32>) {num_heads = 1, num_kv_heads = 1, scale = 1.0} -> tensor<?x1025xf32>
  return
}

// -----

func.func @ragged_attention_c3(%q: tensor<?x48xf32>, %k: tensor<?x16xf32>, %v: tensor<?x16xf32>, %s: tensor<?x2xi64>, %o: tensor<?x48xf32>) {
  // expected-error @+1 {{sequences 'tensor<?x2xi64>' must be i32 (count, 2)}}
  %0 = heddle.ragged_attention <full> ins(%q, %k, %v, %s : tensor<?x48xf32>, tensor<?x16xf32>, tensor<?x16xf32>, tensor<?x2xi64>) outs(%o : tensor<?x48xf32>) {num_heads = 6, num_kv_heads = 2, scale = 1.0} -> tensor<?x48xf32>
  return
}

// -----

func.func @ragged_attention_c4(%q: tensor<?x48xf32>, %k: tensor<?x16xf32>, %v: tensor<?x16xf32>, %s: tensor<?x2xi32>, %o: tensor<?x48xf32>, %x: tensor<2xf32>) {
  // expected-error @+1 {{sinks must be f32 (6)}}
  %0 = heddle.ragged_attention <full> ins(%q, %k, %v, %s sinks %x : tensor<?x48xf32>, tensor<?x16xf32>, tensor<?x16xf32>, tensor<?x2xi32> sinks tensor<2xf32>) outs(%o : tensor<?x48xf32>) {num_heads = 6, num_kv_heads = 2, scale = 1.0} -> tensor<?x48xf32>
  return
}

// -----

func.func @ragged_attention_c5(%q: tensor<?x48xf32>, %k: tensor<?x16xf32>, %v: tensor<?x16xf32>, %s: tensor<?x2xi32>, %o: tensor<?x48xf32>, %p: tensor<5xf32>) {
  // expected-error @+1 {{positions 'tensor<5xf32>' must be f32 (6), or (num_buckets, 6)}}
  %0 = heddle.ragged_attention <full> ins(%q, %k, %v, %s positions %p : tensor<?x48xf32>, tensor<?x16xf32>, tensor<?x16xf32>, tensor<?x2xi32> positions tensor<5xf32>) outs(%o : tensor<?x48xf32>) {num_heads = 6, num_kv_heads = 2, scale = 1.0} -> tensor<?x48xf32>
  return
}

// -----

func.func @ragged_attention_c5_tokens(%q: tensor<?x48xf32>, %s: tensor<?x2xi32>, %o: tensor<?x48xf32>, %p: tensor<?x13xf32>) {
  // expected-error @+1 {{positions 'tensor<?x13xf32>' must be f32 (rows, 2 * num_heads 6 * num_buckets), with a bucket for each of rows}}
  %0 = heddle.ragged_attention <full> ins(%q, %q, %q, %s positions %p : tensor<?x48xf32>, tensor<?x48xf32>, tensor<?x48xf32>, tensor<?x2xi32> positions tensor<?x13xf32>) outs(%o : tensor<?x48xf32>) {num_heads = 6, num_kv_heads = 6, scale = 1.0, starts = array<i64: 1>, rows = array<i64: 0, 0>} -> tensor<?x48xf32>
  return
}

// -----

func.func @ragged_attention_c6_type(%q: tensor<?x48xf32>, %k: tensor<?x16xf32>, %s: tensor<?x2xi32>, %g: tensor<?xf32>, %o: tensor<?x48xf32>) {
  // expected-error @+1 {{globals 'tensor<?xf32>' must be i32 (rows)}}
  %0 = heddle.ragged_attention <full> ins(%q, %k, %k, %s globals %g : tensor<?x48xf32>, tensor<?x16xf32>, tensor<?x16xf32>, tensor<?x2xi32> globals tensor<?xf32>) outs(%o : tensor<?x48xf32>) {num_heads = 6, num_kv_heads = 2, scale = 1.0} -> tensor<?x48xf32>
  return
}

// -----

func.func @ragged_attention_c6_none(%q: tensor<?x48xf32>, %k: tensor<?x16xf32>, %s: tensor<?x2xi32>, %o: tensor<?x48xf32>) {
  // expected-error @+1 {{of globals needs them}}
  %0 = heddle.ragged_attention <full> ins(%q, %k, %k, %s : tensor<?x48xf32>, tensor<?x16xf32>, tensor<?x16xf32>, tensor<?x2xi32>) outs(%o : tensor<?x48xf32>) {num_heads = 6, num_kv_heads = 2, scale = 1.0, of_globals} -> tensor<?x48xf32>
  return
}
