// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --heddle-pack-weights --split-input-file --verify-diagnostics | FileCheck %s

// Query and key are stacked; the layer's stored weights become one packed argument, filled at the call.
// CHECK: module attributes {heddle.weights_size = 12544 : i64}
// CHECK-LABEL: @layer
// CHECK-SAME: %[[X:.*]]: tensor<?x64xf32>, %[[N:.*]]: tensor<64xf32>, %[[W:.*]]: tensor<12288xi8>) ->
// CHECK-NOT: heddle.linear
// CHECK: heddle.rms_norm %[[X]], %[[N]]
// CHECK: heddle.packed_matmul ins(%{{.*}}, %[[W]] : tensor<?x64xf32>, tensor<12288xi8>) outs(%{{.*}}) {format = "bf16", k = 64 : i64, n = 96 : i64}
func.func private @layer(%x: tensor<?x64xf32>, %norm: tensor<64xbf16>, %wq: tensor<64x64xbf16>, %wk: tensor<32x64xbf16>) -> tensor<?x96xf32> {
  %n = heddle.rms_norm %x, %norm {eps = 1.0e-5} : tensor<?x64xf32>, tensor<64xbf16>
  %0 = heddle.linear %n, weights(%wq, %wk : tensor<64x64xbf16>, tensor<32x64xbf16>) : tensor<?x64xf32> -> tensor<?x96xf32>
  return %0 : tensor<?x96xf32>
}
// CHECK-LABEL: @step
// CHECK-DAG: heddle.weight "q+k" <type = "packed", {{.*}}heddle.format = "bf16", heddle.shape = array<i64: 96, 64>, heddle.source_names = ["q", "k"], heddle.source_rows = [64, 32]
// CHECK-DAG: heddle.weight "norm" <type = "packed", {{.*}}heddle.format = "vector"
// CHECK: call @layer
func.func @step(%x: tensor<?x64xf32>) -> tensor<?x96xf32> {
  %norm = heddle.weight "norm" <type = "bf16", file = 0, offset = 0> : tensor<64xbf16>
  %wq = heddle.weight "q" <type = "bf16", file = 0, offset = 128> : tensor<64x64xbf16>
  %wk = heddle.weight "k" <type = "bf16", file = 0, offset = 8320> : tensor<32x64xbf16>
  %0 = call @layer(%x, %norm, %wq, %wk) : (tensor<?x64xf32>, tensor<64xbf16>, tensor<64x64xbf16>, tensor<32x64xbf16>) -> tensor<?x96xf32>
  return %0 : tensor<?x96xf32>
}

// -----

// CHECK: module attributes {heddle.weights_size = 8192 : i64}
// CHECK-LABEL: @tied_head_is_stored_once
// CHECK: heddle.weight "table" <type = "packed", file = 0, offset = 0>
// CHECK: %[[X:.*]] = heddle.dequantize
// CHECK: heddle.weight "table" <type = "packed", file = 0, offset = 0>
// CHECK: heddle.packed_matmul ins(%[[X]],
// CHECK-NOT: accumulate
func.func @tied_head_is_stored_once(%ids: tensor<?xi32>) -> tensor<?x64xf32> {
  %table = heddle.weight "table" <type = "bf16", file = 0, offset = 0> : tensor<64x64xbf16>
  %x = heddle.embedding %ids, %table : tensor<?xi32>, tensor<64x64xbf16> -> tensor<?x64xf32>
  %0 = heddle.linear %x, weights(%table : tensor<64x64xbf16>) : tensor<?x64xf32> -> tensor<?x64xf32>
  return %0 : tensor<?x64xf32>
}

// -----

// CHECK-LABEL: @residual_is_added_in_place
// CHECK-SAME: %[[X:.*]]: tensor<?x64xf32>, %[[Y:.*]]: tensor<?x64xf32>
// CHECK: heddle.packed_matmul ins(%[[Y]], {{.*}} outs(%[[X]] : tensor<?x64xf32>) {accumulate,
// CHECK-NOT: arith.addf
// CHECK: return
func.func @residual_is_added_in_place(%x: tensor<?x64xf32>, %y: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %w = heddle.weight "w" <type = "bf16", file = 0, offset = 0> : tensor<64x64xbf16>
  %0 = heddle.linear %y, weights(%w : tensor<64x64xbf16>) : tensor<?x64xf32> -> tensor<?x64xf32>
  %1 = arith.addf %x, %0 : tensor<?x64xf32>
  return %1 : tensor<?x64xf32>
}

// -----

// %x is returned as it was: it must not be written.
// CHECK-LABEL: @residual_read_later_stays_whole
// CHECK-NOT: accumulate
// CHECK: arith.addf
func.func @residual_read_later_stays_whole(%x: tensor<?x64xf32>, %y: tensor<?x64xf32>) -> (tensor<?x64xf32>, tensor<?x64xf32>) {
  %w = heddle.weight "w" <type = "bf16", file = 0, offset = 0> : tensor<64x64xbf16>
  %0 = heddle.linear %y, weights(%w : tensor<64x64xbf16>) : tensor<?x64xf32> -> tensor<?x64xf32>
  %1 = arith.addf %x, %0 : tensor<?x64xf32>
  return %1, %x : tensor<?x64xf32>, tensor<?x64xf32>
}

// -----

// Rows of a value, picked by id, are no embedding of a weight.
// CHECK-LABEL: @gathered_rows_are_not_packed
// CHECK: heddle.embedding
// CHECK-NOT: heddle.dequantize
func.func @gathered_rows_are_not_packed(%ids: tensor<?xi32>, %x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %0 = heddle.embedding %ids, %x : tensor<?xi32>, tensor<?x64xf32> -> tensor<?x64xf32>
  return %0 : tensor<?x64xf32>
}

// -----

func.func @product_of_values(%x: tensor<?x64xf32>, %y: tensor<1x64xf32>) -> tensor<?x64xf32> {
  %w = arith.constant dense<1.0> : tensor<64x64xf32>
  // expected-error @+1 {{operand is no weight of the model}}
  %0 = heddle.linear %x, weights(%w : tensor<64x64xf32>) : tensor<?x64xf32> -> tensor<?x64xf32>
  return %0 : tensor<?x64xf32>
}

// -----

// The section ends with its last weight; only what follows one is aligned.
// CHECK: module attributes {heddle.weights_size = 176 : i64}
// CHECK-LABEL: @last_weight_is_not_padded
// CHECK: heddle.weight "first" <type = "packed", file = 0, offset = 0>
// CHECK: heddle.weight "last" <type = "packed", file = 0, offset = 128>
func.func @last_weight_is_not_padded(%x: tensor<?x12xf32>, %y: tensor<?x20xf32>) -> (tensor<?x12xf32>, tensor<?x20xf32>) {
  %first = heddle.weight "first" <type = "f32", file = 0, offset = 0> : tensor<20xf32>
  %last = heddle.weight "last" <type = "f32", file = 0, offset = 80> : tensor<12xf32>
  %0 = heddle.rms_norm %y, %first {eps = 1.0e-5} : tensor<?x20xf32>, tensor<20xf32>
  %1 = heddle.rms_norm %x, %last {eps = 1.0e-5} : tensor<?x12xf32>, tensor<12xf32>
  return %1, %0 : tensor<?x12xf32>, tensor<?x20xf32>
}
