// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s | %heddle-opt | FileCheck %s
// RUN: %heddle-opt %s --mlir-print-op-generic | %heddle-opt | FileCheck %s

// CHECK-LABEL: @gated
func.func @gated(%g: tensor<?x8xf32>, %u: tensor<?x8xf32>) -> tensor<?x8xf32> {
  // CHECK: heddle.glu <silu> %{{.*}}, %{{.*}} : tensor<?x8xf32>
  %0 = heddle.glu <silu> %g, %u : tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}

// CHECK-LABEL: @every_activation
func.func @every_activation(%g: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: heddle.glu <gelu> %{{.*}} : tensor<4xf32>
  %0 = heddle.glu <gelu> %g : tensor<4xf32>
  // CHECK: heddle.glu <gelu_tanh>
  %1 = heddle.glu <gelu_tanh> %0 : tensor<4xf32>
  // CHECK: heddle.glu <relu>
  %2 = heddle.glu <relu> %1 : tensor<4xf32>
  // CHECK: heddle.glu <quick_gelu>
  %3 = heddle.glu <quick_gelu> %2 : tensor<4xf32>
  // CHECK: heddle.glu <tanh>
  %4 = heddle.glu <tanh> %3 : tensor<4xf32>
  // CHECK: heddle.glu <squared_relu>
  %5 = heddle.glu <squared_relu> %4 : tensor<4xf32>
  return %5 : tensor<4xf32>
}
