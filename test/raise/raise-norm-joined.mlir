// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Norms of heads that are computed one by one.
// RUN: %heddle-opt %s --heddle-check-all --heddle-raise-norm --canonicalize -o %t.out
// RUN: FileCheck %s --input-file=%t.out

// Each head by a norm of its own (StableLM 2 12B).
// CHECK-LABEL: @heads_one_by_one
// CHECK-SAME: %[[X:.*]]: tensor<2x3x4x8xf32>
// CHECK: %[[W:.*]] = tensor.concat dim(0) %{{.*}}, %{{.*}}, %{{.*}} : (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<24xf32>
// CHECK-NEXT: heddle.layer_norm %[[X]], %[[W]] {eps = 1.000000e-05 : f64} : tensor<2x3x4x8xf32>, tensor<24xf32>
// CHECK-NEXT: return
func.func @heads_one_by_one(%x: tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32> {
  %w0 = heddle.weight "w0" <type = "f32", file = 0, offset = 0> : tensor<8xf32>
  %w1 = heddle.weight "w1" <type = "f32", file = 0, offset = 96> : tensor<8xf32>
  %w2 = heddle.weight "w2" <type = "f32", file = 0, offset = 32> : tensor<8xf32>
  %x0 = tensor.extract_slice %x[0, 0, 0, 0] [2, 1, 4, 8] [1, 1, 1, 1] : tensor<2x3x4x8xf32> to tensor<2x1x4x8xf32>
  %x1 = tensor.extract_slice %x[0, 1, 0, 0] [2, 1, 4, 8] [1, 1, 1, 1] : tensor<2x3x4x8xf32> to tensor<2x1x4x8xf32>
  %x2 = tensor.extract_slice %x[0, 2, 0, 0] [2, 1, 4, 8] [1, 1, 1, 1] : tensor<2x3x4x8xf32> to tensor<2x1x4x8xf32>
  %y0 = heddle.layer_norm %x0, %w0 {eps = 1.0e-5} : tensor<2x1x4x8xf32>, tensor<8xf32>
  %y1 = heddle.layer_norm %x1, %w1 {eps = 1.0e-5} : tensor<2x1x4x8xf32>, tensor<8xf32>
  %y2 = heddle.layer_norm %x2, %w2 {eps = 1.0e-5} : tensor<2x1x4x8xf32>, tensor<8xf32>
  %y = tensor.concat dim(1) %y0, %y1, %y2 : (tensor<2x1x4x8xf32>, tensor<2x1x4x8xf32>, tensor<2x1x4x8xf32>) -> tensor<2x3x4x8xf32>
  return %y : tensor<2x3x4x8xf32>
}

// CHECK-LABEL: @heads_in_another_order
// CHECK-COUNT-3: heddle.layer_norm
// CHECK: tensor.concat dim(1)
func.func @heads_in_another_order(%x: tensor<2x3x4x8xf32>) -> tensor<2x3x4x8xf32> {
  %w0 = heddle.weight "w0" <type = "f32", file = 0, offset = 0> : tensor<8xf32>
  %w1 = heddle.weight "w1" <type = "f32", file = 0, offset = 96> : tensor<8xf32>
  %x0 = tensor.extract_slice %x[0, 0, 0, 0] [2, 1, 4, 8] [1, 1, 1, 1] : tensor<2x3x4x8xf32> to tensor<2x1x4x8xf32>
  %x1 = tensor.extract_slice %x[0, 2, 0, 0] [2, 1, 4, 8] [1, 1, 1, 1] : tensor<2x3x4x8xf32> to tensor<2x1x4x8xf32>
  %x2 = tensor.extract_slice %x[0, 1, 0, 0] [2, 1, 4, 8] [1, 1, 1, 1] : tensor<2x3x4x8xf32> to tensor<2x1x4x8xf32>
  %y0 = heddle.layer_norm %x0, %w0 {eps = 1.0e-5} : tensor<2x1x4x8xf32>, tensor<8xf32>
  %y1 = heddle.layer_norm %x1, %w1 {eps = 1.0e-5} : tensor<2x1x4x8xf32>, tensor<8xf32>
  %y2 = heddle.layer_norm %x2, %w1 {eps = 1.0e-5} : tensor<2x1x4x8xf32>, tensor<8xf32>
  %y = tensor.concat dim(1) %y0, %y1, %y2 : (tensor<2x1x4x8xf32>, tensor<2x1x4x8xf32>, tensor<2x1x4x8xf32>) -> tensor<2x3x4x8xf32>
  return %y : tensor<2x3x4x8xf32>
}

// CHECK-LABEL: @heads_of_two_epsilons
// CHECK-COUNT-2: heddle.layer_norm
// CHECK: tensor.concat dim(1)
func.func @heads_of_two_epsilons(%x: tensor<2x2x4x8xf32>) -> tensor<2x2x4x8xf32> {
  %w0 = heddle.weight "w0" <type = "f32", file = 0, offset = 0> : tensor<8xf32>
  %w1 = heddle.weight "w1" <type = "f32", file = 0, offset = 96> : tensor<8xf32>
  %x0 = tensor.extract_slice %x[0, 0, 0, 0] [2, 1, 4, 8] [1, 1, 1, 1] : tensor<2x2x4x8xf32> to tensor<2x1x4x8xf32>
  %x1 = tensor.extract_slice %x[0, 1, 0, 0] [2, 1, 4, 8] [1, 1, 1, 1] : tensor<2x2x4x8xf32> to tensor<2x1x4x8xf32>
  %y0 = heddle.layer_norm %x0, %w0 {eps = 1.0e-5} : tensor<2x1x4x8xf32>, tensor<8xf32>
  %y1 = heddle.layer_norm %x1, %w1 {eps = 1.0e-2} : tensor<2x1x4x8xf32>, tensor<8xf32>
  %y = tensor.concat dim(1) %y0, %y1 : (tensor<2x1x4x8xf32>, tensor<2x1x4x8xf32>) -> tensor<2x2x4x8xf32>
  return %y : tensor<2x2x4x8xf32>
}
