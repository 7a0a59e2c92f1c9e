// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s | %heddle-opt | FileCheck %s
// RUN: %heddle-opt %s --mlir-print-op-generic | %heddle-opt | FileCheck %s

// CHECK-LABEL: @numbered
func.func @numbered() -> tensor<?x16xf32> {
  // CHECK: heddle.rope_table 2 : tensor<?x16xf32>
  %0 = heddle.rope_table 2 : tensor<?x16xf32>
  return %0 : tensor<?x16xf32>
}
