// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What exporters write between softmax and values: guards that change no probability of a row which sees something. Every function
// is evaluated before and after; each spelling is followed by one that looks alike and is no attention.
// RUN: cat %S/Inputs/attention-ops.mlir %s > %t.mlir
// RUN: %heddle-opt %t.mlir --inline --symbol-dce --heddle-check-all --heddle-raise-softmax --heddle-fuse-attention --canonicalize -o %t.out 2> %t.err
// RUN: FileCheck %s --input-file=%t.out
// RUN: FileCheck %s --input-file=%t.err --check-prefix=MISS

// A row without keys would be NaN.
// CHECK-LABEL: @guard_against_nan
// CHECK-NOT: linalg.softmax
// CHECK: heddle.attention {{.*}} <causal>
func.func @guard_against_nan(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}) -> !heads {
  %zero = arith.constant 0.0 : f32
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %masked = call @causal(%s) : (!scores) -> !scores
  %p = call @softmax(%masked) : (!scores) -> !scores
  %n = call @rows(%s) : (!scores) -> index
  %m = call @columns(%s) : (!scores) -> index
  %zeros = tensor.splat %zero[%n, %m] : !scores
  %isNan = arith.cmpf uno, %p, %p : !scores
  %clean = arith.select %isNan, %zeros, %p : tensor<1x4x?x?xi1>, !scores
  %o = call @weigh(%clean, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// CHECK-LABEL: @guard_that_drops_small_probabilities
// CHECK-NOT: heddle.attention
// CHECK: linalg.softmax
// MISS: not fused: {{.*}}reads not its probabilities
func.func @guard_that_drops_small_probabilities(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}) -> !heads {
  %zero = arith.constant 0.0 : f32
  %least = arith.constant 0.1 : f32
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %p = call @softmax(%s) : (!scores) -> !scores
  %n = call @rows(%s) : (!scores) -> index
  %m = call @columns(%s) : (!scores) -> index
  %zeros = tensor.splat %zero[%n, %m] : !scores
  %leasts = tensor.splat %least[%n, %m] : !scores
  %isSmall = arith.cmpf olt, %p, %leasts : !scores
  %clean = arith.select %isSmall, %zeros, %p : tensor<1x4x?x?xi1>, !scores
  %o = call @weigh(%clean, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// What is not a number differs from itself.
// CHECK-LABEL: @guard_against_what_differs_from_itself
// CHECK-NOT: linalg.softmax
// CHECK: heddle.attention {{.*}} <causal>
func.func @guard_against_what_differs_from_itself(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}) -> !heads {
  %zero = arith.constant 0.0 : f32
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %masked = call @causal(%s) : (!scores) -> !scores
  %p = call @softmax(%masked) : (!scores) -> !scores
  %n = call @rows(%s) : (!scores) -> index
  %m = call @columns(%s) : (!scores) -> index
  %zeros = tensor.splat %zero[%n, %m] : !scores
  %isOther = arith.cmpf une, %p, %p : !scores
  %clean = arith.select %isOther, %zeros, %p : tensor<1x4x?x?xi1>, !scores
  %o = call @weigh(%clean, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// CHECK-LABEL: @guard_against_what_differs_from_the_scores
// CHECK-NOT: heddle.attention
// CHECK: linalg.softmax
// MISS: not fused: {{.*}}reads not its probabilities
func.func @guard_against_what_differs_from_the_scores(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}) -> !heads {
  %zero = arith.constant 0.0 : f32
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %p = call @softmax(%s) : (!scores) -> !scores
  %n = call @rows(%s) : (!scores) -> index
  %m = call @columns(%s) : (!scores) -> index
  %zeros = tensor.splat %zero[%n, %m] : !scores
  %isOther = arith.cmpf une, %p, %s : !scores
  %clean = arith.select %isOther, %zeros, %p : tensor<1x4x?x?xi1>, !scores
  %o = call @weigh(%clean, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// softmax(s) where `seen` has a key that holds for the query, 0 in other rows.
func.func private @where_any(%s: !scores, %seen: !mask) -> !scores {
  %false = arith.constant false
  %zero = arith.constant 0.0 : f32
  %n = call @rows(%s) : (!scores) -> index
  %m = call @columns(%s) : (!scores) -> index
  %p = call @softmax(%s) : (!scores) -> !scores
  %room = tensor.empty(%n) : tensor<?xi1>
  %start = linalg.fill ins(%false : i1) outs(%room : tensor<?xi1>) -> tensor<?xi1>
  %any = linalg.reduce {arith.ori} ins(%seen : !mask) outs(%start : tensor<?xi1>) dimensions = [1]
  %init = tensor.empty(%n, %m) : tensor<1x4x?x?xi1>
  %everywhere = linalg.broadcast ins(%any : tensor<?xi1>) outs(%init : tensor<1x4x?x?xi1>) dimensions = [0, 1, 3]
  %zeros = tensor.splat %zero[%n, %m] : !scores
  %clean = arith.select %everywhere, %p, %zeros : tensor<1x4x?x?xi1>, !scores
  return %clean : !scores
}

// ONNX's Attention gives 0 where a query sees no key. A causal one with a window sees itself.
// CHECK-LABEL: @zero_where_nothing_is_seen
// CHECK-NOT: linalg.softmax
// CHECK: heddle.attention {{.*}} <causal, window = 3>
func.func @zero_where_nothing_is_seen(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}) -> !heads {
  %hidden = arith.constant 0xFF800000 : f32
  %c3 = arith.constant 3 : i64
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %i = call @query_index(%s) : (!scores) -> !grid
  %j = call @key_index(%s) : (!scores) -> !grid
  %width = call @everywhere(%s, %c3) : (!scores, i64) -> !grid
  %distance = arith.subi %i, %j : !grid
  %isBehind = arith.cmpi sge, %i, %j : !grid
  %isNear = arith.cmpi slt, %distance, %width : !grid
  %visible = arith.andi %isBehind, %isNear : !mask
  %masked = call @keep(%s, %visible, %hidden) : (!scores, !mask, f32) -> !scores
  %p = call @where_any(%masked, %visible) : (!scores, !mask) -> !scores
  %o = call @weigh(%p, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// The last query has no key behind it: its row is 0, which no softmax gives.
// CHECK-LABEL: @zero_where_no_later_key_is
// CHECK-NOT: heddle.attention
// CHECK: linalg.softmax
// MISS: not fused: {{.*}}reads not its probabilities
func.func @zero_where_no_later_key_is(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}) -> !heads {
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %i = call @query_index(%s) : (!scores) -> !grid
  %j = call @key_index(%s) : (!scores) -> !grid
  %isLater = arith.cmpi sgt, %j, %i : !grid
  %p = call @where_any(%s, %isLater) : (!scores, !mask) -> !scores
  %o = call @weigh(%p, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// Scores that are no lower than the lowest number (XGLM).
// CHECK-LABEL: @floor_of_the_lowest_number
// CHECK-NOT: linalg.softmax
// CHECK: heddle.attention %arg0, %arg1, %arg2 <causal>
func.func @floor_of_the_lowest_number(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}) -> !heads {
  %lowest = arith.constant -3.40282347E+38 : f32
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %masked = call @causal(%s) : (!scores) -> !scores
  %n = call @rows(%s) : (!scores) -> index
  %m = call @columns(%s) : (!scores) -> index
  %floor = tensor.splat %lowest[%n, %m] : !scores
  %bounded = arith.maximumf %masked, %floor : !scores
  %o = call @attend(%bounded, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// CHECK-LABEL: @floor_that_scores_reach
// CHECK-NOT: heddle.attention
// CHECK: linalg.softmax
// MISS: not fused: 'arith.maximumf' at {{.*}} its scores pass through the function 'max'
func.func @floor_that_scores_reach(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}) -> !heads {
  %least = arith.constant -0.5 : f32
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %n = call @rows(%s) : (!scores) -> index
  %m = call @columns(%s) : (!scores) -> index
  %floor = tensor.splat %least[%n, %m] : !scores
  %bounded = arith.maximumf %s, %floor : !scores
  %o = call @attend(%bounded, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// An index that is 0 where the size is 1 is the index: what is broadcast by a size that only the run knows, before softmax and behind it.
// CHECK-LABEL: @broadcast_that_the_run_decides
// CHECK-NOT: linalg.softmax
// CHECK: heddle.attention %arg0, %arg1, %arg2 <full>
func.func @broadcast_that_the_run_decides(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}) -> !heads {
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %all = call @broadcast_by_size(%s) : (!scores) -> !scores
  %p = call @softmax(%all) : (!scores) -> !scores
  %again = call @broadcast_by_size(%p) : (!scores) -> !scores
  %o = call @weigh(%again, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}
func.func private @broadcast_by_size(%s: !scores) -> !scores {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %n = call @rows(%s) : (!scores) -> index
  %m = call @columns(%s) : (!scores) -> index
  %isOne = arith.cmpi eq, %m, %one : index
  %init = tensor.empty(%n, %m) : !scores
  %all = linalg.generic {indexing_maps = [affine_map<(b, h, i, j) -> (b, h, i, j)>],
                         iterator_types = ["parallel", "parallel", "parallel", "parallel"]} outs(%init : !scores) {
  ^bb0(%out: f32):
    %b = linalg.index 0 : index
    %h = linalg.index 1 : index
    %i = linalg.index 2 : index
    %j = linalg.index 3 : index
    %column = arith.select %isOne, %zero, %j : index
    %element = tensor.extract %s[%b, %h, %i, %column] : !scores
    linalg.yield %element : f32
  } -> !scores
  return %all : !scores
}
