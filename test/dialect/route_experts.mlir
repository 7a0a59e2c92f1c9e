// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s | %heddle-opt | FileCheck %s
// RUN: %heddle-opt %s --mlir-print-op-generic | %heddle-opt | FileCheck %s

// CHECK-LABEL: @tensors
func.func @tensors(%l: tensor<?x8xf32>, %e: tensor<?x2xi32>, %w: tensor<?x2xf32>, %o: tensor<?x9xi32>, %i: tensor<?x2xi32>,
                   %s: tensor<?x2xf32>) -> tensor<?x9xi32> {
  // CHECK: heddle.route_experts ins(%{{.*}} : tensor<?x8xf32>) outs(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : tensor<?x2xi32>, tensor<?x2xf32>, tensor<?x9xi32>, tensor<?x2xi32>, tensor<?x2xf32>) {normalize = true, num_experts = 8 : i64, top_k = 2 : i64} -> tensor<?x2xi32>, tensor<?x2xf32>, tensor<?x9xi32>, tensor<?x2xi32>, tensor<?x2xf32>
  %0:5 = heddle.route_experts ins(%l : tensor<?x8xf32>)
    outs(%e, %w, %o, %i, %s : tensor<?x2xi32>, tensor<?x2xf32>, tensor<?x9xi32>, tensor<?x2xi32>, tensor<?x2xf32>)
    {num_experts = 8 : i64, top_k = 2 : i64, normalize = true}
    -> tensor<?x2xi32>, tensor<?x2xf32>, tensor<?x9xi32>, tensor<?x2xi32>, tensor<?x2xf32>
  return %0#2 : tensor<?x9xi32>
}

// CHECK-LABEL: @buffers
func.func @buffers(%l: memref<?x8xf32>, %e: memref<?x2xi32>, %w: memref<?x2xf32>, %o: memref<?x9xi32>, %i: memref<?x2xi32>, %s: memref<?x2xf32>) {
  // CHECK: heddle.route_experts ins(%{{.*}} : memref<?x8xf32>) outs({{.*}}) {normalize = false, num_experts = 8 : i64, top_k = 2 : i64}{{$}}
  heddle.route_experts ins(%l : memref<?x8xf32>)
    outs(%e, %w, %o, %i, %s : memref<?x2xi32>, memref<?x2xf32>, memref<?x9xi32>, memref<?x2xi32>, memref<?x2xf32>)
    {num_experts = 8 : i64, top_k = 2 : i64, normalize = false}
  return
}

// CHECK-LABEL: @corrected_and_scaled
func.func @corrected_and_scaled(%l: memref<?x8xf32>, %c: memref<8xf32>, %p: memref<8xf32>, %e: memref<?x2xi32>, %w: memref<?x2xf32>, %o: memref<?x9xi32>,
                                %i: memref<?x2xi32>, %s: memref<?x2xf32>) {
  // CHECK: heddle.route_experts ins(%{{.*}} correction %{{.*}} : memref<?x8xf32>, memref<8xf32>) scales(%{{.*}} : memref<8xf32>) outs(
  heddle.route_experts ins(%l correction %c : memref<?x8xf32>, memref<8xf32>) scales(%p : memref<8xf32>)
    outs(%e, %w, %o, %i, %s : memref<?x2xi32>, memref<?x2xf32>, memref<?x9xi32>, memref<?x2xi32>, memref<?x2xf32>)
    {num_experts = 8 : i64, top_k = 2 : i64, normalize = true}
  return
}

// CHECK-LABEL: @scaled
func.func @scaled(%l: memref<?x8xf32>, %p: memref<8xf32>, %e: memref<?x2xi32>, %w: memref<?x2xf32>, %o: memref<?x9xi32>, %i: memref<?x2xi32>, %s: memref<?x2xf32>) {
  // CHECK: heddle.route_experts ins(%{{.*}} : memref<?x8xf32>) scales(%{{.*}} : memref<8xf32>) outs(
  heddle.route_experts ins(%l : memref<?x8xf32>) scales(%p : memref<8xf32>)
    outs(%e, %w, %o, %i, %s : memref<?x2xi32>, memref<?x2xf32>, memref<?x9xi32>, memref<?x2xi32>, memref<?x2xf32>)
    {num_experts = 8 : i64, top_k = 2 : i64, normalize = true}
  return
}
