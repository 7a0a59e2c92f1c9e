// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s | %heddle-opt | FileCheck %s
// RUN: %heddle-opt %s --mlir-print-op-generic | %heddle-opt | FileCheck %s

// CHECK-LABEL: @gated_delta
func.func @gated_delta(%q: tensor<?x6xf32>, %v: tensor<?x20xf32>, %g: tensor<?x4xf32>, %cache: !heddle.kv_cache<2 x 1 x 64 x f32 state>, %layer: index, %o: tensor<?x20xf32>) -> tensor<?x20xf32> {
  // CHECK: heddle.ragged_linear_attention ins({{.*}} decay %{{.*}} beta %{{.*}} : {{.*}} decay tensor<?x4xf32> beta tensor<?x4xf32>) state(%{{.*}}[%{{.*}}] : <2 x 1 x 64 x f32 state>) outs(%{{.*}} : tensor<?x20xf32>) {num_heads = 4 : i64, num_key_heads = 2 : i64, offset = 4 : i64} -> tensor<?x20xf32>
  %0 = heddle.ragged_linear_attention ins(%q, %q, %v decay %g beta %g : tensor<?x6xf32>, tensor<?x6xf32>, tensor<?x20xf32> decay tensor<?x4xf32> beta tensor<?x4xf32>)
    state(%cache[%layer] : <2 x 1 x 64 x f32 state>) outs(%o : tensor<?x20xf32>) {num_heads = 4, num_key_heads = 2, offset = 4} -> tensor<?x20xf32>
  return %0 : tensor<?x20xf32>
}
