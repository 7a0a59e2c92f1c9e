// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --pass-pipeline='builtin.module(func.func(heddle-lower-to-kernels))' | FileCheck %s
// RUN: %heddle-opt %s --pass-pipeline='builtin.module(func.func(heddle-lower-to-kernels{activates=false}))' | FileCheck %s --check-prefix=APART

// The end of the product before it.
// CHECK-LABEL: @activated
// CHECK: %[[Y:.*]] = heddle.packed_matmul activated <gelu> ins(
// CHECK-NOT: heddle.glu
// CHECK: return %[[Y]]
// APART-LABEL: @activated
// APART: heddle.packed_matmul ins(
// APART: heddle.glu <gelu>
func.func @activated(%x: tensor<?x64xf32>) -> tensor<?x32xf32> {
  %w = heddle.weight "w" <type = "bf16", file = 0, offset = 0> : tensor<32x64xbf16>
  %0 = heddle.linear %x, weights(%w : tensor<32x64xbf16>) : tensor<?x64xf32> -> tensor<?x32xf32>
  %1 = heddle.glu <gelu> %0 : tensor<?x32xf32>
  return %1 : tensor<?x32xf32>
}

// A graph's rows have their shape again before it.
// CHECK-LABEL: @of_a_graph
// CHECK: %[[ROWS:.*]] = heddle.packed_matmul activated <relu> ins(
// CHECK: %[[Y:.*]] = tensor.expand_shape %[[ROWS]]
// CHECK-NOT: heddle.glu
// CHECK: return %[[Y]]
func.func @of_a_graph(%x: tensor<8x64xf32>) -> tensor<2x4x32xf32> {
  %w = heddle.weight "w" <type = "bf16", file = 0, offset = 0> : tensor<32x64xbf16>
  %0 = heddle.linear %x, weights(%w : tensor<32x64xbf16>) : tensor<8x64xf32> -> tensor<8x32xf32>
  %1 = tensor.expand_shape %0 [[0, 1], [2]] output_shape [2, 4, 32] : tensor<8x32xf32> into tensor<2x4x32xf32>
  %2 = heddle.glu <relu> %1 : tensor<2x4x32xf32>
  return %2 : tensor<2x4x32xf32>
}

// Somebody reads the product itself.
// CHECK-LABEL: @read_twice
// CHECK: heddle.packed_matmul ins(
// CHECK: heddle.glu <silu>
func.func @read_twice(%x: tensor<?x64xf32>) -> (tensor<?x32xf32>, tensor<?x32xf32>) {
  %w = heddle.weight "w" <type = "bf16", file = 0, offset = 0> : tensor<32x64xbf16>
  %0 = heddle.linear %x, weights(%w : tensor<32x64xbf16>) : tensor<?x64xf32> -> tensor<?x32xf32>
  %1 = heddle.glu <silu> %0 : tensor<?x32xf32>
  return %0, %1 : tensor<?x32xf32>, tensor<?x32xf32>
}

// What is gated has two products.
// CHECK-LABEL: @gated
// CHECK-COUNT-2: heddle.packed_matmul ins(
// CHECK: heddle.glu <silu>
func.func @gated(%x: tensor<?x64xf32>) -> tensor<?x32xf32> {
  %w = heddle.weight "w" <type = "bf16", file = 0, offset = 0> : tensor<32x64xbf16>
  %v = heddle.weight "v" <type = "bf16", file = 0, offset = 4096> : tensor<32x64xbf16>
  %0 = heddle.linear %x, weights(%w : tensor<32x64xbf16>) : tensor<?x64xf32> -> tensor<?x32xf32>
  %1 = heddle.linear %x, weights(%v : tensor<32x64xbf16>) : tensor<?x64xf32> -> tensor<?x32xf32>
  %2 = heddle.glu <silu> %0, %1 : tensor<?x32xf32>
  return %2 : tensor<?x32xf32>
}
