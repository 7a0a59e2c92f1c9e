// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --split-input-file --verify-diagnostics -o %t

func.func @online_attention_c1(%q: tensor<?x40xf32>, %c: !heddle.kv_cache<2 x 2 x 8 x f32>, %s: tensor<6xf32>, %o: tensor<?x40xf32>) -> tensor<?x40xf32> {
  %layer = arith.constant 1 : index
  // expected-error @+1 {{query and the first destination must be (rows, 48)}}
  %0 = heddle.online_attention <causal> ins(%q, %c[%layer] : tensor<?x40xf32>, <2 x 2 x 8 x f32>) outs(%o : tensor<?x40xf32>) {num_heads = 6 : i64, scale = 1.0, softcap = 0.0, block_kv = 64 : i64, share_kv = true} -> tensor<?x40xf32>
  return %0 : tensor<?x40xf32>
}

// -----

func.func @online_attention_c2(%q: tensor<?x40xf32>, %c: !heddle.kv_cache<2 x 2 x 8 x f32>, %s: tensor<5xf32>, %o: tensor<?x40xf32>) -> tensor<?x40xf32> {
  %layer = arith.constant 1 : index
  // expected-error @+1 {{num_heads (5) must be a multiple of num_kv_heads (2)}}
  %0 = heddle.online_attention <causal> ins(%q, %c[%layer] : tensor<?x40xf32>, <2 x 2 x 8 x f32>) outs(%o : tensor<?x40xf32>) {num_heads = 5 : i64, scale = 1.0, softcap = 0.0, block_kv = 64 : i64, share_kv = true} -> tensor<?x40xf32>
  return %0 : tensor<?x40xf32>
}

// -----

func.func @online_attention_c3(%q: tensor<?x48xf32>, %c: !heddle.kv_cache<2 x 2 x 8 x f32>, %s: tensor<6xf32>, %o: tensor<?x48xf32>) -> tensor<?x48xf32> {
  %layer = arith.constant 1 : index
  // expected-error @+1 {{block_kv (48) must be a multiple or a divisor of the page size (64)}}
  %0 = heddle.online_attention <causal> ins(%q, %c[%layer] : tensor<?x48xf32>, <2 x 2 x 8 x f32>) outs(%o : tensor<?x48xf32>) {num_heads = 6 : i64, scale = 1.0, softcap = 0.0, block_kv = 48 : i64, share_kv = true} -> tensor<?x48xf32>
  return %0 : tensor<?x48xf32>
}

// -----

func.func @online_attention_c3_zero(%q: tensor<?x48xf32>, %c: !heddle.kv_cache<2 x 2 x 8 x f32>, %s: tensor<6xf32>, %o: tensor<?x48xf32>) -> tensor<?x48xf32> {
  %layer = arith.constant 1 : index
  // expected-error @+1 {{block_kv (0) must be a multiple or a divisor of the page size (64)}}
  %0 = heddle.online_attention <causal> ins(%q, %c[%layer] : tensor<?x48xf32>, <2 x 2 x 8 x f32>) outs(%o : tensor<?x48xf32>) {num_heads = 6 : i64, scale = 1.0, softcap = 0.0, block_kv = 0 : i64, share_kv = true} -> tensor<?x48xf32>
  return %0 : tensor<?x48xf32>
}

// -----

func.func @online_attention_c4(%q: tensor<?x48xf32>, %c: !heddle.kv_cache<2 x 2 x 8 x f32>, %layer: index, %a: tensor<4x144xf32>, %m: tensor<4x16xf32>) -> tensor<4x16xf32> {
  // expected-error @+1 {{destinations must be f32 outputs (max_rows, splits * 48), maxima and sums (max_rows, splits * 6)}}
  %0:3 = heddle.online_attention <causal> ins(%q, %c[%layer] : tensor<?x48xf32>, <2 x 2 x 8 x f32>) outs(%a, %m, %m : tensor<4x144xf32>, tensor<4x16xf32>, tensor<4x16xf32>) {num_heads = 6 : i64, scale = 1.0, softcap = 0.0, block_kv = 64 : i64, share_kv = true, split_kv = 512 : i64} -> tensor<4x144xf32>, tensor<4x16xf32>, tensor<4x16xf32>
  return %0#2 : tensor<4x16xf32>
}

// -----

func.func @online_attention_c4_sinks(%q: tensor<?x48xf32>, %c: !heddle.kv_cache<2 x 2 x 8 x f32>, %layer: index, %s: tensor<6xf32>, %a: tensor<4x144xf32>, %m: tensor<4x18xf32>) -> tensor<4x18xf32> {
  // expected-error @+1 {{split_kv (512) must be positive and excludes sinks}}
  %0:3 = heddle.online_attention <causal> ins(%q, %c[%layer] sinks %s : tensor<?x48xf32>, <2 x 2 x 8 x f32>, tensor<6xf32>) outs(%a, %m, %m : tensor<4x144xf32>, tensor<4x18xf32>, tensor<4x18xf32>) {num_heads = 6 : i64, scale = 1.0, softcap = 0.0, block_kv = 64 : i64, share_kv = true, split_kv = 512 : i64} -> tensor<4x144xf32>, tensor<4x18xf32>, tensor<4x18xf32>
  return %0#2 : tensor<4x18xf32>
}

