// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --heddle-check-all --canonicalize | FileCheck %s

#a = #heddle.source<name = "a", rows = 16, storage = <type = "f32", file = 0, offset = 0>>
#b = #heddle.source<name = "b", rows = 16, storage = <type = "f32", file = 0, offset = 4096>>
#packing = #heddle.packing<layout = interleaved, format = "f32", shape = [32, 64], offset = 0, sources = [#a, #b], group = 1>

// CHECK-LABEL: @residual_of_zeros_not_added
// CHECK: heddle.expert_matmul
// CHECK-NOT: accumulate
// CHECK: return
func.func @residual_of_zeros_not_added(%x: tensor<3x128xf32>, %logits: tensor<3x2xf32>) -> tensor<3x16xf32> {
  %w = heddle.weight "a+b" packed #packing : tensor<8192xi8>
  %e = tensor.empty() : tensor<3x2xi32>
  %p = tensor.empty() : tensor<3x2xf32>
  %f = tensor.empty() : tensor<3x3xi32>
  %experts, %weights, %offsets, %row_index, %row_scale = heddle.route_experts ins(%logits : tensor<3x2xf32>)
    outs(%e, %p, %f, %e, %p : tensor<3x2xi32>, tensor<3x2xf32>, tensor<3x3xi32>, tensor<3x2xi32>, tensor<3x2xf32>)
    {num_experts = 2, top_k = 2, normalize = true} -> tensor<3x2xi32>, tensor<3x2xf32>, tensor<3x3xi32>, tensor<3x2xi32>, tensor<3x2xf32>
  %zeros = arith.constant dense<0.0> : tensor<3x16xf32>
  %0 = heddle.expert_matmul ins(%x, %w : tensor<3x128xf32>, tensor<8192xi8>)
    list(%offsets, %row_index, %row_scale : tensor<3x3xi32>, tensor<3x2xi32>, tensor<3x2xf32>) outs(%zeros : tensor<3x16xf32>)
    {accumulate, num_experts = 2, top_k = 2, n = 16, k = 64, format = "f32"} -> tensor<3x16xf32>
  return %0 : tensor<3x16xf32>
}

// CHECK-LABEL: @residual_added
// CHECK: heddle.expert_matmul {{.*}} {accumulate,
func.func @residual_added(%x: tensor<3x128xf32>, %logits: tensor<3x2xf32>, %residual: tensor<3x16xf32>) -> tensor<3x16xf32> {
  %w = heddle.weight "a+b" packed #packing : tensor<8192xi8>
  %e = tensor.empty() : tensor<3x2xi32>
  %p = tensor.empty() : tensor<3x2xf32>
  %f = tensor.empty() : tensor<3x3xi32>
  %experts, %weights, %offsets, %row_index, %row_scale = heddle.route_experts ins(%logits : tensor<3x2xf32>)
    outs(%e, %p, %f, %e, %p : tensor<3x2xi32>, tensor<3x2xf32>, tensor<3x3xi32>, tensor<3x2xi32>, tensor<3x2xf32>)
    {num_experts = 2, top_k = 2, normalize = true} -> tensor<3x2xi32>, tensor<3x2xf32>, tensor<3x3xi32>, tensor<3x2xi32>, tensor<3x2xf32>
  %0 = heddle.expert_matmul ins(%x, %w : tensor<3x128xf32>, tensor<8192xi8>)
    list(%offsets, %row_index, %row_scale : tensor<3x3xi32>, tensor<3x2xi32>, tensor<3x2xf32>) outs(%residual : tensor<3x16xf32>)
    {accumulate, num_experts = 2, top_k = 2, n = 16, k = 64, format = "f32"} -> tensor<3x16xf32>
  return %0 : tensor<3x16xf32>
}
