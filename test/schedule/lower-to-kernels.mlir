// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --heddle-lower-to-kernels --split-input-file --verify-diagnostics | FileCheck %s

// Query and key are read together; the layer's weights are still as they are stored.
// CHECK-LABEL: @layer
// CHECK-SAME: %[[X:.*]]: tensor<?x64xf32>, %[[NORM:.*]]: tensor<64xbf16>, %[[Q:.*]]: tensor<64x64xbf16>, %[[K:.*]]: tensor<32x64xbf16>, %[[BQ:.*]]: tensor<64xbf16>, %[[BK:.*]]: tensor<32xbf16>)
// CHECK-NOT: heddle.linear
// CHECK: %[[N:.*]] = heddle.pack <vector> "f32"(%[[NORM]] : tensor<64xbf16>) -> tensor<64xf32>
// CHECK: heddle.rms_norm %[[X]], %[[N]]
// CHECK: %[[W:.*]] = heddle.pack <stacked> "bf16"(%[[Q]], %[[K]] : tensor<64x64xbf16>, tensor<32x64xbf16>) -> tensor<12288xi8>
// CHECK: %[[BIAS:.*]] = heddle.pack <vector> "f32"(%[[BQ]], %[[BK]] : tensor<64xbf16>, tensor<32xbf16>) -> tensor<96xf32>
// CHECK: heddle.packed_matmul ins(%{{.*}}, %[[W]] bias %[[BIAS]] : tensor<?x64xf32>, tensor<12288xi8> bias tensor<96xf32>) outs(%{{.*}}) {format = "bf16", k = 64 : i64, n = 96 : i64}
func.func private @layer(%x: tensor<?x64xf32>, %norm: tensor<64xbf16>, %wq: tensor<64x64xbf16>, %wk: tensor<32x64xbf16>, %bq: tensor<64xbf16>, %bk: tensor<32xbf16>) -> tensor<?x96xf32> {
  %n = heddle.rms_norm %x, %norm {eps = 1.0e-5} : tensor<?x64xf32>, tensor<64xbf16>
  %0 = heddle.linear %n, weights(%wq, %wk : tensor<64x64xbf16>, tensor<32x64xbf16>) biases(%bq, %bk : tensor<64xbf16>, tensor<32xbf16>) : tensor<?x64xf32> -> tensor<?x96xf32>
  return %0 : tensor<?x96xf32>
}

// -----

// CHECK-LABEL: @rows_of_the_table
// CHECK: %[[TABLE:.*]] = heddle.weight "table" <type = "bf16", file = 0, offset = 0> : tensor<64x64xbf16>
// CHECK: %[[PACKED:.*]] = heddle.pack <stacked> "bf16"(%[[TABLE]] : tensor<64x64xbf16>) -> tensor<8192xi8>
// CHECK: heddle.dequantize ins(%{{.*}}, %[[PACKED]]
func.func @rows_of_the_table(%ids: tensor<?xi32>) -> tensor<?x64xf32> {
  %table = heddle.weight "table" <type = "bf16", file = 0, offset = 0> : tensor<64x64xbf16>
  %x = heddle.embedding %ids, %table : tensor<?xi32>, tensor<64x64xbf16> -> tensor<?x64xf32>
  return %x : tensor<?x64xf32>
}

// -----

// Blocks of one type hold no numbers of another.
// CHECK-LABEL: @two_types_are_read_as_f32
// CHECK: heddle.pack <stacked> "f32"({{.*}}) -> tensor<8192xi8>
// CHECK: heddle.packed_matmul {{.*}} {format = "f32",
func.func @two_types_are_read_as_f32(%x: tensor<?x64xf32>) -> tensor<?x32xf32> {
  %a = heddle.weight "a" <type = "q8_0", file = 0, offset = 0> : tensor<16x64xf32, #heddle.quant<q8_0>>
  %b = heddle.weight "b" <type = "bf16", file = 0, offset = 4096> : tensor<16x64xbf16>
  %0 = heddle.linear %x, weights(%a, %b : tensor<16x64xf32, #heddle.quant<q8_0>>, tensor<16x64xbf16>) : tensor<?x64xf32> -> tensor<?x32xf32>
  return %0 : tensor<?x32xf32>
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

// The argument of a function that anybody may call is no weight.
// CHECK-LABEL: @vector_of_a_caller
// CHECK-NOT: heddle.pack
// CHECK: heddle.rms_norm %{{.*}}, %{{.*}} {
func.func @vector_of_a_caller(%x: tensor<?x64xf32>, %norm: tensor<64xf32>) -> tensor<?x64xf32> {
  %0 = heddle.rms_norm %x, %norm {eps = 1.0e-5} : tensor<?x64xf32>, tensor<64xf32>
  return %0 : tensor<?x64xf32>
}

// -----

// Sinks are read by what merges splits as by the attention that is not split: as numbers of the layer that lie there once.
// CHECK-LABEL: @sinks_of_both_ways
// CHECK-SAME: %[[SINKS:[a-z0-9]+]]: tensor<4xbf16>
// CHECK: %[[MERGED:.*]] = heddle.pack <vector> "f32"(%[[SINKS]] : tensor<4xbf16>) -> tensor<4xf32>
// CHECK: heddle.combine_splits <causal> ins({{.*}} sinks %[[MERGED]] :
func.func private @sinks_of_both_ways(%outputs: tensor<4x64xf32>, %maxima: tensor<4x4xf32>, %sums: tensor<4x4xf32>, %cache: !heddle.kv_cache<1 x 2 x 16 x bf16>, %sinks: tensor<4xbf16>, %out: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %0 = heddle.combine_splits <causal> ins(%outputs, %maxima, %sums, %cache sinks %sinks : tensor<4x64xf32>, tensor<4x4xf32>, tensor<4x4xf32>, <1 x 2 x 16 x bf16>, tensor<4xbf16>) outs(%out : tensor<?x64xf32>) {num_heads = 4 : i64, split_kv = 512 : i64} -> tensor<?x64xf32>
  return %0 : tensor<?x64xf32>
}

// -----

// Norms of heads, each with a vector of its own.
// CHECK-LABEL: @vectors_one_behind_the_other
// CHECK-SAME: %[[X:.*]]: tensor<1x2x?x8xf32>, %[[A:.*]]: tensor<8xf32>, %[[B:.*]]: tensor<8xf32>)
// CHECK-NOT: tensor.concat
// CHECK: %[[W:.*]] = heddle.pack <vector> "f32"(%[[A]], %[[B]] : tensor<8xf32>, tensor<8xf32>) -> tensor<16xf32>
// CHECK: heddle.layer_norm %[[X]], %[[W]]
// CHECK-NOT: tensor.concat
// CHECK: return
func.func private @vectors_one_behind_the_other(%x: tensor<1x2x?x8xf32>, %a: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<1x2x?x8xf32> {
  %w = tensor.concat dim(0) %a, %b : (tensor<8xf32>, tensor<8xf32>) -> tensor<16xf32>
  %y = heddle.layer_norm %x, %w {eps = 1.0e-5} : tensor<1x2x?x8xf32>, tensor<16xf32>
  return %y : tensor<1x2x?x8xf32>
}
