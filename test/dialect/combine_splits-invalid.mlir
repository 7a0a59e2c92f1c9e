// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --split-input-file --verify-diagnostics -o %t

func.func @combine_splits_c1(%a: tensor<4x144xf32>, %m: tensor<4x18xf32>, %c: !heddle.kv_cache<2 x 2 x 8 x f32>, %o: tensor<?x40xf32>) -> tensor<?x40xf32> {
  // expected-error @+1 {{the one destination must be (rows, 48)}}
  %0 = heddle.combine_splits <causal> ins(%a, %m, %m, %c : tensor<4x144xf32>, tensor<4x18xf32>, tensor<4x18xf32>, <2 x 2 x 8 x f32>) outs(%o : tensor<?x40xf32>) {num_heads = 6 : i64, split_kv = 512 : i64} -> tensor<?x40xf32>
  return %0 : tensor<?x40xf32>
}

// -----

func.func @combine_splits_c2_width(%a: tensor<4x96xf32>, %m: tensor<4x18xf32>, %c: !heddle.kv_cache<2 x 2 x 8 x f32>, %o: tensor<?x48xf32>) -> tensor<?x48xf32> {
  // expected-error @+1 {{reads f32 outputs (max_rows, splits * 48), maxima and sums (max_rows, splits * 6)}}
  %0 = heddle.combine_splits <causal> ins(%a, %m, %m, %c : tensor<4x96xf32>, tensor<4x18xf32>, tensor<4x18xf32>, <2 x 2 x 8 x f32>) outs(%o : tensor<?x48xf32>) {num_heads = 6 : i64, split_kv = 512 : i64} -> tensor<?x48xf32>
  return %0 : tensor<?x48xf32>
}

// -----

func.func @combine_splits_c2_rows(%a: tensor<4x144xf32>, %m: tensor<2x18xf32>, %c: !heddle.kv_cache<2 x 2 x 8 x f32>, %o: tensor<?x48xf32>) -> tensor<?x48xf32> {
  // expected-error @+1 {{reads f32 outputs (max_rows, splits * 48), maxima and sums (max_rows, splits * 6)}}
  %0 = heddle.combine_splits <causal> ins(%a, %m, %m, %c : tensor<4x144xf32>, tensor<2x18xf32>, tensor<2x18xf32>, <2 x 2 x 8 x f32>) outs(%o : tensor<?x48xf32>) {num_heads = 6 : i64, split_kv = 512 : i64} -> tensor<?x48xf32>
  return %0 : tensor<?x48xf32>
}

// -----

func.func @combine_splits_c3(%a: tensor<4x144xf32>, %m: tensor<4x18xf32>, %c: !heddle.kv_cache<2 x 2 x 8 x f32>, %o: tensor<?x48xf32>) -> tensor<?x48xf32> {
  // expected-error @+1 {{split_kv (0) must be positive}}
  %0 = heddle.combine_splits <causal> ins(%a, %m, %m, %c : tensor<4x144xf32>, tensor<4x18xf32>, tensor<4x18xf32>, <2 x 2 x 8 x f32>) outs(%o : tensor<?x48xf32>) {num_heads = 6 : i64, split_kv = 0 : i64} -> tensor<?x48xf32>
  return %0 : tensor<?x48xf32>
}

// -----

func.func @prefer_splits_c1(%c: !heddle.kv_cache<2 x 2 x 8 x f32>, %rows: index) -> i1 {
  // expected-error @+1 {{items (2), max_rows (0), split_kv (512) and items_per_thread (1) must be positive}}
  %0 = heddle.prefer_splits %c, %rows {items = 2 : i64, max_rows = 0 : i64, split_kv = 512 : i64} : <2 x 2 x 8 x f32>
  return %0 : i1
}
