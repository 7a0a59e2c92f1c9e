// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --split-input-file --verify-diagnostics -o %t

func.func @pack_c1(%w: tensor<16x64xbf16>) {
  // expected-error @+1 {{must have sources and another layout than 'stored', got 1 and 'stored'}}
  %0 = heddle.pack <stored> "bf16" (%w : tensor<16x64xbf16>) -> tensor<2048xi8>
  return
}

// -----

func.func @pack_c1() {
  // expected-error @+1 {{must have sources and another layout than 'stored', got 0 and 'stacked'}}
  %0 = "heddle.pack"() <{layout = #heddle.packing_layout<stacked>, format = "bf16"}> : () -> tensor<2048xi8>
  return
}

// -----

func.func @pack_c1(%w: tensor<64xbf16>) {
  // expected-error @+1 {{sources must have rank 2, got 'tensor<64xbf16>'}}
  %0 = heddle.pack <stacked> "bf16" (%w : tensor<64xbf16>) -> tensor<2048xi8>
  return
}

// -----

func.func @pack_c1(%w: tensor<16x64xbf16>) {
  // expected-error @+1 {{sources must have rank 1, got 'tensor<16x64xbf16>'}}
  %0 = heddle.pack <vector> "f32" (%w : tensor<16x64xbf16>) -> tensor<1024xf32>
  return
}

// -----

func.func @pack_c1(%w: tensor<16x64xbf16>, %v: tensor<16x32xbf16>) {
  // expected-error @+1 {{sources must have k (64) in common, got 'tensor<16x32xbf16>'}}
  %0 = heddle.pack <stacked> "bf16" (%w, %v : tensor<16x64xbf16>, tensor<16x32xbf16>) -> tensor<2048xi8>
  return
}

// -----

func.func @pack_c1(%w: tensor<16x64xbf16>, %v: tensor<32x64xbf16>) {
  // expected-error @+1 {{sources must have k (16) in common, got 'tensor<32x64xbf16>'}}
  %0 = heddle.pack <stacked> "bf16" (%w, %v : tensor<16x64xbf16>, tensor<32x64xbf16>) {transposed} -> tensor<2048xi8>
  return
}

// -----

func.func @pack_c1(%w: tensor<?x64xbf16>) {
  // expected-error @+1 {{must be variadic of statically shaped tensor of any type values}}
  %0 = heddle.pack <stacked> "bf16" (%w : tensor<?x64xbf16>) -> tensor<2048xi8>
  return
}

// -----

func.func @pack_c2(%w: tensor<16x64xbf16>) {
  // expected-error @+1 {{of matrices must be bytes (N), got 'tensor<512xf32>'}}
  %0 = heddle.pack <stacked> "bf16" (%w : tensor<16x64xbf16>) -> tensor<512xf32>
  return
}

// -----

func.func @pack_c2(%w: tensor<8xbf16>) {
  // expected-error @+1 {{of vectors must be f32 (8), got 'tensor<9xf32>'}}
  %0 = heddle.pack <vector> "f32" (%w : tensor<8xbf16>) -> tensor<9xf32>
  return
}

// -----

func.func @pack_c3(%w: tensor<16x64xbf16>) {
  // expected-error @+1 {{group (2) must be positive and divide the number of sources (1)}}
  %0 = heddle.pack <interleaved> "bf16" (%w : tensor<16x64xbf16>) {group = 2 : i64} -> tensor<2048xi8>
  return
}

// -----

func.func @pack_c3(%w: tensor<16x64xbf16>, %v: tensor<32x64xbf16>) {
  // expected-error @+1 {{rows of interleaved matrices must be equal, got 16 and 32}}
  %0 = heddle.pack <interleaved> "bf16" (%w, %v : tensor<16x64xbf16>, tensor<32x64xbf16>) {group = 1 : i64} -> tensor<6144xi8>
  return
}

// -----

func.func @pack_c3(%w: tensor<16x64xbf16>) {
  // expected-error @+1 {{format 'q9_0' is none of f32, f16, bf16, codes4, codes8, bytes and the block formats}}
  %0 = heddle.pack <stacked> "q9_0" (%w : tensor<16x64xbf16>) -> tensor<2048xi8>
  return
}

// -----

func.func @pack_c3(%w: tensor<16x64xf32, #heddle.quant<q8_0>>) {
  // expected-error @+1 {{only matrices without blocks are transposed, got layout 'stacked', format 'q8_0'}}
  %0 = heddle.pack <stacked> "q8_0" (%w : tensor<16x64xf32, #heddle.quant<q8_0>>) {transposed} -> tensor<2048xi8>
  return
}
