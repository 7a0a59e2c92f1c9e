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

// -----

func.func @moe_c2_in_turn(%x: tensor<?x8xf32>, %r: tensor<1x8xf32>, %g: tensor<5x8xf32>, %d: tensor<8x3xf32>) {
  // expected-error @+1 {{must be (intermediate, width) and (width, intermediate)}}
  %0 = heddle.moe <silu> %x, %r gates(%g : tensor<5x8xf32>) downs(%d : tensor<8x3xf32>) {top_k = 1 : i64, normalize = true} : tensor<?x8xf32>, tensor<1x8xf32> -> tensor<?x8xf32>
  return
}

// -----

func.func @moe_c2_gating(%x: tensor<?x8xf32>, %r: tensor<1x8xf32>, %g: tensor<3x8xf32>, %d: tensor<8x3xf32>) {
  // expected-error @+1 {{gating bounds what an up projection multiplies, and there is none}}
  %0 = heddle.moe <silu> %x, %r gating <limit = 7.0, alpha = 1.0, offset = 0.0> gates(%g : tensor<3x8xf32>) downs(%d : tensor<8x3xf32>) {top_k = 1 : i64, normalize = true} : tensor<?x8xf32>, tensor<1x8xf32> -> tensor<?x8xf32>
  return
}

// -----

// expected-error @+1 {{jitter (-1.000000e+00) must not be negative}}
func.func private @routing_c1() attributes {routing = #heddle.routing<jitter = -1.0>}

// -----

// expected-error @+1 {{jitter excludes sigmoids and groups (2)}}
func.func private @routing_c2() attributes {routing = #heddle.routing<numGroups = 2, jitter = 0.01>}

// -----

// expected-error @+1 {{jitter excludes sigmoids and groups (1)}}
func.func private @routing_c2_sigmoid() attributes {routing = #heddle.routing<sigmoid = true, jitter = 0.01>}

// -----

func.func @moe_c5_jitter(%x: tensor<?x8xf32>, %r: tensor<1x8xf32>, %c: tensor<1xf32>, %g: tensor<3x8xf32>, %d: tensor<8x3xf32>) {
  // expected-error @+1 {{correction changes which experts are chosen, which jitter does not know}}
  %0 = heddle.moe <silu> %x, %r correction(%c : tensor<1xf32>) routing <jitter = 0.01> gates(%g : tensor<3x8xf32>) ups(%g : tensor<3x8xf32>) downs(%d : tensor<8x3xf32>) {top_k = 1 : i64, normalize = false} : tensor<?x8xf32>, tensor<1x8xf32> -> tensor<?x8xf32>
  return
}

// -----

// expected-error @+1 {{capacity (-1) must not be negative}}
func.func private @capacity() attributes {routing = #heddle.routing<capacity = -1>}

// -----

func.func @moe_c6(%x: tensor<?x8xf32>, %r: tensor<1x8xf32>, %p: tensor<2xf32>, %g: tensor<3x8xf32>, %d: tensor<8x3xf32>) {
  // expected-error @+1 {{router_bias (2) must be num_experts (1)}}
  %0 = heddle.moe <silu> %x, %r router_bias(%p : tensor<2xf32>) gates(%g : tensor<3x8xf32>) ups(%g : tensor<3x8xf32>) downs(%d : tensor<8x3xf32>) {top_k = 1 : i64, normalize = true} : tensor<?x8xf32>, tensor<1x8xf32> -> tensor<?x8xf32>
  return
}

// -----

func.func @moe_c7(%x: tensor<?x8xf32>, %r: tensor<1x8xf32>, %b: tensor<3xf32>, %g: tensor<3x8xf32>, %d: tensor<8x3xf32>) {
  // expected-error @+1 {{has 2 gate_biases for 1 matrices}}
  %0 = heddle.moe <silu> %x, %r gates(%g : tensor<3x8xf32>) ups(%g : tensor<3x8xf32>) downs(%d : tensor<8x3xf32>) gate_biases(%b, %b : tensor<3xf32>, tensor<3xf32>) {top_k = 1 : i64, normalize = true} : tensor<?x8xf32>, tensor<1x8xf32> -> tensor<?x8xf32>
  return
}

// -----

func.func @moe_c7_length(%x: tensor<?x8xf32>, %r: tensor<1x8xf32>, %b: tensor<3xf32>, %g: tensor<3x8xf32>, %d: tensor<8x3xf32>) {
  // expected-error @+1 {{down bias 'tensor<3xf32>' must be as long as 'tensor<8x3xf32>' has rows}}
  %0 = heddle.moe <silu> %x, %r gates(%g : tensor<3x8xf32>) ups(%g : tensor<3x8xf32>) downs(%d : tensor<8x3xf32>) down_biases(%b : tensor<3xf32>) {top_k = 1 : i64, normalize = true} : tensor<?x8xf32>, tensor<1x8xf32> -> tensor<?x8xf32>
  return
}

// -----

func.func @moe_c8(%x: tensor<?x8xf32>, %h: tensor<7x7xf32>, %r: tensor<1x7xf32>, %g: tensor<3x8xf32>, %d: tensor<8x3xf32>) {
  // expected-error @+1 {{router_input 'tensor<7x7xf32>' must have the type of the input, 'tensor<?x8xf32>', but for the last dimension}}
  %0 = heddle.moe <silu> %x, %r router_input(%h : tensor<7x7xf32>) gates(%g : tensor<3x8xf32>) ups(%g : tensor<3x8xf32>) downs(%d : tensor<8x3xf32>) {top_k = 1 : i64, normalize = true} : tensor<?x8xf32>, tensor<1x7xf32> -> tensor<?x8xf32>
  return
}

// -----

func.func @moe_c9(%x: tensor<?x8xf32>, %r: tensor<1x8xf32>, %s: tensor<3xf32>, %g: tensor<3x8xf32>, %d: tensor<8x3xf32>) {
  // expected-error @+1 {{scales (3) must be num_experts (1)}}
  %0 = heddle.moe <silu> %x, %r scales(%s : tensor<3xf32>) gates(%g : tensor<3x8xf32>) ups(%g : tensor<3x8xf32>) downs(%d : tensor<8x3xf32>) {top_k = 1 : i64, normalize = true} : tensor<?x8xf32>, tensor<1x8xf32> -> tensor<?x8xf32>
  return
}

// -----

// expected-error @+1 {{limit (0.000000e+00) and alpha (1.000000e+00) must be positive, offset (1.000000e+00) finite}}
func.func private @gating_c1() attributes {gating = #heddle.gating<limit = 0.0, alpha = 1.0, offset = 1.0>}
