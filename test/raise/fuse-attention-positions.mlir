// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Biases that follow from the distance of query and key become `position_bias`. Every function is evaluated before and after; each
// spelling is followed by one that looks alike, whose bias stays a computed tensor.
// RUN: cat %S/Inputs/attention-ops.mlir %s > %t.mlir
// RUN: %heddle-opt %t.mlir --inline --symbol-dce --heddle-check-all --heddle-fuse-attention --canonicalize -o %t.out 2> %t.err
// RUN: FileCheck %s --input-file=%t.out

// Bloom (arXiv:2108.12409): slopes times the key's position, whatever the query's. What is missing is the same for all keys of a query
// and cancels.
// CHECK-LABEL: @slopes_times_the_position_of_the_key
// CHECK: %[[BIAS:.*]] = heddle.position_bias %{{.*}} : tensor<4xf32> -> tensor<1x4x?x?xf32>
// CHECK: heddle.attention {{.*}} bias(%[[BIAS]] : tensor<1x4x?x?xf32>) <causal>
func.func @slopes_times_the_position_of_the_key(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}) -> !heads {
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %j = call @key_index(%s) : (!scores) -> !grid
  %sum = call @sloped(%s, %j) : (!scores, !grid) -> !scores
  %masked = call @causal(%sum) : (!scores) -> !scores
  %o = call @attend(%masked, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}
// s + slopes[h] * position
func.func private @sloped(%s: !scores, %position: !grid) -> !scores {
  %slopes = arith.constant dense<[0.5, 0.25, 0.125, 0.0625]> : tensor<4xf32>
  %n = call @rows(%s) : (!scores) -> index
  %m = call @columns(%s) : (!scores) -> index
  %real = arith.sitofp %position : !grid to !bias
  %init = tensor.empty(%n, %m) : !scores
  %all = linalg.broadcast ins(%real : !bias) outs(%init : !scores) dimensions = [0, 1]
  %slope = linalg.broadcast ins(%slopes : tensor<4xf32>) outs(%init : !scores) dimensions = [0, 2, 3]
  %alibi = arith.mulf %slope, %all : !scores
  %sum = arith.addf %s, %alibi : !scores
  return %sum : !scores
}

// The square of the position is no slope.
// CHECK-LABEL: @slopes_times_the_square_of_the_position
// CHECK-NOT: heddle.position_bias
// CHECK: heddle.attention {{.*}} bias(%{{.*}} : tensor<1x4x1x?xf32>) <causal>
func.func @slopes_times_the_square_of_the_position(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}) -> !heads {
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %j = call @key_index(%s) : (!scores) -> !grid
  %square = arith.muli %j, %j : !grid
  %sum = call @sloped(%s, %square) : (!scores, !grid) -> !scores
  %masked = call @causal(%sum) : (!scores) -> !scores
  %o = call @attend(%masked, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// Falling with the distance on both sides: one slope only where the mask leaves one side.
// CHECK-LABEL: @slopes_times_the_absolute_distance
// CHECK: %[[BIAS:.*]] = heddle.position_bias
// CHECK: heddle.attention {{.*}} bias(%[[BIAS]] : tensor<1x4x?x?xf32>) <causal>
func.func @slopes_times_the_absolute_distance(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}) -> !heads {
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %sum = call @sloped_both_ways(%s) : (!scores) -> !scores
  %masked = call @causal(%sum) : (!scores) -> !scores
  %o = call @attend(%masked, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}
func.func private @sloped_both_ways(%s: !scores) -> !scores {
  %i = call @query_index(%s) : (!scores) -> !grid
  %j = call @key_index(%s) : (!scores) -> !grid
  %minus = arith.constant -1 : i64
  %distance = arith.subi %i, %j : !grid
  %size = math.absi %distance : !grid
  %sign = call @everywhere(%s, %minus) : (!scores, i64) -> !grid
  %penalty = arith.muli %size, %sign : !grid
  %sum = call @sloped(%s, %penalty) : (!scores, !grid) -> !scores
  return %sum : !scores
}

// CHECK-LABEL: @slopes_on_both_sides
// CHECK-NOT: heddle.position_bias
// CHECK: heddle.attention {{.*}} bias(%{{.*}} : tensor<1x4x?x?xf32>) <full>
func.func @slopes_on_both_sides(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}) -> !heads {
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %sum = call @sloped_both_ways(%s) : (!scores) -> !scores
  %o = call @attend(%sum, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// T5's encoder (arXiv:1910.10683), 8 buckets up to a distance of 16: half of them for keys ahead, half of each half for one distance
// each, the others grow as the logarithm. Distances below -5 read row 7, … from 6 on row 3.
// CHECK-LABEL: @logarithmic_buckets_on_both_sides
// CHECK: %[[BIAS:.*]] = heddle.position_bias {{.*}} {rows = array<i64: 7, 6, 5, 0, 1, 2, 3>, starts = array<i64: -5, -1, 0, 1, 2, 6>} : tensor<8x4xf32>
// CHECK: heddle.attention {{.*}} bias(%[[BIAS]] : tensor<1x4x?x?xf32>) <full>
func.func @logarithmic_buckets_on_both_sides(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}, %table: tensor<8x4xf32>) -> !heads {
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %i = call @query_index(%s) : (!scores) -> !grid
  %j = call @key_index(%s) : (!scores) -> !grid
  %ahead = arith.subi %j, %i : !grid
  %bucket = call @buckets_of_both_sides(%s, %ahead) : (!scores, !grid) -> !grid
  %sum = call @looked_up(%s, %bucket, %table) : (!scores, !grid, tensor<8x4xf32>) -> !scores
  %o = call @attend(%sum, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}
func.func private @buckets_of_both_sides(%s: !scores, %ahead: !grid) -> !grid {
  %zero = arith.constant 0 : i64
  %four = arith.constant 4 : i64
  %zeros = call @everywhere(%s, %zero) : (!scores, i64) -> !grid
  %fours = call @everywhere(%s, %four) : (!scores, i64) -> !grid
  %isAhead = arith.cmpi sgt, %ahead, %zeros : !grid
  %one_ahead = arith.extui %isAhead : !mask to !grid
  %half = arith.muli %one_ahead, %fours : !grid
  %size = math.absi %ahead : !grid
  %bucket = call @logarithmic(%s, %size) : (!scores, !grid) -> !grid
  %all = arith.addi %half, %bucket : !grid
  return %all : !grid
}
// size below 2, then min(2 + trunc(log(max(size, 1) / 2) / log(16 / 2) * 2), 3)
func.func private @logarithmic(%s: !scores, %size: !grid) -> !grid {
  %one = arith.constant 1 : i64
  %ones = call @everywhere(%s, %one) : (!scores, i64) -> !grid
  %positive = arith.maxsi %size, %ones : !grid
  %bucket = call @logarithmic_from(%s, %size, %positive) : (!scores, !grid, !grid) -> !grid
  return %bucket : !grid
}
func.func private @logarithmic_from(%s: !scores, %size: !grid, %positive: !grid) -> !grid {
  %two = arith.constant 2 : i64
  %three = arith.constant 3 : i64
  %exact = arith.constant 2.0 : f32
  %log8 = arith.constant 2.0794415 : f32
  %n = call @rows(%s) : (!scores) -> index
  %m = call @columns(%s) : (!scores) -> index
  %twos = call @everywhere(%s, %two) : (!scores, i64) -> !grid
  %threes = call @everywhere(%s, %three) : (!scores, i64) -> !grid
  %exacts = tensor.splat %exact[%n, %m] : !bias
  %logs = tensor.splat %log8[%n, %m] : !bias
  %isSmall = arith.cmpi slt, %size, %twos : !grid
  %real = arith.sitofp %positive : !grid to !bias
  %ratio = arith.divf %real, %exacts : !bias
  %log = math.log %ratio : !bias
  %part = arith.divf %log, %logs : !bias
  %steps = arith.mulf %part, %exacts : !bias
  %whole = arith.fptosi %steps : !bias to !grid
  %large = arith.addi %whole, %twos : !grid
  %bounded = arith.minsi %large, %threes : !grid
  %bucket = arith.select %isSmall, %size, %bounded : !mask, !grid
  return %bucket : !grid
}
// s + table[bucket, h]
func.func private @looked_up(%s: !scores, %bucket: !grid, %table: tensor<8x4xf32>) -> !scores {
  %n = call @rows(%s) : (!scores) -> index
  %m = call @columns(%s) : (!scores) -> index
  %init = tensor.empty(%n, %m) : tensor<?x?x4xf32>
  %gathered = linalg.generic {indexing_maps = [affine_map<(i, j, h) -> (i, j)>, affine_map<(i, j, h) -> (i, j, h)>],
                              iterator_types = ["parallel", "parallel", "parallel"]} ins(%bucket : !grid) outs(%init : tensor<?x?x4xf32>) {
  ^bb0(%in: i64, %out: f32):
    %row = arith.index_cast %in : i64 to index
    %h = linalg.index 2 : index
    %element = tensor.extract %table[%row, %h] : tensor<8x4xf32>
    linalg.yield %element : f32
  } -> tensor<?x?x4xf32>
  %turned_init = tensor.empty(%n, %m) : tensor<4x?x?xf32>
  %turned = linalg.transpose ins(%gathered : tensor<?x?x4xf32>) outs(%turned_init : tensor<4x?x?xf32>) permutation = [2, 0, 1]
  %all_init = tensor.empty(%n, %m) : !scores
  %all = linalg.broadcast ins(%turned : tensor<4x?x?xf32>) outs(%all_init : !scores) dimensions = [0]
  %sum = arith.addf %s, %all : !scores
  return %sum : !scores
}

// The same buckets of positions that come with the input: no function of the distance.
// CHECK-LABEL: @logarithmic_buckets_of_given_positions
// CHECK-NOT: heddle.position_bias
// CHECK: heddle.attention {{.*}} bias(%{{.*}} : tensor<1x4x?x?xf32>) <full>
func.func @logarithmic_buckets_of_given_positions(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}, %table: tensor<8x4xf32>,
                                                  %at: tensor<?xi64> {heddle.dims = ["s"]}) -> !heads {
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %n = call @rows(%s) : (!scores) -> index
  %init = tensor.empty(%n, %n) : !grid
  %i = linalg.broadcast ins(%at : tensor<?xi64>) outs(%init : !grid) dimensions = [1]
  %j = linalg.broadcast ins(%at : tensor<?xi64>) outs(%init : !grid) dimensions = [0]
  %ahead = arith.subi %j, %i : !grid
  %bucket = call @buckets_of_both_sides(%s, %ahead) : (!scores, !grid) -> !grid
  %sum = call @looked_up(%s, %bucket, %table) : (!scores, !grid, tensor<8x4xf32>) -> !scores
  %o = call @attend(%sum, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// T5's decoder: only what lies behind, -min(j - i, 0).
// CHECK-LABEL: @logarithmic_buckets_behind
// CHECK: %[[BIAS:.*]] = heddle.position_bias {{.*}} {rows = array<i64: 0, 1, 2, 3>, starts = array<i64: 1, 2, 6>} : tensor<8x4xf32>
// CHECK: heddle.attention {{.*}} bias(%[[BIAS]] : tensor<1x4x?x?xf32>) <causal>
func.func @logarithmic_buckets_behind(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}, %table: tensor<8x4xf32>) -> !heads {
  %zero = arith.constant 0 : i64
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %i = call @query_index(%s) : (!scores) -> !grid
  %j = call @key_index(%s) : (!scores) -> !grid
  %zeros = call @everywhere(%s, %zero) : (!scores, i64) -> !grid
  %ahead = arith.subi %j, %i : !grid
  %not_ahead = arith.minsi %ahead, %zeros : !grid
  %behind = arith.subi %zeros, %not_ahead : !grid
  %bucket = call @logarithmic(%s, %behind) : (!scores, !grid) -> !grid
  %sum = call @looked_up(%s, %bucket, %table) : (!scores, !grid, tensor<8x4xf32>) -> !scores
  %masked = call @causal(%sum) : (!scores) -> !scores
  %o = call @attend(%masked, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// Buckets of the sum of both positions.
// CHECK-LABEL: @logarithmic_buckets_of_the_sum
// CHECK-NOT: heddle.position_bias
// CHECK: heddle.attention {{.*}} bias(%{{.*}} : tensor<1x4x?x?xf32>) <causal>
func.func @logarithmic_buckets_of_the_sum(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}, %table: tensor<8x4xf32>) -> !heads {
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %i = call @query_index(%s) : (!scores) -> !grid
  %j = call @key_index(%s) : (!scores) -> !grid
  %sum_of_both = arith.addi %j, %i : !grid
  %bucket = call @logarithmic(%s, %sum_of_both) : (!scores, !grid) -> !grid
  %sum = call @looked_up(%s, %bucket, %table) : (!scores, !grid, tensor<8x4xf32>) -> !scores
  %masked = call @causal(%sum) : (!scores) -> !scores
  %o = call @attend(%masked, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}
