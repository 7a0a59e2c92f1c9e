// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Convolutions with stored weights are products of their windows: heddle-raise-linear.
// RUN: %heddle-opt %s --heddle-check-all --heddle-raise-linear --canonicalize -o %t.out
// RUN: FileCheck %s --input-file=%t.out

// As a file of images has it: one group, channels before places. Windows have them last, and so have the rows of the weights, whose bytes are the file's.
// CHECK: #[[READ:.*]] = affine_map<(d0, d1, d2, d3, d4, d5) -> (d0, d1 * 2 + d3, d2 * 3 + d4 * 2, d5)>
// CHECK-LABEL: @strides_and_dilations
// CHECK-SAME: %[[X:.*]]: tensor<?x3x9x11xf32>
// CHECK: %[[W:.*]] = heddle.weight "w" <type = "f32", file = 0, offset = 64, taps = 6> : tensor<5x18xf32>
// CHECK: %[[LAST:.*]] = linalg.transpose ins(%[[X]] : {{.*}} permutation = [0, 2, 3, 1]
// CHECK: %[[WINDOWS:.*]] = linalg.generic {indexing_maps = [#[[READ]], {{.*}} ins(%[[LAST]] : {{.*}} outs({{.*}} : tensor<?x4x3x2x3x3xf32>)
// CHECK: %[[ROWS:.*]] = tensor.collapse_shape %[[WINDOWS]] {{\[\[}}0], [1, 2], [3, 4, 5]] : {{.*}} into tensor<?x12x18xf32>
// CHECK: %[[Y:.*]] = heddle.linear %[[ROWS]], weights(%[[W]] : tensor<5x18xf32>) : tensor<?x12x18xf32> -> tensor<?x12x5xf32>
// CHECK: linalg.transpose ins(%[[Y]] : {{.*}} permutation = [0, 2, 1]
// CHECK: tensor.expand_shape {{.*}} into tensor<?x5x4x3xf32>
#x2 = affine_map<(n, g, m, i, j, c, k, l) -> (n, g, c, i * 2 + k, j * 3 + l * 2)>
#w2 = affine_map<(n, g, m, i, j, c, k, l) -> (g, m, c, k, l)>
#y2 = affine_map<(n, g, m, i, j, c, k, l) -> (n, g, m, i, j)>
func.func @strides_and_dilations(%x: tensor<?x3x9x11xf32>) -> tensor<?x5x4x3xf32> {
  %w = heddle.weight "w" <type = "f32", file = 0, offset = 64> : tensor<5x3x2x3xf32>
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x3x9x11xf32>
  %xg = tensor.expand_shape %x [[0], [1, 2], [3], [4]] output_shape [%n, 1, 3, 9, 11] : tensor<?x3x9x11xf32> into tensor<?x1x3x9x11xf32>
  %wg = tensor.expand_shape %w [[0, 1], [2], [3], [4]] output_shape [1, 5, 3, 2, 3] : tensor<5x3x2x3xf32> into tensor<1x5x3x2x3xf32>
  %zero = arith.constant 0.0 : f32
  %room = tensor.empty(%n) : tensor<?x1x5x4x3xf32>
  %init = linalg.fill ins(%zero : f32) outs(%room : tensor<?x1x5x4x3xf32>) -> tensor<?x1x5x4x3xf32>
  %y = linalg.generic {indexing_maps = [#x2, #w2, #y2], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
      ins(%xg, %wg : tensor<?x1x3x9x11xf32>, tensor<1x5x3x2x3xf32>) outs(%init : tensor<?x1x5x4x3xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %o, %p : f32
    linalg.yield %s : f32
  } -> tensor<?x1x5x4x3xf32>
  %merged = tensor.collapse_shape %y [[0], [1, 2], [3], [4]] : tensor<?x1x5x4x3xf32> into tensor<?x5x4x3xf32>
  return %merged : tensor<?x5x4x3xf32>
}

// What is added to each channel is the product's bias; a reader that wants rows gets them as they are.
// CHECK-LABEL: @bias_and_rows
// CHECK: linalg.transpose
// CHECK: %[[Y:.*]] = heddle.linear {{.*}}, weights({{.*}}) biases({{.*}}) : tensor<2x6x8xf32> -> tensor<2x6x5xf32>
// CHECK-NOT: linalg.transpose
// CHECK-NOT: addf
// CHECK: return %[[Y]]
func.func @bias_and_rows(%x: tensor<2x2x4x6xf32>) -> tensor<2x6x5xf32> {
  %w = heddle.weight "w" <type = "f32", file = 0, offset = 64> : tensor<5x2x2x2xf32>
  %xg = tensor.expand_shape %x [[0], [1, 2], [3], [4]] output_shape [2, 1, 2, 4, 6] : tensor<2x2x4x6xf32> into tensor<2x1x2x4x6xf32>
  %wg = tensor.expand_shape %w [[0, 1], [2], [3], [4]] output_shape [1, 5, 2, 2, 2] : tensor<5x2x2x2xf32> into tensor<1x5x2x2x2xf32>
  %init = arith.constant dense<0.0> : tensor<2x1x5x2x3xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(n, g, m, i, j, c, k, l) -> (n, g, c, i * 2 + k, j * 2 + l)>, #w2, #y2], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
      ins(%xg, %wg : tensor<2x1x2x4x6xf32>, tensor<1x5x2x2x2xf32>) outs(%init : tensor<2x1x5x2x3xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %o, %p : f32
    linalg.yield %s : f32
  } -> tensor<2x1x5x2x3xf32>
  %merged = tensor.collapse_shape %y [[0], [1, 2], [3], [4]] : tensor<2x1x5x2x3xf32> into tensor<2x5x2x3xf32>
  %b = heddle.weight "b" <type = "f32", file = 0, offset = 0> : tensor<5xf32>
  %room = tensor.empty() : tensor<2x5x2x3xf32>
  %bs = linalg.broadcast ins(%b : tensor<5xf32>) outs(%room : tensor<2x5x2x3xf32>) dimensions = [0, 2, 3]
  %sum = arith.addf %merged, %bs : tensor<2x5x2x3xf32>
  %flat = tensor.collapse_shape %sum [[0], [1], [2, 3]] : tensor<2x5x2x3xf32> into tensor<2x5x6xf32>
  %turned = tensor.empty() : tensor<2x6x5xf32>
  %rows = linalg.transpose ins(%flat : tensor<2x5x6xf32>) outs(%turned : tensor<2x6x5xf32>) permutation = [0, 2, 1]
  return %rows : tensor<2x6x5xf32>
}

// A kernel of one place has no windows: its product is one of the image, which is read at every second place where it makes such steps.
// CHECK-LABEL: @one_place
// CHECK-SAME: %[[X:.*]]: tensor<2x6x3x4xf32>
// CHECK: %[[W:.*]] = heddle.weight "w" <type = "f32", file = 0, offset = 64> : tensor<5x6xf32>
// CHECK: %[[LAST:.*]] = linalg.transpose ins(%[[X]] : {{.*}} permutation = [0, 2, 3, 1]
// CHECK-NOT: linalg.generic
// CHECK: %[[ROWS:.*]] = tensor.collapse_shape %[[LAST]] {{\[\[}}0], [1, 2], [3]] : {{.*}} into tensor<2x12x6xf32>
// CHECK: heddle.linear %[[ROWS]], weights(%[[W]] : tensor<5x6xf32>)
#one = affine_map<(n, m, i, j, c, k, l) -> (n, c, i + k, j + l)>
#wone = affine_map<(n, m, i, j, c, k, l) -> (m, c, k, l)>
#yone = affine_map<(n, m, i, j, c, k, l) -> (n, m, i, j)>
func.func @one_place(%x: tensor<2x6x3x4xf32>) -> tensor<2x5x3x4xf32> {
  %w = heddle.weight "w" <type = "f32", file = 0, offset = 64> : tensor<5x6x1x1xf32>
  %init = arith.constant dense<0.0> : tensor<2x5x3x4xf32>
  %y = linalg.generic {indexing_maps = [#one, #wone, #yone], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]}
      ins(%x, %w : tensor<2x6x3x4xf32>, tensor<5x6x1x1xf32>) outs(%init : tensor<2x5x3x4xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %o, %p : f32
    linalg.yield %s : f32
  } -> tensor<2x5x3x4xf32>
  return %y : tensor<2x5x3x4xf32>
}

// Channels behind the places: no transpose.
// CHECK-LABEL: @channels_last
// CHECK: heddle.linear {{.*}} : tensor<1x7x12xf32> -> tensor<1x7x5xf32>
// CHECK-NOT: linalg.transpose
#x1 = affine_map<(n, i, m, c, k) -> (n, c, i + k)>
#w1 = affine_map<(n, i, m, c, k) -> (m, c, k)>
#y1 = affine_map<(n, i, m, c, k) -> (n, i, m)>
func.func @channels_last(%x: tensor<1x4x9xf32>) -> tensor<1x7x5xf32> {
  %w = heddle.weight "w" <type = "f32", file = 0, offset = 0> : tensor<5x4x3xf32>
  %init = arith.constant dense<0.0> : tensor<1x7x5xf32>
  %y = linalg.generic {indexing_maps = [#x1, #w1, #y1], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
      ins(%x, %w : tensor<1x4x9xf32>, tensor<5x4x3xf32>) outs(%init : tensor<1x7x5xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %o, %p : f32
    linalg.yield %s : f32
  } -> tensor<1x7x5xf32>
  return %y : tensor<1x7x5xf32>
}

// Several groups have a matrix each; computed weights are no stored matrix, but one to contract windows with; zeros alone may be started from.
// CHECK-LABEL: @two_groups
// CHECK-NOT: heddle.linear
#xg = affine_map<(n, g, m, i, c, k) -> (n, g, c, i + k)>
#wg = affine_map<(n, g, m, i, c, k) -> (g, m, c, k)>
#yg = affine_map<(n, g, m, i, c, k) -> (n, g, m, i)>
func.func @two_groups(%x: tensor<1x2x4x9xf32>) -> tensor<1x2x5x7xf32> {
  %w = heddle.weight "w" <type = "f32", file = 0, offset = 0> : tensor<2x5x4x3xf32>
  %init = arith.constant dense<0.0> : tensor<1x2x5x7xf32>
  %y = linalg.generic {indexing_maps = [#xg, #wg, #yg], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction"]}
      ins(%x, %w : tensor<1x2x4x9xf32>, tensor<2x5x4x3xf32>) outs(%init : tensor<1x2x5x7xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %o, %p : f32
    linalg.yield %s : f32
  } -> tensor<1x2x5x7xf32>
  return %y : tensor<1x2x5x7xf32>
}

// A constant of the module is in no file to pack from.
// CHECK-LABEL: @constant_weights
// CHECK-NOT: heddle.linear
func.func @constant_weights(%x: tensor<1x4x9xf32>) -> tensor<1x7x5xf32> {
  %w = arith.constant dense<0.5> : tensor<5x4x3xf32>
  %init = arith.constant dense<0.0> : tensor<1x7x5xf32>
  %y = linalg.generic {indexing_maps = [#x1, #w1, #y1], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
      ins(%x, %w : tensor<1x4x9xf32>, tensor<5x4x3xf32>) outs(%init : tensor<1x7x5xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %o, %p : f32
    linalg.yield %s : f32
  } -> tensor<1x7x5xf32>
  return %y : tensor<1x7x5xf32>
}

// CHECK-LABEL: @computed_weights
// CHECK-SAME: %[[X:[^:]*]]: {{.*}} %[[W:[^:]*]]: tensor<5x4x3xf32>
// CHECK: %[[WINDOWS:.*]] = linalg.generic {{.*}} ins(%[[X]] : {{.*}} outs({{.*}} : tensor<1x7x4x3xf32>)
// CHECK-DAG: %[[ROWS:.*]] = tensor.collapse_shape %[[WINDOWS]] {{\[\[}}0], [1], [2, 3]] : {{.*}} into tensor<1x7x12xf32>
// CHECK-DAG: %[[MATRIX:.*]] = tensor.collapse_shape %[[W]] {{\[\[}}0], [1, 2]] : {{.*}} into tensor<5x12xf32>
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%[[ROWS]], %[[MATRIX]] : {{.*}} outs({{.*}} : tensor<1x7x5xf32>)
func.func @computed_weights(%x: tensor<1x4x9xf32>, %w: tensor<5x4x3xf32>) -> tensor<1x7x5xf32> {
  %init = arith.constant dense<0.0> : tensor<1x7x5xf32>
  %y = linalg.generic {indexing_maps = [#x1, #w1, #y1], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
      ins(%x, %w : tensor<1x4x9xf32>, tensor<5x4x3xf32>) outs(%init : tensor<1x7x5xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %o, %p : f32
    linalg.yield %s : f32
  } -> tensor<1x7x5xf32>
  return %y : tensor<1x7x5xf32>
}

// CHECK-LABEL: @starts_from_values
// CHECK-NOT: heddle.linear
func.func @starts_from_values(%x: tensor<1x4x9xf32>, %init: tensor<1x7x5xf32>) -> tensor<1x7x5xf32> {
  %w = heddle.weight "w" <type = "f32", file = 0, offset = 0> : tensor<5x4x3xf32>
  %y = linalg.generic {indexing_maps = [#x1, #w1, #y1], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
      ins(%x, %w : tensor<1x4x9xf32>, tensor<5x4x3xf32>) outs(%init : tensor<1x7x5xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %o, %p : f32
    linalg.yield %s : f32
  } -> tensor<1x7x5xf32>
  return %y : tensor<1x7x5xf32>
}

// A bias that lies around a branch stays there: others read it as well.
// CHECK-LABEL: @bias_around_branch
// CHECK: %[[B:.*]] = heddle.weight "b"
// CHECK: scf.if
// CHECK: heddle.linear {{.*}} biases(%[[B]] : tensor<5xf32>)
// CHECK: return %{{.*}}, %[[B]]
func.func @bias_around_branch(%x: tensor<1x4x9xf32>, %other: tensor<1x7x5xf32>, %c: i1) -> (tensor<1x7x5xf32>, tensor<5xf32>) {
  %init = arith.constant dense<0.0> : tensor<1x7x5xf32>
  %w = heddle.weight "w" <type = "f32", file = 0, offset = 0> : tensor<5x4x3xf32>
  %b = heddle.weight "b" <type = "f32", file = 0, offset = 0> : tensor<5xf32>
  %r = scf.if %c -> tensor<1x7x5xf32> {
    %y = linalg.generic {indexing_maps = [#x1, #w1, #y1], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
        ins(%x, %w : tensor<1x4x9xf32>, tensor<5x4x3xf32>) outs(%init : tensor<1x7x5xf32>) {
    ^bb0(%a: f32, %k: f32, %o: f32):
      %p = arith.mulf %a, %k : f32
      %s = arith.addf %o, %p : f32
      linalg.yield %s : f32
    } -> tensor<1x7x5xf32>
    %room = tensor.empty() : tensor<1x7x5xf32>
    %all = linalg.broadcast ins(%b : tensor<5xf32>) outs(%room : tensor<1x7x5xf32>) dimensions = [0, 1]
    %sum = arith.addf %y, %all : tensor<1x7x5xf32>
    scf.yield %sum : tensor<1x7x5xf32>
  } else {
    scf.yield %other : tensor<1x7x5xf32>
  }
  return %r, %b : tensor<1x7x5xf32>, tensor<5xf32>
}

// Sizes are those that the result has, where a kernel of one place reads x as it lies and x says less, or more, of its own.
// CHECK-LABEL: @sizes_of_the_result
// CHECK-SAME: %[[X:[^:]*]]: tensor<?x4x?xf32>, %[[Z:[^:]*]]: tensor<5x4x5xf32>
// CHECK: %[[KNOWN:.*]] = tensor.cast %[[X]] : tensor<?x4x?xf32> to tensor<5x4x5xf32>
// CHECK: linalg.transpose ins(%[[KNOWN]] :
// CHECK: heddle.linear {{.*}} -> tensor<5x5x5xf32>
// CHECK: linalg.transpose ins(%[[Z]] :
// CHECK: heddle.linear {{.*}} -> tensor<?x?x5xf32>
func.func @sizes_of_the_result(%x: tensor<?x4x?xf32>, %z: tensor<5x4x5xf32>) -> (tensor<5x5x5xf32>, tensor<?x5x?xf32>) {
  %w = heddle.weight "w" <type = "f32", file = 0, offset = 0> : tensor<5x4x1xf32>
  %init = arith.constant dense<0.0> : tensor<5x5x5xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(n, m, i, c, k) -> (n, c, i + k)>, affine_map<(n, m, i, c, k) -> (m, c, k)>, affine_map<(n, m, i, c, k) -> (n, m, i)>], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
      ins(%x, %w : tensor<?x4x?xf32>, tensor<5x4x1xf32>) outs(%init : tensor<5x5x5xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %o, %p : f32
    linalg.yield %s : f32
  } -> tensor<5x5x5xf32>
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %n = tensor.dim %x, %c0 : tensor<?x4x?xf32>
  %l = tensor.dim %x, %c2 : tensor<?x4x?xf32>
  %zero = arith.constant 0.0 : f32
  %room = tensor.empty(%n, %l) : tensor<?x5x?xf32>
  %none = linalg.fill ins(%zero : f32) outs(%room : tensor<?x5x?xf32>) -> tensor<?x5x?xf32>
  %v = linalg.generic {indexing_maps = [affine_map<(n, m, i, c, k) -> (n, c, i + k)>, affine_map<(n, m, i, c, k) -> (m, c, k)>, affine_map<(n, m, i, c, k) -> (n, m, i)>], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
      ins(%z, %w : tensor<5x4x5xf32>, tensor<5x4x1xf32>) outs(%none : tensor<?x5x?xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    %s = arith.addf %o, %p : f32
    linalg.yield %s : f32
  } -> tensor<?x5x?xf32>
  return %y, %v : tensor<5x5x5xf32>, tensor<?x5x?xf32>
}
