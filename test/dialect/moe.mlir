// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s | %heddle-opt | FileCheck %s
// RUN: %heddle-opt %s --mlir-print-op-generic | %heddle-opt | FileCheck %s

// CHECK-LABEL: @two_experts
func.func @two_experts(%x: tensor<?x8xf32>, %r: tensor<2x8xf32>, %g: tensor<3x8xf32>, %d: tensor<8x3xf32>) -> tensor<?x8xf32> {
  // CHECK: heddle.moe <silu> %{{.*}}, %{{.*}} gates(%{{.*}}, %{{.*}} : tensor<3x8xf32>, tensor<3x8xf32>) ups(%{{.*}}, %{{.*}} : tensor<3x8xf32>, tensor<3x8xf32>) downs(%{{.*}}, %{{.*}} : tensor<8x3xf32>, tensor<8x3xf32>) {normalize = true, top_k = 1 : i64} : tensor<?x8xf32>, tensor<2x8xf32> -> tensor<?x8xf32>
  %0 = heddle.moe <silu> %x, %r gates(%g, %g : tensor<3x8xf32>, tensor<3x8xf32>) ups(%g, %g : tensor<3x8xf32>, tensor<3x8xf32>) downs(%d, %d : tensor<8x3xf32>, tensor<8x3xf32>) {top_k = 1 : i64, normalize = true} : tensor<?x8xf32>, tensor<2x8xf32> -> tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}
