// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --heddle-check-all --canonicalize | FileCheck %s

// CHECK-LABEL: @stored_table_not_widened
// CHECK: %[[TABLE:.*]] = heddle.weight
// CHECK-NOT: arith.extf
// CHECK: heddle.embedding %{{.*}}, %[[TABLE]] : tensor<1x?xi32>, tensor<8x4xbf16> -> tensor<1x?x4xf32>
func.func @stored_table_not_widened(%ids: tensor<1x?xi32>) -> tensor<1x?x4xf32> {
  %stored = heddle.weight "table" <type = "bf16", file = 0, offset = 0> : tensor<8x4xbf16>
  %table = arith.extf %stored : tensor<8x4xbf16> to tensor<8x4xf32>
  %0 = heddle.embedding %ids, %table : tensor<1x?xi32>, tensor<8x4xf32> -> tensor<1x?x4xf32>
  return %0 : tensor<1x?x4xf32>
}

// CHECK-LABEL: @rounded_table_kept
// CHECK: arith.truncf
func.func @rounded_table_kept(%ids: tensor<1x?xi32>) -> tensor<1x?x4xf32> {
  %stored = heddle.weight "table" <type = "f32", file = 0, offset = 0> : tensor<8x4xf32>
  %table = arith.truncf %stored : tensor<8x4xf32> to tensor<8x4xbf16>
  %0 = heddle.embedding %ids, %table : tensor<1x?xi32>, tensor<8x4xbf16> -> tensor<1x?x4xf32>
  return %0 : tensor<1x?x4xf32>
}
