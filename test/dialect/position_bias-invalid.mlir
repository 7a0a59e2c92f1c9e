// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --split-input-file --verify-diagnostics -o %t

func.func @position_bias_c1(%table: tensor<3x4xf32>, %n: index) {
  // expected-error @+1 {{table 'tensor<3x4xf32>' must be (num_heads), or (num_buckets, num_heads) with starts and rows}}
  %0 = heddle.position_bias %table[%n, %n] : tensor<3x4xf32> -> tensor<1x4x?x?xf32>
  return
}

// -----

func.func @position_bias_c1_rows_alone(%table: tensor<3x4xf32>, %n: index) {
  // expected-error @+1 {{must be (num_heads), or (num_buckets, num_heads) with starts and rows}}
  %0 = heddle.position_bias %table[%n, %n] {rows = array<i64: 0>} : tensor<3x4xf32> -> tensor<1x4x?x?xf32>
  return
}

// -----

func.func @position_bias_c2(%table: tensor<3x4xf32>, %n: index) {
  // expected-error @+1 {{starts must ascend and rows (2) be one more than starts (2)}}
  %0 = heddle.position_bias %table[%n, %n] {rows = array<i64: 0, 1>, starts = array<i64: 1, 2>} : tensor<3x4xf32> -> tensor<1x4x?x?xf32>
  return
}

// -----

func.func @position_bias_c2_order(%table: tensor<3x4xf32>, %n: index) {
  // expected-error @+1 {{starts must ascend and rows (3) be one more than starts (2)}}
  %0 = heddle.position_bias %table[%n, %n] {rows = array<i64: 0, 1, 2>, starts = array<i64: 2, 2>} : tensor<3x4xf32> -> tensor<1x4x?x?xf32>
  return
}

// -----

func.func @position_bias_c3(%table: tensor<3x4xf32>, %n: index) {
  // expected-error @+1 {{row 3 is not in the table of 3 rows}}
  %0 = heddle.position_bias %table[%n, %n] {rows = array<i64: 0, 3>, starts = array<i64: 1>} : tensor<3x4xf32> -> tensor<1x4x?x?xf32>
  return
}

// -----

func.func @position_bias_c4(%table: tensor<4xf32>, %n: index) {
  // expected-error @+1 {{result 'tensor<1x3x?x?xf32>' must be (1, 4, queries, keys)}}
  %0 = heddle.position_bias %table[%n, %n] : tensor<4xf32> -> tensor<1x3x?x?xf32>
  return
}
