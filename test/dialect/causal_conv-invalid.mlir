// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --split-input-file --verify-diagnostics -o %t

func.func @causal_conv_c1(%x: tensor<?x8xf32>, %w: tensor<24xf32>) {
  // expected-error @+1 {{input and result must be (batch, sequence, channels)}}
  %0 = heddle.causal_conv %x, %w : tensor<?x8xf32>, tensor<24xf32> -> tensor<?x8xf32>
  return
}

// -----

func.func @causal_conv_c2_taps(%x: tensor<?x?x8xf32>, %w: tensor<20xf32>) {
  // expected-error @+1 {{weight 'tensor<20xf32>' must be (8 * width), width being 2 to 64}}
  %0 = heddle.causal_conv %x, %w : tensor<?x?x8xf32>, tensor<20xf32> -> tensor<?x?x8xf32>
  return
}

// -----

func.func @causal_conv_c2_bias(%x: tensor<?x?x8xf32>, %w: tensor<24xf32>, %b: tensor<9xf32>) {
  // expected-error @+1 {{bias 'tensor<9xf32>' must be (8)}}
  %0 = heddle.causal_conv %x, %w bias(%b : tensor<9xf32>) : tensor<?x?x8xf32>, tensor<24xf32> -> tensor<?x?x8xf32>
  return
}

// -----

func.func @causal_conv_c2_activation(%x: tensor<?x?x8xf32>, %w: tensor<24xf32>) {
  // expected-error @+1 {{activation must be silu}}
  %0 = heddle.causal_conv %x, %w {activation = #heddle.activation<relu>} : tensor<?x?x8xf32>, tensor<24xf32> -> tensor<?x?x8xf32>
  return
}

// -----

func.func @causal_conv_c3_room(%x: tensor<?x8xf32>, %w: tensor<24xf32>, %cache: !heddle.kv_cache<2 x 1 x 20 x f32 state>, %layer: index) {
  // expected-error @+1 {{needs a cache of states of at least 21 numbers, got '!heddle.kv_cache<2 x 1 x 20 x f32 state>'}}
  %0 = heddle.causal_conv %x, %w state(%cache[%layer] : !heddle.kv_cache<2 x 1 x 20 x f32 state>) {offset = 5} : tensor<?x8xf32>, tensor<24xf32> -> tensor<?x8xf32>
  return
}

// -----

func.func @causal_conv_c3_kind(%x: tensor<?x8xf32>, %w: tensor<24xf32>, %cache: !heddle.kv_cache<2 x 1 x 64 x f32>, %layer: index) {
  // expected-error @+1 {{needs a cache of states of at least 16 numbers, got '!heddle.kv_cache<2 x 1 x 64 x f32>'}}
  %0 = heddle.causal_conv %x, %w state(%cache[%layer] : !heddle.kv_cache<2 x 1 x 64 x f32>) : tensor<?x8xf32>, tensor<24xf32> -> tensor<?x8xf32>
  return
}
