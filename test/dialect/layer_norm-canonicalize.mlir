// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --heddle-check-all --canonicalize | FileCheck %s

// CHECK-LABEL: @zero_bias_dropped
// CHECK: heddle.layer_norm %{{.*}}, %{{.*}} {eps = 1.000000e-05 : f64} : tensor<?x4xf32>, tensor<4xf32>{{$}}
func.func @zero_bias_dropped(%x: tensor<?x4xf32>, %w: tensor<4xf32>) -> tensor<?x4xf32> {
  %b = arith.constant dense<0.0> : tensor<4xf32>
  %0 = heddle.layer_norm %x, %w, %b {eps = 1.0e-5} : tensor<?x4xf32>, tensor<4xf32>, tensor<4xf32>
  return %0 : tensor<?x4xf32>
}

// CHECK-LABEL: @small_bias_kept
// CHECK: heddle.layer_norm {{.*}}, tensor<4xf32>, tensor<4xf32>
func.func @small_bias_kept(%x: tensor<?x4xf32>, %w: tensor<4xf32>) -> tensor<?x4xf32> {
  %b = arith.constant dense<[0.0, 0.0, 1.0e-30, 0.0]> : tensor<4xf32>
  %0 = heddle.layer_norm %x, %w, %b {eps = 1.0e-5} : tensor<?x4xf32>, tensor<4xf32>, tensor<4xf32>
  return %0 : tensor<?x4xf32>
}
