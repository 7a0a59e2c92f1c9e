// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --heddle-lower-to-kernels | FileCheck %s
// RUN: %heddle-opt %s --heddle-check --heddle-lower-to-kernels -o %t

// Rows of gate and up projection in turn stay one matrix per expert.
// CHECK-LABEL: @in_turn
// CHECK-DAG: heddle.pack <interleaved> "f32"(%{{.*}}, %{{.*}} : tensor<32x8xf32>, tensor<32x8xf32>) {group = 1 : i64} -> tensor<2048xi8>
// CHECK-DAG: %[[BIAS:.*]] = heddle.pack <vector> "f32"(%{{.*}}, %{{.*}} : tensor<32xf32>, tensor<32xf32>) -> tensor<64xf32>
// CHECK: heddle.expert_matmul activated <silu> ins({{.*}} bias %[[BIAS]] {{.*}} {alternating,
func.func @in_turn(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %r = heddle.weight "r" <type = "f32", file = 0, offset = 0> : tensor<2x8xf32>
  %p = heddle.weight "p" <type = "f32", file = 0, offset = 64> : tensor<2xf32>
  %g0 = heddle.weight "g0" <type = "f32", file = 0, offset = 72> : tensor<32x8xf32>
  %b0 = heddle.weight "b0" <type = "f32", file = 0, offset = 1096> : tensor<32xf32>
  %d0 = heddle.weight "d0" <type = "f32", file = 0, offset = 1224> : tensor<8x16xf32>
  %c0 = heddle.weight "c0" <type = "f32", file = 0, offset = 1736> : tensor<8xf32>
  %g1 = heddle.weight "g1" <type = "f32", file = 0, offset = 1768> : tensor<32x8xf32>
  %b1 = heddle.weight "b1" <type = "f32", file = 0, offset = 2792> : tensor<32xf32>
  %d1 = heddle.weight "d1" <type = "f32", file = 0, offset = 2920> : tensor<8x16xf32>
  %c1 = heddle.weight "c1" <type = "f32", file = 0, offset = 3432> : tensor<8xf32>
  %0 = heddle.moe <silu> %x, %r gates(%g0, %g1 : tensor<32x8xf32>, tensor<32x8xf32>) downs(%d0, %d1 : tensor<8x16xf32>, tensor<8x16xf32>)
    gate_biases(%b0, %b1 : tensor<32xf32>, tensor<32xf32>) {top_k = 1 : i64, normalize = true} : tensor<?x8xf32>, tensor<2x8xf32> -> tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}
