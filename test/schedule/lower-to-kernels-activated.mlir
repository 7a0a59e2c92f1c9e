// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --pass-pipeline='builtin.module(func.func(heddle-lower-to-kernels))' | FileCheck %s
// RUN: %heddle-opt %s --pass-pipeline='builtin.module(func.func(heddle-lower-to-kernels{gates=true}))' | FileCheck %s --check-prefix=GATES

// The end of the product before it.
// CHECK-LABEL: @activated
// CHECK: %[[Y:.*]] = heddle.packed_matmul activated <gelu> ins(
// CHECK-NOT: heddle.glu
// CHECK: return %[[Y]]
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

// Parts of one product that a gate joins: with the option its end, the gate's weights first wherever its columns are.
// CHECK-LABEL: @parts
// CHECK: heddle.pack <stacked> "bf16"(
// CHECK: heddle.packed_matmul ins(
// CHECK: heddle.glu <silu>
// GATES-LABEL: @parts
// GATES: %[[UP:.*]] = heddle.weight "up"
// GATES: %[[GATE:.*]] = heddle.weight "gate"
// GATES: %[[W:.*]] = heddle.pack <interleaved> "bf16"(%[[GATE]], %[[UP]] : {{.*}}group = 2
// GATES: %[[Y:.*]] = heddle.packed_matmul activated <silu> ins(%{{.*}}, %[[W]] : {{.*}}gated{{.*}}n = 32
// GATES-NOT: heddle.glu
// GATES: return %[[Y]]
func.func @parts(%x: tensor<?x64xf32>) -> tensor<?x32xf32> {
  %v = heddle.weight "up" <type = "bf16", file = 0, offset = 0> : tensor<32x64xbf16>
  %w = heddle.weight "gate" <type = "bf16", file = 0, offset = 4096> : tensor<32x64xbf16>
  %c0 = arith.constant 0 : index
  %0 = heddle.linear %x, weights(%v, %w : tensor<32x64xbf16>, tensor<32x64xbf16>) : tensor<?x64xf32> -> tensor<?x64xf32>
  %n = tensor.dim %0, %c0 : tensor<?x64xf32>
  %1 = tensor.extract_slice %0[0, 0] [%n, 32] [1, 1] : tensor<?x64xf32> to tensor<?x32xf32>
  %2 = tensor.extract_slice %0[0, 32] [%n, 32] [1, 1] : tensor<?x64xf32> to tensor<?x32xf32>
  %3 = heddle.glu <silu> %2, %1 : tensor<?x32xf32>
  return %3 : tensor<?x32xf32>
}

// Widths that fill no panels, and what somebody else reads, stay apart.
// GATES-LABEL: @no_panels
// GATES: heddle.packed_matmul ins(
// GATES: heddle.glu <silu>
func.func @no_panels(%x: tensor<?x64xf32>, %n: index) -> tensor<?x24xf32> {
  %w = heddle.weight "w" <type = "bf16", file = 0, offset = 0> : tensor<24x64xbf16>
  %v = heddle.weight "v" <type = "bf16", file = 0, offset = 4096> : tensor<24x64xbf16>
  %0 = heddle.linear %x, weights(%w, %v : tensor<24x64xbf16>, tensor<24x64xbf16>) : tensor<?x64xf32> -> tensor<?x48xf32>
  %1 = tensor.extract_slice %0[0, 0] [%n, 24] [1, 1] : tensor<?x48xf32> to tensor<?x24xf32>
  %2 = tensor.extract_slice %0[0, 24] [%n, 24] [1, 1] : tensor<?x48xf32> to tensor<?x24xf32>
  %3 = heddle.glu <silu> %1, %2 : tensor<?x24xf32>
  return %3 : tensor<?x24xf32>
}

// GATES-LABEL: @gate_read_twice
// GATES: heddle.packed_matmul ins(
// GATES: heddle.glu <silu>
func.func @gate_read_twice(%x: tensor<?x64xf32>, %n: index) -> (tensor<?x32xf32>, tensor<?x32xf32>) {
  %w = heddle.weight "w" <type = "bf16", file = 0, offset = 0> : tensor<32x64xbf16>
  %v = heddle.weight "v" <type = "bf16", file = 0, offset = 4096> : tensor<32x64xbf16>
  %0 = heddle.linear %x, weights(%w, %v : tensor<32x64xbf16>, tensor<32x64xbf16>) : tensor<?x64xf32> -> tensor<?x64xf32>
  %1 = tensor.extract_slice %0[0, 0] [%n, 32] [1, 1] : tensor<?x64xf32> to tensor<?x32xf32>
  %2 = tensor.extract_slice %0[0, 32] [%n, 32] [1, 1] : tensor<?x64xf32> to tensor<?x32xf32>
  %3 = heddle.glu <silu> %1, %2 : tensor<?x32xf32>
  return %1, %3 : tensor<?x32xf32>, tensor<?x32xf32>
}
