// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s | %heddle-opt | FileCheck %s
// RUN: %heddle-opt %s --mlir-print-op-generic | %heddle-opt | FileCheck %s

// CHECK-LABEL: @stacked
func.func @stacked(%q: tensor<64x64xbf16>, %k: tensor<32x64xbf16>) -> tensor<12288xi8> {
  // CHECK: heddle.pack <stacked> "bf16"(%{{.*}}, %{{.*}} : tensor<64x64xbf16>, tensor<32x64xbf16>) -> tensor<12288xi8>
  %0 = heddle.pack <stacked> "bf16" (%q, %k : tensor<64x64xbf16>, tensor<32x64xbf16>) -> tensor<12288xi8>
  return %0 : tensor<12288xi8>
}

// CHECK-LABEL: @interleaved
func.func @interleaved(%w: tensor<16x64xf32, #heddle.quant<q8_0>>) -> tensor<2176xi8> {
  // CHECK: heddle.pack <interleaved> "q8_0"(%{{.*}}, %{{.*}} : {{.*}}) {group = 2 : i64, many_rows} -> tensor<2176xi8>
  %0 = heddle.pack <interleaved> "q8_0" (%w, %w : tensor<16x64xf32, #heddle.quant<q8_0>>, tensor<16x64xf32, #heddle.quant<q8_0>>)
    {group = 2 : i64, many_rows} -> tensor<2176xi8>
  return %0 : tensor<2176xi8>
}

// Matrices whose transposes have k columns.
// CHECK-LABEL: @transposed
func.func @transposed(%a: tensor<8x5xf32>, %b: tensor<8x7xf32>) -> tensor<512xi8> {
  // CHECK: heddle.pack <stacked> "f32"({{.*}}) {transposed} -> tensor<512xi8>
  %0 = heddle.pack <stacked> "f32" (%a, %b : tensor<8x5xf32>, tensor<8x7xf32>) {transposed} -> tensor<512xi8>
  return %0 : tensor<512xi8>
}

// CHECK-LABEL: @vectors
func.func @vectors(%a: tensor<8xbf16>, %b: tensor<3xbf16>) -> tensor<11xf32> {
  // CHECK: heddle.pack <vector> "f32"({{.*}}) -> tensor<11xf32>
  %0 = heddle.pack <vector> "f32" (%a, %b : tensor<8xbf16>, tensor<3xbf16>) -> tensor<11xf32>
  return %0 : tensor<11xf32>
}
