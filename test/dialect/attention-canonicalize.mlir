// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --heddle-check-all --canonicalize | FileCheck %s

// CHECK-LABEL: @zero_bias_dropped
// CHECK-NOT: bias
// CHECK: heddle.attention %{{.*}}, %{{.*}}, %{{.*}} <causal>
func.func @zero_bias_dropped(%q: tensor<1x2x3x4xf32>, %k: tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32> {
  %zeros = arith.constant dense<0.0> : tensor<1x2x3x3xf32>
  %0 = heddle.attention %q, %k, %k bias(%zeros : tensor<1x2x3x3xf32>) <causal> {scale = 0.5}
    : tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32> -> tensor<1x2x3x4xf32>
  return %0 : tensor<1x2x3x4xf32>
}

// CHECK-LABEL: @slopes_of_zero_dropped
// CHECK-NOT: bias
func.func @slopes_of_zero_dropped(%q: tensor<1x2x?x4xf32>, %k: tensor<1x2x?x4xf32>, %n: index) -> tensor<1x2x?x4xf32> {
  %slopes = arith.constant dense<0.0> : tensor<2xf32>
  %c2 = arith.constant 2 : index
  %size = tensor.dim %q, %c2 : tensor<1x2x?x4xf32>
  %b = heddle.position_bias %slopes[%size, %size] : tensor<2xf32> -> tensor<1x2x?x?xf32>
  %0 = heddle.attention %q, %k, %k bias(%b : tensor<1x2x?x?xf32>) <full> {scale = 0.5}
    : tensor<1x2x?x4xf32>, tensor<1x2x?x4xf32>, tensor<1x2x?x4xf32> -> tensor<1x2x?x4xf32>
  return %0 : tensor<1x2x?x4xf32>
}

// CHECK-LABEL: @filled_bias_dropped
// CHECK-NOT: bias
func.func @filled_bias_dropped(%q: tensor<1x2x?x4xf32>, %k: tensor<1x2x?x4xf32>) -> tensor<1x2x?x4xf32> {
  %c2 = arith.constant 2 : index
  %zero = arith.constant 0.0 : f32
  %size = tensor.dim %q, %c2 : tensor<1x2x?x4xf32>
  %empty = tensor.empty(%size, %size) : tensor<1x2x?x?xf32>
  %b = linalg.fill ins(%zero : f32) outs(%empty : tensor<1x2x?x?xf32>) -> tensor<1x2x?x?xf32>
  %0 = heddle.attention %q, %k, %k bias(%b : tensor<1x2x?x?xf32>) <full> {scale = 0.5}
    : tensor<1x2x?x4xf32>, tensor<1x2x?x4xf32>, tensor<1x2x?x4xf32> -> tensor<1x2x?x4xf32>
  return %0 : tensor<1x2x?x4xf32>
}

// The same number everywhere moves no score against another, but it is not zero: it moves them against a sink.
// CHECK-LABEL: @equal_bias_beside_sinks_kept
// CHECK: bias
func.func @equal_bias_beside_sinks_kept(%q: tensor<1x2x3x4xf32>, %k: tensor<1x2x3x4xf32>, %sinks: tensor<2xf32>) -> tensor<1x2x3x4xf32> {
  %ones = arith.constant dense<1.0> : tensor<1x2x3x3xf32>
  %0 = heddle.attention %q, %k, %k bias(%ones : tensor<1x2x3x3xf32>) sinks(%sinks : tensor<2xf32>) <full> {scale = 0.5}
    : tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32> -> tensor<1x2x3x4xf32>
  return %0 : tensor<1x2x3x4xf32>
}
