// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s | %heddle-opt | FileCheck %s
// RUN: %heddle-opt %s --mlir-print-op-generic | %heddle-opt | FileCheck %s

// CHECK-LABEL: @slopes
func.func @slopes(%table: tensor<4xf32>, %n: index, %m: index) -> tensor<1x4x?x?xf32> {
  // CHECK: heddle.position_bias %{{.*}}[%{{.*}}, %{{.*}}] : tensor<4xf32> -> tensor<1x4x?x?xf32>
  %0 = heddle.position_bias %table[%n, %m] : tensor<4xf32> -> tensor<1x4x?x?xf32>
  return %0 : tensor<1x4x?x?xf32>
}

// CHECK-LABEL: @buckets
func.func @buckets(%table: tensor<3x4xf32>, %n: index, %m: index) -> tensor<1x4x?x?xf32> {
  // CHECK: heddle.position_bias %{{.*}}[%{{.*}}, %{{.*}}] {rows = array<i64: 2, 0, 1>, starts = array<i64: -1, 3>} : tensor<3x4xf32> -> tensor<1x4x?x?xf32>
  %0 = heddle.position_bias %table[%n, %m] {rows = array<i64: 2, 0, 1>, starts = array<i64: -1, 3>} : tensor<3x4xf32> -> tensor<1x4x?x?xf32>
  return %0 : tensor<1x4x?x?xf32>
}
