// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Masks from cumulative sums: documents packed into one sequence, padding, positions counted from a mask. Every function is evaluated
// before and after; each spelling is followed by one that looks alike.
// RUN: cat %S/Inputs/attention-ops.mlir %s > %t.mlir
// RUN: %heddle-opt %t.mlir --inline --symbol-dce --heddle-check-all --heddle-fuse-attention --canonicalize -o %t.out 2> %t.err
// RUN: FileCheck %s --input-file=%t.out
// RUN: FileCheck %s --input-file=%t.err --check-prefix=MISS

// 1 where a document begins: tokens whose counts are equal belong to one.
// CHECK-LABEL: @documents_counted_by_their_first_tokens
// CHECK: heddle.attention {{.*}} bias(%{{.*}} : tensor<1x1x?x?xf32>) <causal>
func.func @documents_counted_by_their_first_tokens(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s},
                                                   %begins: tensor<1x?xi64> {heddle.dims = ["", "s"]}) -> !heads {
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %isSame = call @same_document(%s, %begins) : (!scores, tensor<1x?xi64>) -> !mask
  %i = call @query_index(%s) : (!scores) -> !grid
  %j = call @key_index(%s) : (!scores) -> !grid
  %isBefore = arith.cmpi sle, %j, %i : !grid
  %visible = arith.andi %isSame, %isBefore : !mask
  %bias = call @as_bias(%s, %visible) : (!scores, !mask) -> !bias
  %masked = call @biased(%s, %bias) : (!scores, !bias) -> !scores
  %o = call @attend(%masked, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}
func.func private @counted(%x: tensor<1x?xi64>) -> tensor<1x?xi64> {
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0 : i64
  %n = tensor.dim %x, %c1 : tensor<1x?xi64>
  %init = tensor.empty(%n) : tensor<1x?xi64>
  %start = linalg.fill ins(%zero : i64) outs(%init : tensor<1x?xi64>) -> tensor<1x?xi64>
  %sums = linalg.generic {indexing_maps = [affine_map<(b, i, j) -> (b, j)>, affine_map<(b, i, j) -> (b, i)>],
                          iterator_types = ["parallel", "parallel", "reduction"]} ins(%x : tensor<1x?xi64>) outs(%start : tensor<1x?xi64>) {
  ^bb0(%in: i64, %out: i64):
    %i = linalg.index 1 : index
    %j = linalg.index 2 : index
    %isBefore = arith.cmpi sle, %j, %i : index
    %part = arith.select %isBefore, %in, %zero : i64
    %sum = arith.addi %out, %part : i64
    linalg.yield %sum : i64
  } -> tensor<1x?xi64>
  return %sums : tensor<1x?xi64>
}
func.func private @same_document(%s: !scores, %begins: tensor<1x?xi64>) -> !mask {
  %n = call @rows(%s) : (!scores) -> index
  %counts = call @counted(%begins) : (tensor<1x?xi64>) -> tensor<1x?xi64>
  %row = tensor.collapse_shape %counts [[0, 1]] : tensor<1x?xi64> into tensor<?xi64>
  %init = tensor.empty(%n, %n) : !grid
  %of_query = linalg.broadcast ins(%row : tensor<?xi64>) outs(%init : !grid) dimensions = [1]
  %of_key = linalg.broadcast ins(%row : tensor<?xi64>) outs(%init : !grid) dimensions = [0]
  %isSame = arith.cmpi eq, %of_query, %of_key : !grid
  return %isSame : !mask
}

// Without the order of positions later tokens of a document are visible.
// CHECK-LABEL: @documents_without_an_order
// CHECK: heddle.attention {{.*}} bias(%{{.*}} : tensor<1x1x?x?xf32>) <full>
func.func @documents_without_an_order(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}, %begins: tensor<1x?xi64> {heddle.dims = ["", "s"]}) -> !heads {
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %isSame = call @same_document(%s, %begins) : (!scores, tensor<1x?xi64>) -> !mask
  %bias = call @as_bias(%s, %isSame) : (!scores, !mask) -> !bias
  %masked = call @biased(%s, %bias) : (!scores, !bias) -> !scores
  %o = call @attend(%masked, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// Positions are the sums of ones, less one: the range.
// CHECK-LABEL: @positions_as_sums_of_ones
// CHECK: heddle.attention %{{[a-z0-9]+}}, %{{[a-z0-9]+}}, %{{[a-z0-9]+}} <causal>
func.func @positions_as_sums_of_ones(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}) -> !heads {
  %one = arith.constant 1 : i64
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %n = call @rows(%s) : (!scores) -> index
  %ones = tensor.splat %one[%n] : tensor<1x?xi64>
  %visible = call @counted_before(%s, %ones) : (!scores, tensor<1x?xi64>) -> !mask
  %bias = call @as_bias(%s, %visible) : (!scores, !mask) -> !bias
  %masked = call @biased(%s, %bias) : (!scores, !bias) -> !scores
  %o = call @attend(%masked, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}
// Whether the count at the key is not above the count at the query.
func.func private @counted_before(%s: !scores, %what: tensor<1x?xi64>) -> !mask {
  %n = call @rows(%s) : (!scores) -> index
  %counts = call @counted(%what) : (tensor<1x?xi64>) -> tensor<1x?xi64>
  %row = tensor.collapse_shape %counts [[0, 1]] : tensor<1x?xi64> into tensor<?xi64>
  %init = tensor.empty(%n, %n) : !grid
  %of_query = linalg.broadcast ins(%row : tensor<?xi64>) outs(%init : !grid) dimensions = [1]
  %of_key = linalg.broadcast ins(%row : tensor<?xi64>) outs(%init : !grid) dimensions = [0]
  %isBefore = arith.cmpi sle, %of_key, %of_query : !grid
  return %isBefore : !mask
}

// Counts of a mask from the input need not ascend by one, or at all: a padding token has its neighbour's position.
// CHECK-LABEL: @positions_as_sums_of_a_given_mask
// CHECK: heddle.attention {{.*}} bias(%{{.*}} : tensor<1x1x?x?xf32>) <full>
func.func @positions_as_sums_of_a_given_mask(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}, %given: tensor<1x?xi64> {heddle.dims = ["", "s"]}) -> !heads {
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %visible = call @counted_before(%s, %given) : (!scores, tensor<1x?xi64>) -> !mask
  %bias = call @as_bias(%s, %visible) : (!scores, !mask) -> !bias
  %masked = call @biased(%s, %bias) : (!scores, !bias) -> !scores
  %o = call @attend(%masked, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// Padding on the left: a key is one once a token was counted.
// CHECK-LABEL: @padding_before_the_first_token
// CHECK: heddle.attention {{.*}} bias(%{{.*}} : tensor<1x1x1x?xf32>) <causal>
func.func @padding_before_the_first_token(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}, %given: tensor<1x?xi64> {heddle.dims = ["", "s"]}) -> !heads {
  %zero = arith.constant 0 : i64
  %hidden = arith.constant -10000.0 : f32
  %none = arith.constant 0.0 : f32
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %n = call @rows(%s) : (!scores) -> index
  %m = call @columns(%s) : (!scores) -> index
  %counts = call @counted(%given) : (tensor<1x?xi64>) -> tensor<1x?xi64>
  %zeros = tensor.splat %zero[%n] : tensor<1x?xi64>
  %isToken = arith.cmpi sgt, %counts, %zeros : tensor<1x?xi64>
  %nones = tensor.splat %none[%n] : tensor<1x?xf32>
  %hiddens = tensor.splat %hidden[%n] : tensor<1x?xf32>
  %padding = arith.select %isToken, %nones, %hiddens : tensor<1x?xi1>, tensor<1x?xf32>
  %init = tensor.empty(%n, %m) : !scores
  %paddings = linalg.broadcast ins(%padding : tensor<1x?xf32>) outs(%init : !scores) dimensions = [1, 2]
  %causal = call @causal(%s) : (!scores) -> !scores
  %masked = arith.addf %causal, %paddings : !scores
  %o = call @attend(%masked, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// A sum of the scores themselves is no mask.
// CHECK-LABEL: @sum_of_scores_as_a_mask
// CHECK-NOT: heddle.attention
// CHECK: linalg.softmax
// MISS: not fused: what is added to its scores has no op: it is a sum over an axis
func.func @sum_of_scores_as_a_mask(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}) -> !heads {
  %zero = arith.constant 0.0 : f32
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %n = call @rows(%s) : (!scores) -> index
  %m = call @columns(%s) : (!scores) -> index
  %init = tensor.empty(%n, %m) : !scores
  %start = linalg.fill ins(%zero : f32) outs(%init : !scores) -> !scores
  %sums = linalg.generic {indexing_maps = [affine_map<(b, h, i, j, m) -> (b, h, i, m)>, affine_map<(b, h, i, j, m) -> (b, h, i, j)>],
                          iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]} ins(%s : !scores) outs(%start : !scores) {
  ^bb0(%in: f32, %out: f32):
    %j = linalg.index 3 : index
    %before = linalg.index 4 : index
    %isBefore = arith.cmpi sle, %before, %j : index
    %part = arith.select %isBefore, %in, %zero : f32
    %sum = arith.addf %out, %part : f32
    linalg.yield %sum : f32
  } -> !scores
  %masked = arith.addf %s, %sums : !scores
  %o = call @attend(%masked, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}
