// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --heddle-fuse-projections | FileCheck %s
// RUN: %heddle-opt %s --heddle-check --heddle-check-entry=one_input_one_product --heddle-fuse-projections -o %t
// RUN: %heddle-opt %s --heddle-check --heddle-check-entry=biases_follow_their_weights --heddle-fuse-projections -o %t

// CHECK-LABEL: @one_input_one_product
// CHECK-SAME: %[[X:.*]]: tensor<?x64xf32>, %[[WQ:.*]]: tensor<64x64xf32>, %[[WK:.*]]: tensor<32x64xf32>
// CHECK: %[[QK:.*]] = heddle.linear %[[X]], weights(%[[WQ]], %[[WK]] : tensor<64x64xf32>, tensor<32x64xf32>) : tensor<?x64xf32> -> tensor<?x96xf32>
// CHECK: %[[ROWS:.*]] = tensor.dim %[[QK]]
// CHECK: %[[Q:.*]] = tensor.extract_slice %[[QK]][0, 0] [%[[ROWS]], 64] [1, 1]
// CHECK: %[[K:.*]] = tensor.extract_slice %[[QK]][0, 64] [%[[ROWS]], 32] [1, 1]
// CHECK-NOT: heddle.linear
// CHECK: return %[[Q]], %[[K]]
func.func @one_input_one_product(%x: tensor<?x64xf32>, %wq: tensor<64x64xf32>, %wk: tensor<32x64xf32>) -> (tensor<?x64xf32>, tensor<?x32xf32>) {
  %q = heddle.linear %x, weights(%wq : tensor<64x64xf32>) : tensor<?x64xf32> -> tensor<?x64xf32>
  %k = heddle.linear %x, weights(%wk : tensor<32x64xf32>) : tensor<?x64xf32> -> tensor<?x32xf32>
  return %q, %k : tensor<?x64xf32>, tensor<?x32xf32>
}

// CHECK-LABEL: @biases_follow_their_weights
// CHECK-SAME: %[[X:.*]]: tensor<?x8xf32>, %[[W0:.*]]: tensor<4x8xf32>, %[[B0:.*]]: tensor<4xf32>, %[[W1:.*]]: tensor<2x8xf32>, %[[B1:.*]]: tensor<2xf32>
// CHECK: heddle.linear %[[X]], weights(%[[W0]], %[[W1]] : {{.*}}) biases(%[[B0]], %[[B1]] : tensor<4xf32>, tensor<2xf32>)
// CHECK-NOT: heddle.linear
// CHECK: return
func.func @biases_follow_their_weights(%x: tensor<?x8xf32>, %w0: tensor<4x8xf32>, %b0: tensor<4xf32>, %w1: tensor<2x8xf32>, %b1: tensor<2xf32>)
    -> (tensor<?x4xf32>, tensor<?x2xf32>) {
  %0 = heddle.linear %x, weights(%w0 : tensor<4x8xf32>) biases(%b0 : tensor<4xf32>) : tensor<?x8xf32> -> tensor<?x4xf32>
  %1 = heddle.linear %x, weights(%w1 : tensor<2x8xf32>) biases(%b1 : tensor<2xf32>) : tensor<?x8xf32> -> tensor<?x2xf32>
  return %0, %1 : tensor<?x4xf32>, tensor<?x2xf32>
}

// A weight that is named only after the first product moves before it.
// CHECK-LABEL: @late_weights_move_up
// CHECK: %[[W0:.*]] = heddle.weight "w0"
// CHECK: %[[W1:.*]] = heddle.weight "w1"
// CHECK: heddle.linear %{{.*}}, weights(%[[W0]], %[[W1]]
// CHECK-NOT: heddle.linear
// CHECK: return
func.func @late_weights_move_up(%x: tensor<?x8xf32>) -> (tensor<?x4xf32>, tensor<?x2xf32>) {
  %w0 = heddle.weight "w0" <type = "f32", file = 0, offset = 0> : tensor<4x8xf32>
  %0 = heddle.linear %x, weights(%w0 : tensor<4x8xf32>) : tensor<?x8xf32> -> tensor<?x4xf32>
  %w1 = heddle.weight "w1" <type = "f32", file = 0, offset = 128> : tensor<2x8xf32>
  %1 = heddle.linear %x, weights(%w1 : tensor<2x8xf32>) : tensor<?x8xf32> -> tensor<?x2xf32>
  return %0, %1 : tensor<?x4xf32>, tensor<?x2xf32>
}

