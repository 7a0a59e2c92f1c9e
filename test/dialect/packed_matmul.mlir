// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s | %heddle-opt | FileCheck %s
// RUN: %heddle-opt %s --mlir-print-op-generic | %heddle-opt | FileCheck %s

// CHECK-LABEL: @floats
func.func @floats(%x: tensor<?x64xf32>, %w: tensor<4096xi8>, %o: tensor<?x16xf32>) -> tensor<?x16xf32> {
  // CHECK: heddle.packed_matmul ins(%{{.*}}, %{{.*}} : tensor<?x64xf32>, tensor<4096xi8>) outs(%{{.*}} : tensor<?x16xf32>) {format = "q4_1", k = 64 : i64, n = 16 : i64} -> tensor<?x16xf32>
  %0 = heddle.packed_matmul ins(%x, %w : tensor<?x64xf32>, tensor<4096xi8>) outs(%o : tensor<?x16xf32>) {n = 16 : i64, k = 64 : i64, format = "q4_1"} -> tensor<?x16xf32>
  return %0 : tensor<?x16xf32>
}

// CHECK-LABEL: @bias_only
func.func @bias_only(%x: tensor<?x64xf32>, %w: tensor<4096xi8>, %b: tensor<16xf32>, %o: tensor<?x16xf32>) -> tensor<?x16xf32> {
  // CHECK: ins(%{{.*}}, %{{.*}} bias %{{.*}} : tensor<?x64xf32>, tensor<4096xi8> bias tensor<16xf32>)
  %0 = heddle.packed_matmul ins(%x, %w bias %b : tensor<?x64xf32>, tensor<4096xi8> bias tensor<16xf32>) outs(%o : tensor<?x16xf32>) {n = 16 : i64, k = 64 : i64, format = "q4_1"} -> tensor<?x16xf32>
  return %0 : tensor<?x16xf32>
}

// CHECK-LABEL: @codes
func.func @codes(%x: tensor<?x64xi8>, %s: tensor<?x2xf32>, %m: tensor<?x4xi32>, %w: tensor<4096xi8>, %b: tensor<16xf32>,
                 %o: tensor<?x16xf32>) -> tensor<?x16xf32> {
  // CHECK: ins(%{{.*}} scales %{{.*}} sums %{{.*}}, %{{.*}} bias %{{.*}} : tensor<?x64xi8> scales tensor<?x2xf32> sums tensor<?x4xi32>, tensor<4096xi8> bias tensor<16xf32>)
  // CHECK-SAME: {accumulate,
  %0 = heddle.packed_matmul ins(%x scales %s sums %m, %w bias %b
      : tensor<?x64xi8> scales tensor<?x2xf32> sums tensor<?x4xi32>, tensor<4096xi8> bias tensor<16xf32>)
    outs(%o : tensor<?x16xf32>) {accumulate, n = 16 : i64, k = 64 : i64, format = "q4_1"} -> tensor<?x16xf32>
  return %0 : tensor<?x16xf32>
}

// CHECK-LABEL: @rounded_here
func.func @rounded_here(%x: tensor<?x64xf32>, %r: tensor<?x64xbf16>, %w: tensor<4096xi8>, %o: tensor<?x16xf32>) -> tensor<?x16xf32> {
  // CHECK: ins(%{{.*}} rounded %{{.*}}, %{{.*}} : tensor<?x64xf32> rounded tensor<?x64xbf16>, tensor<4096xi8>)
  // CHECK-SAME: int16
  %0 = heddle.packed_matmul ins(%x rounded %r, %w : tensor<?x64xf32> rounded tensor<?x64xbf16>, tensor<4096xi8>)
    outs(%o : tensor<?x16xf32>) {int16, n = 16 : i64, k = 64 : i64, format = "q4_1"} -> tensor<?x16xf32>
  return %0 : tensor<?x16xf32>
}

// CHECK-LABEL: @buffers
func.func @buffers(%x: memref<?x64xf32>, %w: memref<4096xi8>, %o: memref<?x16xf32>) {
  // CHECK: heddle.packed_matmul ins(%{{.*}}, %{{.*}} : memref<?x64xf32>, memref<4096xi8>) outs(%{{.*}} : memref<?x16xf32>) {format = "f32", k = 64 : i64, n = 16 : i64}{{$}}
  heddle.packed_matmul ins(%x, %w : memref<?x64xf32>, memref<4096xi8>) outs(%o : memref<?x16xf32>) {n = 16 : i64, k = 64 : i64, format = "f32"}
  return
}

// CHECK-LABEL: @activated
func.func @activated(%x: tensor<?x64xf32>, %w: tensor<4096xi8>, %b: tensor<16xf32>, %o: tensor<?x16xf32>) -> tensor<?x16xf32> {
  // CHECK: heddle.packed_matmul activated <gelu> ins(%{{.*}}, %{{.*}} bias %{{.*}} : tensor<?x64xf32>, tensor<4096xi8> bias tensor<16xf32>)
  %0 = heddle.packed_matmul activated <gelu> ins(%x, %w bias %b : tensor<?x64xf32>, tensor<4096xi8> bias tensor<16xf32>) outs(%o : tensor<?x16xf32>) {n = 16 : i64, k = 64 : i64, format = "q4_1"} -> tensor<?x16xf32>
  return %0 : tensor<?x16xf32>
}

// CHECK-LABEL: @rounded_result
func.func @rounded_result(%x: tensor<?x64xf32>, %w: tensor<4096xi8>, %o: tensor<?x16xf32>, %r: tensor<?x16xbf16>) -> (tensor<?x16xbf16>, tensor<?x16xbf16>) {
  // CHECK: outs(%{{.*}}, %{{.*}} : tensor<?x16xf32>, tensor<?x16xbf16>) {{{.*}}rounded_above = 12 : i64} -> tensor<?x16xf32>, tensor<?x16xbf16>
  %0, %1 = heddle.packed_matmul ins(%x, %w : tensor<?x64xf32>, tensor<4096xi8>) outs(%o, %r : tensor<?x16xf32>, tensor<?x16xbf16>)
    {int16, n = 16 : i64, k = 64 : i64, format = "q4_1", rounded_above = 12 : i64} -> tensor<?x16xf32>, tensor<?x16xbf16>
  // CHECK: outs(%{{.*}} : tensor<?x16xbf16>)
  %2 = heddle.packed_matmul ins(%x, %w : tensor<?x64xf32>, tensor<4096xi8>) outs(%r : tensor<?x16xbf16>) {n = 16 : i64, k = 64 : i64, format = "q4_1"} -> tensor<?x16xbf16>
  return %1, %2 : tensor<?x16xbf16>, tensor<?x16xbf16>
}
