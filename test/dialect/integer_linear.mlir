// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s | %heddle-opt | FileCheck %s
// RUN: %heddle-opt %s --mlir-print-op-generic | %heddle-opt | FileCheck %s

// CHECK-LABEL: @signed
func.func @signed(%x: tensor<1x?x8xi8>, %w: tensor<4x8xf32>) -> tensor<1x?x4xi32> {
  // CHECK: heddle.integer_linear %{{.*}}, %{{.*}} : tensor<1x?x8xi8>, tensor<4x8xf32> -> tensor<1x?x4xi32>
  %0 = heddle.integer_linear %x, %w : tensor<1x?x8xi8>, tensor<4x8xf32> -> tensor<1x?x4xi32>
  return %0 : tensor<1x?x4xi32>
}

// CHECK-LABEL: @unsigned_with_zero
func.func @unsigned_with_zero(%x: tensor<?x8xi8>, %z: tensor<i8>, %w: tensor<4x8xf32>) -> tensor<?x4xi32> {
  // CHECK: heddle.integer_linear unsigned %{{.*}} zero(%{{.*}} : tensor<i8>), %{{.*}} : tensor<?x8xi8>, tensor<4x8xf32> -> tensor<?x4xi32>
  %0 = heddle.integer_linear unsigned %x zero(%z : tensor<i8>), %w : tensor<?x8xi8>, tensor<4x8xf32> -> tensor<?x4xi32>
  return %0 : tensor<?x4xi32>
}
