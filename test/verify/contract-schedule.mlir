// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --heddle-verify-stage=schedule --split-input-file --verify-diagnostics -o %t

#rope = #heddle.rope<half, table = 0, attention_factor = 1.0, inverse_frequency = array<f32: 1.0, 0.1>>
func.func @step(%x: memref<?x64xf32>, %out: memref<?x16xf32>) {
  %stored = heddle.weight "w" packed <layout = stacked, format = "f32", shape = [16, 64], offset = 0,
    sources = [<name = "w", rows = 16, storage = <type = "f32", file = 0, offset = 0>>]> : tensor<4096xi8>
  %w = bufferization.to_buffer %stored : tensor<4096xi8> to memref<4096xi8>
  heddle.packed_matmul ins(%x, %w : memref<?x64xf32>, memref<4096xi8>) outs(%out : memref<?x16xf32>) {n = 16, k = 64, format = "f32"}
  return
}
func.func private @kernel(%q: tensor<1x2x?x4xf32>, %positions: tensor<1x?xi32>, %table: tensor<?x4xf32>) -> tensor<1x2x?x4xf32>
    attributes {heddle.kernel} {
  %0 = heddle.rope %q, %positions table(%table : tensor<?x4xf32>) #rope : tensor<1x2x?x4xf32>, tensor<1x?xi32>
  return %0 : tensor<1x2x?x4xf32>
}

// -----

func.func @step() {
  // expected-error @+1 {{has the encoded type 'tensor<64x256xf32, #heddle.quant<q4_k>>' after stage schedule: packed weights are bytes}}
  %0 = heddle.weight "w" <type = "q4_k", file = 0, offset = 0> : tensor<64x256xf32, #heddle.quant<q4_k>>
  return
}

// -----

// The type of a function that is only declared says it, too.
// expected-error @+1 {{has the encoded type 'tensor<64x256xf32, #heddle.quant<q8_0>>' after stage schedule}}
func.func private @kernel(tensor<64x256xf32, #heddle.quant<q8_0>>) attributes {heddle.kernel}

// -----

// A graph's weights are bytes as well.
func.func @graph() {
  // expected-error @+1 {{has the encoded type}}
  %0 = heddle.weight "w" <type = "q8_0", file = 0, offset = 0> : tensor<64x256xf32, #heddle.quant<q8_0>>
  return
}

// -----

func.func @step() {
  // expected-error @+1 {{'w' has no place in the weights section after stage schedule}}
  %0 = heddle.weight "w" <type = "f32", file = 0, offset = 0> : tensor<64xf32>
  return
}

// -----

// Kernels read packed weights: what one asks for is there.
func.func @step(%w: tensor<16x64xf32>) {
  // expected-error @+1 {{'heddle.pack' must not remain after stage schedule}}
  %0 = heddle.pack <stacked> "f32" (%w : tensor<16x64xf32>) -> tensor<4096xi8>
  return
}

// -----

func.func @step(%flag: i1, %rows: index) {
  // expected-error @+1 {{'arith.constant' gives a tensor outside kernels after stage schedule}}
  %0 = arith.constant dense<0.0> : tensor<2x4xf32>
  return
}

// -----

#rope = #heddle.rope<half, table = 0, attention_factor = 1.0, inverse_frequency = array<f32: 1.0, 0.1>>
func.func private @kernel(%q: tensor<1x2x?x4xf32>, %positions: tensor<1x?xi32>) -> tensor<1x2x?x4xf32> attributes {heddle.kernel} {
  // expected-error @+1 {{computes cosines and sines itself after stage schedule: it reads the session's table}}
  %0 = heddle.rope %q, %positions, #rope : tensor<1x2x?x4xf32>, tensor<1x?xi32>
  return %0 : tensor<1x2x?x4xf32>
}

// -----

func.func @step(%x: memref<?x4xf32>) {
  %c2 = arith.constant 2 : index
  // expected-error @+1 {{'tensor.empty' must not remain after stage schedule}}
  %0 = tensor.empty(%c2) : tensor<?x4xf32>
  return
}

// -----

func.func private @kernel(%cache: !heddle.kv_cache<1 x 1 x 4 x f32>, %k: tensor<?x4xf32>, %layer: index) attributes {heddle.kernel} {
  // expected-error @+1 {{'heddle.kv_append' must not remain after stage schedule}}
  heddle.kv_append %cache[%layer], %k, %k : <1 x 1 x 4 x f32>, tensor<?x4xf32>, tensor<?x4xf32>
  return
}

// -----

// A graph has kernels, but no cache.
func.func @graph(%q: memref<1x2x5x8xf32>, %x: memref<5x16xf32>, %w: memref<4096xi8>, %cache: !heddle.kv_cache<1 x 1 x 16 x f32>,
                 %layer: index) {
  heddle.flash_attention <full> ins(%q, %q, %q : memref<1x2x5x8xf32>, memref<1x2x5x8xf32>, memref<1x2x5x8xf32>)
    outs(%q : memref<1x2x5x8xf32>) {scale = 1.0}
  heddle.packed_matmul ins(%x, %w : memref<5x16xf32>, memref<4096xi8>) outs(%x : memref<5x16xf32>) {n = 16, k = 16, format = "f32"}
  // expected-error @+1 {{'heddle.kv_append' must not remain after stage schedule}}
  heddle.kv_append %cache[%layer], %x, %x : <1 x 1 x 16 x f32>, memref<5x16xf32>, memref<5x16xf32>
  return
}
