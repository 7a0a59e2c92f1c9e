// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --heddle-check-all --heddle-raise-linear --canonicalize -o %t.out
// RUN: FileCheck %s --input-file=%t.out

#x = affine_map<(b, s, n, k) -> (b, s, k)>
#kn = affine_map<(b, s, n, k) -> (k, n)>
#nk = affine_map<(b, s, n, k) -> (n, k)>
#y = affine_map<(b, s, n, k) -> (b, s, n)>

// Stored as (in, out): the same bytes with another storage, and no op that moves them.
// CHECK-LABEL: @columns_first_with_bias
// CHECK-NOT: linalg
// CHECK: %[[W:.*]] = heddle.weight "w" <type = "f32", file = 0, offset = 0, transposed = true> : tensor<3x4xf32>
// CHECK: heddle.linear %{{.*}}, weights(%[[W]] : tensor<3x4xf32>) biases(%{{.*}} : tensor<3xf32>)
func.func @columns_first_with_bias(%x: tensor<1x?x4xf32>) -> tensor<1x?x3xf32> {
  %w = heddle.weight "w" <type = "f32", file = 0, offset = 0> : tensor<4x3xf32>
  %b = heddle.weight "b" <type = "f32", file = 0, offset = 48> : tensor<3xf32>
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c1 : tensor<1x?x4xf32>
  %zero = arith.constant 0.0 : f32
  %init = tensor.empty(%n) : tensor<1x?x3xf32>
  %start = linalg.fill ins(%zero : f32) outs(%init : tensor<1x?x3xf32>) -> tensor<1x?x3xf32>
  %y = linalg.contract indexing_maps = [#x, #kn, #y] ins(%x, %w : tensor<1x?x4xf32>, tensor<4x3xf32>) outs(%start : tensor<1x?x3xf32>) -> tensor<1x?x3xf32>
  %bs = linalg.broadcast ins(%b : tensor<3xf32>) outs(%init : tensor<1x?x3xf32>) dimensions = [0, 1]
  %sum = arith.addf %bs, %y : tensor<1x?x3xf32>
  return %sum : tensor<1x?x3xf32>
}

// The product of two activations is none.
// CHECK-LABEL: @product_of_activations
// CHECK-NOT: heddle.linear
// CHECK: linalg.contract
func.func @product_of_activations(%x: tensor<1x?x4xf32>, %w: tensor<3x4xf32>) -> tensor<1x?x3xf32> {
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c1 : tensor<1x?x4xf32>
  %zero = arith.constant 0.0 : f32
  %init = tensor.empty(%n) : tensor<1x?x3xf32>
  %start = linalg.fill ins(%zero : f32) outs(%init : tensor<1x?x3xf32>) -> tensor<1x?x3xf32>
  %y = linalg.contract indexing_maps = [#x, #nk, #y] ins(%x, %w : tensor<1x?x4xf32>, tensor<3x4xf32>) outs(%start : tensor<1x?x3xf32>) -> tensor<1x?x3xf32>
  return %y : tensor<1x?x3xf32>
}

// Rows are counted in one dimension for the product, columns joined: what collapses rows moves behind it.
// CHECK-LABEL: @rows_flattened_for_the_product
// CHECK: %[[X:.*]] = tensor.collapse_shape %{{.*}} {{\[\[}}0], [1], [2, 3]]
// CHECK: %[[Y:.*]] = heddle.linear %[[X]], weights({{.*}}) : tensor<1x?x4xf32> -> tensor<1x?x3xf32>
// CHECK-NEXT: return %[[Y]]
#x2 = affine_map<(s, n, k) -> (s, k)>
#nk2 = affine_map<(s, n, k) -> (n, k)>
#y2 = affine_map<(s, n, k) -> (s, n)>
func.func @rows_flattened_for_the_product(%x: tensor<1x?x2x2xf32>) -> tensor<1x?x3xf32> {
  %w = heddle.weight "w" <type = "f32", file = 0, offset = 0> : tensor<3x4xf32>
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c1 : tensor<1x?x2x2xf32>
  %flat = tensor.collapse_shape %x [[0, 1], [2, 3]] : tensor<1x?x2x2xf32> into tensor<?x4xf32>
  %zero = arith.constant 0.0 : f32
  %init = tensor.empty(%n) : tensor<?x3xf32>
  %start = linalg.fill ins(%zero : f32) outs(%init : tensor<?x3xf32>) -> tensor<?x3xf32>
  %y = linalg.contract indexing_maps = [#x2, #nk2, #y2] ins(%flat, %w : tensor<?x4xf32>, tensor<3x4xf32>) outs(%start : tensor<?x3xf32>) -> tensor<?x3xf32>
  %o = tensor.expand_shape %y [[0, 1], [2]] output_shape [1, %n, 3] : tensor<?x3xf32> into tensor<1x?x3xf32>
  return %o : tensor<1x?x3xf32>
}

// CHECK-LABEL: @scaled_lookup
// CHECK: heddle.embedding %{{.*}}, %{{.*}} {scale = 8.000000e+00 : f64} : tensor<1x?xi32>, tensor<6x4xf32>
func.func @scaled_lookup(%ids: tensor<1x?xi64>) -> tensor<1x?x4xf32> {
  %table = heddle.weight "t" <type = "f32", file = 0, offset = 0> : tensor<6x4xf32>
  %c1 = arith.constant 1 : index
  %n = tensor.dim %ids, %c1 : tensor<1x?xi64>
  %init = tensor.empty(%n) : tensor<1x?x4xf32>
  %rows = linalg.generic {indexing_maps = [affine_map<(b, s, d) -> (b, s)>, affine_map<(b, s, d) -> (b, s, d)>],
                          iterator_types = ["parallel", "parallel", "parallel"]} ins(%ids : tensor<1x?xi64>) outs(%init : tensor<1x?x4xf32>) {
  ^bb0(%id: i64, %out: f32):
    %d = linalg.index 2 : index
    %row = arith.index_cast %id : i64 to index
    %element = tensor.extract %table[%row, %d] : tensor<6x4xf32>
    linalg.yield %element : f32
  } -> tensor<1x?x4xf32>
  %eight = arith.constant 8.0 : f32
  %eights = tensor.splat %eight[%n] : tensor<1x?x4xf32>
  %y = arith.mulf %rows, %eights : tensor<1x?x4xf32>
  return %y : tensor<1x?x4xf32>
}

// Columns are looked up, not rows.
// CHECK-LABEL: @lookup_of_columns
// CHECK-NOT: heddle.embedding
// CHECK: return
func.func @lookup_of_columns(%ids: tensor<1x?xi64>) -> tensor<1x?x6xf32> {
  %table = heddle.weight "t" <type = "f32", file = 0, offset = 0> : tensor<6x4xf32>
  %c1 = arith.constant 1 : index
  %n = tensor.dim %ids, %c1 : tensor<1x?xi64>
  %init = tensor.empty(%n) : tensor<1x?x6xf32>
  %rows = linalg.generic {indexing_maps = [affine_map<(b, s, d) -> (b, s)>, affine_map<(b, s, d) -> (b, s, d)>],
                          iterator_types = ["parallel", "parallel", "parallel"]} ins(%ids : tensor<1x?xi64>) outs(%init : tensor<1x?x6xf32>) {
  ^bb0(%id: i64, %out: f32):
    %d = linalg.index 2 : index
    %column = arith.index_cast %id : i64 to index
    %element = tensor.extract %table[%d, %column] : tensor<6x4xf32>
    linalg.yield %element : f32
  } -> tensor<1x?x6xf32>
  return %rows : tensor<1x?x6xf32>
}

// Rows with a dimension of size 1 more: the product is of the rows without it.
// CHECK-LABEL: @rows_with_a_unit_dimension
// CHECK: %[[Y:.*]] = heddle.linear %{{.*}}, weights({{.*}}) : tensor<1x?x4xf32> -> tensor<1x?x3xf32>
// CHECK: tensor.expand_shape %[[Y]] {{\[\[}}0], [1, 2], [3]]
#x4 = affine_map<(a, b, s, n, k) -> (a, b, s, k)>
#nk4 = affine_map<(a, b, s, n, k) -> (n, k)>
#y4 = affine_map<(a, b, s, n, k) -> (a, b, s, n)>
func.func @rows_with_a_unit_dimension(%x: tensor<1x?x4xf32>) -> tensor<1x1x?x3xf32> {
  %w = heddle.weight "w" <type = "f32", file = 0, offset = 0> : tensor<3x4xf32>
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c1 : tensor<1x?x4xf32>
  %rows = tensor.expand_shape %x [[0], [1, 2], [3]] output_shape [1, 1, %n, 4] : tensor<1x?x4xf32> into tensor<1x1x?x4xf32>
  %zero = arith.constant 0.0 : f32
  %init = tensor.empty(%n) : tensor<1x1x?x3xf32>
  %start = linalg.fill ins(%zero : f32) outs(%init : tensor<1x1x?x3xf32>) -> tensor<1x1x?x3xf32>
  %y = linalg.contract indexing_maps = [#x4, #nk4, #y4] ins(%rows, %w : tensor<1x1x?x4xf32>, tensor<3x4xf32>)
       outs(%start : tensor<1x1x?x3xf32>) -> tensor<1x1x?x3xf32>
  return %y : tensor<1x1x?x3xf32>
}

// What follows the sum with a residual is added to the product, as exporters that fuse a norm with its sum write it.
// CHECK-LABEL: @bias_behind_the_residual
// CHECK-SAME: %[[R:[a-z0-9]+]]: tensor<1x?x3xf32>
// CHECK: %[[L:.*]] = heddle.linear %{{.*}} biases(%{{.*}} : tensor<3xf32>)
// CHECK-NEXT: %[[Y:.*]] = arith.addf %[[R]], %[[L]]
// CHECK-NEXT: return %[[Y]]
func.func @bias_behind_the_residual(%x: tensor<1x?x4xf32> {heddle.dims = ["", "s", ""]},
                                    %residual: tensor<1x?x3xf32> {heddle.dims = ["", "s", ""]}) -> tensor<1x?x3xf32> {
  %w = heddle.weight "w" <type = "f32", file = 0, offset = 0> : tensor<4x3xf32>
  %b = heddle.weight "b" <type = "f32", file = 0, offset = 48> : tensor<3xf32>
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c1 : tensor<1x?x4xf32>
  %zero = arith.constant 0.0 : f32
  %init = tensor.empty(%n) : tensor<1x?x3xf32>
  %start = linalg.fill ins(%zero : f32) outs(%init : tensor<1x?x3xf32>) -> tensor<1x?x3xf32>
  %y = linalg.contract indexing_maps = [#x, #kn, #y] ins(%x, %w : tensor<1x?x4xf32>, tensor<4x3xf32>) outs(%start : tensor<1x?x3xf32>) -> tensor<1x?x3xf32>
  %sum = arith.addf %y, %residual : tensor<1x?x3xf32>
  %bs = linalg.broadcast ins(%b : tensor<3xf32>) outs(%init : tensor<1x?x3xf32>) dimensions = [0, 1]
  %all = arith.addf %sum, %bs : tensor<1x?x3xf32>
  return %all : tensor<1x?x3xf32>
}

// The sum itself is read once more: what is added later is not in it.
// CHECK-LABEL: @bias_behind_a_residual_that_is_read
// CHECK-NOT: biases
// CHECK: return
func.func @bias_behind_a_residual_that_is_read(%x: tensor<1x?x4xf32> {heddle.dims = ["", "s", ""]},
                                               %residual: tensor<1x?x3xf32> {heddle.dims = ["", "s", ""]})
    -> (tensor<1x?x3xf32>, tensor<1x?x3xf32>) {
  %w = heddle.weight "w" <type = "f32", file = 0, offset = 0> : tensor<4x3xf32>
  %b = heddle.weight "b" <type = "f32", file = 0, offset = 48> : tensor<3xf32>
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c1 : tensor<1x?x4xf32>
  %zero = arith.constant 0.0 : f32
  %init = tensor.empty(%n) : tensor<1x?x3xf32>
  %start = linalg.fill ins(%zero : f32) outs(%init : tensor<1x?x3xf32>) -> tensor<1x?x3xf32>
  %y = linalg.contract indexing_maps = [#x, #kn, #y] ins(%x, %w : tensor<1x?x4xf32>, tensor<4x3xf32>) outs(%start : tensor<1x?x3xf32>) -> tensor<1x?x3xf32>
  %sum = arith.addf %y, %residual : tensor<1x?x3xf32>
  %bs = linalg.broadcast ins(%b : tensor<3xf32>) outs(%init : tensor<1x?x3xf32>) dimensions = [0, 1]
  %all = arith.addf %sum, %bs : tensor<1x?x3xf32>
  return %sum, %all : tensor<1x?x3xf32>, tensor<1x?x3xf32>
}

// Reshapes around a conversion cancel, and the conversion stays.
// CHECK-LABEL: @widened_between_reshapes
// CHECK: arith.extsi {{.*}} to {{.*}}xi32>
func.func @widened_between_reshapes(%x: tensor<6xi8>) -> tensor<6xi32> {
  %row = tensor.expand_shape %x [[0, 1]] output_shape [1, 6] : tensor<6xi8> into tensor<1x6xi8>
  %wide = arith.extsi %row : tensor<1x6xi8> to tensor<1x6xi32>
  %y = tensor.collapse_shape %wide [[0, 1]] : tensor<1x6xi32> into tensor<6xi32>
  return %y : tensor<6xi32>
}

// A matrix of one row, as the gate of an expert that all tokens pass has it.
// CHECK-LABEL: @one_row
// CHECK: heddle.linear %{{.*}}, weights(%{{.*}} : tensor<1x4xf32>) : tensor<1x?x4xf32> -> tensor<1x?x1xf32>
func.func @one_row(%x: tensor<1x?x4xf32>) -> tensor<1x?x1xf32> {
  %w = heddle.weight "w" <type = "f32", file = 0, offset = 0> : tensor<1x4xf32>
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c1 : tensor<1x?x4xf32>
  %zero = arith.constant 0.0 : f32
  %init = tensor.empty(%n) : tensor<1x?x1xf32>
  %start = linalg.fill ins(%zero : f32) outs(%init : tensor<1x?x1xf32>) -> tensor<1x?x1xf32>
  %y = linalg.contract indexing_maps = [#x, #nk, #y] ins(%x, %w : tensor<1x?x4xf32>, tensor<1x4xf32>) outs(%start : tensor<1x?x1xf32>) -> tensor<1x?x1xf32>
  return %y : tensor<1x?x1xf32>
}

// Nothing is summed where one column is: positions times frequencies are angles, and no matmul.
// CHECK-LABEL: @one_column
// CHECK-NOT: heddle.linear
// CHECK: linalg.contract
func.func @one_column(%x: tensor<1x?x1xf32>) -> tensor<1x?x3xf32> {
  %w = heddle.weight "w" <type = "f32", file = 0, offset = 0> : tensor<3x1xf32>
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c1 : tensor<1x?x1xf32>
  %zero = arith.constant 0.0 : f32
  %init = tensor.empty(%n) : tensor<1x?x3xf32>
  %start = linalg.fill ins(%zero : f32) outs(%init : tensor<1x?x3xf32>) -> tensor<1x?x3xf32>
  %y = linalg.contract indexing_maps = [#x, #nk, #y] ins(%x, %w : tensor<1x?x1xf32>, tensor<3x1xf32>) outs(%start : tensor<1x?x3xf32>) -> tensor<1x?x3xf32>
  return %y : tensor<1x?x3xf32>
}

// Products of 16-bit floats sum in f32: each of them is one.
// CHECK-LABEL: @rows_of_16_bits
// CHECK: %[[W:.*]] = heddle.weight "w" <type = "f16", file = 0, offset = 0, transposed = true> : tensor<3x4xf16>
// CHECK: %[[X:.*]] = arith.extf %{{.*}} : tensor<1x?x4xf16> to tensor<1x?x4xf32>
// CHECK-NEXT: heddle.linear %[[X]], weights(%[[W]] : tensor<3x4xf16>) : tensor<1x?x4xf32> -> tensor<1x?x3xf32>
// CHECK-NOT: linalg.contract
// CHECK: return
func.func @rows_of_16_bits(%x: tensor<1x?x4xf16>) -> tensor<1x?x3xf32> {
  %w = heddle.weight "w" <type = "f16", file = 0, offset = 0> : tensor<4x3xf16>
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c1 : tensor<1x?x4xf16>
  %zero = arith.constant 0.0 : f32
  %init = tensor.empty(%n) : tensor<1x?x3xf32>
  %start = linalg.fill ins(%zero : f32) outs(%init : tensor<1x?x3xf32>) -> tensor<1x?x3xf32>
  %y = linalg.contract indexing_maps = [#x, #kn, #y] ins(%x, %w : tensor<1x?x4xf16>, tensor<4x3xf16>) outs(%start : tensor<1x?x3xf32>) -> tensor<1x?x3xf32>
  return %y : tensor<1x?x3xf32>
}

// What sums in 16 bits rounds more often.
// CHECK-LABEL: @sums_of_16_bits
// CHECK-NOT: heddle.linear
// CHECK: linalg.contract
func.func @sums_of_16_bits(%x: tensor<1x?x4xf16>) -> tensor<1x?x3xf16> {
  %w = heddle.weight "w" <type = "f16", file = 0, offset = 0> : tensor<4x3xf16>
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c1 : tensor<1x?x4xf16>
  %zero = arith.constant 0.0 : f16
  %init = tensor.empty(%n) : tensor<1x?x3xf16>
  %start = linalg.fill ins(%zero : f16) outs(%init : tensor<1x?x3xf16>) -> tensor<1x?x3xf16>
  %y = linalg.contract indexing_maps = [#x, #kn, #y] ins(%x, %w : tensor<1x?x4xf16>, tensor<4x3xf16>) outs(%start : tensor<1x?x3xf16>) -> tensor<1x?x3xf16>
  return %y : tensor<1x?x3xf16>
}

// A product that something stands around is none: here its sign, there a rounding to 16 bits.
// CHECK-LABEL: @negated_products
// CHECK-NOT: heddle.linear
// CHECK: linalg.generic
func.func @negated_products(%x: tensor<1x?x4xf32>, %start: tensor<1x?x3xf32>) -> tensor<1x?x3xf32> {
  %w = heddle.weight "w" <type = "f32", file = 0, offset = 0> : tensor<4x3xf32>
  %y = linalg.generic {indexing_maps = [#x, #kn, #y], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<1x?x4xf32>, tensor<4x3xf32>) outs(%start : tensor<1x?x3xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %p = arith.mulf %a, %b : f32
    %n = arith.negf %p : f32
    %sum = arith.addf %acc, %n : f32
    linalg.yield %sum : f32
  } -> tensor<1x?x3xf32>
  return %y : tensor<1x?x3xf32>
}

// CHECK-LABEL: @rounded_products
// CHECK-NOT: heddle.linear
// CHECK: linalg.generic
func.func @rounded_products(%x: tensor<1x?x4xf16>, %start: tensor<1x?x3xf32>) -> tensor<1x?x3xf32> {
  %w = heddle.weight "w" <type = "f16", file = 0, offset = 0> : tensor<4x3xf16>
  %y = linalg.generic {indexing_maps = [#x, #kn, #y], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<1x?x4xf16>, tensor<4x3xf16>) outs(%start : tensor<1x?x3xf32>) {
  ^bb0(%a: f16, %b: f16, %acc: f32):
    %p = arith.mulf %a, %b : f16
    %wide = arith.extf %p : f16 to f32
    %sum = arith.addf %acc, %wide : f32
    linalg.yield %sum : f32
  } -> tensor<1x?x3xf32>
  return %y : tensor<1x?x3xf32>
}

// As it is where each factor is widened.
// CHECK-LABEL: @widened_factors
// CHECK: heddle.linear
// CHECK-NOT: linalg.generic
// CHECK: return
func.func @widened_factors(%x: tensor<1x?x4xf16>, %start: tensor<1x?x3xf32>) -> tensor<1x?x3xf32> {
  %w = heddle.weight "w" <type = "f16", file = 0, offset = 0> : tensor<4x3xf16>
  %y = linalg.generic {indexing_maps = [#x, #kn, #y], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
      ins(%x, %w : tensor<1x?x4xf16>, tensor<4x3xf16>) outs(%start : tensor<1x?x3xf32>) {
  ^bb0(%a: f16, %b: f16, %acc: f32):
    %wideA = arith.extf %a : f16 to f32
    %wideB = arith.extf %b : f16 to f32
    %p = arith.mulf %wideA, %wideB : f32
    %sum = arith.addf %acc, %p : f32
    linalg.yield %sum : f32
  } -> tensor<1x?x3xf32>
  return %y : tensor<1x?x3xf32>
}
