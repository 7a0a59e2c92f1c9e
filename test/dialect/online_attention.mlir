// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s | %heddle-opt | FileCheck %s
// RUN: %heddle-opt %s --mlir-print-op-generic | %heddle-opt | FileCheck %s

// CHECK-LABEL: @grouped
func.func @grouped(%q: tensor<?x48xf32>, %c: !heddle.kv_cache<2 x 2 x 8 x f32>, %s: tensor<6xf32>, %o: tensor<?x48xf32>) -> tensor<?x48xf32> {
  %layer = arith.constant 1 : index
  // CHECK: heddle.online_attention <causal> ins(%{{.*}}, %{{.*}}[%{{.*}}] : tensor<?x48xf32>, <2 x 2 x 8 x f32>) outs(%{{.*}} : tensor<?x48xf32>) {block_kv = 64 : i64, num_heads = 6 : i64, scale = 1.000000e+00 : f64, share_kv = true, softcap = 0.000000e+00 : f64} -> tensor<?x48xf32>
  %0 = heddle.online_attention <causal> ins(%q, %c[%layer] : tensor<?x48xf32>, <2 x 2 x 8 x f32>) outs(%o : tensor<?x48xf32>) {num_heads = 6 : i64, scale = 1.0, softcap = 0.0, block_kv = 64 : i64, share_kv = true} -> tensor<?x48xf32>
  return %0 : tensor<?x48xf32>
}

// CHECK-LABEL: @sinks_and_window
func.func @sinks_and_window(%q: tensor<?x48xf32>, %c: !heddle.kv_cache<2 x 2 x 8 x f32>, %s: tensor<6xf32>, %o: tensor<?x48xf32>) -> tensor<?x48xf32> {
  %layer = arith.constant 1 : index
  // CHECK: heddle.online_attention <causal, window = 4> ins(%{{.*}}, %{{.*}}[%{{.*}}] sinks %{{.*}} : tensor<?x48xf32>, <2 x 2 x 8 x f32>, tensor<6xf32>)
  %0 = heddle.online_attention <causal, window = 4> ins(%q, %c[%layer] sinks %s : tensor<?x48xf32>, <2 x 2 x 8 x f32>, tensor<6xf32>) outs(%o : tensor<?x48xf32>) {num_heads = 6 : i64, scale = 1.0, softcap = 0.0, block_kv = 16 : i64, share_kv = true} -> tensor<?x48xf32>
  return %0 : tensor<?x48xf32>
}

// CHECK-LABEL: @positions
func.func @positions(%q: tensor<?x48xf32>, %c: !heddle.kv_cache<2 x 2 x 8 x f32>, %slopes: tensor<6xf32>, %table: tensor<3x6xf16>, %s: tensor<6xf32>, %o: tensor<?x48xf32>) -> tensor<?x48xf32> {
  %layer = arith.constant 1 : index
  // CHECK: ins(%{{.*}}, %{{.*}}[%{{.*}}] positions %{{.*}} : tensor<?x48xf32>, <2 x 2 x 8 x f32> positions tensor<6xf32>)
  %0 = heddle.online_attention <causal> ins(%q, %c[%layer] positions %slopes : tensor<?x48xf32>, <2 x 2 x 8 x f32> positions tensor<6xf32>) outs(%o : tensor<?x48xf32>) {num_heads = 6 : i64, scale = 1.0, softcap = 0.0, block_kv = 64 : i64, share_kv = true} -> tensor<?x48xf32>
  // CHECK: positions %{{.*}} sinks %{{.*}} : tensor<?x48xf32>, <2 x 2 x 8 x f32> positions tensor<3x6xf16>, tensor<6xf32>)
  // CHECK-SAME: rows = array<i64: 0, 2>, scale = 1.000000e+00 : f64, share_kv = true, softcap = 0.000000e+00 : f64, starts = array<i64: 1>
  %1 = heddle.online_attention <causal> ins(%q, %c[%layer] positions %table sinks %s : tensor<?x48xf32>, <2 x 2 x 8 x f32> positions tensor<3x6xf16>, tensor<6xf32>) outs(%0 : tensor<?x48xf32>) {num_heads = 6 : i64, scale = 1.0, softcap = 0.0, block_kv = 64 : i64, share_kv = true, starts = array<i64: 1>, rows = array<i64: 0, 2>} -> tensor<?x48xf32>
  return %1 : tensor<?x48xf32>
}
