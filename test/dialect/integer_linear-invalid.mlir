// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --split-input-file --verify-diagnostics -o %t

func.func @integer_linear_c1(%x: tensor<?x8xi8>, %w: tensor<4x9xf32>) {
  // expected-error @+1 {{weight 'tensor<4x9xf32>' must be (out_features, in_features) with in_features 8}}
  %0 = heddle.integer_linear %x, %w : tensor<?x8xi8>, tensor<4x9xf32> -> tensor<?x4xi32>
  return
}

// -----

func.func @integer_linear_c1_rank(%x: tensor<?x8xi8>, %w: tensor<8xf32>) {
  // expected-error @+1 {{weight 'tensor<8xf32>' must be (out_features, in_features) with in_features 8}}
  %0 = heddle.integer_linear %x, %w : tensor<?x8xi8>, tensor<8xf32> -> tensor<?x4xi32>
  return
}

// -----

func.func @integer_linear_c2(%x: tensor<?x8xi8>, %w: tensor<4x8xf32>) {
  // expected-error @+1 {{result 'tensor<?x5xi32>' must be the input's shape with last dimension 4}}
  %0 = heddle.integer_linear %x, %w : tensor<?x8xi8>, tensor<4x8xf32> -> tensor<?x5xi32>
  return
}

// -----

func.func @integer_linear_c3(%x: tensor<?x8xi8>, %z: tensor<1xi8>, %w: tensor<4x8xf32>) {
  // expected-error @+1 {{zero must be a scalar, got 'tensor<1xi8>'}}
  %0 = heddle.integer_linear %x zero(%z : tensor<1xi8>), %w : tensor<?x8xi8>, tensor<4x8xf32> -> tensor<?x4xi32>
  return
}
