// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --split-input-file --verify-diagnostics -o %t

func.func @packed_matmul_c1(%x: tensor<?x32xf32>, %w: tensor<4096xi8>, %o: tensor<?x16xf32>) {
  // expected-error @+1 {{input must be (rows, 64) and the destination (rows, 16)}}
  %0 = heddle.packed_matmul ins(%x, %w : tensor<?x32xf32>, tensor<4096xi8>) outs(%o : tensor<?x16xf32>) {n = 16 : i64, k = 64 : i64, format = "q4_1"} -> tensor<?x16xf32>
  return
}

// -----

func.func @packed_matmul_c1_destination(%x: tensor<?x64xf32>, %w: tensor<4096xi8>, %o: tensor<?x17xf32>) {
  // expected-error @+1 {{input must be (rows, 64) and the destination (rows, 16)}}
  %0 = heddle.packed_matmul ins(%x, %w : tensor<?x64xf32>, tensor<4096xi8>) outs(%o : tensor<?x17xf32>) {n = 16 : i64, k = 64 : i64, format = "q4_1"} -> tensor<?x17xf32>
  return
}

// -----

func.func @packed_matmul_c2(%x: tensor<?x64xi8>, %w: tensor<4096xi8>, %o: tensor<?x16xf32>) {
  // expected-error @+1 {{scales and sums belong to an i8 input}}
  %0 = heddle.packed_matmul ins(%x, %w : tensor<?x64xi8>, tensor<4096xi8>) outs(%o : tensor<?x16xf32>) {n = 16 : i64, k = 64 : i64, format = "q4_1"} -> tensor<?x16xf32>
  return
}

// -----

func.func @packed_matmul_c2_shapes(%x: tensor<?x64xi8>, %s: tensor<?x4xf32>, %m: tensor<?x4xi32>, %w: tensor<4096xi8>, %o: tensor<?x16xf32>) {
  // expected-error @+1 {{scales must be (rows, 2) and sums (rows, 4)}}
  %0 = heddle.packed_matmul ins(%x scales %s sums %m, %w : tensor<?x64xi8> scales tensor<?x4xf32> sums tensor<?x4xi32>, tensor<4096xi8>) outs(%o : tensor<?x16xf32>) {n = 16 : i64, k = 64 : i64, format = "q4_1"} -> tensor<?x16xf32>
  return
}

// -----

func.func @packed_matmul_c3(%x: tensor<?x64xf32>, %b: tensor<64xf32>, %w: tensor<4096xi8>, %o: tensor<?x16xf32>) {
  // expected-error @+1 {{bias must be (16)}}
  %0 = heddle.packed_matmul ins(%x, %w bias %b : tensor<?x64xf32>, tensor<4096xi8> bias tensor<64xf32>) outs(%o : tensor<?x16xf32>) {n = 16 : i64, k = 64 : i64, format = "q4_1"} -> tensor<?x16xf32>
  return
}

// -----

func.func @result_per_destination(%x: tensor<?x64xf32>, %w: tensor<4096xi8>, %o: tensor<?x16xf32>) {
  // expected-error @+1 {{must have a result per destination on tensors and none on buffers}}
  heddle.packed_matmul ins(%x, %w : tensor<?x64xf32>, tensor<4096xi8>) outs(%o : tensor<?x16xf32>) {n = 16 : i64, k = 64 : i64, format = "q4_1"}
  return
}

// -----

func.func @packed_matmul_c4(%x: tensor<?x64xf32>, %w: tensor<4096xi8>, %o: tensor<?x16xf32>) {
  // expected-error @+1 {{'int16' needs a f32 input, quantised weights and a multiple of 32 as k, got 'f32', 'f16' and 64}}
  %0 = heddle.packed_matmul ins(%x, %w : tensor<?x64xf32>, tensor<4096xi8>) outs(%o : tensor<?x16xf32>) {n = 16 : i64, k = 64 : i64, format = "f16", int16} -> tensor<?x16xf32>
  return
}

// -----

