// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the pass does to files of convolutions is in test/onnx/stored.test.
// RUN: %heddle-opt %s --heddle-check --heddle-channels-last --canonicalize -o %t
// RUN: FileCheck %s --input-file=%t

// From one product to the next: what stands between reads and writes rows of channels, constants and what is broadcast with it.
// CHECK-LABEL: @between
// CHECK-SAME: %[[ROWS:[^:]*]]: tensor<1x12x8xf32>, %[[SHIFT:[^:]*]]: tensor<16xf32>
// CHECK: %[[Y:.*]] = heddle.linear %[[ROWS]]
// CHECK: %[[ALL:.*]] = linalg.broadcast ins(%[[SHIFT]] : tensor<16xf32>) outs({{.*}} : tensor<1x3x4x16xf32>) dimensions = [0, 1, 2]
// CHECK: %[[SUM:.*]] = arith.addf %{{.*}}, %[[ALL]] : tensor<1x3x4x16xf32>
// CHECK: arith.maximumf %[[SUM]], %{{.*}} : tensor<1x3x4x16xf32>
// CHECK: tensor.pad {{.*}} low[0, 1, 0, 0] high[0, 0, 1, 0]
// CHECK: return %{{.*}} : tensor<1x4x5x16xf32>
func.func @between(%rows: tensor<1x12x8xf32>, %shift: tensor<16xf32>) -> tensor<1x4x5x16xf32> {
  %w = heddle.weight "w" <type = "f32", file = 0, offset = 0> : tensor<16x8xf32>
  %y = heddle.linear %rows, weights(%w : tensor<16x8xf32>) : tensor<1x12x8xf32> -> tensor<1x12x16xf32>
  %room = tensor.empty() : tensor<1x16x12xf32>
  %planes = linalg.transpose ins(%y : tensor<1x12x16xf32>) outs(%room : tensor<1x16x12xf32>) permutation = [0, 2, 1]
  %image = tensor.expand_shape %planes [[0], [1], [2, 3]] output_shape [1, 16, 3, 4] : tensor<1x16x12xf32> into tensor<1x16x3x4xf32>
  %same = tensor.empty() : tensor<1x16x3x4xf32>
  %all = linalg.broadcast ins(%shift : tensor<16xf32>) outs(%same : tensor<1x16x3x4xf32>) dimensions = [0, 2, 3]
  %sum = arith.addf %image, %all : tensor<1x16x3x4xf32>
  %zero = arith.constant dense<0.0> : tensor<1x16x3x4xf32>
  %relu = arith.maximumf %sum, %zero : tensor<1x16x3x4xf32>
  %number = arith.constant 0.0 : f32
  %padded = tensor.pad %relu low[0, 0, 1, 0] high[0, 0, 0, 1] {
  ^bb0(%a: index, %b: index, %c: index, %d: index):
    tensor.yield %number : f32
  } : tensor<1x16x3x4xf32> to tensor<1x16x4x5xf32>
  %back = tensor.empty() : tensor<1x4x5x16xf32>
  %last = linalg.transpose ins(%padded : tensor<1x16x4x5xf32>) outs(%back : tensor<1x4x5x16xf32>) permutation = [0, 2, 3, 1]
  return %last : tensor<1x4x5x16xf32>
}

