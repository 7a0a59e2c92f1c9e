// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --heddle-check-all --canonicalize | FileCheck %s

// CHECK-LABEL: @residual_of_zeros_not_added
// CHECK: heddle.expert_matmul
// CHECK-NOT: accumulate
// CHECK: return
func.func @residual_of_zeros_not_added(%x: tensor<3x128xf32>, %w: tensor<34816xi8>, %logits: tensor<3x8xf32>) -> tensor<3x16xf32> {
  %e = tensor.empty() : tensor<3x2xi32>
  %p = tensor.empty() : tensor<3x2xf32>
  %f = tensor.empty() : tensor<3x9xi32>
  %experts, %weights, %offsets, %row_index, %row_scale = heddle.route_experts ins(%logits : tensor<3x8xf32>)
    outs(%e, %p, %f, %e, %p : tensor<3x2xi32>, tensor<3x2xf32>, tensor<3x9xi32>, tensor<3x2xi32>, tensor<3x2xf32>)
    {num_experts = 8, top_k = 2, normalize = true} -> tensor<3x2xi32>, tensor<3x2xf32>, tensor<3x9xi32>, tensor<3x2xi32>, tensor<3x2xf32>
  %zeros = arith.constant dense<0.0> : tensor<3x16xf32>
  %0 = heddle.expert_matmul ins(%x, %w : tensor<3x128xf32>, tensor<34816xi8>)
    list(%offsets, %row_index, %row_scale : tensor<3x9xi32>, tensor<3x2xi32>, tensor<3x2xf32>) outs(%zeros : tensor<3x16xf32>)
    {accumulate, num_experts = 8, top_k = 2, n = 16, k = 64, format = "q8_0"} -> tensor<3x16xf32>
  return %0 : tensor<3x16xf32>
}

// CHECK-LABEL: @residual_added
// CHECK: heddle.expert_matmul {{.*}} {accumulate,
func.func @residual_added(%x: tensor<3x128xf32>, %w: tensor<34816xi8>, %logits: tensor<3x8xf32>, %residual: tensor<3x16xf32>) -> tensor<3x16xf32> {
  %e = tensor.empty() : tensor<3x2xi32>
  %p = tensor.empty() : tensor<3x2xf32>
  %f = tensor.empty() : tensor<3x9xi32>
  %experts, %weights, %offsets, %row_index, %row_scale = heddle.route_experts ins(%logits : tensor<3x8xf32>)
    outs(%e, %p, %f, %e, %p : tensor<3x2xi32>, tensor<3x2xf32>, tensor<3x9xi32>, tensor<3x2xi32>, tensor<3x2xf32>)
    {num_experts = 8, top_k = 2, normalize = true} -> tensor<3x2xi32>, tensor<3x2xf32>, tensor<3x9xi32>, tensor<3x2xi32>, tensor<3x2xf32>
  %0 = heddle.expert_matmul ins(%x, %w : tensor<3x128xf32>, tensor<34816xi8>)
    list(%offsets, %row_index, %row_scale : tensor<3x9xi32>, tensor<3x2xi32>, tensor<3x2xf32>) outs(%residual : tensor<3x16xf32>)
    {accumulate, num_experts = 8, top_k = 2, n = 16, k = 64, format = "q8_0"} -> tensor<3x16xf32>
  return %0 : tensor<3x16xf32>
}
