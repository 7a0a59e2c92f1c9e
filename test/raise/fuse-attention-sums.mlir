// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What weights are summed by, other than a reduction of a row of scores, and where: each spelling is evaluated before and after.
// RUN: cat %S/Inputs/attention-ops.mlir %s > %t.mlir
// RUN: %heddle-opt %t.mlir --inline --symbol-dce --heddle-check-all --heddle-raise-softmax --heddle-fuse-attention --canonicalize -o %t.out 2> %t.err
// RUN: FileCheck %s --input-file=%t.out
// RUN: FileCheck %s --input-file=%t.err --check-prefix=MISS
// RUN: grep -c "remark: " %t.err | FileCheck %s --check-prefix=COUNT
// COUNT: 6

!ones = tensor<1x4x?x1xf32>
!longer = tensor<1x4x?x9xf32>
!turned = tensor<1x4x?x?xf32>  // (batch, heads, keys, queries)

#first = affine_map<(b, h, i, d, j) -> (b, h, i, j)>
#second = affine_map<(b, h, i, d, j) -> (b, h, j, d)>
#third = affine_map<(b, h, i, d, j) -> (b, h, i, d)>

// A number for each key, in a column.
func.func private @column(%v: !heads, %value: f32) -> !ones {
  %m = call @length(%v) : (!heads) -> index
  %column = tensor.splat %value[%m] : !ones
  return %column : !ones
}
func.func private @quotient(%w: !heads, %sum: !ones) -> !heads {
  %n = call @length(%w) : (!heads) -> index
  %init = tensor.empty(%n) : !heads
  %flat = tensor.collapse_shape %sum [[0], [1], [2, 3]] : !ones into tensor<1x4x?xf32>
  %sums = linalg.broadcast ins(%flat : tensor<1x4x?xf32>) outs(%init : !heads) dimensions = [3]
  %o = arith.divf %w, %sums : !heads
  return %o : !heads
}
func.func private @times_column(%e: !scores, %column: !ones) -> !ones {
  %n = call @rows(%e) : (!scores) -> index
  %zero = arith.constant 0.0 : f32
  %start = tensor.splat %zero[%n] : !ones
  %sum = linalg.contract indexing_maps = [#first, #second, #third] ins(%e, %column : !scores, !ones) outs(%start : !ones) -> !ones
  return %sum : !ones
}

// A product with ones is a sum.
// CHECK-LABEL: @summed_by_ones
// CHECK-NOT: math.exp
// CHECK: heddle.attention {{.*}}<full>
func.func @summed_by_ones(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}) -> !heads {
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %e = call @weights(%s) : (!scores) -> !scores
  %w = call @weigh(%e, %v) : (!scores, !heads) -> !heads
  %one = arith.constant 1.0 : f32
  %ones = call @column(%v, %one) : (!heads, f32) -> !ones
  %sum = call @times_column(%e, %ones) : (!scores, !ones) -> !ones
  %o = call @quotient(%w, %sum) : (!heads, !ones) -> !heads
  return %o : !heads
}

// A product with twos is twice the sum.
// CHECK-LABEL: @summed_by_twos
// CHECK-NOT: heddle.attention
// CHECK: math.exp
// MISS: no attention: what their sum divides is a multiple of an element of 'linalg.contract' at
func.func @summed_by_twos(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}) -> !heads {
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %e = call @weights(%s) : (!scores) -> !scores
  %w = call @weigh(%e, %v) : (!scores, !heads) -> !heads
  %two = arith.constant 2.0 : f32
  %twos = call @column(%v, %two) : (!heads, f32) -> !ones
  %sum = call @times_column(%e, %twos) : (!scores, !ones) -> !ones
  %o = call @quotient(%w, %sum) : (!heads, !ones) -> !heads
  return %o : !heads
}

