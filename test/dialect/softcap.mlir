// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s | %heddle-opt | FileCheck %s
// RUN: %heddle-opt %s --mlir-print-op-generic | %heddle-opt | FileCheck %s

// CHECK-LABEL: @bounded
func.func @bounded(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  // CHECK: heddle.softcap %{{.*}} {cap = 3.000000e+01 : f64} : tensor<?x8xf32>
  %0 = heddle.softcap %x {cap = 30.0} : tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}
