// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s | %heddle-opt | FileCheck %s
// RUN: %heddle-opt %s --mlir-print-op-generic | %heddle-opt | FileCheck %s

// CHECK-LABEL: @default_scale_is_not_printed
func.func @default_scale_is_not_printed(%ids: tensor<?xi32>, %table: tensor<100x8xbf16>) -> tensor<?x8xf32> {
  // CHECK: heddle.embedding %{{.*}}, %{{.*}} : tensor<?xi32>, tensor<100x8xbf16> -> tensor<?x8xf32>
  %0 = heddle.embedding %ids, %table : tensor<?xi32>, tensor<100x8xbf16> -> tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}

// CHECK-LABEL: @scaled_batch
func.func @scaled_batch(%ids: tensor<2x3xi32>, %table: tensor<100x8xf32, #heddle.quant<q8_0>>) -> tensor<2x3x8xf32> {
  // CHECK: heddle.embedding %{{.*}}, %{{.*}} {scale = 4.000000e+00 : f64} :
  %0 = heddle.embedding %ids, %table {scale = 4.0} : tensor<2x3xi32>, tensor<100x8xf32, #heddle.quant<q8_0>> -> tensor<2x3x8xf32>
  return %0 : tensor<2x3x8xf32>
}

// CHECK-LABEL: @given_rows
func.func @given_rows(%ids: tensor<1x?xi32>, %table: tensor<100x8xf32>, %given: tensor<?x8xf32>) -> tensor<1x?x8xf32> {
  // CHECK: heddle.embedding %{{.*}}, %{{.*}} given(%{{.*}} : tensor<?x8xf32>) {scale = 2.000000e+00 : f64} :
  %0 = heddle.embedding %ids, %table given(%given : tensor<?x8xf32>) {scale = 2.0} : tensor<1x?xi32>, tensor<100x8xf32> -> tensor<1x?x8xf32>
  return %0 : tensor<1x?x8xf32>
}
