// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where exporters put the scale and casts. Every function is evaluated before and after; each spelling is followed by one
// that looks alike and is no attention.
// RUN: cat %S/Inputs/attention-ops.mlir %s > %t.mlir
// RUN: %heddle-opt %t.mlir --inline --symbol-dce --heddle-check-all --heddle-raise-softmax --heddle-fuse-attention --canonicalize -o %t.out 2> %t.err
// RUN: FileCheck %s --input-file=%t.out
// RUN: FileCheck %s --input-file=%t.err --check-prefix=MISS

// CHECK-LABEL: @scale_after_the_product
// CHECK: heddle.attention {{.*}} <causal> {scale = 2.500000e-01 : f64}
func.func @scale_after_the_product(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}) -> !heads {
  %quarter = arith.constant 0.25 : f32
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %scaled = call @scaled(%s, %quarter) : (!scores, f32) -> !scores
  %masked = call @causal(%scaled) : (!scores) -> !scores
  %o = call @attend(%masked, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// What a row of scores is multiplied by goes to its query: a number of each query, of each head (Swin 2), or the number of keys.
// CHECK-LABEL: @temperature_of_each_query
// CHECK: %[[Q:.*]] = arith.mulf %arg0, %{{.*}} : tensor<1x4x?x8xf32>
// CHECK: heddle.attention %[[Q]], %arg1, %arg2 <full> {scale = 1.0
func.func @temperature_of_each_query(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s},
                                     %t: tensor<1x4x?xf32> {heddle.dims = ["", "", "s"]}) -> !heads {
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %n = call @rows(%s) : (!scores) -> index
  %m = call @columns(%s) : (!scores) -> index
  %init = tensor.empty(%n, %m) : !scores
  %ts = linalg.broadcast ins(%t : tensor<1x4x?xf32>) outs(%init : !scores) dimensions = [3]
  %scaled = arith.mulf %s, %ts : !scores
  %o = call @attend(%scaled, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// CHECK-LABEL: @temperature_of_each_key
// CHECK-NOT: heddle.attention
// CHECK: linalg.softmax
// MISS: not fused: 'arith.mulf' at {{.*}} its scores pass through
func.func @temperature_of_each_key(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s},
                                   %t: tensor<1x4x?xf32> {heddle.dims = ["", "", "s"]}) -> !heads {
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %n = call @rows(%s) : (!scores) -> index
  %m = call @columns(%s) : (!scores) -> index
  %init = tensor.empty(%n, %m) : !scores
  %ts = linalg.broadcast ins(%t : tensor<1x4x?xf32>) outs(%init : !scores) dimensions = [2]
  %scaled = arith.mulf %s, %ts : !scores
  %o = call @attend(%scaled, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// CHECK-LABEL: @root_of_the_scale_on_both
// CHECK: heddle.attention {{.*}} <full> {scale = 2.500000e-01 : f64}
func.func @root_of_the_scale_on_both(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}) -> !heads {
  %n = call @length(%q) : (!heads) -> index
  %half = arith.constant 0.5 : f32
  %halves = tensor.splat %half[%n] : !heads
  %qs = arith.mulf %q, %halves : !heads
  %ks = arith.mulf %halves, %k : !heads
  %s = call @product(%qs, %ks) : (!heads, !heads) -> !scores
  %o = call @attend(%s, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// CHECK-LABEL: @scale_by_the_number_of_keys
// CHECK: %[[Q:.*]] = arith.mulf %arg0, %{{.*}} : tensor<1x4x?x8xf32>
// CHECK: heddle.attention %[[Q]], %arg1, %arg2 <full> {scale = 1.0
func.func @scale_by_the_number_of_keys(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}) -> !heads {
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %n = call @rows(%s) : (!scores) -> index
  %m = call @columns(%s) : (!scores) -> index
  %wide = arith.index_cast %m : index to i64
  %count = arith.sitofp %wide : i64 to f32
  %counts = tensor.splat %count[%n, %m] : !scores
  %scaled = arith.divf %s, %counts : !scores
  %o = call @attend(%scaled, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// The root of a size that is read from the shape.
// CHECK-LABEL: @division_by_the_root_of_head_dim
// CHECK: heddle.attention {{.*}} <full> {scale = 0.35355{{[0-9]*}} : f64}
func.func @division_by_the_root_of_head_dim(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}) -> !heads {
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %n = call @rows(%s) : (!scores) -> index
  %m = call @columns(%s) : (!scores) -> index
  %c3 = arith.constant 3 : index
  %d = tensor.dim %q, %c3 : !heads
  %wide = arith.index_cast %d : index to i64
  %real = arith.sitofp %wide : i64 to f32
  %root = math.sqrt %real : f32
  %roots = tensor.splat %root[%n, %m] : !scores
  %scaled = arith.divf %s, %roots : !scores
  %o = call @attend(%scaled, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// CHECK-LABEL: @positive_scores_scaled_otherwise
// CHECK-NOT: heddle.attention
// CHECK: linalg.softmax
// MISS: not fused: 'arith.cmpf' at {{.*}} its mask depends on the scores
func.func @positive_scores_scaled_otherwise(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}) -> !heads {
  %half = arith.constant 0.5 : f32
  %zero = arith.constant 0.0 : f32
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %n = call @rows(%s) : (!scores) -> index
  %m = call @columns(%s) : (!scores) -> index
  %zeros = tensor.splat %zero[%n, %m] : !scores
  %positive = arith.cmpf ogt, %s, %zeros : !scores
  %less = call @scaled(%s, %half) : (!scores, f32) -> !scores
  %leaky = arith.select %positive, %s, %less : tensor<1x4x?x?xi1>, !scores
  %o = call @attend(%leaky, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// Keys are scaled, then transposed for the product.
// CHECK-LABEL: @scale_on_transposed_keys
// CHECK: heddle.attention %{{.*}}, %{{.*}}, %{{.*}} <full> {scale = 5.000000e-01 : f64}
#kt = affine_map<(b, h, i, j, d) -> (b, h, d, j)>
func.func @scale_on_transposed_keys(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}) -> !heads {
  %n = call @length(%q) : (!heads) -> index
  %half = arith.constant 0.5 : f32
  %zero = arith.constant 0.0 : f32
  %t_init = tensor.empty(%n) : tensor<1x4x8x?xf32>
  %t = linalg.transpose ins(%k : !heads) outs(%t_init : tensor<1x4x8x?xf32>) permutation = [0, 1, 3, 2]
  %halves = tensor.splat %half[%n] : tensor<1x4x8x?xf32>
  %ts = arith.mulf %t, %halves : tensor<1x4x8x?xf32>
  %s_init = tensor.empty(%n, %n) : !scores
  %start = linalg.fill ins(%zero : f32) outs(%s_init : !scores) -> !scores
  %s = linalg.contract indexing_maps = [#q, #kt, #s_out] ins(%q, %ts : !heads, tensor<1x4x8x?xf32>) outs(%start : !scores) -> !scores
  %o = call @attend(%s, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// Near keys are scaled otherwise than far ones.
// CHECK-LABEL: @scale_by_distance
// CHECK-NOT: heddle.attention
// CHECK: linalg.softmax
// MISS: not fused: 'arith.select' at {{.*}} its scale differs from key to key
func.func @scale_by_distance(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}) -> !heads {
  %half = arith.constant 0.5 : f32
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %less = call @scaled(%s, %half) : (!scores, f32) -> !scores
  %i = call @query_index(%s) : (!scores) -> !grid
  %j = call @key_index(%s) : (!scores) -> !grid
  %isBefore = arith.cmpi sle, %j, %i : !grid
  %n = call @rows(%s) : (!scores) -> index
  %m = call @columns(%s) : (!scores) -> index
  %init = tensor.empty(%n, %m) : tensor<1x4x?x?xi1>
  %all = linalg.broadcast ins(%isBefore : !mask) outs(%init : tensor<1x4x?x?xi1>) dimensions = [0, 1]
  %both = arith.select %all, %s, %less : tensor<1x4x?x?xi1>, !scores
  %o = call @attend(%both, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// Operands are widened, probabilities narrowed again.
// CHECK-LABEL: @scores_in_f32_of_f16
// CHECK: heddle.attention {{.*}} : tensor<1x4x?x8xf16>, tensor<1x4x?x8xf16>, tensor<1x4x?x8xf16> -> tensor<1x4x?x8xf16>
func.func @scores_in_f32_of_f16(%q: tensor<1x4x?x8xf16> {heddle.dims = #s}, %k: tensor<1x4x?x8xf16> {heddle.dims = #s},
                                %v: tensor<1x4x?x8xf16> {heddle.dims = #s}) -> tensor<1x4x?x8xf16> {
  %c2 = arith.constant 2 : index
  %n = tensor.dim %q, %c2 : tensor<1x4x?x8xf16>
  %qw = arith.extf %q : tensor<1x4x?x8xf16> to !heads
  %kw = arith.extf %k : tensor<1x4x?x8xf16> to !heads
  %s = call @product(%qw, %kw) : (!heads, !heads) -> !scores
  %p = call @softmax(%s) : (!scores) -> !scores
  %narrow = arith.truncf %p : !scores to tensor<1x4x?x?xf16>
  %zero = arith.constant 0.0 : f16
  %o_init = tensor.empty(%n) : tensor<1x4x?x8xf16>
  %o_start = linalg.fill ins(%zero : f16) outs(%o_init : tensor<1x4x?x8xf16>) -> tensor<1x4x?x8xf16>
  %o = linalg.contract indexing_maps = [#p, #v, #o] ins(%narrow, %v : tensor<1x4x?x?xf16>, tensor<1x4x?x8xf16>)
       outs(%o_start : tensor<1x4x?x8xf16>) -> tensor<1x4x?x8xf16>
  return %o : tensor<1x4x?x8xf16>
}

// CHECK-LABEL: @probabilities_rounded_to_integers
// CHECK-NOT: heddle.attention
// CHECK: linalg.softmax
// MISS: not fused: {{.*}}reads not its probabilities
func.func @probabilities_rounded_to_integers(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}) -> !heads {
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %p = call @softmax(%s) : (!scores) -> !scores
  %rounded = math.roundeven %p : !scores
  %o = call @weigh(%rounded, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// max, subtraction, exp, sum, division, each an op.
// CHECK-LABEL: @softmax_written_out
// CHECK-NOT: math.exp
// CHECK: heddle.attention {{.*}} <causal>
func.func @softmax_written_out(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}) -> !heads {
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %masked = call @causal(%s) : (!scores) -> !scores
  %n = call @rows(%s) : (!scores) -> index
  %m = call @columns(%s) : (!scores) -> index
  %init = tensor.empty(%n, %m) : !scores
  %row_init = tensor.empty(%n) : tensor<1x4x?xf32>
  %lowest = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0.0 : f32
  %tops = linalg.fill ins(%lowest : f32) outs(%row_init : tensor<1x4x?xf32>) -> tensor<1x4x?xf32>
  %top = linalg.reduce { arith.maximumf } ins(%masked : !scores) outs(%tops : tensor<1x4x?xf32>) dimensions = [3]
  %all_tops = linalg.broadcast ins(%top : tensor<1x4x?xf32>) outs(%init : !scores) dimensions = [3]
  %shifted = arith.subf %masked, %all_tops : !scores
  %e = math.exp %shifted : !scores
  %zeros = linalg.fill ins(%zero : f32) outs(%row_init : tensor<1x4x?xf32>) -> tensor<1x4x?xf32>
  %sum = linalg.reduce { arith.addf } ins(%e : !scores) outs(%zeros : tensor<1x4x?xf32>) dimensions = [3]
  %all_sums = linalg.broadcast ins(%sum : tensor<1x4x?xf32>) outs(%init : !scores) dimensions = [3]
  %p = arith.divf %e, %all_sums : !scores
  %o = call @weigh(%p, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// One is added to the sum of what the greatest score was taken off: it is a softmax with a sink, of scores that are no product.
// CHECK-LABEL: @softmax_plus_one_of_shifted_scores
// CHECK-NOT: heddle.attention
// CHECK: linalg.softmax
// MISS: not fused: what is taken off its scores is not taken off its sink
func.func @softmax_plus_one_of_shifted_scores(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}) -> !heads {
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %e = call @weights(%s) : (!scores) -> !scores
  %one = arith.constant 1.0 : f32
  %sums = call @sums_from(%e, %one) : (!scores, f32) -> !scores
  %p = arith.divf %e, %sums : !scores
  %o = call @weigh(%p, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// What is taken off every score of a row cancels, be it the greatest of all rows.
// CHECK-LABEL: @less_the_greatest_of_all
// CHECK-NOT: linalg.softmax
// CHECK: heddle.attention {{.*}} <full> {scale = 1.000000e+00 : f64}
func.func @less_the_greatest_of_all(%q: !heads {heddle.dims = #s}, %k: !heads {heddle.dims = #s}, %v: !heads {heddle.dims = #s}) -> !heads {
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %n = call @rows(%s) : (!scores) -> index
  %m = call @columns(%s) : (!scores) -> index
  %lowest = arith.constant dense<0xFF800000> : tensor<1x4xf32>
  %init = tensor.empty(%n, %m) : !scores
  %top = linalg.reduce { arith.maximumf } ins(%s : !scores) outs(%lowest : tensor<1x4xf32>) dimensions = [2, 3]
  %tops = linalg.broadcast ins(%top : tensor<1x4xf32>) outs(%init : !scores) dimensions = [2, 3]
  %shifted = arith.subf %s, %tops : !scores
  %o = call @attend(%shifted, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}
