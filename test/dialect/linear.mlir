// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s | %heddle-opt | FileCheck %s
// RUN: %heddle-opt %s --mlir-print-op-generic | %heddle-opt | FileCheck %s

// CHECK-LABEL: @one_weight
func.func @one_weight(%x: tensor<1x?x8xf32>, %w: tensor<4x8xbf16>) -> tensor<1x?x4xf32> {
  // CHECK: heddle.linear %{{.*}}, weights(%{{.*}} : tensor<4x8xbf16>) : tensor<1x?x8xf32> -> tensor<1x?x4xf32>
  %0 = heddle.linear %x, weights(%w : tensor<4x8xbf16>) : tensor<1x?x8xf32> -> tensor<1x?x4xf32>
  return %0 : tensor<1x?x4xf32>
}

// CHECK-LABEL: @fused_with_biases
func.func @fused_with_biases(%x: tensor<2x8xf32>, %q: tensor<4x8xf32>, %k: tensor<2x8xf32>, %b: tensor<4xf32>, %c: tensor<2xf32>)
    -> tensor<2x6xf32> {
  // CHECK: weights(%{{.*}}, %{{.*}} : tensor<4x8xf32>, tensor<2x8xf32>) biases(%{{.*}}, %{{.*}} : tensor<4xf32>, tensor<2xf32>)
  %0 = heddle.linear %x, weights(%q, %k : tensor<4x8xf32>, tensor<2x8xf32>) biases(%b, %c : tensor<4xf32>, tensor<2xf32>)
    : tensor<2x8xf32> -> tensor<2x6xf32>
  return %0 : tensor<2x6xf32>
}
