// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s | %heddle-opt | FileCheck %s
// RUN: %heddle-opt %s --mlir-print-op-generic | %heddle-opt | FileCheck %s

// CHECK-LABEL: @plain
func.func @plain(%q: tensor<2x6x?x8xf32>, %k: tensor<2x2x?x8xf32>, %v: tensor<2x2x?x5xf32>, %o: tensor<2x6x?x5xf32>) -> tensor<2x6x?x5xf32> {
  // CHECK: heddle.flash_attention <causal> ins(%{{.*}}, %{{.*}}, %{{.*}} : tensor<2x6x?x8xf32>, tensor<2x2x?x8xf32>, tensor<2x2x?x5xf32>) outs(%{{.*}} : tensor<2x6x?x5xf32>) {scale = 1.000000e+00 : f64} -> tensor<2x6x?x5xf32>
  %0 = heddle.flash_attention <causal> ins(%q, %k, %v : tensor<2x6x?x8xf32>, tensor<2x2x?x8xf32>, tensor<2x2x?x5xf32>)
    outs(%o : tensor<2x6x?x5xf32>) {scale = 1.0} -> tensor<2x6x?x5xf32>
  return %0 : tensor<2x6x?x5xf32>
}

// CHECK-LABEL: @every_part
func.func @every_part(%q: tensor<?x7x6x8xbf16>, %k: tensor<?x6x?x8xf16>, %v: tensor<6x?x?x8xf16>, %b: tensor<?x1x7x?xf32>,
                      %s: tensor<6xf32>, %o: tensor<7x?x6x8xbf16>) -> tensor<7x?x6x8xbf16> {
  // CHECK: heddle.flash_attention <full, window = 4> ins(%{{.*}}, %{{.*}}, %{{.*}} bias %{{.*}} sinks %{{.*}} : tensor<?x7x6x8xbf16>, tensor<?x6x?x8xf16>, tensor<6x?x?x8xf16> bias tensor<?x1x7x?xf32> sinks tensor<6xf32>)
  // CHECK-SAME: {out_axes = array<i64: 1, 2, 0, 3>, query_axes = array<i64: 0, 2, 1, 3>, scale = 1.000000e+00 : f64, softcap = 3.000000e+01 : f64, value_axes = array<i64: 1, 0, 2, 3>}
  %0 = heddle.flash_attention <full, window = 4> ins(%q, %k, %v bias %b sinks %s
      : tensor<?x7x6x8xbf16>, tensor<?x6x?x8xf16>, tensor<6x?x?x8xf16> bias tensor<?x1x7x?xf32> sinks tensor<6xf32>)
    outs(%o : tensor<7x?x6x8xbf16>) {scale = 1.0, softcap = 30.0, query_axes = array<i64: 0, 2, 1, 3>,
      value_axes = array<i64: 1, 0, 2, 3>, out_axes = array<i64: 1, 2, 0, 3>} -> tensor<7x?x6x8xbf16>
  return %0 : tensor<7x?x6x8xbf16>
}

// CHECK-LABEL: @buffers
func.func @buffers(%q: memref<2x6x?x8xf32, strided<[?, ?, ?, 1], offset: ?>>, %k: memref<2x2x?x8xf32>, %o: memref<2x6x?x8xf32>) {
  // CHECK: heddle.flash_attention <full> ins({{.*}}) outs(%{{.*}} : memref<2x6x?x8xf32>) {scale = 1.000000e+00 : f64}
  heddle.flash_attention <full> ins(%q, %k, %k : memref<2x6x?x8xf32, strided<[?, ?, ?, 1], offset: ?>>, memref<2x2x?x8xf32>, memref<2x2x?x8xf32>)
    outs(%o : memref<2x6x?x8xf32>) {scale = 1.0}
  return
}
