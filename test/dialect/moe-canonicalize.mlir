// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --heddle-check-all --canonicalize | FileCheck %s

// CHECK-LABEL: func.func @the_only_expert(
// CHECK-SAME: %[[X:[^:]*]]: tensor<?x8xf32>, %{{.*}}: tensor<1x8xf32>, %[[G:[^:]*]]: tensor<3x8xf32>, %[[U:[^:]*]]: tensor<3x8xbf16>, %[[D:[^:]*]]: tensor<8x3xf32>
// CHECK-DAG: %[[GATE:.*]] = heddle.linear %[[X]], weights(%[[G]] : tensor<3x8xf32>) : tensor<?x8xf32> -> tensor<?x3xf32>
// CHECK-DAG: %[[UP:.*]] = heddle.linear %[[X]], weights(%[[U]] : tensor<3x8xbf16>) : tensor<?x8xf32> -> tensor<?x3xf32>
// CHECK: %[[H:.*]] = heddle.glu <silu> %[[GATE]], %[[UP]]
// CHECK: heddle.linear %[[H]], weights(%[[D]] : tensor<8x3xf32>) : tensor<?x3xf32> -> tensor<?x8xf32>
// CHECK-NOT: heddle.moe
func.func @the_only_expert(%x: tensor<?x8xf32>, %router: tensor<1x8xf32>, %g: tensor<3x8xf32>, %u: tensor<3x8xbf16>, %d: tensor<8x3xf32>)
    -> tensor<?x8xf32> {
  %0 = heddle.moe <silu> %x, %router gates(%g : tensor<3x8xf32>) ups(%u : tensor<3x8xbf16>) downs(%d : tensor<8x3xf32>)
    {top_k = 1, normalize = false} : tensor<?x8xf32>, tensor<1x8xf32> -> tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}

// CHECK-LABEL: @sigmoid_is_not_one
// CHECK: heddle.moe
func.func @sigmoid_is_not_one(%x: tensor<?x8xf32>, %router: tensor<1x8xf32>, %u: tensor<3x8xf32>, %d: tensor<8x3xf32>) -> tensor<?x8xf32> {
  %0 = heddle.moe <silu> %x, %router routing <sigmoid = true> gates(%u : tensor<3x8xf32>) ups(%u : tensor<3x8xf32>)
    downs(%d : tensor<8x3xf32>) {top_k = 1, normalize = false} : tensor<?x8xf32>, tensor<1x8xf32> -> tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}

// CHECK-LABEL: @scaled_expert
// CHECK: heddle.moe
func.func @scaled_expert(%x: tensor<?x8xf32>, %router: tensor<1x8xf32>, %u: tensor<3x8xf32>, %d: tensor<8x3xf32>) -> tensor<?x8xf32> {
  %0 = heddle.moe <silu> %x, %router routing <scale = 2.5> gates(%u : tensor<3x8xf32>) ups(%u : tensor<3x8xf32>)
    downs(%d : tensor<8x3xf32>) {top_k = 1, normalize = true} : tensor<?x8xf32>, tensor<1x8xf32> -> tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}

// CHECK-LABEL: @expert_with_a_scale
// CHECK: heddle.moe
func.func @expert_with_a_scale(%x: tensor<?x8xf32>, %router: tensor<1x8xf32>, %s: tensor<1xf32>, %u: tensor<3x8xf32>, %d: tensor<8x3xf32>) -> tensor<?x8xf32> {
  %0 = heddle.moe <silu> %x, %router scales(%s : tensor<1xf32>) gates(%u : tensor<3x8xf32>) ups(%u : tensor<3x8xf32>)
    downs(%d : tensor<8x3xf32>) {top_k = 1, normalize = true} : tensor<?x8xf32>, tensor<1x8xf32> -> tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}

// CHECK-LABEL: @best_of_two
// CHECK: heddle.moe
func.func @best_of_two(%x: tensor<?x8xf32>, %router: tensor<2x8xf32>, %u: tensor<3x8xf32>, %d: tensor<8x3xf32>) -> tensor<?x8xf32> {
  %0 = heddle.moe <silu> %x, %router gates(%u, %u : tensor<3x8xf32>, tensor<3x8xf32>) ups(%u, %u : tensor<3x8xf32>, tensor<3x8xf32>)
    downs(%d, %d : tensor<8x3xf32>, tensor<8x3xf32>) {top_k = 1, normalize = false} : tensor<?x8xf32>, tensor<2x8xf32> -> tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}

// CHECK-LABEL: @biases_of_the_only_expert
// CHECK-COUNT-3: heddle.linear {{.*}} biases(
// CHECK-NOT: heddle.moe
func.func @biases_of_the_only_expert(%x: tensor<?x8xf32>, %router: tensor<1x8xf32>, %p: tensor<1xf32>, %u: tensor<3x8xf32>, %b: tensor<3xf32>, %d: tensor<8x3xf32>, %c: tensor<8xf32>)
    -> tensor<?x8xf32> {
  %0 = heddle.moe <silu> %x, %router router_bias(%p : tensor<1xf32>) gates(%u : tensor<3x8xf32>) ups(%u : tensor<3x8xf32>) downs(%d : tensor<8x3xf32>)
    gate_biases(%b : tensor<3xf32>) up_biases(%b : tensor<3xf32>) down_biases(%c : tensor<8xf32>) {top_k = 1, normalize = false} : tensor<?x8xf32>, tensor<1x8xf32> -> tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}

// CHECK-LABEL: @bounded_expert
// CHECK: heddle.moe
func.func @bounded_expert(%x: tensor<?x8xf32>, %router: tensor<1x8xf32>, %u: tensor<3x8xf32>, %d: tensor<8x3xf32>) -> tensor<?x8xf32> {
  %0 = heddle.moe <silu> %x, %router gating <limit = 0.5, alpha = 2.0, offset = 1.0> gates(%u : tensor<3x8xf32>) ups(%u : tensor<3x8xf32>)
    downs(%d : tensor<8x3xf32>) {top_k = 1, normalize = true} : tensor<?x8xf32>, tensor<1x8xf32> -> tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}

// CHECK-LABEL: @expert_in_turn
// CHECK: heddle.moe
func.func @expert_in_turn(%x: tensor<?x8xf32>, %router: tensor<1x8xf32>, %u: tensor<6x8xf32>, %d: tensor<8x3xf32>) -> tensor<?x8xf32> {
  %0 = heddle.moe <silu> %x, %router gates(%u : tensor<6x8xf32>) downs(%d : tensor<8x3xf32>)
    {top_k = 1, normalize = true} : tensor<?x8xf32>, tensor<1x8xf32> -> tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}

// CHECK-LABEL: @expert_with_room_for_one
// CHECK: heddle.moe
func.func @expert_with_room_for_one(%x: tensor<?x8xf32>, %router: tensor<1x8xf32>, %u: tensor<3x8xf32>, %d: tensor<8x3xf32>) -> tensor<?x8xf32> {
  %0 = heddle.moe <silu> %x, %router routing <capacity = 1> gates(%u : tensor<3x8xf32>) ups(%u : tensor<3x8xf32>)
    downs(%d : tensor<8x3xf32>) {top_k = 1, normalize = true} : tensor<?x8xf32>, tensor<1x8xf32> -> tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}
