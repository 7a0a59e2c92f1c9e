// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --split-input-file --verify-diagnostics -o %t

#rope = #heddle.rope<half, table = 0, attention_factor = 1.0, inverse_frequency = array<f32: 1.0>>
func.func @rope_c1(%x: tensor<1x2x5x8xf32>, %p: tensor<1x4xi32>) {
  // expected-error @+1 {{positions 'tensor<1x4xi32>' must be (batch, sequence) of 'tensor<1x2x5x8xf32>'}}
  %0 = heddle.rope %x, %p, #rope : tensor<1x2x5x8xf32>, tensor<1x4xi32>
  return
}

// -----

#rope = #heddle.rope<half, table = 0, attention_factor = 1.0, inverse_frequency = array<f32: 1.0, 1.0>>
func.func @rope_c2(%x: tensor<1x2x5x3xf32>, %p: tensor<1x5xi32>) {
  // expected-error @+1 {{rotary_dim (4) behind offset (0) must not be greater than head_dim (3)}}
  %0 = heddle.rope %x, %p, #rope : tensor<1x2x5x3xf32>, tensor<1x5xi32>
  return
}

// -----

// expected-error @+1 {{expected 'half' or 'interleaved', got 'neox'}}
#rope = #heddle.rope<neox, table = 0, attention_factor = 1.0, inverse_frequency = array<f32: 1.0>>

// -----

// expected-error @+1 {{inverse_frequency must not be empty}}
#rope = #heddle.rope<half, table = 0, attention_factor = 1.0, inverse_frequency = array<f32>>

// -----

// expected-error @+1 {{table (-1) must not be negative}}
#rope = #heddle.rope<half, table = -1, attention_factor = 1.0, inverse_frequency = array<f32: 1.0>>

// -----

// expected-error @+1 {{inverse_frequency must be array<f32: …>}}
#rope = #heddle.rope<half, table = 0, attention_factor = 1.0, inverse_frequency = array<i32: 1>>

// -----

// expected-error @+1 {{growth must be finite and floor (0) positive, or both be absent}}
#rope = #heddle.rope<half, table = 0, attention_factor = 1.0, growth = 0.1, floor = 0, inverse_frequency = array<f32: 1.0>>
