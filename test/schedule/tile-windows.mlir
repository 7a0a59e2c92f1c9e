// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --heddle-tile-windows=most-elements=200 --canonicalize | FileCheck %s
// RUN: %heddle-opt %s --heddle-check-all --heddle-tile-windows=most-elements=200 -o /dev/null

// Blocks of 16 places, each from its part of the tensor; the last is shorter.
// CHECK-LABEL: @along_the_sequence
// CHECK-SAME: %[[X:.*]]: tensor<1x4x75xf32>
// CHECK: %[[ALL:.*]] = scf.for %[[O:.*]] = %c0 to %c37 step %c16 iter_args(%[[DONE:.*]] = %{{.*}}) -> (tensor<37x8xf32>)
// CHECK: %[[SEEN:.*]] = tensor.extract_slice %[[X]][0, 0, %{{.*}}] [1, 4, %{{.*}}] [1, 1, 1]
// CHECK: %[[WINDOWS:.*]] = linalg.generic {{.*}} ins(%[[SEEN]]
// CHECK: %[[ROWS:.*]] = tensor.collapse_shape %[[WINDOWS]] {{\[\[}}0, 1], [2, 3]]
// CHECK: %[[Y:.*]] = heddle.linear %[[ROWS]], weights({{.*}}) biases({{.*}}) : tensor<?x12xf32> -> tensor<?x8xf32>
// CHECK: tensor.insert_slice %[[Y]] into %[[DONE]][%[[O]], 0]
// CHECK: tensor.expand_shape %[[ALL]] {{\[\[}}0, 1], [2]]
#x1 = affine_map<(n, o, c, k) -> (n, c, o * 2 + k)>
#w1 = affine_map<(n, o, c, k) -> (n, o, c, k)>
func.func @along_the_sequence(%x: tensor<1x4x75xf32>) -> tensor<1x37x8xf32> {
  %w = heddle.weight "w" <type = "f32", file = 0, offset = 0> : tensor<8x12xf32>
  %b = heddle.weight "b" <type = "f32", file = 0, offset = 384> : tensor<8xf32>
  %room = tensor.empty() : tensor<1x37x4x3xf32>
  %windows = linalg.generic {indexing_maps = [#x1, #w1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%x : tensor<1x4x75xf32>) outs(%room : tensor<1x37x4x3xf32>) {
  ^bb0(%e: f32, %out: f32):
    linalg.yield %e : f32
  } -> tensor<1x37x4x3xf32>
  %rows = tensor.collapse_shape %windows [[0], [1], [2, 3]] : tensor<1x37x4x3xf32> into tensor<1x37x12xf32>
  %y = heddle.linear %rows, weights(%w : tensor<8x12xf32>) biases(%b : tensor<8xf32>) : tensor<1x37x12xf32> -> tensor<1x37x8xf32>
  return %y : tensor<1x37x8xf32>
}

// An activation goes into the blocks, where the product applies it.
// CHECK-LABEL: @activated
// CHECK: scf.for
// CHECK: %[[Y:.*]] = heddle.linear
// CHECK: %[[Z:.*]] = heddle.glu <relu> %[[Y]] : tensor<?x8xf32>
// CHECK: tensor.insert_slice %[[Z]]
// CHECK: scf.yield
// CHECK-NOT: heddle.glu
func.func @activated(%x: tensor<1x4x75xf32>) -> tensor<1x37x2x4xf32> {
  %w = heddle.weight "w" <type = "f32", file = 0, offset = 0> : tensor<8x12xf32>
  %room = tensor.empty() : tensor<1x37x4x3xf32>
  %windows = linalg.generic {indexing_maps = [#x1, #w1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%x : tensor<1x4x75xf32>) outs(%room : tensor<1x37x4x3xf32>) {
  ^bb0(%e: f32, %out: f32):
    linalg.yield %e : f32
  } -> tensor<1x37x4x3xf32>
  %rows = tensor.collapse_shape %windows [[0], [1], [2, 3]] : tensor<1x37x4x3xf32> into tensor<1x37x12xf32>
  %y = heddle.linear %rows, weights(%w : tensor<8x12xf32>) : tensor<1x37x12xf32> -> tensor<1x37x8xf32>
  %split = tensor.expand_shape %y [[0], [1], [2, 3]] output_shape [1, 37, 2, 4] : tensor<1x37x8xf32> into tensor<1x37x2x4xf32>
  %z = heddle.glu <relu> %split : tensor<1x37x2x4xf32>
  return %z : tensor<1x37x2x4xf32>
}

// Images of any size and number: whole rows of places, as many as fit.
// CHECK-LABEL: @rows_of_images
// CHECK: scf.for
// CHECK: scf.for
// CHECK: heddle.linear
// CHECK: scf.yield
// CHECK: scf.yield
#x2 = affine_map<(n, i, j, c, k, l) -> (n, c, i + k * 2, j * 2 + l)>
#w2 = affine_map<(n, i, j, c, k, l) -> (n, i, j, c, k, l)>
func.func @rows_of_images(%x: tensor<?x2x?x?xf32>) -> tensor<?x?x3xf32> {
  %w = heddle.weight "w" <type = "f32", file = 0, offset = 0> : tensor<3x12xf32>
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %batch = tensor.dim %x, %c0 : tensor<?x2x?x?xf32>
  %high = tensor.dim %x, %c2 : tensor<?x2x?x?xf32>
  %wide = tensor.dim %x, %c3 : tensor<?x2x?x?xf32>
  %high_places = arith.subi %high, %c2 : index
  %wide_places = arith.divui %wide, %c2 : index
  %room = tensor.empty(%batch, %high_places, %wide_places) : tensor<?x?x?x2x2x3xf32>
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %padded = tensor.pad %x low[0, 0, 0, 0] high[0, 0, 0, %c1] {
  ^bb0(%p: index, %q: index, %r: index, %s: index):
    tensor.yield %zero : f32
  } : tensor<?x2x?x?xf32> to tensor<?x2x?x?xf32>
  %windows = linalg.generic {indexing_maps = [#x2, #w2], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "parallel"]}
      ins(%padded : tensor<?x2x?x?xf32>) outs(%room : tensor<?x?x?x2x2x3xf32>) {
  ^bb0(%e: f32, %out: f32):
    linalg.yield %e : f32
  } -> tensor<?x?x?x2x2x3xf32>
  %rows = tensor.collapse_shape %windows [[0], [1, 2], [3, 4, 5]] : tensor<?x?x?x2x2x3xf32> into tensor<?x?x12xf32>
  %y = heddle.linear %rows, weights(%w : tensor<3x12xf32>) : tensor<?x?x12xf32> -> tensor<?x?x3xf32>
  return %y : tensor<?x?x3xf32>
}

// Windows that do not overlap are a copy.
// CHECK-LABEL: @patches
// CHECK-NOT: scf.for
#x3 = affine_map<(n, o, c, k) -> (n, c, o * 3 + k)>
func.func @patches(%x: tensor<1x4x111xf32>) -> tensor<1x37x8xf32> {
  %w = heddle.weight "w" <type = "f32", file = 0, offset = 0> : tensor<8x12xf32>
  %room = tensor.empty() : tensor<1x37x4x3xf32>
  %windows = linalg.generic {indexing_maps = [#x3, #w1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%x : tensor<1x4x111xf32>) outs(%room : tensor<1x37x4x3xf32>) {
  ^bb0(%e: f32, %out: f32):
    linalg.yield %e : f32
  } -> tensor<1x37x4x3xf32>
  %rows = tensor.collapse_shape %windows [[0], [1], [2, 3]] : tensor<1x37x4x3xf32> into tensor<1x37x12xf32>
  %y = heddle.linear %rows, weights(%w : tensor<8x12xf32>) : tensor<1x37x12xf32> -> tensor<1x37x8xf32>
  return %y : tensor<1x37x8xf32>
}

// What is small is written at once.
// CHECK-LABEL: @few_windows
// CHECK-NOT: scf.for
func.func @few_windows(%x: tensor<1x4x33xf32>) -> tensor<1x16x8xf32> {
  %w = heddle.weight "w" <type = "f32", file = 0, offset = 0> : tensor<8x12xf32>
  %room = tensor.empty() : tensor<1x16x4x3xf32>
  %windows = linalg.generic {indexing_maps = [#x1, #w1], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%x : tensor<1x4x33xf32>) outs(%room : tensor<1x16x4x3xf32>) {
  ^bb0(%e: f32, %out: f32):
    linalg.yield %e : f32
  } -> tensor<1x16x4x3xf32>
  %rows = tensor.collapse_shape %windows [[0], [1], [2, 3]] : tensor<1x16x4x3xf32> into tensor<1x16x12xf32>
  %y = heddle.linear %rows, weights(%w : tensor<8x12xf32>) : tensor<1x16x12xf32> -> tensor<1x16x8xf32>
  return %y : tensor<1x16x8xf32>
}
