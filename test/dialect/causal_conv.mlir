// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s | %heddle-opt | FileCheck %s
// RUN: %heddle-opt %s --mlir-print-op-generic | %heddle-opt | FileCheck %s

// CHECK-LABEL: @sequences
func.func @sequences(%x: tensor<?x?x8xf32>, %w: tensor<24xbf16>, %b: tensor<8xf32>) -> tensor<?x?x8xf32> {
  // CHECK: heddle.causal_conv %{{.*}}, %{{.*}} bias(%{{.*}} : tensor<8xf32>) {activation = #heddle.activation<silu>} : tensor<?x?x8xf32>, tensor<24xbf16> -> tensor<?x?x8xf32>
  %0 = heddle.causal_conv %x, %w bias(%b : tensor<8xf32>) {activation = #heddle.activation<silu>} : tensor<?x?x8xf32>, tensor<24xbf16> -> tensor<?x?x8xf32>
  return %0 : tensor<?x?x8xf32>
}

// CHECK-LABEL: @rows
func.func @rows(%x: tensor<?x8xf32>, %w: tensor<24xf32>, %cache: !heddle.kv_cache<2 x 1 x 20 x f32 state begin = 64>, %layer: index) -> tensor<?x8xf32> {
  // CHECK: heddle.causal_conv %{{.*}}, %{{.*}} state(%{{.*}}[%{{.*}}] : !heddle.kv_cache<2 x 1 x 20 x f32 state begin = 64>) {offset = 4 : i64} : tensor<?x8xf32>, tensor<24xf32> -> tensor<?x8xf32>
  %0 = heddle.causal_conv %x, %w state(%cache[%layer] : !heddle.kv_cache<2 x 1 x 20 x f32 state begin = 64>) {offset = 4} : tensor<?x8xf32>, tensor<24xf32> -> tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}
