// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s | %heddle-opt | FileCheck %s
// RUN: %heddle-opt %s --mlir-print-op-generic | %heddle-opt | FileCheck %s

// CHECK-LABEL: @gathered
func.func @gathered(%x: tensor<?x64xf32>, %w: tensor<4096xi8>, %f: tensor<?x9xi32>, %i: tensor<?x2xi32>, %r: tensor<?x2xf32>, %o: tensor<?x32xf32>) -> tensor<?x32xf32> {
  // CHECK: heddle.expert_matmul activated <silu> ins(%{{.*}}, %{{.*}} : tensor<?x64xf32>, tensor<4096xi8>) list({{.*}} : tensor<?x9xi32>, tensor<?x2xi32>, tensor<?x2xf32>) outs(%{{.*}} : tensor<?x32xf32>) {format = "q4_1", k = 64 : i64, n = 16 : i64, num_experts = 8 : i64, top_k = 2 : i64}
  %0 = heddle.expert_matmul activated <silu> ins(%x, %w : tensor<?x64xf32>, tensor<4096xi8>) list(%f, %i, %r : tensor<?x9xi32>, tensor<?x2xi32>, tensor<?x2xf32>) outs(%o : tensor<?x32xf32>) {format = "q4_1", k = 64 : i64, n = 16 : i64, num_experts = 8 : i64, top_k = 2 : i64} -> tensor<?x32xf32>
  return %0 : tensor<?x32xf32>
}

// CHECK-LABEL: @scattered
func.func @scattered(%x: tensor<?x128xf32>, %w: tensor<4096xi8>, %f: tensor<?x9xi32>, %i: tensor<?x2xi32>, %r: tensor<?x2xf32>, %o: tensor<?x16xf32>) -> tensor<?x16xf32> {
  // CHECK: heddle.expert_matmul ins(%{{.*}}, %{{.*}} : tensor<?x128xf32>, tensor<4096xi8>) list({{.*}}) outs(%{{.*}} : tensor<?x16xf32>) {accumulate, format = "q4_1", k = 64 : i64, n = 16 : i64, num_experts = 8 : i64, top_k = 2 : i64}
  %0 = heddle.expert_matmul ins(%x, %w : tensor<?x128xf32>, tensor<4096xi8>) list(%f, %i, %r : tensor<?x9xi32>, tensor<?x2xi32>, tensor<?x2xf32>) outs(%o : tensor<?x16xf32>) {accumulate, format = "q4_1", k = 64 : i64, n = 16 : i64, num_experts = 8 : i64, top_k = 2 : i64} -> tensor<?x16xf32>
  return %0 : tensor<?x16xf32>
}

// CHECK-LABEL: @codes
func.func @codes(%x: tensor<?x128xi8>, %s: tensor<?x4xf32>, %m: tensor<?x8xi32>, %w: tensor<4096xi8>, %f: tensor<?x9xi32>, %i: tensor<?x2xi32>, %r: tensor<?x2xf32>, %o: tensor<?x16xf32>) -> tensor<?x16xf32> {
  // CHECK: heddle.expert_matmul ins(%{{.*}} scales %{{.*}} sums %{{.*}}, %{{.*}} : tensor<?x128xi8> scales tensor<?x4xf32> sums tensor<?x8xi32>, tensor<4096xi8>)
  %0 = heddle.expert_matmul ins(%x scales %s sums %m, %w : tensor<?x128xi8> scales tensor<?x4xf32> sums tensor<?x8xi32>, tensor<4096xi8>) list(%f, %i, %r : tensor<?x9xi32>, tensor<?x2xi32>, tensor<?x2xf32>) outs(%o : tensor<?x16xf32>) {format = "q4_1", k = 64 : i64, n = 16 : i64, num_experts = 8 : i64, top_k = 2 : i64} -> tensor<?x16xf32>
  return %0 : tensor<?x16xf32>
}

// CHECK-LABEL: @buffers
func.func @buffers(%x: memref<?x64xf32>, %w: memref<4096xi8>, %f: memref<?x9xi32>, %i: memref<?x2xi32>, %r: memref<?x2xf32>, %o: memref<?x32xf32>) {
  // CHECK: heddle.expert_matmul activated <gelu_tanh> ins(%{{.*}}, %{{.*}} : memref<?x64xf32>, memref<4096xi8>) list({{.*}}) outs(%{{.*}} : memref<?x32xf32>) {format = "q4_1", k = 64 : i64, n = 16 : i64, num_experts = 8 : i64, top_k = 2 : i64}{{$}}
  heddle.expert_matmul activated <gelu_tanh> ins(%x, %w : memref<?x64xf32>, memref<4096xi8>) list(%f, %i, %r : memref<?x9xi32>, memref<?x2xi32>, memref<?x2xf32>) outs(%o : memref<?x32xf32>) {format = "q4_1", k = 64 : i64, n = 16 : i64, num_experts = 8 : i64, top_k = 2 : i64}
  return
}

// CHECK-LABEL: @biases_in_turn
func.func @biases_in_turn(%x: tensor<?x64xf32>, %w: tensor<4096xi8>, %b: tensor<256xf32>, %f: tensor<?x9xi32>, %i: tensor<?x2xi32>, %r: tensor<?x2xf32>, %o: tensor<?x32xf32>) -> tensor<?x32xf32> {
  // CHECK: heddle.expert_matmul activated <silu> gating <limit = 7.000000e+00 : f64, alpha = 1.702000e+00 : f64, offset = 1.000000e+00 : f64> ins(%{{.*}}, %{{.*}} bias %{{.*}} : tensor<?x64xf32>, tensor<4096xi8> bias tensor<256xf32>) {{.*}} {alternating, format
  %0 = heddle.expert_matmul activated <silu> gating <limit = 7.0, alpha = 1.702, offset = 1.0> ins(%x, %w bias %b : tensor<?x64xf32>, tensor<4096xi8> bias tensor<256xf32>) list(%f, %i, %r : tensor<?x9xi32>, tensor<?x2xi32>, tensor<?x2xf32>) outs(%o : tensor<?x32xf32>) {alternating, format = "q4_1", k = 64 : i64, n = 16 : i64, num_experts = 8 : i64, top_k = 2 : i64} -> tensor<?x32xf32>
  return %0 : tensor<?x32xf32>
}

// CHECK-LABEL: @activation_alone
func.func @activation_alone(%x: tensor<?x64xf32>, %w: tensor<4096xi8>, %f: tensor<?x9xi32>, %i: tensor<?x2xi32>, %r: tensor<?x2xf32>, %o: tensor<?x32xf32>) -> tensor<?x32xf32> {
  // CHECK: heddle.expert_matmul activated <relu> ins({{.*}}) list({{.*}}) outs({{.*}}) {format = "q4_1", k = 64 : i64, n = 16 : i64, num_experts = 8 : i64, top_k = 2 : i64, ungated}
  %0 = heddle.expert_matmul activated <relu> ins(%x, %w : tensor<?x64xf32>, tensor<4096xi8>) list(%f, %i, %r : tensor<?x9xi32>, tensor<?x2xi32>, tensor<?x2xf32>) outs(%o : tensor<?x32xf32>) {ungated, format = "q4_1", k = 64 : i64, n = 16 : i64, num_experts = 8 : i64, top_k = 2 : i64} -> tensor<?x32xf32>
  return %0 : tensor<?x32xf32>
}
