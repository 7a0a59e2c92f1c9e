// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --heddle-check-all --heddle-lower-to-kernels | FileCheck %s

// The router's product reads its own rows, experts read the others; what scales an expert's weight goes to whoever weighs it.
// CHECK-LABEL: @rows_of_the_router(
// CHECK-SAME: %[[X:[^:]*]]: tensor<?x8xf32>, %[[H:[^:]*]]: tensor<?x8xf32>)
// CHECK: %[[LOGITS:.*]] = heddle.packed_matmul ins(%[[H]], %{{.*}}
// CHECK: %[[SCALES:.*]] = heddle.pack <vector> "f32"(%{{.*}} : tensor<2xf32>) -> tensor<2xf32>
// CHECK: heddle.route_experts ins(%[[LOGITS]] : tensor<?x2xf32>) scales(%[[SCALES]] : tensor<2xf32>) outs(
// CHECK: heddle.expert_matmul activated <gelu_tanh> ins(%[[X]], %{{.*}}
func.func @rows_of_the_router(%x: tensor<?x8xf32>, %h: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %r = heddle.weight "r" <type = "f32", file = 0, offset = 0> : tensor<2x8xf32>
  %s = heddle.weight "s" <type = "f32", file = 0, offset = 64> : tensor<2xf32>
  %g = heddle.weight "g" <type = "f32", file = 0, offset = 72> : tensor<16x8xf32>
  %u = heddle.weight "u" <type = "f32", file = 0, offset = 584> : tensor<16x8xf32>
  %d = heddle.weight "d" <type = "f32", file = 0, offset = 1096> : tensor<8x16xf32>
  %0 = heddle.moe <gelu_tanh> %x, %r router_input(%h : tensor<?x8xf32>) scales(%s : tensor<2xf32>) gates(%g, %u : tensor<16x8xf32>, tensor<16x8xf32>)
    ups(%u, %g : tensor<16x8xf32>, tensor<16x8xf32>) downs(%d, %d : tensor<8x16xf32>, tensor<8x16xf32>) {top_k = 1 : i64, normalize = true}
    : tensor<?x8xf32>, tensor<2x8xf32> -> tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}