func.func @packed_matmul_c4(%x: tensor<?x64xf32>, %r: tensor<?x64xbf16>, %w: tensor<4096xi8>, %o: tensor<?x16xf32>) {
  // expected-error @+1 {{a rounded input belongs to 'int16'}}
  %0 = heddle.packed_matmul ins(%x rounded %r, %w : tensor<?x64xf32> rounded tensor<?x64xbf16>, tensor<4096xi8>) outs(%o : tensor<?x16xf32>) {n = 16 : i64, k = 64 : i64, format = "q4_1"} -> tensor<?x16xf32>
  return
}

// -----

func.func @packed_matmul_c4(%x: tensor<?x64xf32>, %r: tensor<?x32xbf16>, %w: tensor<4096xi8>, %o: tensor<?x16xf32>) {
  // expected-error @+1 {{a rounded input must be bf16 in the shape of the input, got 'tensor<?x32xbf16>'}}
  %0 = heddle.packed_matmul ins(%x rounded %r, %w : tensor<?x64xf32> rounded tensor<?x32xbf16>, tensor<4096xi8>) outs(%o : tensor<?x16xf32>) {n = 16 : i64, k = 64 : i64, format = "q4_1", int16} -> tensor<?x16xf32>
  return
}

// -----

func.func @packed_matmul_c5(%x: tensor<?x64xf32>, %w: tensor<4096xi8>, %o: tensor<?x16xf32>) {
  // expected-error @+1 {{an activation of what is added to a residual has no kernel}}
  %0 = heddle.packed_matmul activated <gelu> ins(%x, %w : tensor<?x64xf32>, tensor<4096xi8>) outs(%o : tensor<?x16xf32>) {accumulate, n = 16 : i64, k = 64 : i64, format = "q4_1"} -> tensor<?x16xf32>
  return
}

// -----

func.func @packed_matmul_c6(%x: tensor<?x64xf32>, %w: tensor<4096xi8>, %o: tensor<?x17xf32>) {
  // expected-error @+1 {{'gated' needs an activation, no bias and a multiple of 16 as n, got 17}}
  %0 = heddle.packed_matmul activated <silu> ins(%x, %w : tensor<?x64xf32>, tensor<4096xi8>) outs(%o : tensor<?x17xf32>) {gated, n = 17 : i64, k = 64 : i64, format = "q4_1"} -> tensor<?x17xf32>
  return
}

// -----

func.func @packed_matmul_c6_activation(%x: tensor<?x64xf32>, %w: tensor<4096xi8>, %o: tensor<?x16xf32>) {
  // expected-error @+1 {{'gated' needs an activation, no bias and a multiple of 16 as n, got 16}}
  %0 = heddle.packed_matmul ins(%x, %w : tensor<?x64xf32>, tensor<4096xi8>) outs(%o : tensor<?x16xf32>) {gated, n = 16 : i64, k = 64 : i64, format = "q4_1"} -> tensor<?x16xf32>
  return
}

// -----

func.func @packed_matmul_c7(%x: tensor<?x64xf32>, %w: tensor<4096xi8>, %o: tensor<?x16xf32>, %r: tensor<?x32xbf16>) {
  // expected-error @+1 {{the second destination must be f32 or bf16 (rows, 64), of a f32 input}}
  %0, %1 = heddle.packed_matmul ins(%x, %w : tensor<?x64xf32>, tensor<4096xi8>) outs(%o, %r : tensor<?x16xf32>, tensor<?x32xbf16>) {n = 16 : i64, k = 64 : i64, format = "q4_1"} -> tensor<?x16xf32>, tensor<?x32xbf16>
  return
}

// -----

func.func @packed_matmul_c7_input(%x: tensor<?x64xbf16>, %w: tensor<4096xi8>, %o: tensor<?x16xf32>, %r: tensor<?x64xbf16>) {
  // expected-error @+1 {{the second destination must be f32 or bf16 (rows, 64), of a f32 input}}
  %0, %1 = heddle.packed_matmul ins(%x, %w : tensor<?x64xbf16>, tensor<4096xi8>) outs(%o, %r : tensor<?x16xf32>, tensor<?x64xbf16>) {n = 16 : i64, k = 64 : i64, format = "bf16"} -> tensor<?x16xf32>, tensor<?x64xbf16>
  return
}

