// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --split-input-file --verify-diagnostics -o %t

func.func @rms_norm_c1(%x: tensor<2x8xf32>, %w: tensor<2xf32>) {
  // expected-error @+1 {{weight 'tensor<2xf32>' must be (8)}}
  %0 = heddle.rms_norm %x, %w {eps = 1.0e-5} : tensor<2x8xf32>, tensor<2xf32>
  return
}

// -----

func.func @rms_norm_c2(%x: tensor<2x8xf32>, %w: tensor<8xf32>) {
  // expected-error @+1 {{eps must not be negative}}
  %0 = heddle.rms_norm %x, %w {eps = -1.0e-5} : tensor<2x8xf32>, tensor<8xf32>
  return
}

// -----

// Heads stand in the second of four dimensions.
func.func @rms_norm_c1_heads(%x: tensor<2x3x5x8xf32>, %w: tensor<16xf32>) {
  // expected-error @+1 {{weight 'tensor<16xf32>' must be (8) or, with one for each head, (24)}}
  %0 = heddle.rms_norm %x, %w {eps = 1.0e-5} : tensor<2x3x5x8xf32>, tensor<16xf32>
  return
}
