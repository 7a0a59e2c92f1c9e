// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --heddle-check-all --canonicalize | FileCheck %s

// CHECK-LABEL: @zero_biases_dropped
// CHECK-NOT: biases
func.func @zero_biases_dropped(%x: tensor<?x4xf32>, %v: tensor<3x4xf32>, %w: tensor<2x4xf32>) -> tensor<?x5xf32> {
  %b = arith.constant dense<0.0> : tensor<3xf32>
  %c = arith.constant dense<[0.0, -0.0]> : tensor<2xf32>
  %0 = heddle.linear %x, weights(%v, %w : tensor<3x4xf32>, tensor<2x4xf32>) biases(%b, %c : tensor<3xf32>, tensor<2xf32>)
    : tensor<?x4xf32> -> tensor<?x5xf32>
  return %0 : tensor<?x5xf32>
}

// CHECK-LABEL: @one_bias_of_two_kept
// CHECK: biases
func.func @one_bias_of_two_kept(%x: tensor<?x4xf32>, %v: tensor<3x4xf32>, %w: tensor<2x4xf32>) -> tensor<?x5xf32> {
  %b = arith.constant dense<0.0> : tensor<3xf32>
  %c = arith.constant dense<[0.0, 1.0]> : tensor<2xf32>
  %0 = heddle.linear %x, weights(%v, %w : tensor<3x4xf32>, tensor<2x4xf32>) biases(%b, %c : tensor<3xf32>, tensor<2xf32>)
    : tensor<?x4xf32> -> tensor<?x5xf32>
  return %0 : tensor<?x5xf32>
}

// CHECK-LABEL: func.func @weight_without_rows_dropped(
// CHECK-SAME: %[[X:.*]]: tensor<?x4xf32>, %{{.*}}: tensor<0x4xf32>, %[[W:.*]]: tensor<2x4xf32>, %{{.*}}, %[[C:.*]]: tensor<2xf32>
// CHECK: heddle.linear %[[X]], weights(%[[W]] : tensor<2x4xf32>) biases(%[[C]] : tensor<2xf32>)
func.func @weight_without_rows_dropped(%x: tensor<?x4xf32>, %v: tensor<0x4xf32>, %w: tensor<2x4xf32>, %b: tensor<0xf32>, %c: tensor<2xf32>)
    -> tensor<?x2xf32> {
  %0 = heddle.linear %x, weights(%v, %w : tensor<0x4xf32>, tensor<2x4xf32>) biases(%b, %c : tensor<0xf32>, tensor<2xf32>)
    : tensor<?x4xf32> -> tensor<?x2xf32>
  return %0 : tensor<?x2xf32>
}

// CHECK-LABEL: @only_weight_kept
// CHECK: heddle.linear %{{.*}}, weights(%{{.*}} : tensor<0x4xf32>)
func.func @only_weight_kept(%x: tensor<?x4xf32>, %v: tensor<0x4xf32>) -> tensor<?x0xf32> {
  %0 = heddle.linear %x, weights(%v : tensor<0x4xf32>) : tensor<?x4xf32> -> tensor<?x0xf32>
  return %0 : tensor<?x0xf32>
}

// CHECK-LABEL: @stored_weight_not_widened
// CHECK-DAG: %[[W:.*]] = heddle.weight "w"
// CHECK-DAG: %[[B:.*]] = heddle.weight "b"
// CHECK-NOT: arith.extf
// CHECK: weights(%[[W]] : tensor<2x4xf16>) biases(%[[B]] : tensor<2xbf16>)
func.func @stored_weight_not_widened(%x: tensor<?x4xf32>) -> tensor<?x2xf32> {
  %stored = heddle.weight "w" <type = "f16", file = 0, offset = 0> : tensor<2x4xf16>
  %w = arith.extf %stored : tensor<2x4xf16> to tensor<2x4xf32>
  %storedBias = heddle.weight "b" <type = "bf16", file = 0, offset = 64> : tensor<2xbf16>
  %b = arith.extf %storedBias : tensor<2xbf16> to tensor<2xf32>
  %0 = heddle.linear %x, weights(%w : tensor<2x4xf32>) biases(%b : tensor<2xf32>) : tensor<?x4xf32> -> tensor<?x2xf32>
  return %0 : tensor<?x2xf32>
}

// The activation is no weight: its type is the result's.
// CHECK-LABEL: @activation_still_widened
// CHECK: arith.extf
func.func @activation_still_widened(%x: tensor<?x4xf16>, %w: tensor<2x4xf16>) -> tensor<?x2xf32> {
  %wide = arith.extf %x : tensor<?x4xf16> to tensor<?x4xf32>
  %0 = heddle.linear %wide, weights(%w : tensor<2x4xf16>) : tensor<?x4xf32> -> tensor<?x2xf32>
  return %0 : tensor<?x2xf32>
}