// Rows that a body picks by number are picked of the tensor.
// CHECK-LABEL: @picked
// CHECK: %[[Y:.*]] = heddle.linear
// CHECK: %[[IMAGE:.*]] = tensor.expand_shape %[[Y]]
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<1x6x4x16xf32>)
// CHECK: tensor.extract %[[IMAGE]][%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}] : tensor<1x3x4x16xf32>
// CHECK: return %{{.*}} : tensor<1x6x4x16xf32>
func.func @picked(%rows: tensor<1x12x8xf32>) -> tensor<1x6x4x16xf32> {
  %w = heddle.weight "w" <type = "f32", file = 0, offset = 0> : tensor<16x8xf32>
  %y = heddle.linear %rows, weights(%w : tensor<16x8xf32>) : tensor<1x12x8xf32> -> tensor<1x12x16xf32>
  %room = tensor.empty() : tensor<1x16x12xf32>
  %planes = linalg.transpose ins(%y : tensor<1x12x16xf32>) outs(%room : tensor<1x16x12xf32>) permutation = [0, 2, 1]
  %image = tensor.expand_shape %planes [[0], [1], [2, 3]] output_shape [1, 16, 3, 4] : tensor<1x16x12xf32> into tensor<1x16x3x4xf32>
  %twice = tensor.empty() : tensor<1x16x6x4xf32>
  %large = linalg.generic {indexing_maps = [affine_map<(n, c, i, j) -> (n, c, i, j)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      outs(%twice : tensor<1x16x6x4xf32>) {
  ^bb0(%o: f32):
    %n = linalg.index 0 : index
    %c = linalg.index 1 : index
    %i = linalg.index 2 : index
    %j = linalg.index 3 : index
    %two = arith.constant 2 : index
    %half = arith.divui %i, %two : index
    %e = tensor.extract %image[%n, %c, %half, %j] : tensor<1x16x3x4xf32>
    linalg.yield %e : f32
  } -> tensor<1x16x6x4xf32>
  %back = tensor.empty() : tensor<1x6x4x16xf32>
  %last = linalg.transpose ins(%large : tensor<1x16x6x4xf32>) outs(%back : tensor<1x6x4x16xf32>) permutation = [0, 2, 3, 1]
  return %last : tensor<1x6x4x16xf32>
}

// Joined, channels and places have one order: the transpose is made.
// CHECK-LABEL: @joined
// CHECK: %[[Y:.*]] = heddle.linear
// CHECK: %[[PLANES:.*]] = linalg.transpose ins(%[[Y]] : {{.*}} permutation = [0, 2, 1]
// CHECK: %[[FLAT:.*]] = tensor.collapse_shape %[[PLANES]]
// CHECK: return %[[FLAT]]
func.func @joined(%rows: tensor<1x12x8xf32>) -> tensor<1x192xf32> {
  %w = heddle.weight "w" <type = "f32", file = 0, offset = 0> : tensor<16x8xf32>
  %y = heddle.linear %rows, weights(%w : tensor<16x8xf32>) : tensor<1x12x8xf32> -> tensor<1x12x16xf32>
  %room = tensor.empty() : tensor<1x16x12xf32>
  %planes = linalg.transpose ins(%y : tensor<1x12x16xf32>) outs(%room : tensor<1x16x12xf32>) permutation = [0, 2, 1]
  %flat = tensor.collapse_shape %planes [[0], [1, 2]] : tensor<1x16x12xf32> into tensor<1x192xf32>
  return %flat : tensor<1x192xf32>
}

// So do images of one place joined with their batch: what is one step of its own lies between them.
// CHECK-LABEL: @joined_batch
// CHECK: %[[PLANES:.*]] = linalg.transpose
// CHECK: %[[FLAT:.*]] = tensor.collapse_shape %[[PLANES]] {{\[\[}}0, 1], [2]] : tensor<2x16x1xf32> into tensor<32x1xf32>
// CHECK: return %[[FLAT]]
func.func @joined_batch(%rows: tensor<2x1x8xf32>) -> tensor<32x1xf32> {
  %w = heddle.weight "w" <type = "f32", file = 0, offset = 0> : tensor<16x8xf32>
  %y = heddle.linear %rows, weights(%w : tensor<16x8xf32>) : tensor<2x1x8xf32> -> tensor<2x1x16xf32>
  %room = tensor.empty() : tensor<2x16x1xf32>
  %planes = linalg.transpose ins(%y : tensor<2x1x16xf32>) outs(%room : tensor<2x16x1xf32>) permutation = [0, 2, 1]
  %flat = tensor.collapse_shape %planes [[0, 1], [2]] : tensor<2x16x1xf32> into tensor<32x1xf32>
  return %flat : tensor<32x1xf32>
}
