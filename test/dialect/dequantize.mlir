// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s | %heddle-opt | FileCheck %s
// RUN: %heddle-opt %s --mlir-print-op-generic | %heddle-opt | FileCheck %s

// CHECK-LABEL: @rows
func.func @rows(%ids: tensor<?xi32>, %w: tensor<4096xi8>, %o: tensor<?x64xf32>) -> tensor<?x64xf32> {
  // CHECK: heddle.dequantize ins(%{{.*}}, %{{.*}} : tensor<?xi32>, tensor<4096xi8>) outs(%{{.*}} : tensor<?x64xf32>) {format = "q8_0", k = 64 : i64, n = 16 : i64, scale = 1.000000e+00 : f64} -> tensor<?x64xf32>
  %0 = heddle.dequantize ins(%ids, %w : tensor<?xi32>, tensor<4096xi8>) outs(%o : tensor<?x64xf32>)
    {n = 16 : i64, k = 64 : i64, format = "q8_0", scale = 1.0} -> tensor<?x64xf32>
  return %0 : tensor<?x64xf32>
}
