// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s | %heddle-opt | FileCheck %s
// RUN: %heddle-opt %s --mlir-print-op-generic | %heddle-opt | FileCheck %s

// CHECK-LABEL: @stored
func.func @stored() -> (tensor<576xf32>, tensor<8x32xf32, #heddle.quant<q4_0>>) {
  // CHECK: heddle.weight "norm" <type = "f32", file = 0, offset = 4096> : tensor<576xf32>
  %0 = heddle.weight "norm" <type = "f32", file = 0, offset = 4096> : tensor<576xf32>
  // CHECK: heddle.weight "blk.0" <type = "q4_0", file = 1, offset = 0, transposed = true> : tensor<8x32xf32, #heddle.quant<q4_0>>
  %1 = heddle.weight "blk.0" <type = "q4_0", file = 1, offset = 0, transposed = true> : tensor<8x32xf32, #heddle.quant<q4_0>>
  return %0, %1 : tensor<576xf32>, tensor<8x32xf32, #heddle.quant<q4_0>>
}

// Rows of 3 values, 16 from one to the next.
// CHECK-LABEL: @part_of_a_matrix
func.func @part_of_a_matrix() -> tensor<3x7xf32> {
  // CHECK: heddle.weight "up[5:8]" <type = "f32", file = 0, offset = 20, transposed = true, stride = 16> : tensor<3x7xf32>
  %0 = heddle.weight "up[5:8]" <type = "f32", file = 0, offset = 20, transposed = true, stride = 16> : tensor<3x7xf32>
  return %0 : tensor<3x7xf32>
}

// In the weights section: bytes of matrices, vectors as f32, a tensor as its file has it.
// CHECK-LABEL: @packed
func.func @packed() -> (tensor<2176xi8>, tensor<12xf32>, tensor<2x3xi64>) {
  // CHECK: heddle.weight "gate" packed <layout = stacked, format = "q8_0", shape = [32, 64], offset = 0, sources = [<name = "gate", rows = 32, storage = <type = "q8_0", file = 0, offset = 4096>>]> : tensor<2176xi8>
  %0 = heddle.weight "gate" packed <layout = stacked, format = "q8_0", shape = [32, 64], offset = 0,
    sources = [<name = "gate", rows = 32, storage = <type = "q8_0", file = 0, offset = 4096>>]> : tensor<2176xi8>
  // CHECK: heddle.weight "norm" packed <layout = vector, format = "f32", shape = [12], offset = 2176, sources = {{.*}}> : tensor<12xf32>
  %1 = heddle.weight "norm" packed <layout = vector, format = "f32", shape = [12], offset = 2176,
    sources = [<name = "norm", rows = 12, storage = <type = "bf16", file = 0, offset = 0>>]> : tensor<12xf32>
  // CHECK: heddle.weight "ids" packed <layout = stored, format = "i64", shape = [2, 3], offset = 2240, sources = {{.*}}> : tensor<2x3xi64>
  %2 = heddle.weight "ids" packed <layout = stored, format = "i64", shape = [2, 3], offset = 2240,
    sources = [<name = "ids", rows = 6, storage = <type = "i64", file = 0, offset = 8>>]> : tensor<2x3xi64>
  return %0, %1, %2 : tensor<2176xi8>, tensor<12xf32>, tensor<2x3xi64>
}

// CHECK-LABEL: @equal_weights_are_one
// RUN: %heddle-opt %s --cse | FileCheck %s --check-prefix=CSE
// CSE-LABEL: @equal_weights_are_one
// CSE: %[[W:.*]] = heddle.weight "norm"
// CSE-NOT: heddle.weight
// CSE: return %[[W]], %[[W]]
func.func @equal_weights_are_one() -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = heddle.weight "norm" <type = "f32", file = 0, offset = 64> : tensor<4xf32>
  %1 = heddle.weight "norm" <type = "f32", file = 0, offset = 64> : tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}
