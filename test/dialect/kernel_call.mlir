// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s | %heddle-opt | FileCheck %s
// RUN: %heddle-opt %s --mlir-print-op-generic | %heddle-opt | FileCheck %s

func.func private @twice(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %0 = arith.addf %x, %x : tensor<?x4xf32>
  return %0 : tensor<?x4xf32>
}

// CHECK-LABEL: @calls
func.func @calls(%x: tensor<?x4xf32>, %o: tensor<?x4xf32>) -> tensor<?x4xf32> {
  // CHECK: heddle.kernel_call @twice ins(%{{.*}} : tensor<?x4xf32>) outs(%{{.*}} : tensor<?x4xf32>) -> tensor<?x4xf32>
  %0 = heddle.kernel_call @twice ins(%x : tensor<?x4xf32>) outs(%o : tensor<?x4xf32>) -> tensor<?x4xf32>
  return %0 : tensor<?x4xf32>
}

// CHECK-LABEL: @calls_on_buffers
func.func @calls_on_buffers(%x: memref<?x4xf32>, %o: memref<?x4xf32>) {
  // CHECK: heddle.kernel_call @twice ins(%{{.*}} : memref<?x4xf32>) outs(%{{.*}} : memref<?x4xf32>){{$}}
  heddle.kernel_call @twice ins(%x : memref<?x4xf32>) outs(%o : memref<?x4xf32>)
  return
}
