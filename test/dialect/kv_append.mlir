// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s | %heddle-opt | FileCheck %s
// RUN: %heddle-opt %s --mlir-print-op-generic | %heddle-opt | FileCheck %s

// CHECK-LABEL: @tensors
func.func @tensors(%c: !heddle.kv_cache<30 x 3 x 64 x bf16>, %k: tensor<?x192xf32>, %layer: index) {
  // CHECK: heddle.kv_append %{{.*}}[%{{.*}}], %{{.*}}, %{{.*}} : <30 x 3 x 64 x bf16>, tensor<?x192xf32>, tensor<?x192xf32>
  heddle.kv_append %c[%layer], %k, %k : <30 x 3 x 64 x bf16>, tensor<?x192xf32>, tensor<?x192xf32>
  return
}

// CHECK-LABEL: @buffers
func.func @buffers(%c: !heddle.kv_cache<2 x 1 x 4 x f32>, %k: memref<?x4xf32>) {
  %last = arith.constant 1 : index
  // CHECK: heddle.kv_append %{{.*}}[%{{.*}}], %{{.*}}, %{{.*}} : <2 x 1 x 4 x f32>, memref<?x4xf32>, memref<?x4xf32>
  heddle.kv_append %c[%last], %k, %k : <2 x 1 x 4 x f32>, memref<?x4xf32>, memref<?x4xf32>
  return
}
