// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --heddle-check-all --canonicalize | FileCheck %s

// CHECK-LABEL: @equal_runs_joined
// CHECK: {rows = array<i64: 0, 2, 1>, starts = array<i64: 3, 9>}
func.func @equal_runs_joined(%table: tensor<3x4xf32>, %n: index, %m: index) -> tensor<1x4x?x?xf32> {
  %0 = heddle.position_bias %table[%n, %m] {starts = array<i64: 1, 3, 7, 9>, rows = array<i64: 0, 0, 2, 2, 1>}
    : tensor<3x4xf32> -> tensor<1x4x?x?xf32>
  return %0 : tensor<1x4x?x?xf32>
}

// CHECK-LABEL: @one_run
// CHECK: {rows = array<i64: 1>, starts = array<i64>}
func.func @one_run(%table: tensor<3x4xf32>, %n: index, %m: index) -> tensor<1x4x?x?xf32> {
  %0 = heddle.position_bias %table[%n, %m] {starts = array<i64: 0>, rows = array<i64: 1, 1>} : tensor<3x4xf32> -> tensor<1x4x?x?xf32>
  return %0 : tensor<1x4x?x?xf32>
}

// The same row again, but not next to itself.
// CHECK-LABEL: @row_comes_back
// CHECK: {rows = array<i64: 0, 1, 0>, starts = array<i64: 1, 3>}
func.func @row_comes_back(%table: tensor<3x4xf32>, %n: index, %m: index) -> tensor<1x4x?x?xf32> {
  %0 = heddle.position_bias %table[%n, %m] {starts = array<i64: 1, 3>, rows = array<i64: 0, 1, 0>}
    : tensor<3x4xf32> -> tensor<1x4x?x?xf32>
  return %0 : tensor<1x4x?x?xf32>
}
