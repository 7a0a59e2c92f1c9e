// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Softmax written by hand: weights that a mask is multiplied into, that are divided after the values were weighed, whose sum has one more
// weight. Every function is evaluated before and after; each spelling is followed by one that looks alike and is no attention, with
// the one remark that it gets.
// RUN: cat %S/Inputs/attention-ops.mlir %s > %t.mlir
// RUN: %heddle-opt %t.mlir --inline --symbol-dce --heddle-check-all --heddle-raise-softmax --heddle-fuse-attention --canonicalize -o %t.out 2> %t.err
// RUN: FileCheck %s --input-file=%t.out
// RUN: FileCheck %s --input-file=%t.err --check-prefix=MISS
// A remark for each that is no attention, and none that shows an expression of the compiler's own.
// RUN: grep -c "remark: " %t.err | FileCheck %s --check-prefix=COUNT
// COUNT: 9
// RUN: not grep -E "remark: .*(\^1|i[0-9]+|[0-9]\*)" %t.err

!row_of_heads = tensor<1x4x?xf32>

// The sum of each row of e, at every place of what the values come to.
func.func private @sums_of_values(%e: !scores) -> !heads {
  %zero = arith.constant 0.0 : f32
  %n = call @rows(%e) : (!scores) -> index
  %row_init = tensor.empty(%n) : !row_of_heads
  %zeros = linalg.fill ins(%zero : f32) outs(%row_init : !row_of_heads) -> !row_of_heads
  %sum = linalg.reduce { arith.addf } ins(%e : !scores) outs(%zeros : !row_of_heads) dimensions = [3]
  %init = tensor.empty(%n) : !heads
  %sums = linalg.broadcast ins(%sum : !row_of_heads) outs(%init : !heads) dimensions = [3]
  return %sums : !heads
}

// What flash attention does: the values are weighed first.
// CHECK-LABEL: @divided_after_the_values
// CHECK-NOT: math.exp
// CHECK-NOT: linalg.softmax
// CHECK: heddle.attention {{.*}}<full>
// CHECK-NOT: linalg.softmax
func.func @divided_after_the_values(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}) -> !heads {
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %e = call @weights(%s) : (!scores) -> !scores
  %w = call @weigh(%e, %v) : (!scores, !heads) -> !heads
  %sums = call @sums_of_values(%e) : (!scores) -> !heads
  %o = arith.divf %w, %sums : !heads
  return %o : !heads
}

// CHECK-LABEL: @divided_by_the_sum_of_others
// CHECK-NOT: heddle.attention
// CHECK: math.exp
// MISS: no attention: {{.*}}weighs by something else than what their sum is of
func.func @divided_by_the_sum_of_others(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}) -> !heads {
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %e = call @weights(%s) : (!scores) -> !scores
  %w = call @weigh(%e, %v) : (!scores, !heads) -> !heads
  %f = math.exp %s : !scores
  %sums = call @sums_of_values(%f) : (!scores) -> !heads
  %o = arith.divf %w, %sums : !heads
  return %o : !heads
}