// The last column of the values is ones: what it comes to is the sum. It is left out of the attention.
// CHECK-LABEL: @values_that_end_in_ones
// CHECK-NOT: math.exp
// CHECK: heddle.attention %arg0, %arg1, %arg2 <full>
func.func @values_that_end_in_ones(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}) -> !heads {
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %e = call @weights(%s) : (!scores) -> !scores
  %n = call @length(%q) : (!heads) -> index
  %one = arith.constant 1.0 : f32
  %zero = arith.constant 0.0 : f32
  %ones = call @column(%v, %one) : (!heads, f32) -> !ones
  %longer = tensor.concat dim(3) %v, %ones : (!heads, !ones) -> !longer
  %start = tensor.splat %zero[%n] : !longer
  %both = linalg.contract indexing_maps = [#first, #second, #third] ins(%e, %longer : !scores, !longer) outs(%start : !longer) -> !longer
  %w = tensor.extract_slice %both[0, 0, 0, 0] [1, 4, %n, 8] [1, 1, 1, 1] : !longer to !heads
  %sum = tensor.extract_slice %both[0, 0, 0, 8] [1, 4, %n, 1] [1, 1, 1, 1] : !longer to !ones
  %o = call @quotient(%w, %sum) : (!heads, !ones) -> !heads
  return %o : !heads
}

// Scores with a row for each key, whose sums stand in columns, divided behind the product.
// CHECK-LABEL: @keys_before_queries
// CHECK-NOT: math.exp
// CHECK-NOT: linalg.softmax
// CHECK: heddle.attention {{.*}}<full>
func.func @keys_before_queries(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}) -> !heads {
  %s = call @product(%k, %q) : (!heads, !heads) -> !turned
  %n = call @length(%q) : (!heads) -> index
  %m = call @length(%k) : (!heads) -> index
  %zero = arith.constant 0.0 : f32
  %lowest = arith.constant 0xFF800000 : f32
  %tops = tensor.splat %lowest[%n] : tensor<1x4x?xf32>
  %top = linalg.reduce { arith.maximumf } ins(%s : !turned) outs(%tops : tensor<1x4x?xf32>) dimensions = [2]
  %init = tensor.empty(%m, %n) : !turned
  %all_tops = linalg.broadcast ins(%top : tensor<1x4x?xf32>) outs(%init : !turned) dimensions = [2]
  %shifted = arith.subf %s, %all_tops : !turned
  %e = math.exp %shifted : !turned
  %zeros = tensor.splat %zero[%n] : tensor<1x4x?xf32>
  %sum = linalg.reduce { arith.addf } ins(%e : !turned) outs(%zeros : tensor<1x4x?xf32>) dimensions = [2]
  %turned_init = tensor.empty(%n, %m) : !scores
  %rows = linalg.transpose ins(%e : !turned) outs(%turned_init : !scores) permutation = [0, 1, 3, 2]
  %w = call @weigh(%rows, %v) : (!scores, !heads) -> !heads
  %out_init = tensor.empty(%n) : !heads
  %sums = linalg.broadcast ins(%sum : tensor<1x4x?xf32>) outs(%out_init : !heads) dimensions = [3]
  %o = arith.divf %w, %sums : !heads
  return %o : !heads
}

