// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// T5's decoder as transformers computes it: buckets as in fuse-attention-positions.mlir, but the logarithm of a distance of 0 is computed, too, which is
// no integer; another choice is taken there. The interpreter refuses that number, so that this is not evaluated.
// RUN: cat %S/Inputs/attention-ops.mlir %S/fuse-attention-positions.mlir %s > %t.mlir
// RUN: %heddle-opt %t.mlir --inline --symbol-dce --heddle-fuse-attention --canonicalize 2> %t.err | FileCheck %s

// CHECK-LABEL: @logarithm_of_no_distance
// CHECK: %[[BIAS:.*]] = heddle.position_bias {{.*}} {rows = array<i64: 0, 1, 2, 3>, starts = array<i64: 1, 2, 6>} : tensor<8x4xf32>
// CHECK: heddle.attention {{.*}} bias(%[[BIAS]] : tensor<1x4x?x?xf32>) <causal>
func.func @logarithm_of_no_distance(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}, %table: tensor<8x4xf32>) -> !heads {
  %zero = arith.constant 0 : i64
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %i = call @query_index(%s) : (!scores) -> !grid
  %j = call @key_index(%s) : (!scores) -> !grid
  %zeros = call @everywhere(%s, %zero) : (!scores, i64) -> !grid
  %ahead = arith.subi %j, %i : !grid
  %not_ahead = arith.minsi %ahead, %zeros : !grid
  %behind = arith.subi %zeros, %not_ahead : !grid
  %bucket = call @logarithmic_from(%s, %behind, %behind) : (!scores, !grid, !grid) -> !grid
  %sum = call @looked_up(%s, %bucket, %table) : (!scores, !grid, tensor<8x4xf32>) -> !scores
  %masked = call @causal(%sum) : (!scores) -> !scores
  %o = call @attend(%masked, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}
