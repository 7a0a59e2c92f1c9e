// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --heddle-lower-to-kernels | FileCheck %s
// RUN: %heddle-opt %s --heddle-check --heddle-lower-to-kernels -o %t

// Nothing multiplies the activation: one matrix per expert before it. What experts have room for decides which tokens are listed.
// CHECK-LABEL: @room_for_two
// CHECK-DAG: heddle.pack <interleaved> "f32"(%{{.*}}, %{{.*}} : tensor<16x8xf32>, tensor<16x8xf32>) {group = 1 : i64} -> tensor<1024xi8>
// CHECK: heddle.route_experts ins({{.*}}) routing <capacity = 2> outs(
// CHECK: heddle.expert_matmul activated <relu> ins({{.*}} {format = "f32", k = 8 : i64, n = 16 : i64, num_experts = 2 : i64, top_k = 1 : i64, ungated}
// CHECK: heddle.expert_matmul ins({{.*}} {format = "f32", k = 16 : i64, n = 8 : i64, num_experts = 2 : i64, top_k = 1 : i64}
func.func @room_for_two(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %r = heddle.weight "r" <type = "f32", file = 0, offset = 0> : tensor<2x8xf32>
  %g0 = heddle.weight "g0" <type = "f32", file = 0, offset = 64> : tensor<16x8xf32>
  %d0 = heddle.weight "d0" <type = "f32", file = 0, offset = 576> : tensor<8x16xf32>
  %g1 = heddle.weight "g1" <type = "f32", file = 0, offset = 1088> : tensor<16x8xf32>
  %d1 = heddle.weight "d1" <type = "f32", file = 0, offset = 1600> : tensor<8x16xf32>
  %0 = heddle.moe <relu> %x, %r routing <capacity = 2> gates(%g0, %g1 : tensor<16x8xf32>, tensor<16x8xf32>) downs(%d0, %d1 : tensor<8x16xf32>, tensor<8x16xf32>)
    {top_k = 1 : i64, normalize = false} : tensor<?x8xf32>, tensor<2x8xf32> -> tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}

// Weights multiply what experts read: both products know it.
// CHECK-LABEL: @scaled_input
// CHECK: heddle.route_experts ins({{.*}}) routing <sigmoid = true, scalesInput = true> outs(
// CHECK: heddle.expert_matmul activated <relu> ins({{.*}} {format = "f32", k = 8 : i64, n = 16 : i64, num_experts = 2 : i64, scales_input, top_k = 1 : i64, ungated}
// CHECK: heddle.expert_matmul ins({{.*}} {format = "f32", k = 16 : i64, n = 8 : i64, num_experts = 2 : i64, scales_input, top_k = 1 : i64}
func.func @scaled_input(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %r = heddle.weight "r" <type = "f32", file = 0, offset = 0> : tensor<2x8xf32>
  %g0 = heddle.weight "g0" <type = "f32", file = 0, offset = 64> : tensor<16x8xf32>
  %d0 = heddle.weight "d0" <type = "f32", file = 0, offset = 576> : tensor<8x16xf32>
  %g1 = heddle.weight "g1" <type = "f32", file = 0, offset = 1088> : tensor<16x8xf32>
  %d1 = heddle.weight "d1" <type = "f32", file = 0, offset = 1600> : tensor<8x16xf32>
  %0 = heddle.moe <relu> %x, %r routing <sigmoid = true, scalesInput = true> gates(%g0, %g1 : tensor<16x8xf32>, tensor<16x8xf32>) downs(%d0, %d1 : tensor<8x16xf32>, tensor<8x16xf32>)
    {top_k = 1 : i64, normalize = false} : tensor<?x8xf32>, tensor<2x8xf32> -> tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}
