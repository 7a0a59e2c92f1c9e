// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What is added to scores, bounds them, or takes part in their sum. Every function is evaluated before and after; each spelling is
// followed by one that looks alike.
// RUN: cat %S/Inputs/attention-ops.mlir %s > %t.mlir
// RUN: %heddle-opt %t.mlir --inline --symbol-dce --heddle-check-all --heddle-fuse-attention --canonicalize -o %t.out 2> %t.err
// RUN: FileCheck %s --input-file=%t.out
// RUN: FileCheck %s --input-file=%t.err --check-prefix=MISS

// ALiBi (arXiv:2108.12409): a slope for each head times the distance. The mask is found beside it.
// CHECK-LABEL: @alibi
// CHECK: %[[BIAS:.*]] = heddle.position_bias %{{.*}} : tensor<4xf32> -> tensor<1x4x?x?xf32>
// CHECK: heddle.attention {{.*}} bias(%[[BIAS]] : tensor<1x4x?x?xf32>) <causal>
func.func @alibi(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}) -> !heads {
  %slopes = arith.constant dense<[0.5, 0.25, 0.125, 0.0625]> : tensor<4xf32>
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %n = call @rows(%s) : (!scores) -> index
  %m = call @columns(%s) : (!scores) -> index
  %i = call @query_index(%s) : (!scores) -> !grid
  %j = call @key_index(%s) : (!scores) -> !grid
  %distance = arith.subi %j, %i : !grid
  %real = arith.sitofp %distance : !grid to !bias
  %init = tensor.empty(%n, %m) : !scores
  %all = linalg.broadcast ins(%real : !bias) outs(%init : !scores) dimensions = [0, 1]
  %slope = linalg.broadcast ins(%slopes : tensor<4xf32>) outs(%init : !scores) dimensions = [0, 2, 3]
  %alibi = arith.mulf %all, %slope : !scores
  %sum = arith.addf %s, %alibi : !scores
  %masked = call @causal(%sum) : (!scores) -> !scores
  %o = call @attend(%masked, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// The slope multiplies the score: no bias, and a scale of each head, which goes to the queries.
// CHECK-LABEL: @slope_times_the_score
// CHECK: %[[Q:.*]] = arith.mulf %arg0, %{{.*}} : tensor<1x4x?x8xf32>
// CHECK: heddle.attention %[[Q]], %arg1, %arg2 <full> {scale = 1.0
func.func @slope_times_the_score(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}) -> !heads {
  %slopes = arith.constant dense<[0.5, 0.25, 0.125, 0.0625]> : tensor<4xf32>
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %n = call @rows(%s) : (!scores) -> index
  %m = call @columns(%s) : (!scores) -> index
  %init = tensor.empty(%n, %m) : !scores
  %slope = linalg.broadcast ins(%slopes : tensor<4xf32>) outs(%init : !scores) dimensions = [0, 2, 3]
  %scaled = arith.mulf %s, %slope : !scores
  %o = call @attend(%scaled, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// T5 (arXiv:1910.10683): a learned number for each head and bucket of distances.
// CHECK-LABEL: @buckets_of_distances
// CHECK: %[[BIAS:.*]] = heddle.position_bias %{{.*}} {rows = array<i64: 0, 1, 2, 3>, starts = array<i64: 1, 2, 3>} : tensor<4x4xf32>
// CHECK: heddle.attention {{.*}} bias(%[[BIAS]] : tensor<1x4x?x?xf32>) <full>
func.func @buckets_of_distances(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s},
                                %table: tensor<4x4xf32>) -> !heads {
  %three = arith.constant 3 : i64
  %zero = arith.constant 0 : i64
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %biased = call @bucketed(%s, %table) : (!scores, tensor<4x4xf32>) -> !scores
  %o = call @attend(%biased, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}
// s + table[min(max(i - j, 0), 3), head]
func.func private @bucketed(%s: !scores, %table: tensor<4x4xf32>) -> !scores {
  %three = arith.constant 3 : i64
  %zero = arith.constant 0 : i64
  %i = call @query_index(%s) : (!scores) -> !grid
  %j = call @key_index(%s) : (!scores) -> !grid
  %distance = arith.subi %i, %j : !grid
  %zeros = call @everywhere(%s, %zero) : (!scores, i64) -> !grid
  %threes = call @everywhere(%s, %three) : (!scores, i64) -> !grid
  %ahead = arith.maxsi %distance, %zeros : !grid
  %bucket = arith.minsi %ahead, %threes : !grid
  %n = call @rows(%s) : (!scores) -> index
  %m = call @columns(%s) : (!scores) -> index
  %init = tensor.empty(%n, %m) : !scores
  %bias = linalg.generic {indexing_maps = [affine_map<(b, h, i, j) -> (i, j)>, affine_map<(b, h, i, j) -> (b, h, i, j)>],
                          iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%bucket : !grid) outs(%init : !scores) {
  ^bb0(%in: i64, %out: f32):
    %row = arith.index_cast %in : i64 to index
    %h = linalg.index 1 : index
    %element = tensor.extract %table[%row, %h] : tensor<4x4xf32>
    linalg.yield %element : f32
  } -> !scores
  %sum = arith.addf %s, %bias : !scores
  return %sum : !scores
}

// The score itself is looked up in buckets.
// CHECK-LABEL: @buckets_of_scores
// CHECK-NOT: heddle.attention
// CHECK: linalg.softmax
func.func @buckets_of_scores(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}) -> !heads {
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %floored = math.floor %s : !scores
  %sum = arith.addf %s, %floored : !scores
  %o = call @attend(%sum, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// CHECK-LABEL: @softcap_before_the_mask
// CHECK: heddle.attention %{{[a-z0-9]+}}, %{{[a-z0-9]+}}, %{{[a-z0-9]+}} <causal> {scale = 0.249999{{[0-9]+}} : f64, softcap = 5.000000e+01 : f64}
func.func @softcap_before_the_mask(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}) -> !heads {
  %factor = arith.constant 0.005 : f32
  %cap = arith.constant 50.0 : f32
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %scaled = call @scaled(%s, %factor) : (!scores, f32) -> !scores
  %t = math.tanh %scaled : !scores
  %capped = call @scaled(%t, %cap) : (!scores, f32) -> !scores
  %masked = call @causal(%capped) : (!scores) -> !scores
  %o = call @attend(%masked, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// What is added goes through the tanh.
// CHECK-LABEL: @softcap_of_scores_with_bias
// CHECK-NOT: heddle.attention
// CHECK: linalg.softmax
// MISS: not fused: 'math.tanh' at {{.*}} what its tanh reads is not the scaled scores
func.func @softcap_of_scores_with_bias(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s},
                                       %bias: !bias {heddle.dims = ["s", "s"]}) -> !heads {
  %cap = arith.constant 50.0 : f32
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %biased = call @biased(%s, %bias) : (!scores, !bias) -> !scores
  %t = math.tanh %biased : !scores
  %capped = call @scaled(%t, %cap) : (!scores, f32) -> !scores
  %o = call @attend(%capped, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// One more logit for each head takes part in the sum and is dropped again.
// CHECK-LABEL: @sinks
// CHECK: heddle.attention {{.*}} sinks(%{{.*}} : tensor<4xf32>) <causal>
func.func @sinks(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}, %sinks: tensor<4xf32>) -> !heads {
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %masked = call @causal(%s) : (!scores) -> !scores
  %o = call @attend_with_sinks(%masked, %sinks, %v) : (!scores, tensor<4xf32>, !heads) -> !heads
  return %o : !heads
}
func.func private @attend_with_sinks(%s: !scores, %sinks: tensor<4xf32>, %v: !heads) -> !heads {
  %n = call @rows(%s) : (!scores) -> index
  %m = call @columns(%s) : (!scores) -> index
  %init = tensor.empty(%n) : tensor<1x4x?x1xf32>
  %last = linalg.broadcast ins(%sinks : tensor<4xf32>) outs(%init : tensor<1x4x?x1xf32>) dimensions = [0, 2, 3]
  %all = tensor.concat dim(3) %s, %last : (!scores, tensor<1x4x?x1xf32>) -> !scores
  %p = call @softmax(%all) : (!scores) -> !scores
  %kept = tensor.extract_slice %p[0, 0, 0, 0] [1, 4, %n, %m] [1, 1, 1, 1] : !scores to !scores
  %o = call @weigh(%kept, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// A sink for each query is none.
// CHECK-LABEL: @sinks_of_each_query
// CHECK-NOT: heddle.attention
// CHECK: linalg.softmax
// MISS: not fused: {{.*}}one more logit than it has keys
func.func @sinks_of_each_query(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s},
                               %sinks: tensor<1x4x?x1xf32> {heddle.dims = #s}) -> !heads {
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %n = call @rows(%s) : (!scores) -> index
  %m = call @columns(%s) : (!scores) -> index
  %all = tensor.concat dim(3) %s, %sinks : (!scores, tensor<1x4x?x1xf32>) -> !scores
  %p = call @softmax(%all) : (!scores) -> !scores
  %kept = tensor.extract_slice %p[0, 0, 0, 0] [1, 4, %n, %m] [1, 1, 1, 1] : !scores to !scores
  %o = call @weigh(%kept, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}
