// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --split-input-file --verify-diagnostics -o %t

func.func @ragged_conv_c1(%x: tensor<?x8xf32>, %w: tensor<24xf32>, %cache: !heddle.kv_cache<2 x 1 x 16 x f32 state>, %layer: index, %o: tensor<?x9xf32>) {
  // expected-error @+1 {{input and the one destination must be f32 (rows, channels)}}
  %0 = heddle.ragged_conv ins(%x, %w : tensor<?x8xf32>, tensor<24xf32>) state(%cache[%layer] : <2 x 1 x 16 x f32 state>) outs(%o : tensor<?x9xf32>) -> tensor<?x9xf32>
  return
}

// -----

func.func @ragged_conv_c1_taps(%x: tensor<?x8xf32>, %w: tensor<8xf32>, %cache: !heddle.kv_cache<2 x 1 x 16 x f32 state>, %layer: index, %o: tensor<?x8xf32>) {
  // expected-error @+1 {{weight 'tensor<8xf32>' must be (8 * width), width being 2 to 64}}
  %0 = heddle.ragged_conv ins(%x, %w : tensor<?x8xf32>, tensor<8xf32>) state(%cache[%layer] : <2 x 1 x 16 x f32 state>) outs(%o : tensor<?x8xf32>) -> tensor<?x8xf32>
  return
}

// -----

func.func @ragged_conv_c2(%x: tensor<?x8xf32>, %w: tensor<24xf32>, %cache: !heddle.kv_cache<2 x 1 x 15 x f32 state>, %layer: index, %o: tensor<?x8xf32>) {
  // expected-error @+1 {{needs a cache of states of at least 16 numbers}}
  %0 = heddle.ragged_conv ins(%x, %w : tensor<?x8xf32>, tensor<24xf32>) state(%cache[%layer] : <2 x 1 x 15 x f32 state>) outs(%o : tensor<?x8xf32>) -> tensor<?x8xf32>
  return
}
