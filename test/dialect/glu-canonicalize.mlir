// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --heddle-check-all --canonicalize | FileCheck %s

// CHECK-LABEL: func.func @up_of_ones_dropped(
// CHECK-SAME: %[[X:[^:]*]]
// CHECK: heddle.glu <silu> %[[X]] : tensor<2x3xf32>
func.func @up_of_ones_dropped(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %ones = arith.constant dense<1.0> : tensor<2x3xf32>
  %0 = heddle.glu <silu> %x, %ones : tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// CHECK-LABEL: @up_of_twos_kept
// CHECK: heddle.glu <silu> %{{.*}}, %{{.*}} : tensor<2x3xf32>
func.func @up_of_twos_kept(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %twos = arith.constant dense<2.0> : tensor<2x3xf32>
  %0 = heddle.glu <silu> %x, %twos : tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// CHECK-LABEL: @relu_of_relu
// CHECK-COUNT-1: heddle.glu <relu>
// CHECK-NOT: heddle.glu
func.func @relu_of_relu(%x: tensor<?x3xf32>) -> tensor<?x3xf32> {
  %0 = heddle.glu <relu> %x : tensor<?x3xf32>
  %1 = heddle.glu <relu> %0 : tensor<?x3xf32>
  return %1 : tensor<?x3xf32>
}

// CHECK-LABEL: func.func @gated_relu_of_relu(
// CHECK-SAME: %[[X:[^:]*]]: tensor<?x3xf32>, %[[UP:[^:]*]]: tensor<?x3xf32>
// CHECK-NEXT: heddle.glu <relu> %[[X]], %[[UP]]
// CHECK-NOT: heddle.glu
func.func @gated_relu_of_relu(%x: tensor<?x3xf32>, %up: tensor<?x3xf32>) -> tensor<?x3xf32> {
  %0 = heddle.glu <relu> %x : tensor<?x3xf32>
  %1 = heddle.glu <relu> %0, %up : tensor<?x3xf32>
  return %1 : tensor<?x3xf32>
}

// What a gate multiplied may be negative again.
// CHECK-LABEL: @relu_of_gated_relu
// CHECK-COUNT-2: heddle.glu <relu>
func.func @relu_of_gated_relu(%x: tensor<?x3xf32>, %up: tensor<?x3xf32>) -> tensor<?x3xf32> {
  %0 = heddle.glu <relu> %x, %up : tensor<?x3xf32>
  %1 = heddle.glu <relu> %0 : tensor<?x3xf32>
  return %1 : tensor<?x3xf32>
}

// CHECK-LABEL: @silu_of_silu
// CHECK-COUNT-2: heddle.glu <silu>
func.func @silu_of_silu(%x: tensor<?x3xf32>) -> tensor<?x3xf32> {
  %0 = heddle.glu <silu> %x : tensor<?x3xf32>
  %1 = heddle.glu <silu> %0 : tensor<?x3xf32>
  return %1 : tensor<?x3xf32>
}