// One packed matrix holds one stored type: query and key fuse, value does not.
// CHECK-LABEL: @stored_types_stay_apart
// CHECK: heddle.linear %{{.*}}, weights(%{{.*}}, %{{.*}} : tensor<4x32xf32, #heddle.quant<q4_0>>, tensor<2x32xf32, #heddle.quant<q4_0>>)
// CHECK: heddle.linear %{{.*}}, weights(%{{.*}} : tensor<2x32xf32, #heddle.quant<q8_0>>)
func.func @stored_types_stay_apart(%x: tensor<?x32xf32>, %wq: tensor<4x32xf32, #heddle.quant<q4_0>>, %wk: tensor<2x32xf32, #heddle.quant<q4_0>>,
                                   %wv: tensor<2x32xf32, #heddle.quant<q8_0>>) -> (tensor<?x4xf32>, tensor<?x2xf32>, tensor<?x2xf32>) {
  %q = heddle.linear %x, weights(%wq : tensor<4x32xf32, #heddle.quant<q4_0>>) : tensor<?x32xf32> -> tensor<?x4xf32>
  %v = heddle.linear %x, weights(%wv : tensor<2x32xf32, #heddle.quant<q8_0>>) : tensor<?x32xf32> -> tensor<?x2xf32>
  %k = heddle.linear %x, weights(%wk : tensor<2x32xf32, #heddle.quant<q4_0>>) : tensor<?x32xf32> -> tensor<?x2xf32>
  return %q, %k, %v : tensor<?x4xf32>, tensor<?x2xf32>, tensor<?x2xf32>
}

// CHECK-LABEL: @other_inputs_stay_apart
// CHECK-COUNT-2: heddle.linear %{{.*}}, weights(%{{[a-z0-9]+}} :
// CHECK-NOT: tensor.extract_slice
// CHECK: return
func.func @other_inputs_stay_apart(%x: tensor<?x8xf32>, %y: tensor<?x8xf32>, %w0: tensor<4x8xf32>, %w1: tensor<2x8xf32>)
    -> (tensor<?x4xf32>, tensor<?x2xf32>) {
  %0 = heddle.linear %x, weights(%w0 : tensor<4x8xf32>) : tensor<?x8xf32> -> tensor<?x4xf32>
  %1 = heddle.linear %y, weights(%w1 : tensor<2x8xf32>) : tensor<?x8xf32> -> tensor<?x2xf32>
  return %0, %1 : tensor<?x4xf32>, tensor<?x2xf32>
}

// CHECK-LABEL: @one_bias_of_two_stays_apart
// CHECK-COUNT-2: heddle.linear %{{.*}}, weights(%{{[a-z0-9]+}} :
// CHECK-NOT: tensor.extract_slice
// CHECK: return
func.func @one_bias_of_two_stays_apart(%x: tensor<?x8xf32>, %w0: tensor<4x8xf32>, %b0: tensor<4xf32>, %w1: tensor<2x8xf32>)
    -> (tensor<?x4xf32>, tensor<?x2xf32>) {
  %0 = heddle.linear %x, weights(%w0 : tensor<4x8xf32>) biases(%b0 : tensor<4xf32>) : tensor<?x8xf32> -> tensor<?x4xf32>
  %1 = heddle.linear %x, weights(%w1 : tensor<2x8xf32>) : tensor<?x8xf32> -> tensor<?x2xf32>
  return %0, %1 : tensor<?x4xf32>, tensor<?x2xf32>
}

// A weight that is read before the first product stays where it is.
// CHECK-LABEL: @a_bias_is_read_before
// CHECK: %[[B:.*]] = heddle.weight "b"
// CHECK: heddle.layer_norm %{{.*}}, %[[B]], %[[B]]
// CHECK: heddle.linear {{.*}} biases(%[[B]], %[[B]] :
func.func @a_bias_is_read_before(%x: tensor<?x8xf32>) -> (tensor<?x8xf32>, tensor<?x8xf32>) {
  %b = heddle.weight "b" <type = "f32", file = 0, offset = 0> : tensor<8xf32>
  %n = heddle.layer_norm %x, %b, %b {eps = 1.0e-5} : tensor<?x8xf32>, tensor<8xf32>, tensor<8xf32>
  %w0 = heddle.weight "w0" <type = "f32", file = 0, offset = 64> : tensor<8x8xf32>
  %w1 = heddle.weight "w1" <type = "f32", file = 0, offset = 512> : tensor<8x8xf32>
  %0 = heddle.linear %n, weights(%w0 : tensor<8x8xf32>) biases(%b : tensor<8xf32>) : tensor<?x8xf32> -> tensor<?x8xf32>
  %1 = heddle.linear %n, weights(%w1 : tensor<8x8xf32>) biases(%b : tensor<8xf32>) : tensor<?x8xf32> -> tensor<?x8xf32>
  return %0, %1 : tensor<?x8xf32>, tensor<?x8xf32>
}

// Results of an encode are written to where its caller says, one by one.
// CHECK-LABEL: func.func @encode
// CHECK-NOT: tensor.extract_slice
// CHECK: %[[START:.*]] = heddle.linear
// CHECK: %[[END:.*]] = heddle.linear
// CHECK: return %[[START]], %[[END]]
func.func @encode(%x: tensor<?x64xf32>, %ws: tensor<1x64xf32>, %we: tensor<1x64xf32>) -> (tensor<?x1xf32>, tensor<?x1xf32>) {
  %s = heddle.linear %x, weights(%ws : tensor<1x64xf32>) : tensor<?x64xf32> -> tensor<?x1xf32>
  %e = heddle.linear %x, weights(%we : tensor<1x64xf32>) : tensor<?x64xf32> -> tensor<?x1xf32>
  return %s, %e : tensor<?x1xf32>, tensor<?x1xf32>
}
