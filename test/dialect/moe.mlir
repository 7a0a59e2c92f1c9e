// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s | %heddle-opt | FileCheck %s
// RUN: %heddle-opt %s --mlir-print-op-generic | %heddle-opt | FileCheck %s

// CHECK-LABEL: @two_experts
func.func @two_experts(%x: tensor<?x8xf32>, %r: tensor<2x8xf32>, %g: tensor<3x8xf32>, %d: tensor<8x3xf32>) -> tensor<?x8xf32> {
  // CHECK: heddle.moe <silu> %{{.*}}, %{{.*}} gates(%{{.*}}, %{{.*}} : tensor<3x8xf32>, tensor<3x8xf32>) ups(%{{.*}}, %{{.*}} : tensor<3x8xf32>, tensor<3x8xf32>) downs(%{{.*}}, %{{.*}} : tensor<8x3xf32>, tensor<8x3xf32>) {normalize = true, top_k = 1 : i64} : tensor<?x8xf32>, tensor<2x8xf32> -> tensor<?x8xf32>
  %0 = heddle.moe <silu> %x, %r gates(%g, %g : tensor<3x8xf32>, tensor<3x8xf32>) ups(%g, %g : tensor<3x8xf32>, tensor<3x8xf32>) downs(%d, %d : tensor<8x3xf32>, tensor<8x3xf32>) {top_k = 1 : i64, normalize = true} : tensor<?x8xf32>, tensor<2x8xf32> -> tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}

// CHECK-LABEL: @biases_and_gating
func.func @biases_and_gating(%x: tensor<?x8xf32>, %r: tensor<2x8xf32>, %p: tensor<2xf32>, %g: tensor<3x8xf32>, %b: tensor<3xf32>, %d: tensor<8x3xf32>, %c: tensor<8xbf16>) -> tensor<?x8xf32> {
  // CHECK: heddle.moe <silu> %{{.*}}, %{{.*}} router_bias(%{{.*}} : tensor<2xf32>) gating <limit = 7.000000e+00 : f64, alpha = 1.702000e+00 : f64, offset = 1.000000e+00 : f64> gates(
  // CHECK-SAME: downs({{.*}}) gate_biases(%{{.*}}, %{{.*}} : tensor<3xf32>, tensor<3xf32>) up_biases(%{{.*}}, %{{.*}} : tensor<3xf32>, tensor<3xf32>) down_biases(%{{.*}}, %{{.*}} : tensor<8xbf16>, tensor<8xbf16>) {normalize = true, top_k = 1 : i64}
  %0 = heddle.moe <silu> %x, %r router_bias(%p : tensor<2xf32>) gating <limit = 7.0, alpha = 1.702, offset = 1.0> gates(%g, %g : tensor<3x8xf32>, tensor<3x8xf32>)
    ups(%g, %g : tensor<3x8xf32>, tensor<3x8xf32>) downs(%d, %d : tensor<8x3xf32>, tensor<8x3xf32>) gate_biases(%b, %b : tensor<3xf32>, tensor<3xf32>)
    up_biases(%b, %b : tensor<3xf32>, tensor<3xf32>) down_biases(%c, %c : tensor<8xbf16>, tensor<8xbf16>) {top_k = 1 : i64, normalize = true} : tensor<?x8xf32>, tensor<2x8xf32> -> tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}

// CHECK-LABEL: @gates_and_ups_in_turn
func.func @gates_and_ups_in_turn(%x: tensor<?x8xf32>, %r: tensor<1x8xf32>, %g: tensor<6x8xf32>, %b: tensor<6xf32>, %d: tensor<8x3xf32>) -> tensor<?x8xf32> {
  // CHECK: gates(%{{.*}} : tensor<6x8xf32>) downs(%{{.*}} : tensor<8x3xf32>) gate_biases(%{{.*}} : tensor<6xf32>) {
  %0 = heddle.moe <silu> %x, %r gates(%g : tensor<6x8xf32>) downs(%d : tensor<8x3xf32>) gate_biases(%b : tensor<6xf32>) {top_k = 1 : i64, normalize = true} : tensor<?x8xf32>, tensor<1x8xf32> -> tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}

// CHECK-LABEL: @sparse_mixer
func.func @sparse_mixer(%x: tensor<?x8xf32>, %r: tensor<1x8xf32>, %g: tensor<3x8xf32>, %d: tensor<8x3xf32>) -> tensor<?x8xf32> {
  // CHECK: heddle.moe <silu> %{{.*}}, %{{.*}} routing <jitter = 1.000000e-02 : f64> gates(
  %0 = heddle.moe <silu> %x, %r routing <jitter = 0.01> gates(%g : tensor<3x8xf32>) downs(%d : tensor<8x3xf32>) {top_k = 1 : i64, normalize = false} : tensor<?x8xf32>, tensor<1x8xf32> -> tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}

// CHECK-LABEL: @activation_alone
func.func @activation_alone(%x: tensor<?x?x8xf32>, %r: tensor<1x8xf32>, %g: tensor<3x8xf32>, %d: tensor<8x3xf32>) -> tensor<?x?x8xf32> {
  // CHECK: heddle.moe <relu> %{{.*}}, %{{.*}} routing <capacity = 2> gates(%{{.*}} : tensor<3x8xf32>) downs(%{{.*}} : tensor<8x3xf32>) {
  %0 = heddle.moe <relu> %x, %r routing <capacity = 2> gates(%g : tensor<3x8xf32>) downs(%d : tensor<8x3xf32>) {top_k = 1 : i64, normalize = false} : tensor<?x?x8xf32>, tensor<1x8xf32> -> tensor<?x?x8xf32>
  return %0 : tensor<?x?x8xf32>
}

// CHECK-LABEL: @rows_of_the_router
func.func @rows_of_the_router(%x: tensor<?x8xf32>, %h: tensor<?x5xf32>, %r: tensor<2x5xf32>, %s: tensor<2xbf16>, %g: tensor<3x8xf32>, %d: tensor<8x3xf32>) -> tensor<?x8xf32> {
  // CHECK: heddle.moe <silu> %{{.*}}, %{{.*}} router_input(%{{.*}} : tensor<?x5xf32>) scales(%{{.*}} : tensor<2xbf16>) routing <scale = 2.000000e+00 : f64> gates(
  %0 = heddle.moe <silu> %x, %r router_input(%h : tensor<?x5xf32>) scales(%s : tensor<2xbf16>) routing <scale = 2.0> gates(%g, %g : tensor<3x8xf32>, tensor<3x8xf32>)
    ups(%g, %g : tensor<3x8xf32>, tensor<3x8xf32>) downs(%d, %d : tensor<8x3xf32>, tensor<8x3xf32>) {top_k = 1 : i64, normalize = true} : tensor<?x8xf32>, tensor<2x5xf32> -> tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}