// -----

func.func @online_attention_c5(%q: tensor<?x48xf32>, %c: !heddle.kv_cache<2 x 2 x 8 x f32>, %layer: index, %o: tensor<?x48xf32>, %s: tensor<?x600xf32>) -> tensor<?x48xf32> {
  // expected-error @+1 {{scores must be f32 (rows, 6 * keys), keys being a multiple of 64}}
  %0:2 = heddle.online_attention <causal> ins(%q, %c[%layer] : tensor<?x48xf32>, <2 x 2 x 8 x f32>) outs(%o, %s : tensor<?x48xf32>, tensor<?x600xf32>) {num_heads = 6 : i64, scale = 1.0, softcap = 0.0, block_kv = 64 : i64, share_kv = true} -> tensor<?x48xf32>, tensor<?x600xf32>
  return %0#0 : tensor<?x48xf32>
}

// -----

func.func @online_attention_c6_type(%q: tensor<?x48xf32>, %c: !heddle.kv_cache<2 x 2 x 8 x f32>, %layer: index, %p: tensor<6xbf16>, %o: tensor<?x48xf32>) -> tensor<?x48xf32> {
  // expected-error @+1 {{positions 'tensor<6xbf16>' must be f32 (6), or (num_buckets, 6) of f32, f16 or bf16}}
  %0 = heddle.online_attention <causal> ins(%q, %c[%layer] positions %p : tensor<?x48xf32>, <2 x 2 x 8 x f32> positions tensor<6xbf16>) outs(%o : tensor<?x48xf32>) {num_heads = 6 : i64, scale = 1.0, softcap = 0.0, block_kv = 64 : i64, share_kv = true} -> tensor<?x48xf32>
  return %0 : tensor<?x48xf32>
}

// -----

func.func @online_attention_c6_heads(%q: tensor<?x48xf32>, %c: !heddle.kv_cache<2 x 2 x 8 x f32>, %layer: index, %p: tensor<2x5xf32>, %o: tensor<?x48xf32>) -> tensor<?x48xf32> {
  // expected-error @+1 {{positions 'tensor<2x5xf32>' must be f32 (6), or (num_buckets, 6)}}
  %0 = heddle.online_attention <causal> ins(%q, %c[%layer] positions %p : tensor<?x48xf32>, <2 x 2 x 8 x f32> positions tensor<2x5xf32>) outs(%o : tensor<?x48xf32>) {num_heads = 6 : i64, scale = 1.0, softcap = 0.0, block_kv = 64 : i64, share_kv = true, starts = array<i64: 1>, rows = array<i64: 0, 1>} -> tensor<?x48xf32>
  return %0 : tensor<?x48xf32>
}

// -----

func.func @online_attention_c6_order(%q: tensor<?x48xf32>, %c: !heddle.kv_cache<2 x 2 x 8 x f32>, %layer: index, %p: tensor<2x6xf32>, %o: tensor<?x48xf32>) -> tensor<?x48xf32> {
  // expected-error @+1 {{starts must ascend and rows (3) be one more than starts (2)}}
  %0 = heddle.online_attention <causal> ins(%q, %c[%layer] positions %p : tensor<?x48xf32>, <2 x 2 x 8 x f32> positions tensor<2x6xf32>) outs(%o : tensor<?x48xf32>) {num_heads = 6 : i64, scale = 1.0, softcap = 0.0, block_kv = 64 : i64, share_kv = true, starts = array<i64: 1, 1>, rows = array<i64: 0, 1, 0>} -> tensor<?x48xf32>
  return %0 : tensor<?x48xf32>
}

// -----

func.func @online_attention_c6_far(%q: tensor<?x48xf32>, %c: !heddle.kv_cache<2 x 2 x 8 x f32>, %layer: index, %p: tensor<2x6xf32>, %o: tensor<?x48xf32>) -> tensor<?x48xf32> {
  // expected-error @+1 {{starts must be from -8192 to 8192, got 1 to 8193}}
  %0 = heddle.online_attention <causal> ins(%q, %c[%layer] positions %p : tensor<?x48xf32>, <2 x 2 x 8 x f32> positions tensor<2x6xf32>) outs(%o : tensor<?x48xf32>) {num_heads = 6 : i64, scale = 1.0, softcap = 0.0, block_kv = 64 : i64, share_kv = true, starts = array<i64: 1, 8193>, rows = array<i64: 0, 1, 0>} -> tensor<?x48xf32>
  return %0 : tensor<?x48xf32>
}

// -----

func.func @online_attention_c6_no_table(%q: tensor<?x48xf32>, %c: !heddle.kv_cache<2 x 2 x 8 x f32>, %layer: index, %o: tensor<?x48xf32>) -> tensor<?x48xf32> {
  // expected-error @+1 {{has starts or rows, but no positions}}
  %0 = heddle.online_attention <causal> ins(%q, %c[%layer] : tensor<?x48xf32>, <2 x 2 x 8 x f32>) outs(%o : tensor<?x48xf32>) {num_heads = 6 : i64, scale = 1.0, softcap = 0.0, block_kv = 64 : i64, share_kv = true, starts = array<i64: 1>, rows = array<i64: 0, 1>} -> tensor<?x48xf32>
  return %0 : tensor<?x48xf32>
}
