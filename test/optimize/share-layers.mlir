// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --heddle-share-layers | FileCheck %s
// RUN: %heddle-opt %s --heddle-check --heddle-check-entry=equal_layers_share_a_body --heddle-share-layers -o %t

// CHECK: func.func private @layer_0(
// CHECK-NOT: @layer_1
func.func private @layer_0(%x: tensor<3x8xf32>, %w: tensor<8x8xf32>) -> tensor<3x8xf32> {
  %0 = heddle.linear %x, weights(%w : tensor<8x8xf32>) : tensor<3x8xf32> -> tensor<3x8xf32>
  return %0 : tensor<3x8xf32>
}
func.func private @layer_1(%x: tensor<3x8xf32>, %w: tensor<8x8xf32>) -> tensor<3x8xf32> {
  %0 = heddle.linear %x, weights(%w : tensor<8x8xf32>) : tensor<3x8xf32> -> tensor<3x8xf32>
  return %0 : tensor<3x8xf32>
}

// Layers of another stored type, number or structure stay.
// CHECK: func.func private @bf16_layer(
// CHECK: func.func private @scaled_layer(
// CHECK: func.func private @other_scale(
func.func private @bf16_layer(%x: tensor<3x8xf32>, %w: tensor<8x8xbf16>) -> tensor<3x8xf32> {
  %0 = heddle.linear %x, weights(%w : tensor<8x8xbf16>) : tensor<3x8xf32> -> tensor<3x8xf32>
  return %0 : tensor<3x8xf32>
}
func.func private @scaled_layer(%x: tensor<3x8xf32>, %w: tensor<8xf32>) -> tensor<3x8xf32> {
  %0 = heddle.rms_norm %x, %w {eps = 1.0e-5} : tensor<3x8xf32>, tensor<8xf32>
  return %0 : tensor<3x8xf32>
}
func.func private @other_scale(%x: tensor<3x8xf32>, %w: tensor<8xf32>) -> tensor<3x8xf32> {
  %0 = heddle.rms_norm %x, %w {eps = 1.0e-6} : tensor<3x8xf32>, tensor<8xf32>
  return %0 : tensor<3x8xf32>
}

// Others may call a public function by its name.
// CHECK: func.func @public_twin(
func.func @public_twin(%x: tensor<3x8xf32>, %w: tensor<8x8xf32>) -> tensor<3x8xf32> {
  %0 = heddle.linear %x, weights(%w : tensor<8x8xf32>) : tensor<3x8xf32> -> tensor<3x8xf32>
  return %0 : tensor<3x8xf32>
}

// CHECK-LABEL: @equal_layers_share_a_body
// CHECK-SAME: %[[X:.*]]: tensor<3x8xf32>, %[[W0:.*]]: tensor<8x8xf32>, %[[W1:.*]]: tensor<8x8xf32>
// CHECK: %[[Y:.*]] = call @layer_0(%[[X]], %[[W0]])
// CHECK: call @layer_0(%[[Y]], %[[W1]])
func.func @equal_layers_share_a_body(%x: tensor<3x8xf32>, %w0: tensor<8x8xf32>, %w1: tensor<8x8xf32>) -> tensor<3x8xf32> {
  %y = call @layer_0(%x, %w0) : (tensor<3x8xf32>, tensor<8x8xf32>) -> tensor<3x8xf32>
  %z = call @layer_1(%y, %w1) : (tensor<3x8xf32>, tensor<8x8xf32>) -> tensor<3x8xf32>
  return %z : tensor<3x8xf32>
}

// CHECK-LABEL: @different_layers_keep_their_callee
// CHECK: call @bf16_layer
// CHECK: call @scaled_layer
// CHECK: call @other_scale
func.func @different_layers_keep_their_callee(%x: tensor<3x8xf32>, %w: tensor<8x8xbf16>, %n: tensor<8xf32>) -> tensor<3x8xf32> {
  %0 = call @bf16_layer(%x, %w) : (tensor<3x8xf32>, tensor<8x8xbf16>) -> tensor<3x8xf32>
  %1 = call @scaled_layer(%0, %n) : (tensor<3x8xf32>, tensor<8xf32>) -> tensor<3x8xf32>
  %2 = call @other_scale(%1, %n) : (tensor<3x8xf32>, tensor<8xf32>) -> tensor<3x8xf32>
  return %2 : tensor<3x8xf32>
}
