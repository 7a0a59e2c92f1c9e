// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s | %heddle-opt | FileCheck %s
// RUN: %heddle-opt %s --mlir-print-op-generic | %heddle-opt | FileCheck %s

// CHECK-LABEL: @with_bias
func.func @with_bias(%x: tensor<?x8xf32>, %w: tensor<8xf32>, %b: tensor<8xf16>) -> tensor<?x8xf32> {
  // CHECK: heddle.layer_norm %{{.*}}, %{{.*}}, %{{.*}} {eps = 1.000000e-05 : f64} : tensor<?x8xf32>, tensor<8xf32>, tensor<8xf16>
  %0 = heddle.layer_norm %x, %w, %b {eps = 1.0e-5} : tensor<?x8xf32>, tensor<8xf32>, tensor<8xf16>
  return %0 : tensor<?x8xf32>
}

// CHECK-LABEL: @without_bias
func.func @without_bias(%x: tensor<?x8xf32>, %w: tensor<8xf32>) -> tensor<?x8xf32> {
  // CHECK: heddle.layer_norm %{{.*}}, %{{.*}} {eps = 1.000000e-05 : f64} : tensor<?x8xf32>, tensor<8xf32>{{$}}
  %0 = heddle.layer_norm %x, %w {eps = 1.0e-5} : tensor<?x8xf32>, tensor<8xf32>
  return %0 : tensor<?x8xf32>
}

// CHECK-LABEL: @a_weight_for_each_head
func.func @a_weight_for_each_head(%x: tensor<?x3x?x8xf32>, %w: tensor<24xf32>) -> tensor<?x3x?x8xf32> {
  // CHECK: heddle.layer_norm %{{.*}}, %{{.*}} {eps = 1.000000e-05 : f64} : tensor<?x3x?x8xf32>, tensor<24xf32>
  %0 = heddle.layer_norm %x, %w {eps = 1.0e-5} : tensor<?x3x?x8xf32>, tensor<24xf32>
  return %0 : tensor<?x3x?x8xf32>
}
