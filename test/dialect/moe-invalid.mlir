// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --split-input-file --verify-diagnostics -o %t

func.func @moe_c1_width(%x: tensor<?x8xf32>, %r: tensor<2x7xf32>, %g: tensor<3x8xf32>, %d: tensor<8x3xf32>) {
  // expected-error @+1 {{router 'tensor<2x7xf32>' must be (num_experts, 8)}}
  %0 = heddle.moe <silu> %x, %r gates(%g, %g : tensor<3x8xf32>, tensor<3x8xf32>) ups(%g, %g : tensor<3x8xf32>, tensor<3x8xf32>) downs(%d, %d : tensor<8x3xf32>, tensor<8x3xf32>) {top_k = 2 : i64, normalize = true} : tensor<?x8xf32>, tensor<2x7xf32> -> tensor<?x8xf32>
  return
}

// -----

func.func @moe_c1(%x: tensor<?x8xf32>, %r: tensor<2x8xf32>, %g: tensor<3x8xf32>, %d: tensor<8x3xf32>) {
  // expected-error @+1 {{must be (num_experts, 8) with a gate (3), up (3) and down (2) per expert}}
  %0 = heddle.moe <silu> %x, %r gates(%g, %g, %g : tensor<3x8xf32>, tensor<3x8xf32>, tensor<3x8xf32>) ups(%g, %g, %g : tensor<3x8xf32>, tensor<3x8xf32>, tensor<3x8xf32>) downs(%d, %d : tensor<8x3xf32>, tensor<8x3xf32>) {top_k = 2 : i64, normalize = true} : tensor<?x8xf32>, tensor<2x8xf32> -> tensor<?x8xf32>
  return
}

// -----

func.func @moe_c2(%x: tensor<?x8xf32>, %r: tensor<2x8xf32>, %g: tensor<3x8xf32>, %d: tensor<3x8xf32>) {
  // expected-error @+1 {{must be (intermediate, width) and (width, intermediate)}}
  %0 = heddle.moe <silu> %x, %r gates(%g, %g : tensor<3x8xf32>, tensor<3x8xf32>) ups(%g, %g : tensor<3x8xf32>, tensor<3x8xf32>) downs(%d, %d : tensor<3x8xf32>, tensor<3x8xf32>) {top_k = 2 : i64, normalize = true} : tensor<?x8xf32>, tensor<2x8xf32> -> tensor<?x8xf32>
  return
}

// -----

func.func @moe_c3(%x: tensor<?x8xf32>, %r: tensor<2x8xf32>, %g: tensor<3x8xf32>, %d: tensor<8x3xf32>) {
  // expected-error @+1 {{top_k (3) must be 1 to num_experts (2)}}
  %0 = heddle.moe <silu> %x, %r gates(%g, %g : tensor<3x8xf32>, tensor<3x8xf32>) ups(%g, %g : tensor<3x8xf32>, tensor<3x8xf32>) downs(%d, %d : tensor<8x3xf32>, tensor<8x3xf32>) {top_k = 3 : i64, normalize = true} : tensor<?x8xf32>, tensor<2x8xf32> -> tensor<?x8xf32>
  return
}

// -----

func.func @moe_c3_zero(%x: tensor<?x8xf32>, %r: tensor<2x8xf32>, %g: tensor<3x8xf32>, %d: tensor<8x3xf32>) {
  // expected-error @+1 {{top_k (0) must be 1 to num_experts (2)}}
  %0 = heddle.moe <silu> %x, %r gates(%g, %g : tensor<3x8xf32>, tensor<3x8xf32>) ups(%g, %g : tensor<3x8xf32>, tensor<3x8xf32>) downs(%d, %d : tensor<8x3xf32>, tensor<8x3xf32>) {top_k = 0 : i64, normalize = true} : tensor<?x8xf32>, tensor<2x8xf32> -> tensor<?x8xf32>
  return
}
