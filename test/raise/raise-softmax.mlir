// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --heddle-check-all --heddle-raise-softmax --canonicalize -o %t.out
// RUN: FileCheck %s --input-file=%t.out

// CHECK-LABEL: @max_exp_sum_division
// CHECK-NOT: math.exp
// CHECK: linalg.softmax dimension(1)
func.func @max_exp_sum_division(%x: tensor<3x?xf32>) -> tensor<3x?xf32> {
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c1 : tensor<3x?xf32>
  %zero = arith.constant dense<0.0> : tensor<3xf32>
  %lowest = arith.constant dense<0xFF800000> : tensor<3xf32>
  %init = tensor.empty(%n) : tensor<3x?xf32>
  %top = linalg.reduce { arith.maximumf } ins(%x : tensor<3x?xf32>) outs(%lowest : tensor<3xf32>) dimensions = [1]
  %tops = linalg.broadcast ins(%top : tensor<3xf32>) outs(%init : tensor<3x?xf32>) dimensions = [1]
  %shifted = arith.subf %x, %tops : tensor<3x?xf32>
  %e = math.exp %shifted : tensor<3x?xf32>
  %sum = linalg.reduce { arith.addf } ins(%e : tensor<3x?xf32>) outs(%zero : tensor<3xf32>) dimensions = [1]
  %sums = linalg.broadcast ins(%sum : tensor<3xf32>) outs(%init : tensor<3x?xf32>) dimensions = [1]
  %p = arith.divf %e, %sums : tensor<3x?xf32>
  return %p : tensor<3x?xf32>
}

// The sum is over exponentials of something else.
// CHECK-LABEL: @divided_by_another_sum
// CHECK-NOT: linalg.softmax
// CHECK: return
func.func @divided_by_another_sum(%x: tensor<3x?xf32> {heddle.dims = ["", "n"]}, %y: tensor<3x?xf32> {heddle.dims = ["", "n"]}) -> tensor<3x?xf32> {
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c1 : tensor<3x?xf32>
  %zero = arith.constant dense<0.0> : tensor<3xf32>
  %init = tensor.empty(%n) : tensor<3x?xf32>
  %e = math.exp %x : tensor<3x?xf32>
  %f = math.exp %y : tensor<3x?xf32>
  %sum = linalg.reduce { arith.addf } ins(%f : tensor<3x?xf32>) outs(%zero : tensor<3xf32>) dimensions = [1]
  %sums = linalg.broadcast ins(%sum : tensor<3xf32>) outs(%init : tensor<3x?xf32>) dimensions = [1]
  %p = arith.divf %e, %sums : tensor<3x?xf32>
  return %p : tensor<3x?xf32>
}
