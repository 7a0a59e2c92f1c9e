// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Queries and keys whose pairs are put apart in two halves before they are multiplied, as rotations of DeepSeek-V3 leave them. Every function is
// evaluated before and after.
// RUN: cat %S/Inputs/attention-ops.mlir %s > %t.mlir
// RUN: %heddle-opt %t.mlir --inline --symbol-dce --heddle-check-all --heddle-fuse-attention --canonicalize -o %t.out
// RUN: FileCheck %s --input-file=%t.out

// (pair, side) -> (side, pair)
func.func private @apart(%x: !heads) -> !heads {
  %c2 = arith.constant 2 : index
  %n = tensor.dim %x, %c2 : !heads
  %pairs = tensor.expand_shape %x [[0], [1], [2], [3, 4]] output_shape [1, 4, %n, 4, 2] : !heads into tensor<1x4x?x4x2xf32>
  %init = tensor.empty(%n) : tensor<1x4x?x2x4xf32>
  %sides = linalg.transpose ins(%pairs : tensor<1x4x?x4x2xf32>) outs(%init : tensor<1x4x?x2x4xf32>) permutation = [0, 1, 2, 4, 3]
  %halves = tensor.collapse_shape %sides [[0], [1], [2], [3, 4]] : tensor<1x4x?x2x4xf32> into !heads
  return %halves : !heads
}

// The order of what is summed is free: nothing is put apart.
// CHECK-LABEL: @halves_of_both
// CHECK-SAME: %[[Q:.*]]: tensor<1x4x?x8xf32> {{.*}}, %[[K:.*]]: tensor<1x4x?x8xf32> {{.*}}, %[[V:.*]]: tensor<1x4x?x8xf32>
// CHECK-NOT: linalg.transpose
// CHECK: heddle.attention %[[Q]], %[[K]], %[[V]] <causal>
func.func @halves_of_both(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}) -> !heads {
  %qs = call @apart(%q) : (!heads) -> !heads
  %ks = call @apart(%k) : (!heads) -> !heads
  %s = call @product(%qs, %ks) : (!heads, !heads) -> !scores
  %masked = call @causal(%s) : (!scores) -> !scores
  %o = call @attend(%masked, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// Only the keys are: they stay apart.
// CHECK-LABEL: @halves_of_the_keys
// CHECK-SAME: %[[Q:.*]]: tensor<1x4x?x8xf32> {{.*}}, %[[K:.*]]: tensor<1x4x?x8xf32> {{.*}}, %[[V:.*]]: tensor<1x4x?x8xf32>
// CHECK: linalg.transpose {{.*}} permutation = [0, 1, 2, 4, 3]
// CHECK: %[[HALVES:.*]] = tensor.collapse_shape
// CHECK: heddle.attention %[[Q]], %[[HALVES]], %[[V]] <causal>
func.func @halves_of_the_keys(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}) -> !heads {
  %ks = call @apart(%k) : (!heads) -> !heads
  %s = call @product(%q, %ks) : (!heads, !heads) -> !scores
  %masked = call @causal(%s) : (!scores) -> !scores
  %o = call @attend(%masked, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}
