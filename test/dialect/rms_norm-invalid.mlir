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
