// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s | %heddle-opt | FileCheck %s
// RUN: %heddle-opt %s --mlir-print-op-generic | %heddle-opt | FileCheck %s

// CHECK-LABEL: @codes
func.func @codes(%x: tensor<?x64xf32>) -> (tensor<?x64xi8>, tensor<?x2xf32>, tensor<?x4xi32>) {
  // CHECK: heddle.quantize %{{.*}} : tensor<?x64xf32> -> tensor<?x64xi8>, tensor<?x2xf32>, tensor<?x4xi32>
  %c, %s, %m = heddle.quantize %x : tensor<?x64xf32> -> tensor<?x64xi8>, tensor<?x2xf32>, tensor<?x4xi32>
  return %c, %s, %m : tensor<?x64xi8>, tensor<?x2xf32>, tensor<?x4xi32>
}