// -----

func.func @packed_matmul_c8(%x: tensor<?x64xf32>, %w: tensor<4096xi8>, %o: tensor<?x16xf32>, %r: tensor<?x64xbf16>) {
  // expected-error @+1 {{'eps' and 'weight_offset' belong to a norm}}
  %0, %1 = heddle.packed_matmul ins(%x, %w : tensor<?x64xf32>, tensor<4096xi8>) outs(%o, %r : tensor<?x16xf32>, tensor<?x64xbf16>) {n = 16 : i64, k = 64 : i64, format = "bf16", eps = 1.0e-5} -> tensor<?x16xf32>, tensor<?x64xbf16>
  return
}

// -----

func.func @packed_matmul_c8_room(%x: tensor<?x64xf32>, %w: tensor<4096xi8>, %g: tensor<64xf32>, %o: tensor<?x16xf32>) {
  // expected-error @+1 {{a norm must be f32 (64) and needs a second destination}}
  %0 = heddle.packed_matmul ins(%x, %w norm %g : tensor<?x64xf32>, tensor<4096xi8> norm tensor<64xf32>) outs(%o : tensor<?x16xf32>) {n = 16 : i64, k = 64 : i64, format = "bf16", eps = 1.0e-5, weight_offset = 0.0} -> tensor<?x16xf32>
  return
}

// -----

func.func @packed_matmul_c8_norm(%x: tensor<?x64xf32>, %w: tensor<4096xi8>, %o: tensor<?x16xf32>, %r: tensor<?x64xf32>) {
  // expected-error @+1 {{a second destination without a norm must be bf16}}
  %0, %1 = heddle.packed_matmul ins(%x, %w : tensor<?x64xf32>, tensor<4096xi8>) outs(%o, %r : tensor<?x16xf32>, tensor<?x64xf32>) {n = 16 : i64, k = 64 : i64, format = "bf16"} -> tensor<?x16xf32>, tensor<?x64xf32>
  return
}

// -----

func.func @packed_matmul_c9(%x: tensor<?x64xf32>, %w: tensor<4096xi8>, %o: tensor<?x16xf32>, %r: tensor<?x64xbf16>) {
  // expected-error @+1 {{'rounded_above' (12) must be positive, with 'int16' and destinations f32 and bf16 (rows, 16)}}
  %0, %1 = heddle.packed_matmul ins(%x, %w : tensor<?x64xf32>, tensor<4096xi8>) outs(%o, %r : tensor<?x16xf32>, tensor<?x64xbf16>) {n = 16 : i64, k = 64 : i64, format = "q4_1", int16, rounded_above = 12} -> tensor<?x16xf32>, tensor<?x64xbf16>
  return
}

// -----

func.func @packed_matmul_c9_few(%x: tensor<?x64xf32>, %w: tensor<4096xi8>, %o: tensor<?x16xf32>, %r: tensor<?x16xbf16>) {
  // expected-error @+1 {{'rounded_above' (0) must be positive}}
  %0, %1 = heddle.packed_matmul ins(%x, %w : tensor<?x64xf32>, tensor<4096xi8>) outs(%o, %r : tensor<?x16xf32>, tensor<?x16xbf16>) {n = 16 : i64, k = 64 : i64, format = "q4_1", int16, rounded_above = 0} -> tensor<?x16xf32>, tensor<?x16xbf16>
  return
}

// -----

func.func @packed_matmul_c9_residual(%x: tensor<?x64xf32>, %w: tensor<4096xi8>, %o: tensor<?x16xbf16>) {
  // expected-error @+1 {{a residual is not rounded}}
  %0 = heddle.packed_matmul ins(%x, %w : tensor<?x64xf32>, tensor<4096xi8>) outs(%o : tensor<?x16xbf16>) {accumulate, n = 16 : i64, k = 64 : i64, format = "q4_1"} -> tensor<?x16xbf16>
  return
}
