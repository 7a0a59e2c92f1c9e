// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --heddle-check-all --canonicalize | FileCheck %s

#w = #heddle.source<name = "w", rows = 16, storage = <type = "f32", file = 0, offset = 0>>
#packing = #heddle.packing<layout = stacked, format = "f32", shape = [16, 64], offset = 0, sources = [#w]>

// CHECK-LABEL: @residual_of_zeros_not_added
// CHECK: %[[OUT:.*]] = tensor.empty
// CHECK: heddle.packed_matmul {{.*}} outs(%[[OUT]] : tensor<?x16xf32>) {format = "f32", k = 64 : i64, n = 16 : i64}
func.func @residual_of_zeros_not_added(%x: tensor<?x64xf32>) -> tensor<?x16xf32> {
  %w = heddle.weight "w" packed #packing : tensor<4096xi8>
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %size = tensor.dim %x, %c0 : tensor<?x64xf32>
  %empty = tensor.empty(%size) : tensor<?x16xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<?x16xf32>) -> tensor<?x16xf32>
  %0 = heddle.packed_matmul ins(%x, %w : tensor<?x64xf32>, tensor<4096xi8>) outs(%zeros : tensor<?x16xf32>)
    {n = 16, k = 64, format = "f32", accumulate} -> tensor<?x16xf32>
  return %0 : tensor<?x16xf32>
}

// CHECK-LABEL: @residual_added
// CHECK: accumulate
func.func @residual_added(%x: tensor<?x64xf32>, %residual: tensor<?x16xf32>) -> tensor<?x16xf32> {
  %w = heddle.weight "w" packed #packing : tensor<4096xi8>
  %0 = heddle.packed_matmul ins(%x, %w : tensor<?x64xf32>, tensor<4096xi8>) outs(%residual : tensor<?x16xf32>)
    {n = 16, k = 64, format = "f32", accumulate} -> tensor<?x16xf32>
  return %0 : tensor<?x16xf32>
}

// CHECK-LABEL: @ones_added
// CHECK: accumulate
func.func @ones_added(%x: tensor<2x64xf32>) -> tensor<2x16xf32> {
  %w = heddle.weight "w" packed #packing : tensor<4096xi8>
  %ones = arith.constant dense<1.0> : tensor<2x16xf32>
  %0 = heddle.packed_matmul ins(%x, %w : tensor<2x64xf32>, tensor<4096xi8>) outs(%ones : tensor<2x16xf32>)
    {n = 16, k = 64, format = "f32", accumulate} -> tensor<2x16xf32>
  return %0 : tensor<2x16xf32>
}