// A mask of ones and zeros, multiplied into the weights before they are summed.
// CHECK-LABEL: @mask_times_the_weights
// CHECK-NOT: math.exp
// CHECK-NOT: linalg.softmax
// CHECK: heddle.attention {{.*}}<causal>
// CHECK-NOT: linalg.softmax
func.func @mask_times_the_weights(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}) -> !heads {
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %zero = arith.constant 0.0 : f32
  %e = call @weights(%s) : (!scores) -> !scores
  %ones = call @behind(%s) : (!scores) -> !scores
  %m = arith.mulf %e, %ones : !scores
  %sums = call @sums_from(%m, %zero) : (!scores, f32) -> !scores
  %p = arith.divf %m, %sums : !scores
  %o = call @weigh(%p, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// The sum is of what the mask hides as well.
// CHECK-LABEL: @mask_times_the_probabilities
// CHECK-NOT: heddle.attention
// CHECK: math.exp
// MISS: no attention: their sum is of others than those that it divides
func.func @mask_times_the_probabilities(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}) -> !heads {
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %zero = arith.constant 0.0 : f32
  %e = call @weights(%s) : (!scores) -> !scores
  %ones = call @behind(%s) : (!scores) -> !scores
  %sums = call @sums_from(%e, %zero) : (!scores, f32) -> !scores
  %m = arith.mulf %e, %ones : !scores
  %p = arith.divf %m, %sums : !scores
  %o = call @weigh(%p, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// CHECK-LABEL: @mask_and_division_after_the_values
// CHECK-NOT: math.exp
// CHECK-NOT: linalg.softmax
// CHECK: heddle.attention {{.*}}<causal>
// CHECK-NOT: linalg.softmax
func.func @mask_and_division_after_the_values(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}) -> !heads {
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %zero = arith.constant 0.0 : f32
  %e = call @weights(%s) : (!scores) -> !scores
  %ones = call @behind(%s) : (!scores) -> !scores
  %m = arith.mulf %e, %ones : !scores
  %w = call @weigh(%m, %v) : (!scores, !heads) -> !heads
  %sums = call @sums_of_values(%m) : (!scores) -> !heads
  %o = arith.divf %w, %sums : !heads
  return %o : !heads
}

// Numbers of the input may be others than 0 and 1.
// CHECK-LABEL: @factors_times_the_weights
// CHECK-NOT: heddle.attention
// CHECK: math.exp
// MISS: no attention: they are multiplied by what is not known to be 0 or 1
func.func @factors_times_the_weights(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}, %factors: !scores {heddle.dims = ["", "", "s", "s"]}) -> !heads {
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %zero = arith.constant 0.0 : f32
  %e = call @weights(%s) : (!scores) -> !scores
  %m = arith.mulf %e, %factors : !scores
  %sums = call @sums_from(%m, %zero) : (!scores, f32) -> !scores
  %p = arith.divf %m, %sums : !scores
  %o = call @weigh(%p, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// The mask may hide a whole row, of which NaN is the result.
// CHECK-LABEL: @given_mask_times_the_weights
// CHECK-NOT: heddle.attention
// CHECK: math.exp
// MISS: no attention: a row of which the mask hides every key is 0/0 here, and 0 in attention
func.func @given_mask_times_the_weights(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}, %given: !mask {heddle.dims = ["s", "s"]}) -> !heads {
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %zero = arith.constant 0.0 : f32
  %e = call @weights(%s) : (!scores) -> !scores
  %ones = call @as_ones(%s, %given) : (!scores, !mask) -> !scores
  %m = arith.mulf %e, %ones : !scores
  %sums = call @sums_from(%m, %zero) : (!scores, f32) -> !scores
  %p = arith.divf %m, %sums : !scores
  %o = call @weigh(%p, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// A row that sees nothing is 0, as in attention.
// CHECK-LABEL: @given_mask_with_a_safe_division
// CHECK-NOT: math.exp
// CHECK-NOT: linalg.softmax
// CHECK: heddle.attention {{.*}}bias({{.*}}<full>
// CHECK-NOT: linalg.softmax
func.func @given_mask_with_a_safe_division(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}, %given: !mask {heddle.dims = ["s", "s"]}) -> !heads {
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %zero = arith.constant 0.0 : f32
  %e = call @weights(%s) : (!scores) -> !scores
  %ones = call @as_ones(%s, %given) : (!scores, !mask) -> !scores
  %m = arith.mulf %e, %ones : !scores
  %sums = call @sums_from(%m, %zero) : (!scores, f32) -> !scores
  %n = call @rows(%s) : (!scores) -> index
  %c = call @columns(%s) : (!scores) -> index
  %one = arith.constant 1.0 : f32
  %zeros = tensor.splat %zero[%n, %c] : !scores
  %all_ones = tensor.splat %one[%n, %c] : !scores
  %isNone = arith.cmpf oeq, %sums, %zeros : !scores
  %safe = arith.select %isNone, %all_ones, %sums : tensor<1x4x?x?xi1>, !scores
  %p = arith.divf %m, %safe : !scores
  %o = call @weigh(%p, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// What a sum of 1 is divided by is 0.
// CHECK-LABEL: @given_mask_with_another_division
// CHECK-NOT: heddle.attention
// CHECK: math.exp
// MISS: no attention: no division of them by their sum is found; 'arith.cmpf' at 
func.func @given_mask_with_another_division(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}, %given: !mask {heddle.dims = ["s", "s"]}) -> !heads {
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %zero = arith.constant 0.0 : f32
  %e = call @weights(%s) : (!scores) -> !scores
  %ones = call @as_ones(%s, %given) : (!scores, !mask) -> !scores
  %m = arith.mulf %e, %ones : !scores
  %sums = call @sums_from(%m, %zero) : (!scores, f32) -> !scores
  %n = call @rows(%s) : (!scores) -> index
  %c = call @columns(%s) : (!scores) -> index
  %one = arith.constant 1.0 : f32
  %zeros = tensor.splat %zero[%n, %c] : !scores
  %all_ones = tensor.splat %one[%n, %c] : !scores
  %isNone = arith.cmpf oeq, %sums, %all_ones : !scores
  %safe = arith.select %isNone, %zeros, %sums : tensor<1x4x?x?xi1>, !scores
  %p = arith.divf %m, %safe : !scores
  %o = call @weigh(%p, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// As GPT-2 has it: the scores where the mask is 1, a large number below 0 where it is 0.
// CHECK-LABEL: @mask_times_the_scores
// CHECK-NOT: math.exp
// CHECK-NOT: linalg.softmax
// CHECK: heddle.attention {{.*}}<causal>
// CHECK-NOT: linalg.softmax
func.func @mask_times_the_scores(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}) -> !heads {
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %ones = call @behind(%s) : (!scores) -> !scores
  %n = call @rows(%s) : (!scores) -> index
  %c = call @columns(%s) : (!scores) -> index
  %one = arith.constant 1.0 : f32
  %hidden = arith.constant -1.0e9 : f32
  %all_ones = tensor.splat %one[%n, %c] : !scores
  %hiddens = tensor.splat %hidden[%n, %c] : !scores
  %kept = arith.mulf %s, %ones : !scores
  %off = arith.subf %all_ones, %ones : !scores
  %added = arith.mulf %off, %hiddens : !scores
  %masked = arith.addf %kept, %added : !scores
  %o = call @attend(%masked, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// 0 times infinity is NaN: every score is.
// CHECK-LABEL: @mask_times_the_scores_and_infinity
// CHECK-NOT: heddle.attention
// CHECK: linalg.softmax
// MISS: not fused: {{.*}}what is added to its scores is no number, as 0 times infinity
func.func @mask_times_the_scores_and_infinity(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}) -> !heads {
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %ones = call @behind(%s) : (!scores) -> !scores
  %n = call @rows(%s) : (!scores) -> index
  %c = call @columns(%s) : (!scores) -> index
  %one = arith.constant 1.0 : f32
  %hidden = arith.constant 0xFF800000 : f32
  %all_ones = tensor.splat %one[%n, %c] : !scores
  %hiddens = tensor.splat %hidden[%n, %c] : !scores
  %kept = arith.mulf %s, %ones : !scores
  %off = arith.subf %all_ones, %ones : !scores
  %added = arith.mulf %off, %hiddens : !scores
  %masked = arith.addf %kept, %added : !scores
  %o = call @attend(%masked, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// CHECK-LABEL: @factors_times_the_scores
// CHECK-NOT: heddle.attention
// CHECK: linalg.softmax
// MISS: not fused: {{.*}} its scores pass through a product with an element of argument 3
func.func @factors_times_the_scores(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}, %factors: !scores {heddle.dims = ["", "", "s", "s"]}) -> !heads {
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %ones = arith.addf %factors, %factors : !scores
  %n = call @rows(%s) : (!scores) -> index
  %c = call @columns(%s) : (!scores) -> index
  %one = arith.constant 1.0 : f32
  %hidden = arith.constant -1.0e9 : f32
  %all_ones = tensor.splat %one[%n, %c] : !scores
  %hiddens = tensor.splat %hidden[%n, %c] : !scores
  %kept = arith.mulf %s, %ones : !scores
  %off = arith.subf %all_ones, %ones : !scores
  %added = arith.mulf %off, %hiddens : !scores
  %masked = arith.addf %kept, %added : !scores
  %o = call @attend(%masked, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// Softmax plus one: a sink whose logit is 0.
// CHECK-LABEL: @one_more_than_the_sum
// CHECK-NOT: math.exp
// CHECK-NOT: linalg.softmax
// CHECK: heddle.attention {{.*}}sinks({{.*}}<full>
// CHECK-NOT: linalg.softmax
func.func @one_more_than_the_sum(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}) -> !heads {
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %one = arith.constant 1.0 : f32
  %e = math.exp %s : !scores
  %sums = call @sums_from(%e, %one) : (!scores, f32) -> !scores
  %p = arith.divf %e, %sums : !scores
  %o = call @weigh(%p, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// The one is shifted as the scores are.
// CHECK-LABEL: @one_more_than_the_sum_shifted
// CHECK-NOT: math.exp
// CHECK-NOT: linalg.softmax
// CHECK: heddle.attention {{.*}}sinks({{.*}}<full>
// CHECK-NOT: linalg.softmax
func.func @one_more_than_the_sum_shifted(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}) -> !heads {
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %zero = arith.constant 0.0 : f32
  %e = call @weights(%s) : (!scores) -> !scores
  %n = call @rows(%s) : (!scores) -> index
  %c = call @columns(%s) : (!scores) -> index
  %lowest = arith.constant 0xFF800000 : f32
  %row_init = tensor.empty(%n) : !row_of_heads
  %lowests = linalg.fill ins(%lowest : f32) outs(%row_init : !row_of_heads) -> !row_of_heads
  %top = linalg.reduce { arith.maximumf } ins(%s : !scores) outs(%lowests : !row_of_heads) dimensions = [3]
  %init = tensor.empty(%n, %c) : !scores
  %tops = linalg.broadcast ins(%top : !row_of_heads) outs(%init : !scores) dimensions = [3]
  %minus = arith.negf %tops : !scores
  %extra = math.exp %minus : !scores
  %sum = call @sums_from(%e, %zero) : (!scores, f32) -> !scores
  %sums = arith.addf %sum, %extra : !scores
  %p = arith.divf %e, %sums : !scores
  %o = call @weigh(%p, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// The values are summed over what each column of the softmax is not one of.
// CHECK-LABEL: @softmax_over_the_queries
// CHECK-NOT: heddle.attention
// CHECK: linalg.softmax
// MISS: not fused: {{.*}}sums its probabilities over another axis than their keys
func.func @softmax_over_the_queries(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}) -> !heads {
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %n = call @rows(%s) : (!scores) -> index
  %m = call @columns(%s) : (!scores) -> index
  %init = tensor.empty(%n, %m) : !scores
  %p = linalg.softmax dimension(2) ins(%s : !scores) outs(%init : !scores) -> !scores
  %o = call @weigh(%p, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// Keys times queries, a softmax down the columns, and values times that: all of it transposed.
// CHECK-LABEL: @all_of_it_transposed
// CHECK-NOT: linalg.softmax
// CHECK: heddle.attention {{.*}}<full>
// CHECK-NOT: linalg.softmax
#kt = affine_map<(b, h, j, i, d) -> (b, h, j, d)>
#qt = affine_map<(b, h, j, i, d) -> (b, h, i, d)>
#st = affine_map<(b, h, j, i, d) -> (b, h, j, i)>
#vt = affine_map<(b, h, d, i, j) -> (b, h, j, d)>
#pt = affine_map<(b, h, d, i, j) -> (b, h, j, i)>
#ot = affine_map<(b, h, d, i, j) -> (b, h, d, i)>
func.func @all_of_it_transposed(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = ["", "", "m", ""]}, %v: !heads {heddle.dims = ["", "", "m", ""]}) -> tensor<1x4x8x?xf32> {
  %n = call @length(%q) : (!heads) -> index
  %m = call @length(%k) : (!heads) -> index
  %zero = arith.constant 0.0 : f32
  %init = tensor.empty(%m, %n) : !scores
  %start = linalg.fill ins(%zero : f32) outs(%init : !scores) -> !scores
  %s = linalg.contract indexing_maps = [#kt, #qt, #st] ins(%k, %q : !heads, !heads) outs(%start : !scores) -> !scores
  %e = math.exp %s : !scores
  %column_init = tensor.empty(%n) : !row_of_heads
  %zeros = linalg.fill ins(%zero : f32) outs(%column_init : !row_of_heads) -> !row_of_heads
  %sum = linalg.reduce { arith.addf } ins(%e : !scores) outs(%zeros : !row_of_heads) dimensions = [2]
  %sums = linalg.broadcast ins(%sum : !row_of_heads) outs(%init : !scores) dimensions = [2]
  %p = arith.divf %e, %sums : !scores
  %o_init = tensor.empty(%n) : tensor<1x4x8x?xf32>
  %o_start = linalg.fill ins(%zero : f32) outs(%o_init : tensor<1x4x8x?xf32>) -> tensor<1x4x8x?xf32>
  %o = linalg.contract indexing_maps = [#vt, #pt, #ot] ins(%v, %p : !heads, !scores) outs(%o_start : tensor<1x4x8x?xf32>) -> tensor<1x4x8x?xf32>
  return %o : tensor<1x4x8x?xf32>
}

// The scores are added to something else than 0, which no attention has.
// CHECK-LABEL: @matmul_onto_something
// CHECK-NOT: heddle.attention
// CHECK: linalg.softmax
// MISS: not fused: {{.*}}is no matmul over one axis that starts at 0
func.func @matmul_onto_something(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}, %start: !scores {heddle.dims = ["", "", "s", "s"]}) -> !heads {
  %s = linalg.contract indexing_maps = [#q, #k, #s_out] ins(%q, %k : !heads, !heads) outs(%start : !scores) -> !scores
  %o = call @attend(%s, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}
