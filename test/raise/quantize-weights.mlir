// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --heddle-quantize-weights=type=q8_0 --verify-diagnostics | FileCheck %s
// RUN: %heddle-opt %s --heddle-quantize-weights=type=bf16 2> %t | FileCheck %s --check-prefix=BF16
// RUN: not %heddle-opt %s --heddle-quantize-weights=type=q9 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// UNKNOWN: type 'q9' is no type of weights

// CHECK-LABEL: @linear_and_table_share_their_type
// CHECK-DAG: heddle.weight "table" <type = "q8_0", file = 0, offset = 0, fileType = "f32"> : tensor<8x32xf32, #heddle.quant<q8_0>>
// CHECK-DAG: heddle.weight "conv1d" <type = "q8_0", file = 0, offset = 64, transposed = true, fileType = "f16", acrossRows = true> : tensor<8x32xf32, #heddle.quant<q8_0>>
// CHECK-DAG: heddle.weight "norm" <type = "f32", file = 0, offset = 32> : tensor<32xf32>
// BF16-LABEL: @linear_and_table_share_their_type
// BF16-DAG: heddle.weight "table" <type = "bf16", file = 0, offset = 0, fileType = "f32"> : tensor<8x32xbf16>
// BF16-DAG: heddle.weight "conv1d" <type = "bf16", file = 0, offset = 64, transposed = true, fileType = "f16", acrossRows = true> : tensor<8x32xbf16>
func.func @linear_and_table_share_their_type(%ids: tensor<?xi32>) -> (tensor<?x8xf32>, tensor<?x8xf32>) {
  %table = heddle.weight "table" <type = "f32", file = 0, offset = 0> : tensor<8x32xf32>
  %w = heddle.weight "conv1d" <type = "f16", file = 0, offset = 64, transposed = true> : tensor<8x32xf16>
  %norm = heddle.weight "norm" <type = "f32", file = 0, offset = 32> : tensor<32xf32>
  %x = heddle.embedding %ids, %table : tensor<?xi32>, tensor<8x32xf32> -> tensor<?x32xf32>
  %a = heddle.rms_norm %x, %norm {eps = 1.0e-6} : tensor<?x32xf32>, tensor<32xf32>
  %y = heddle.linear %a, weights(%table : tensor<8x32xf32>) : tensor<?x32xf32> -> tensor<?x8xf32>
  %z = heddle.linear %a, weights(%w : tensor<8x32xf16>) : tensor<?x32xf32> -> tensor<?x8xf32>
  return %y, %z : tensor<?x8xf32>, tensor<?x8xf32>
}

// CHECK: func.func private @layer(%{{.*}}: tensor<?x32xf32>, %{{.*}}: tensor<8x32xf32, #heddle.quant<q8_0>>, %{{.*}}: tensor<8x32xf32>)
func.func private @layer(%x: tensor<?x32xf32>, %w: tensor<8x32xf32>, %read: tensor<8x32xf32>) -> (tensor<?x8xf32>, tensor<8x32xf32>) {
  %y = heddle.linear %x, weights(%w : tensor<8x32xf32>) : tensor<?x32xf32> -> tensor<?x8xf32>
  %z = arith.addf %read, %read : tensor<8x32xf32>
  return %y, %z : tensor<?x8xf32>, tensor<8x32xf32>
}
// CHECK-LABEL: @arguments_follow_their_weights
// CHECK-DAG: heddle.weight "read by others" <type = "f32", file = 0, offset = 0> : tensor<8x32xf32>
// CHECK-DAG: heddle.weight "w" <type = "q8_0", file = 0, offset = 0, fileType = "f32">
func.func @arguments_follow_their_weights(%x: tensor<?x32xf32>) -> tensor<?x8xf32> {
  %w = heddle.weight "w" <type = "f32", file = 0, offset = 0> : tensor<8x32xf32>
  %read = heddle.weight "read by others" <type = "f32", file = 0, offset = 0> : tensor<8x32xf32>
  %y, %z = call @layer(%x, %w, %read) : (tensor<?x32xf32>, tensor<8x32xf32>, tensor<8x32xf32>) -> (tensor<?x8xf32>, tensor<8x32xf32>)
  return %y : tensor<?x8xf32>
}

// CHECK-LABEL: @experts_without_their_router
// CHECK-DAG: heddle.weight "router" <type = "f32", file = 0, offset = 0> : tensor<2x32xf32>
// CHECK-DAG: heddle.weight "up" <type = "q8_0", file = 0, offset = 0, fileType = "f32"> : tensor<32x32xf32, #heddle.quant<q8_0>>
func.func @experts_without_their_router(%x: tensor<?x32xf32>) -> tensor<?x32xf32> {
  %router = heddle.weight "router" <type = "f32", file = 0, offset = 0> : tensor<2x32xf32>
  %up = heddle.weight "up" <type = "f32", file = 0, offset = 0> : tensor<32x32xf32>
  %y = heddle.moe <silu> %x, %router gates(%up, %up : tensor<32x32xf32>, tensor<32x32xf32>)
    ups(%up, %up : tensor<32x32xf32>, tensor<32x32xf32>) downs(%up, %up : tensor<32x32xf32>, tensor<32x32xf32>)
    {top_k = 1, normalize = true} : tensor<?x32xf32>, tensor<2x32xf32> -> tensor<?x32xf32>
  return %y : tensor<?x32xf32>
}

// CHECK-LABEL: @what_is_no_larger_or_does_not_divide_stays
// CHECK-DAG: heddle.weight "q4_0" <type = "q4_0", file = 0, offset = 0> : tensor<8x64xf32, #heddle.quant<q4_0>>
// CHECK-DAG: heddle.weight "narrow" <type = "f32", file = 0, offset = 0> : tensor<8x8xf32>
func.func @what_is_no_larger_or_does_not_divide_stays(%x: tensor<?x64xf32>) -> tensor<?x8xf32> {
  // expected-remark @+1 {{'q4_0' stays q4_0: it is no larger than q8_0}}
  %w = heddle.weight "q4_0" <type = "q4_0", file = 0, offset = 0> : tensor<8x64xf32, #heddle.quant<q4_0>>
  // expected-remark @+1 {{'narrow' stays f32: its in_features (8) are no multiple of a block of q8_0 (32)}}
  %narrow = heddle.weight "narrow" <type = "f32", file = 0, offset = 0> : tensor<8x8xf32>
  %y = heddle.linear %x, weights(%w : tensor<8x64xf32, #heddle.quant<q4_0>>) : tensor<?x64xf32> -> tensor<?x8xf32>
  %z = heddle.linear %y, weights(%narrow : tensor<8x8xf32>) : tensor<?x8xf32> -> tensor<?x8xf32>
  return %z : tensor<?x8xf32>
}

// CHECK-LABEL: @what_is_also_a_value_stays
// CHECK: heddle.weight "twice" <type = "f32", file = 0, offset = 0> : tensor<8x32xf32>
func.func @what_is_also_a_value_stays(%x: tensor<?x32xf32>) -> (tensor<?x8xf32>, tensor<8x32xf32>) {
  %w = heddle.weight "twice" <type = "f32", file = 0, offset = 0> : tensor<8x32xf32>
  %y = heddle.linear %x, weights(%w : tensor<8x32xf32>) : tensor<?x32xf32> -> tensor<?x8xf32>
  return %y, %w : tensor<?x8xf32>, tensor<8x32xf32>
}
