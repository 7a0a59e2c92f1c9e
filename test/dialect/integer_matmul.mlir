// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s | %heddle-opt | FileCheck %s
// RUN: %heddle-opt %s --mlir-print-op-generic | %heddle-opt | FileCheck %s

// CHECK-LABEL: @signed
func.func @signed(%x: tensor<?x64xi8>, %w: tensor<1152xi8>, %o: tensor<?x16xi32>) -> tensor<?x16xi32> {
  // CHECK: heddle.integer_matmul ins(%{{.*}}, %{{.*}} : tensor<?x64xi8>, tensor<1152xi8>) outs(%{{.*}} : tensor<?x16xi32>) {k = 64 : i64, n = 16 : i64} -> tensor<?x16xi32>
  %0 = heddle.integer_matmul ins(%x, %w : tensor<?x64xi8>, tensor<1152xi8>) outs(%o : tensor<?x16xi32>) {n = 16 : i64, k = 64 : i64} -> tensor<?x16xi32>
  return %0 : tensor<?x16xi32>
}

// CHECK-LABEL: @on_buffers
func.func @on_buffers(%x: memref<?x64xi8>, %z: memref<i8>, %w: memref<1152xi8>, %o: memref<?x16xi32>) {
  // CHECK: heddle.integer_matmul unsigned ins(%{{.*}}, %{{.*}} : memref<?x64xi8>, memref<1152xi8>) zero(%{{.*}} : memref<i8>) outs(%{{.*}} : memref<?x16xi32>)
  heddle.integer_matmul unsigned ins(%x, %w : memref<?x64xi8>, memref<1152xi8>) zero(%z : memref<i8>) outs(%o : memref<?x16xi32>) {n = 16 : i64, k = 64 : i64}
  return
}
