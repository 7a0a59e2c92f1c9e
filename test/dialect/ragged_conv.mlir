// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s | %heddle-opt | FileCheck %s
// RUN: %heddle-opt %s --mlir-print-op-generic | %heddle-opt | FileCheck %s

// CHECK-LABEL: @on_tensors
func.func @on_tensors(%x: tensor<?x8xf32>, %w: tensor<24xf32>, %b: tensor<8xf32>, %cache: !heddle.kv_cache<2 x 1 x 16 x f32 state>, %layer: index, %o: tensor<?x8xf32>) -> tensor<?x8xf32> {
  // CHECK: heddle.ragged_conv ins(%{{.*}}, %{{.*}} bias %{{.*}} : tensor<?x8xf32>, tensor<24xf32> bias tensor<8xf32>) state(%{{.*}}[%{{.*}}] : <2 x 1 x 16 x f32 state>) outs(%{{.*}} : tensor<?x8xf32>) {activation = #heddle.activation<silu>} -> tensor<?x8xf32>
  %0 = heddle.ragged_conv ins(%x, %w bias %b : tensor<?x8xf32>, tensor<24xf32> bias tensor<8xf32>) state(%cache[%layer] : <2 x 1 x 16 x f32 state>)
    outs(%o : tensor<?x8xf32>) {activation = #heddle.activation<silu>} -> tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}

// CHECK-LABEL: @on_buffers
func.func @on_buffers(%x: memref<?x8xf32, strided<[40, 1]>>, %w: memref<24xf32>, %cache: !heddle.kv_cache<2 x 1 x 16 x f32 state>, %layer: index, %o: memref<?x8xf32>) {
  // CHECK: heddle.ragged_conv ins(%{{.*}}, %{{.*}} : memref<?x8xf32, strided<[40, 1]>>, memref<24xf32>) state({{.*}}) outs(%{{.*}} : memref<?x8xf32>)
  heddle.ragged_conv ins(%x, %w : memref<?x8xf32, strided<[40, 1]>>, memref<24xf32>) state(%cache[%layer] : <2 x 1 x 16 x f32 state>) outs(%o : memref<?x8xf32>)
  return
}
