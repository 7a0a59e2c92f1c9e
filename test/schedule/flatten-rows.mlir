// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --heddle-flatten-rows | FileCheck %s
// RUN: %heddle-opt %s --heddle-flatten-rows | %heddle-opt --heddle-flatten-rows | FileCheck %s
// RUN: %heddle-opt %s --heddle-check-all --heddle-flatten-rows -o /dev/null

// Batch and sequence are joined, and come back with the new width.
// CHECK-LABEL: func.func @batch_and_sequence
// CHECK-SAME: (%[[X:.*]]: tensor<?x?x8xf32>)
// CHECK: %[[ROWS:.*]] = tensor.collapse_shape %[[X]] {{\[}}[0, 1], [2]] : tensor<?x?x8xf32> into tensor<?x8xf32>
// CHECK: %[[Y:.*]] = heddle.linear %[[ROWS]], {{.*}} biases({{.*}}) : tensor<?x8xf32> -> tensor<?x4xf32>
// CHECK: tensor.expand_shape %[[Y]] {{\[}}[0, 1], [2]] output_shape [{{.*}}, {{.*}}, 4] : tensor<?x4xf32> into tensor<?x?x4xf32>
func.func @batch_and_sequence(%x: tensor<?x?x8xf32>) -> tensor<?x?x4xf32> {
  %w = heddle.weight "w" <type = "f32", file = 0, offset = 0> : tensor<4x8xf32>
  %b = heddle.weight "b" <type = "f32", file = 0, offset = 128> : tensor<4xf32>
  %y = heddle.linear %x, weights(%w : tensor<4x8xf32>) biases(%b : tensor<4xf32>) : tensor<?x?x8xf32> -> tensor<?x?x4xf32>
  return %y : tensor<?x?x4xf32>
}

// CHECK-LABEL: func.func @one_vector
// CHECK: tensor.expand_shape {{.*}} : tensor<8xf32> into tensor<1x8xf32>
// CHECK: heddle.linear {{.*}} : tensor<1x8xf32> -> tensor<1x4xf32>
// CHECK: tensor.collapse_shape {{.*}} : tensor<1x4xf32> into tensor<4xf32>
func.func @one_vector(%x: tensor<8xf32>) -> tensor<4xf32> {
  %w = heddle.weight "w" <type = "f32", file = 0, offset = 0> : tensor<4x8xf32>
  %y = heddle.linear %x, weights(%w : tensor<4x8xf32>) : tensor<8xf32> -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// CHECK-LABEL: func.func @ids_of_a_batch
// CHECK: %[[IDS:.*]] = arith.constant dense<[0, 3, 15, 2, 2, 7]> : tensor<6xi32>
// CHECK: heddle.embedding %[[IDS]], {{.*}} {scale = 2.000000e+00 : f64} : tensor<6xi32>, tensor<16x8xf32> -> tensor<6x8xf32>
// CHECK: tensor.expand_shape {{.*}} : tensor<6x8xf32> into tensor<2x3x8xf32>
func.func @ids_of_a_batch() -> tensor<2x3x8xf32> {
  %ids = arith.constant dense<[[0, 3, 15], [2, 2, 7]]> : tensor<2x3xi32>
  %t = heddle.weight "t" <type = "f32", file = 0, offset = 0> : tensor<16x8xf32>
  %y = heddle.embedding %ids, %t {scale = 2.0} : tensor<2x3xi32>, tensor<16x8xf32> -> tensor<2x3x8xf32>
  return %y : tensor<2x3x8xf32>
}

// Rows stay rows.
// CHECK-LABEL: func.func @rows
// CHECK-NOT: shape
// CHECK: return
func.func @rows(%x: tensor<?x8xf32>) -> tensor<?x4xf32> {
  %w = heddle.weight "w" <type = "f32", file = 0, offset = 0> : tensor<4x8xf32>
  %y = heddle.linear %x, weights(%w : tensor<4x8xf32>) : tensor<?x8xf32> -> tensor<?x4xf32>
  return %y : tensor<?x4xf32>
}