// A sink in front of the keys.
// CHECK-LABEL: @sink_before_the_keys
// CHECK-NOT: linalg.softmax
// CHECK: heddle.attention {{.*}} sinks(%{{.*}} : tensor<4xf32>) <full>
func.func @sink_before_the_keys(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}, %sinks: tensor<4xf32>) -> !heads {
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %o = call @weigh_behind(%s, %sinks, %v) : (!scores, tensor<4xf32>, !heads) -> !heads
  return %o : !heads
}
func.func private @weigh_behind(%s: !scores, %sinks: tensor<4xf32>, %v: !heads) -> !heads {
  %n = call @rows(%s) : (!scores) -> index
  %m = call @columns(%s) : (!scores) -> index
  %init = tensor.empty(%n) : !ones
  %first = linalg.broadcast ins(%sinks : tensor<4xf32>) outs(%init : !ones) dimensions = [0, 2, 3]
  %all = tensor.concat dim(3) %first, %s : (!ones, !scores) -> !scores
  %p = call @softmax(%all) : (!scores) -> !scores
  %of_keys = tensor.extract_slice %p[0, 0, 0, 1] [1, 4, %n, %m] [1, 1, 1, 1] : !scores to !scores
  %o = call @weigh(%of_keys, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// The probability of the sink weighs the first value: the last key is left out.
// CHECK-LABEL: @sink_that_weighs
// CHECK-NOT: heddle.attention
// CHECK: linalg.softmax
// MISS: not fused: {{.*}}sums its probabilities over another axis than their keys
func.func @sink_that_weighs(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}, %sinks: tensor<4xf32>) -> !heads {
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %n = call @rows(%s) : (!scores) -> index
  %m = call @columns(%s) : (!scores) -> index
  %init = tensor.empty(%n) : !ones
  %first = linalg.broadcast ins(%sinks : tensor<4xf32>) outs(%init : !ones) dimensions = [0, 2, 3]
  %all = tensor.concat dim(3) %first, %s : (!ones, !scores) -> !scores
  %p = call @softmax(%all) : (!scores) -> !scores
  %begin = tensor.extract_slice %p[0, 0, 0, 0] [1, 4, %n, %m] [1, 1, 1, 1] : !scores to !scores
  %o = call @weigh(%begin, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// Divided by their mean, not by their sum.
// CHECK-LABEL: @divided_by_the_mean
// CHECK-NOT: heddle.attention
// CHECK: math.exp
// MISS: no attention: their quotient by their sum is multiplied by a size of
func.func @divided_by_the_mean(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}) -> !heads {
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %e = call @weights(%s) : (!scores) -> !scores
  %zero = arith.constant 0.0 : f32
  %sums = call @sums_from(%e, %zero) : (!scores, f32) -> !scores
  %m = call @columns(%s) : (!scores) -> index
  %n = call @rows(%s) : (!scores) -> index
  %whole = arith.index_cast %m : index to i64
  %count = arith.sitofp %whole : i64 to f32
  %counts = tensor.splat %count[%n, %m] : !scores
  %means = arith.divf %sums, %counts : !scores
  %p = arith.divf %e, %means : !scores
  %o = call @weigh(%p, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// Each weight is the product of two exponentials: their exponents are added nowhere.
// CHECK-LABEL: @weights_times_exponentials
// CHECK-NOT: heddle.attention
// CHECK: math.exp
// MISS: no attention: their sum divides them, but what they are the exponentials of is no tensor of its own
func.func @weights_times_exponentials(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}, %bias: !scores) -> !heads {
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %e = call @weights(%s) : (!scores) -> !scores
  %f = math.exp %bias : !scores
  %w = arith.mulf %e, %f : !scores
  %zero = arith.constant 0.0 : f32
  %sums = call @sums_from(%w, %zero) : (!scores, f32) -> !scores
  %p = arith.divf %w, %sums : !scores
  %o = call @weigh(%p, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// A loop that adds them up is no sum over an axis.
// CHECK-LABEL: @added_up_in_a_loop
// CHECK-NOT: heddle.attention
// CHECK: math.exp
// MISS: no attention: 'scf.for' at {{.*}} adds them up one after the other, and is no sum over an axis
func.func @added_up_in_a_loop(%x: tensor<3x5xf32>) -> tensor<3x5xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c5 = arith.constant 5 : index
  %c3 = arith.constant 3 : index
  %zero = arith.constant dense<0.0> : tensor<3xf32>
  %e = math.exp %x : tensor<3x5xf32>
  %sum = scf.for %i = %c0 to %c3 step %c1 iter_args(%rows = %zero) -> (tensor<3xf32>) {
    %row = scf.for %j = %c0 to %c5 step %c1 iter_args(%sums = %rows) -> (tensor<3xf32>) {
      %before = tensor.extract %sums[%i] : tensor<3xf32>
      %weight = tensor.extract %e[%i, %j] : tensor<3x5xf32>
      %after = arith.addf %before, %weight : f32
      %next = tensor.insert %after into %sums[%i] : tensor<3xf32>
      scf.yield %next : tensor<3xf32>
    }
    scf.yield %row : tensor<3xf32>
  }
  %init = tensor.empty() : tensor<3x5xf32>
  %sums = linalg.broadcast ins(%sum : tensor<3xf32>) outs(%init : tensor<3x5xf32>) dimensions = [1]
  %p = arith.divf %e, %sums : tensor<3x5xf32>
  return %p : tensor<3x5xf32>
}
