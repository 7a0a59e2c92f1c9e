// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --heddle-check-all --canonicalize | FileCheck %s

// CHECK-LABEL: @stored_weight_not_widened
// CHECK-NOT: arith.extf
// CHECK: heddle.rms_norm %{{.*}}, %{{.*}} {eps = 0.000000e+00 : f64} : tensor<?x4xf32>, tensor<4xbf16>
func.func @stored_weight_not_widened(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %stored = heddle.weight "w" <type = "bf16", file = 0, offset = 0> : tensor<4xbf16>
  %w = arith.extf %stored : tensor<4xbf16> to tensor<4xf32>
  %0 = heddle.rms_norm %x, %w {eps = 0.0} : tensor<?x4xf32>, tensor<4xf32>
  return %0 : tensor<?x4xf32>
}

// What was added to a weight is not in the file.
// CHECK-LABEL: @computed_weight_kept
// CHECK: arith.extf
func.func @computed_weight_kept(%x: tensor<?x4xf32>, %more: tensor<4xbf16>) -> tensor<?x4xf32> {
  %stored = heddle.weight "w" <type = "bf16", file = 0, offset = 0> : tensor<4xbf16>
  %sum = arith.addf %stored, %more : tensor<4xbf16>
  %w = arith.extf %sum : tensor<4xbf16> to tensor<4xf32>
  %0 = heddle.rms_norm %x, %w {eps = 0.0} : tensor<?x4xf32>, tensor<4xf32>
  return %0 : tensor<?x4xf32>
}

// A norm of a norm is not one norm: eps and rounding come in twice.
// CHECK-LABEL: @norm_of_norm_kept
// CHECK-COUNT-2: heddle.rms_norm
func.func @norm_of_norm_kept(%x: tensor<?x4xf32>, %w: tensor<4xf32>) -> tensor<?x4xf32> {
  %0 = heddle.rms_norm %x, %w {eps = 0.0} : tensor<?x4xf32>, tensor<4xf32>
  %1 = heddle.rms_norm %0, %w {eps = 0.0} : tensor<?x4xf32>, tensor<4xf32>
  return %1 : tensor<?x4xf32>
}
