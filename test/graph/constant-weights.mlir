// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A matrix that the module holds itself is in no file to pack from: its product is a contraction.
// RUN: %heddle compile %s --stop-after=optimize | FileCheck %s --check-prefix=OPTIMIZE
// RUN: %heddle verify %s | FileCheck %s --check-prefix=VERIFY
// OPTIMIZE-NOT: heddle.linear
// OPTIMIZE: arith.constant dense<{{.*}}> : tensor<4x3xf32>
// OPTIMIZE-NOT: heddle.linear
// VERIFY: binary {{.*}}NMSE
func.func @scores(%x: tensor<2x4xf32> {heddle.name = "x"}) -> (tensor<2x3xf32> {heddle.name = "y"}) {
  %w = arith.constant dense<[[1.0, -2.0, 0.5], [0.25, 3.0, -1.0], [2.0, 0.0, 1.5], [-0.5, 1.0, 4.0]]> : tensor<4x3xf32>
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<2x3xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<2x3xf32>) -> tensor<2x3xf32>
  %y = linalg.matmul ins(%x, %w : tensor<2x4xf32>, tensor<4x3xf32>) outs(%init : tensor<2x3xf32>) -> tensor<2x3xf32>
  return %y : tensor<2x3xf32>
}
