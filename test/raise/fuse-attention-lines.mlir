// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Biases that a stored table says, whose rows are straight lines along the keys (ALiBi as MPT's exports have it). test/raise/decoders.test compares
// what becomes of such a table with the numbers of its file.
// RUN: cat %S/Inputs/attention-ops.mlir %s > %t.mlir
// RUN: %heddle-opt %t.mlir --inline --symbol-dce --heddle-fuse-attention --canonicalize -o %t.out
// RUN: FileCheck %s --input-file=%t.out

!table = tensor<4x1x9xf32>

// s[h, i, j] + table[h, 0, j + 9 - keys]
func.func private @with_last_columns(%s: !scores, %table: !table) -> !scores {
  %c9 = arith.constant 9 : index
  %n = call @rows(%s) : (!scores) -> index
  %m = call @columns(%s) : (!scores) -> index
  %begin = arith.subi %c9, %m : index
  %part = tensor.extract_slice %table[0, 0, %begin] [4, 1, %m] [1, 1, 1] : !table to tensor<4x?xf32>
  %init = tensor.empty(%n, %m) : !scores
  %all = linalg.broadcast ins(%part : tensor<4x?xf32>) outs(%init : !scores) dimensions = [0, 2]
  %sum = arith.addf %s, %all : !scores
  return %sum : !scores
}

// CHECK-LABEL: @stored_lines
// CHECK: %[[TABLE:.*]] = heddle.weight "alibi"
// CHECK: tensor.extract %[[TABLE]]
// CHECK: %[[BIAS:.*]] = heddle.position_bias %{{.*}} : tensor<4xf32> -> tensor<1x4x?x?xf32>
// CHECK: heddle.attention {{.*}} bias(%[[BIAS]] : tensor<1x4x?x?xf32>) <causal>
func.func @stored_lines(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}) -> !heads {
  %table = heddle.weight "alibi" <type = "f32", file = 0, offset = 0> {heddle.lines = array<f64: -4.0, 0.5, -2.0, 0.25, -1.0, 0.125, -0.5, 0.0625>} : !table
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %sum = call @with_last_columns(%s, %table) : (!scores, !table) -> !scores
  %masked = call @causal(%sum) : (!scores) -> !scores
  %o = call @attend(%masked, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// Nothing is known of these rows.
// CHECK-LABEL: @stored_numbers
// CHECK-NOT: heddle.position_bias
// CHECK: heddle.attention {{.*}} bias(%{{.*}} : tensor<1x4x1x?xf32>) <causal>
func.func @stored_numbers(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}) -> !heads {
  %table = heddle.weight "penalties" <type = "f32", file = 0, offset = 0> : !table
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %sum = call @with_last_columns(%s, %table) : (!scores, !table) -> !scores
  %masked = call @causal(%sum) : (!scores) -> !scores
  %o = call @attend(%masked, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// A line for each query: what it adds from one key to the next is not the head's.
// CHECK-LABEL: @lines_of_queries
// CHECK-NOT: heddle.position_bias
// CHECK: heddle.attention {{.*}} bias(%{{.*}} : tensor<1x1x{{.*}}xf32>) <causal>
func.func @lines_of_queries(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}) -> !heads {
  %table = heddle.weight "lines" <type = "f32", file = 0, offset = 0> {heddle.lines = array<f64: -4.0, 0.5, -2.0, 0.25, -1.0, 0.125>} : tensor<3x9xf32>
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %n = call @rows(%s) : (!scores) -> index
  %m = call @columns(%s) : (!scores) -> index
  %part = tensor.extract_slice %table[0, 0] [%n, %m] [1, 1] : tensor<3x9xf32> to tensor<?x?xf32>
  %init = tensor.empty(%n, %m) : !scores
  %all = linalg.broadcast ins(%part : tensor<?x?xf32>) outs(%init : !scores) dimensions = [0, 1]
  %sum = arith.addf %s, %all : !scores
  %masked = call @causal(%sum) : (!scores) -> !scores
  %o = call @attend(%masked, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}
