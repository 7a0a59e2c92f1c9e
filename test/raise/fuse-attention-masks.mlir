// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Masks by what they let through. Every function is evaluated before and after; each spelling is followed by one that looks alike
// and lets through something else, which stays a bias.
// RUN: cat %S/Inputs/attention-ops.mlir %s > %t.mlir
// RUN: %heddle-opt %t.mlir --inline --symbol-dce --heddle-check-all --heddle-fuse-attention --canonicalize -o %t.out 2> %t.err
// RUN: FileCheck %s --input-file=%t.out
// RUN: FileCheck %s --input-file=%t.err --check-prefix=MISS

// CHECK-LABEL: @lowest_number_added_above_the_diagonal
// CHECK: heddle.attention %{{[a-z0-9]+}}, %{{[a-z0-9]+}}, %{{[a-z0-9]+}} <causal>
func.func @lowest_number_added_above_the_diagonal(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}) -> !heads {
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %masked = call @causal(%s) : (!scores) -> !scores
  %o = call @attend(%masked, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// The triangle lies the other way: keys from the query on, which is a window of one and not causal.
// CHECK-LABEL: @below_the_diagonal
// CHECK: heddle.attention {{.*}} <full, window = 1>
func.func @below_the_diagonal(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}) -> !heads {
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %i = call @query_index(%s) : (!scores) -> !grid
  %j = call @key_index(%s) : (!scores) -> !grid
  %visible = arith.cmpi sge, %j, %i : !grid
  %bias = call @as_bias(%s, %visible) : (!scores, !mask) -> !bias
  %masked = call @biased(%s, %bias) : (!scores, !bias) -> !scores
  %o = call @attend(%masked, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// CHECK-LABEL: @where_with_minus_infinity
// CHECK: heddle.attention %{{[a-z0-9]+}}, %{{[a-z0-9]+}}, %{{[a-z0-9]+}} <causal>
func.func @where_with_minus_infinity(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}) -> !heads {
  %hidden = arith.constant 0xFF800000 : f32
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %i = call @query_index(%s) : (!scores) -> !grid
  %j = call @key_index(%s) : (!scores) -> !grid
  %visible = arith.cmpi sge, %i, %j : !grid
  %masked = call @keep(%s, %visible, %hidden) : (!scores, !mask, f32) -> !scores
  %o = call @attend(%masked, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// What is seen comes with the input, and may be nothing: NaN.
// CHECK-LABEL: @minus_infinity_where_the_input_says
// CHECK-NOT: heddle.attention
// CHECK: linalg.softmax
// MISS: not fused: a row of which minus infinity hides every key is NaN here, and 0 in attention
func.func @minus_infinity_where_the_input_says(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s},
                                               %visible: !mask {heddle.dims = ["s", "s"]}) -> !heads {
  %hidden = arith.constant 0xFF800000 : f32
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %masked = call @keep(%s, %visible, %hidden) : (!scores, !mask, f32) -> !scores
  %o = call @attend(%masked, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// The lowest finite number leaves the mean of what is hidden.
// CHECK-LABEL: @lowest_number_where_the_input_says
// CHECK: heddle.attention {{.*}} bias({{.*}}) <full>
func.func @lowest_number_where_the_input_says(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s},
                                              %visible: !mask {heddle.dims = ["s", "s"]}) -> !heads {
  %hidden = arith.constant -3.40282347E+38 : f32
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %masked = call @keep(%s, %visible, %hidden) : (!scores, !mask, f32) -> !scores
  %o = call @attend(%masked, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// The first two queries see nothing, and what hides takes the place of their scores: the mean of all values, whatever the scores were.
// CHECK-LABEL: @any_number_in_the_place_of_scores
// CHECK: heddle.attention {{.*}} bias({{.*}}) <full>
func.func @any_number_in_the_place_of_scores(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s},
                                             %input: !mask {heddle.dims = ["s", "s"]}) -> !heads {
  %hidden = arith.constant -1.0e+4 : f32
  %one = arith.constant 1 : i64
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %i = call @query_index(%s) : (!scores) -> !grid
  %ones = call @everywhere(%s, %one) : (!scores, i64) -> !grid
  %later = arith.cmpi sgt, %i, %ones : !grid
  %visible = arith.andi %later, %input : !mask
  %masked = call @keep(%s, %visible, %hidden) : (!scores, !mask, f32) -> !scores
  %o = call @attend(%masked, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// A score of 0 is no hidden one.
// CHECK-LABEL: @where_with_zero
// CHECK-NOT: heddle.attention
// CHECK: linalg.softmax
func.func @where_with_zero(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}) -> !heads {
  %zero = arith.constant 0.0 : f32
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %i = call @query_index(%s) : (!scores) -> !grid
  %j = call @key_index(%s) : (!scores) -> !grid
  %visible = arith.cmpi sge, %i, %j : !grid
  %masked = call @keep(%s, %visible, %zero) : (!scores, !mask, f32) -> !scores
  %o = call @attend(%masked, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// i - j > -1, negated and used for what is hidden.
// CHECK-LABEL: @comparison_of_the_difference
// CHECK: heddle.attention %{{[a-z0-9]+}}, %{{[a-z0-9]+}}, %{{[a-z0-9]+}} <causal>
func.func @comparison_of_the_difference(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}) -> !heads {
  %minus_one = arith.constant -1 : i64
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %i = call @query_index(%s) : (!scores) -> !grid
  %j = call @key_index(%s) : (!scores) -> !grid
  %distance = arith.subi %i, %j : !grid
  %limit = call @everywhere(%s, %minus_one) : (!scores, i64) -> !grid
  %visible = arith.cmpi sgt, %distance, %limit : !grid
  %bias = call @as_bias(%s, %visible) : (!scores, !mask) -> !bias
  %masked = call @biased(%s, %bias) : (!scores, !bias) -> !scores
  %o = call @attend(%masked, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// One key ahead is visible: i - j > -2.
// CHECK-LABEL: @one_key_ahead
// CHECK: heddle.attention {{.*}} bias({{.*}}) <full>
func.func @one_key_ahead(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}) -> !heads {
  %minus_two = arith.constant -2 : i64
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %i = call @query_index(%s) : (!scores) -> !grid
  %j = call @key_index(%s) : (!scores) -> !grid
  %distance = arith.subi %i, %j : !grid
  %limit = call @everywhere(%s, %minus_two) : (!scores, i64) -> !grid
  %visible = arith.cmpi sgt, %distance, %limit : !grid
  %bias = call @as_bias(%s, %visible) : (!scores, !mask) -> !bias
  %masked = call @biased(%s, %bias) : (!scores, !bias) -> !scores
  %o = call @attend(%masked, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// (1 - visible) * -1e9, as numbers.
// CHECK-LABEL: @product_with_a_large_number
// CHECK: heddle.attention %{{[a-z0-9]+}}, %{{[a-z0-9]+}}, %{{[a-z0-9]+}} <causal>
func.func @product_with_a_large_number(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}) -> !heads {
  %one = arith.constant 1.0 : f32
  %large = arith.constant -1.0e9 : f32
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %n = call @rows(%s) : (!scores) -> index
  %m = call @columns(%s) : (!scores) -> index
  %i = call @query_index(%s) : (!scores) -> !grid
  %j = call @key_index(%s) : (!scores) -> !grid
  %visible = arith.cmpi sle, %j, %i : !grid
  %real = arith.uitofp %visible : !mask to !bias
  %ones = tensor.splat %one[%n, %m] : !bias
  %larges = tensor.splat %large[%n, %m] : !bias
  %hidden = arith.subf %ones, %real : !bias
  %bias = arith.mulf %hidden, %larges : !bias
  %masked = call @biased(%s, %bias) : (!scores, !bias) -> !scores
  %o = call @attend(%masked, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// A penalty of 10 hides nothing.
// CHECK-LABEL: @product_with_a_small_number
// CHECK: heddle.attention {{.*}} bias({{.*}}) <full>
func.func @product_with_a_small_number(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}) -> !heads {
  %one = arith.constant 1.0 : f32
  %small = arith.constant -10.0 : f32
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %n = call @rows(%s) : (!scores) -> index
  %m = call @columns(%s) : (!scores) -> index
  %i = call @query_index(%s) : (!scores) -> !grid
  %j = call @key_index(%s) : (!scores) -> !grid
  %visible = arith.cmpi sle, %j, %i : !grid
  %real = arith.uitofp %visible : !mask to !bias
  %ones = tensor.splat %one[%n, %m] : !bias
  %smalls = tensor.splat %small[%n, %m] : !bias
  %hidden = arith.subf %ones, %real : !bias
  %bias = arith.mulf %hidden, %smalls : !bias
  %masked = call @biased(%s, %bias) : (!scores, !bias) -> !scores
  %o = call @attend(%masked, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// Positions come with the input: nothing says that they ascend.
// CHECK-LABEL: @positions_of_the_input
// CHECK: heddle.attention {{.*}} bias({{.*}}) <full>
func.func @positions_of_the_input(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s},
                                  %at: tensor<?xi64> {heddle.dims = ["s"]}) -> !heads {
  %hidden = arith.constant 0xFF800000 : f32
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %n = call @rows(%s) : (!scores) -> index
  %init = tensor.empty(%n, %n) : !grid
  %i = linalg.broadcast ins(%at : tensor<?xi64>) outs(%init : !grid) dimensions = [1]
  %j = linalg.broadcast ins(%at : tensor<?xi64>) outs(%init : !grid) dimensions = [0]
  %visible = arith.cmpi sle, %j, %i : !grid
  %masked = call @keep(%s, %visible, %hidden) : (!scores, !mask, f32) -> !scores
  %o = call @attend(%masked, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// The first rows and columns of a stored triangle, as long as the sequence.
// CHECK-LABEL: @part_of_a_stored_triangle
// CHECK: heddle.attention %{{[a-z0-9]+}}, %{{[a-z0-9]+}}, %{{[a-z0-9]+}} <causal>
func.func @part_of_a_stored_triangle(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}) -> !heads {
  %hidden = arith.constant -3.40282347E+38 : f32
  %triangle = arith.constant dense<[[1, 0, 0, 0, 0, 0], [1, 1, 0, 0, 0, 0], [1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 1, 1]]> : tensor<6x6xi1>
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %n = call @rows(%s) : (!scores) -> index
  %m = call @columns(%s) : (!scores) -> index
  %visible = tensor.extract_slice %triangle[0, 0] [%n, %m] [1, 1] : tensor<6x6xi1> to !mask
  %masked = call @keep(%s, %visible, %hidden) : (!scores, !mask, f32) -> !scores
  %o = call @attend(%masked, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// The same but for the element (0, 5).
// CHECK-LABEL: @stored_triangle_with_a_hole
// CHECK: heddle.attention {{.*}} bias({{.*}}) <full>
func.func @stored_triangle_with_a_hole(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}) -> !heads {
  %hidden = arith.constant -3.40282347E+38 : f32
  %triangle = arith.constant dense<[[1, 0, 0, 0, 0, 1], [1, 1, 0, 0, 0, 0], [1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 0], [1, 1, 1, 1, 1, 1]]> : tensor<6x6xi1>
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %n = call @rows(%s) : (!scores) -> index
  %m = call @columns(%s) : (!scores) -> index
  %visible = tensor.extract_slice %triangle[0, 0] [%n, %m] [1, 1] : tensor<6x6xi1> to !mask
  %masked = call @keep(%s, %visible, %hidden) : (!scores, !mask, f32) -> !scores
  %o = call @attend(%masked, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// A weight that says its elements is as good as a constant.
// CHECK-LABEL: @stored_triangle_of_floats
// CHECK: heddle.attention %{{[a-z0-9]+}}, %{{[a-z0-9]+}}, %{{[a-z0-9]+}} <causal>
func.func @stored_triangle_of_floats(%q: tensor<1x2x3x4xf32>, %k: tensor<1x2x3x4xf32>, %v: tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32> {
  %mask = arith.constant dense<[[0.0, -1.0e9, -1.0e9], [0.0, 0.0, -1.0e9], [0.0, 0.0, 0.0]]> : tensor<3x3xf32>
  %o = call @with_mask_of_three(%q, %k, %v, %mask) : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<3x3xf32>) -> tensor<1x2x3x4xf32>
  return %o : tensor<1x2x3x4xf32>
}
func.func private @with_mask_of_three(%q: tensor<1x2x3x4xf32>, %k: tensor<1x2x3x4xf32>, %v: tensor<1x2x3x4xf32>, %mask: tensor<3x3xf32>) -> tensor<1x2x3x4xf32> {
  %zero = arith.constant 0.0 : f32
  %s_init = tensor.empty() : tensor<1x2x3x3xf32>
  %s_start = linalg.fill ins(%zero : f32) outs(%s_init : tensor<1x2x3x3xf32>) -> tensor<1x2x3x3xf32>
  %s = linalg.contract indexing_maps = [#q, #k, #s_out] ins(%q, %k : tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>)
       outs(%s_start : tensor<1x2x3x3xf32>) -> tensor<1x2x3x3xf32>
  %masks = linalg.broadcast ins(%mask : tensor<3x3xf32>) outs(%s_init : tensor<1x2x3x3xf32>) dimensions = [0, 1]
  %masked = arith.addf %s, %masks : tensor<1x2x3x3xf32>
  %p = linalg.softmax dimension(3) ins(%masked : tensor<1x2x3x3xf32>) outs(%s_init : tensor<1x2x3x3xf32>) -> tensor<1x2x3x3xf32>
  %o_init = tensor.empty() : tensor<1x2x3x4xf32>
  %o_start = linalg.fill ins(%zero : f32) outs(%o_init : tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  %o = linalg.contract indexing_maps = [#p, #v, #o] ins(%p, %v : tensor<1x2x3x3xf32>, tensor<1x2x3x4xf32>)
       outs(%o_start : tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  return %o : tensor<1x2x3x4xf32>
}

// What BERT was exported with for long: a mask of ones and zeros as it comes, here of one bit, and the lowest number for what is no one.
// CHECK-LABEL: @one_minus_a_mask_times_the_lowest_number
// CHECK: heddle.attention {{.*}} bias({{.*}}) <full>
func.func @one_minus_a_mask_times_the_lowest_number(%q: tensor<1x2x3x4xf32>, %k: tensor<1x2x3x4xf32>, %v: tensor<1x2x3x4xf32>, %input: tensor<3xi64>) -> tensor<1x2x3x4xf32> {
  %bit = arith.constant dense<1> : tensor<3xi64>
  %one = arith.constant dense<1.0> : tensor<3x3xf32>
  %lowest = arith.constant dense<-3.40282347E+38> : tensor<3x3xf32>
  %ones = arith.andi %input, %bit : tensor<3xi64>
  %init = tensor.empty() : tensor<3x3xi64>
  %rows = linalg.broadcast ins(%ones : tensor<3xi64>) outs(%init : tensor<3x3xi64>) dimensions = [0]
  %float = arith.sitofp %rows : tensor<3x3xi64> to tensor<3x3xf32>
  %hidden = arith.subf %one, %float : tensor<3x3xf32>
  %mask = arith.mulf %hidden, %lowest : tensor<3x3xf32>
  %o = call @with_mask_of_three(%q, %k, %v, %mask) : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<3x3xf32>) -> tensor<1x2x3x4xf32>
  return %o : tensor<1x2x3x4xf32>
}

// The value is close to hiding, but is none of those that do.
// CHECK-LABEL: @stored_triangle_of_penalties
// CHECK: heddle.attention {{.*}} bias({{.*}}) <full>
func.func @stored_triangle_of_penalties(%q: tensor<1x2x3x4xf32>, %k: tensor<1x2x3x4xf32>, %v: tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32> {
  %mask = arith.constant dense<[[0.0, -5.0, -5.0], [0.0, 0.0, -5.0], [0.0, 0.0, 0.0]]> : tensor<3x3xf32>
  %o = call @with_mask_of_three(%q, %k, %v, %mask) : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<3x3xf32>) -> tensor<1x2x3x4xf32>
  return %o : tensor<1x2x3x4xf32>
}

// CHECK-LABEL: @causal_window
// CHECK: heddle.attention %{{[a-z0-9]+}}, %{{[a-z0-9]+}}, %{{[a-z0-9]+}} <causal, window = 3>
func.func @causal_window(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}) -> !heads {
  %three = arith.constant 3 : i64
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %i = call @query_index(%s) : (!scores) -> !grid
  %j = call @key_index(%s) : (!scores) -> !grid
  %width = call @everywhere(%s, %three) : (!scores, i64) -> !grid
  %begin = arith.subi %i, %width : !grid
  %isBefore = arith.cmpi sle, %j, %i : !grid
  %isNear = arith.cmpi sgt, %j, %begin : !grid
  %visible = arith.andi %isBefore, %isNear : !mask
  %bias = call @as_bias(%s, %visible) : (!scores, !mask) -> !bias
  %masked = call @biased(%s, %bias) : (!scores, !bias) -> !scores
  %o = call @attend(%masked, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// Blocks of three positions: what is visible does not follow from the distance.
// CHECK-LABEL: @causal_within_blocks
// CHECK: heddle.attention {{.*}} bias({{.*}}) <causal>
func.func @causal_within_blocks(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}) -> !heads {
  %three = arith.constant 3 : i64
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %i = call @query_index(%s) : (!scores) -> !grid
  %j = call @key_index(%s) : (!scores) -> !grid
  %width = call @everywhere(%s, %three) : (!scores, i64) -> !grid
  %block_i = arith.divsi %i, %width : !grid
  %block_j = arith.divsi %j, %width : !grid
  %isBefore = arith.cmpi sle, %j, %i : !grid
  %isSame = arith.cmpi eq, %block_i, %block_j : !grid
  %visible = arith.andi %isBefore, %isSame : !mask
  %bias = call @as_bias(%s, %visible) : (!scores, !mask) -> !bias
  %masked = call @biased(%s, %bias) : (!scores, !bias) -> !scores
  %o = call @attend(%masked, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// Keys that are padding are hidden from every query: the mask stays what it is, one row for all queries.
// CHECK-LABEL: @causal_with_padding
// CHECK: heddle.attention {{.*}} bias(%{{.*}} : tensor<1x1x1x?xf32>) <causal>
func.func @causal_with_padding(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s},
                               %given: tensor<1x?xi64> {heddle.dims = ["", "s"]}) -> !heads {
  %zero = arith.constant 0 : i64
  %hidden = arith.constant -10000.0 : f32
  %none = arith.constant 0.0 : f32
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %n = call @rows(%s) : (!scores) -> index
  %m = call @columns(%s) : (!scores) -> index
  %zeros = tensor.splat %zero[%n] : tensor<1x?xi64>
  %isToken = arith.cmpi ne, %given, %zeros : tensor<1x?xi64>
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

// The probabilities of padding are dropped after the softmax: the others do not add up to 1.
// CHECK-LABEL: @padding_after_the_softmax
// CHECK-NOT: heddle.attention
// CHECK: linalg.softmax
func.func @padding_after_the_softmax(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s},
                                     %given: tensor<1x?xf32> {heddle.dims = ["", "s"]}) -> !heads {
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %n = call @rows(%s) : (!scores) -> index
  %m = call @columns(%s) : (!scores) -> index
  %init = tensor.empty(%n, %m) : !scores
  %given_all = linalg.broadcast ins(%given : tensor<1x?xf32>) outs(%init : !scores) dimensions = [1, 2]
  %p = call @softmax(%s) : (!scores) -> !scores
  %kept = arith.mulf %p, %given_all : !scores
  %o = call @weigh(%kept, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// The same triangle for every sequence of a batch, compared with 0 by what exporters write for booleans.
// CHECK-LABEL: @stored_triangle_of_each_sequence
// CHECK: heddle.attention %{{[a-z0-9]+}}, %{{[a-z0-9]+}}, %{{[a-z0-9]+}} <causal>
func.func @stored_triangle_of_each_sequence(%q: tensor<2x2x3x4xf32>, %k: tensor<2x2x3x4xf32>, %v: tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32> {
  %zero = arith.constant 0.0 : f32
  %none = arith.constant dense<0.0> : tensor<2x1x3x3xf32>
  %hidden = arith.constant dense<0xFF800000> : tensor<2x1x3x3xf32>
  %triangle = arith.constant dense<[[[[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [1.0, 1.0, 1.0]]], [[[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [1.0, 1.0, 1.0]]]]> : tensor<2x1x3x3xf32>
  %isHidden = arith.cmpf oeq, %triangle, %none : tensor<2x1x3x3xf32>
  %mask = arith.select %isHidden, %hidden, %none : tensor<2x1x3x3xi1>, tensor<2x1x3x3xf32>
  %s_init = tensor.empty() : tensor<2x2x3x3xf32>
  %s_start = linalg.fill ins(%zero : f32) outs(%s_init : tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %s = linalg.contract indexing_maps = [#q, #k, #s_out] ins(%q, %k : tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>)
       outs(%s_start : tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %one_head = tensor.collapse_shape %mask [[0, 1], [2], [3]] : tensor<2x1x3x3xf32> into tensor<2x3x3xf32>
  %masks = linalg.broadcast ins(%one_head : tensor<2x3x3xf32>) outs(%s_init : tensor<2x2x3x3xf32>) dimensions = [1]
  %masked = arith.addf %s, %masks : tensor<2x2x3x3xf32>
  %p = linalg.softmax dimension(3) ins(%masked : tensor<2x2x3x3xf32>) outs(%s_init : tensor<2x2x3x3xf32>) -> tensor<2x2x3x3xf32>
  %o_init = tensor.empty() : tensor<2x2x3x4xf32>
  %o_start = linalg.fill ins(%zero : f32) outs(%o_init : tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32>
  %o = linalg.contract indexing_maps = [#p, #v, #o] ins(%p, %v : tensor<2x2x3x3xf32>, tensor<2x2x3x4xf32>)
       outs(%o_start : tensor<2x2x3x4xf32>) -> tensor<2x2x3x4xf32>
  return %o : tensor<2x2x3x4xf32>
}
