// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --split-input-file --verify-diagnostics -o %t

func.func @linear_c1(%x: tensor<2x8xf32>, %w: tensor<8x4xf32>) {
  // expected-error @+1 {{weight 'tensor<8x4xf32>' must be (out_features, in_features) with in_features 8}}
  %0 = heddle.linear %x, weights(%w : tensor<8x4xf32>) : tensor<2x8xf32> -> tensor<2x4xf32>
  return
}

// -----

func.func @linear_c2(%x: tensor<2x8xf32>, %w: tensor<4x8xf32>) {
  // expected-error @+1 {{result 'tensor<2x5xf32>' must be the input's shape with last dimension 8}}
  %0 = heddle.linear %x, weights(%w, %w : tensor<4x8xf32>, tensor<4x8xf32>) : tensor<2x8xf32> -> tensor<2x5xf32>
  return
}

// -----

func.func @linear_c3_count(%x: tensor<2x8xf32>, %w: tensor<4x8xf32>, %b: tensor<4xf32>) {
  // expected-error @+1 {{biases (1) must be as many as weights (2)}}
  %0 = heddle.linear %x, weights(%w, %w : tensor<4x8xf32>, tensor<4x8xf32>) biases(%b : tensor<4xf32>) : tensor<2x8xf32> -> tensor<2x8xf32>
  return
}

// -----

func.func @linear_c3(%x: tensor<2x8xf32>, %w: tensor<4x8xf32>, %b: tensor<3xf32>) {
  // expected-error @+1 {{bias 'tensor<3xf32>' must be (4)}}
  %0 = heddle.linear %x, weights(%w : tensor<4x8xf32>) biases(%b : tensor<3xf32>) : tensor<2x8xf32> -> tensor<2x4xf32>
  return
}

// -----

func.func @needs_a_weight(%x: tensor<2x8xf32>) {
  // expected-error @+1 {{needs a weight}}
  %0 = "heddle.linear"(%x) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (tensor<2x8xf32>) -> tensor<2x0xf32>
  return
}
