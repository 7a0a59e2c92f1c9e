// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --heddle-lower-to-kernels | FileCheck %s
// RUN: %heddle-opt %s --heddle-check --heddle-lower-to-kernels -o %t

// Biases follow the rows of each expert: its gate's, then those of its up projection.
// CHECK-LABEL: @biases
// CHECK-DAG: %[[GATE_UP:.*]] = heddle.pack <vector> "f32"(%[[B0:.*]], %[[V0:.*]], %[[B1:.*]], %[[V1:.*]] : tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>) -> tensor<64xf32>
// CHECK-DAG: %[[DOWN:.*]] = heddle.pack <vector> "f32"(%{{.*}}, %{{.*}} : tensor<8xf32>, tensor<8xf32>) -> tensor<16xf32>
// CHECK-DAG: %[[ROUTER:.*]] = heddle.pack <vector> "f32"(%{{.*}} : tensor<2xf32>) -> tensor<2xf32>
// CHECK: heddle.packed_matmul ins({{.*}} bias %[[ROUTER]]
// CHECK: heddle.expert_matmul activated <silu> gating <{{.*}}> ins({{.*}} bias %[[GATE_UP]]
// CHECK-NOT: alternating
// CHECK: heddle.expert_matmul ins({{.*}} bias %[[DOWN]]
func.func @biases(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %r = heddle.weight "r" <type = "f32", file = 0, offset = 0> : tensor<2x8xf32>
  %p = heddle.weight "p" <type = "f32", file = 0, offset = 64> : tensor<2xf32>
  %g0 = heddle.weight "g0" <type = "f32", file = 0, offset = 72> : tensor<16x8xf32>
  %b0 = heddle.weight "b0" <type = "f32", file = 0, offset = 584> : tensor<16xf32>
  %u0 = heddle.weight "u0" <type = "f32", file = 0, offset = 648> : tensor<16x8xf32>
  %v0 = heddle.weight "v0" <type = "f32", file = 0, offset = 1160> : tensor<16xf32>
  %d0 = heddle.weight "d0" <type = "f32", file = 0, offset = 1224> : tensor<8x16xf32>
  %c0 = heddle.weight "c0" <type = "f32", file = 0, offset = 1736> : tensor<8xf32>
  %g1 = heddle.weight "g1" <type = "f32", file = 0, offset = 1768> : tensor<16x8xf32>
  %b1 = heddle.weight "b1" <type = "f32", file = 0, offset = 2280> : tensor<16xf32>
  %u1 = heddle.weight "u1" <type = "f32", file = 0, offset = 2344> : tensor<16x8xf32>
  %v1 = heddle.weight "v1" <type = "f32", file = 0, offset = 2856> : tensor<16xf32>
  %d1 = heddle.weight "d1" <type = "f32", file = 0, offset = 2920> : tensor<8x16xf32>
  %c1 = heddle.weight "c1" <type = "f32", file = 0, offset = 3432> : tensor<8xf32>
  %0 = heddle.moe <silu> %x, %r router_bias(%p : tensor<2xf32>) gating <limit = 0.75, alpha = 1.702, offset = 1.0> gates(%g0, %g1 : tensor<16x8xf32>, tensor<16x8xf32>)
    ups(%u0, %u1 : tensor<16x8xf32>, tensor<16x8xf32>) downs(%d0, %d1 : tensor<8x16xf32>, tensor<8x16xf32>) gate_biases(%b0, %b1 : tensor<16xf32>, tensor<16xf32>)
    up_biases(%v0, %v1 : tensor<16xf32>, tensor<16xf32>) down_biases(%c0, %c1 : tensor<8xf32>, tensor<8xf32>) {top_k = 1 : i64, normalize = true} : tensor<?x8xf32>, tensor<2x8xf32> -> tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}
