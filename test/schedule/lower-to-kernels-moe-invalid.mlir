// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --heddle-lower-to-kernels --verify-diagnostics --split-input-file

func.func @half_a_panel(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %r = heddle.weight "r" <type = "f32", file = 0, offset = 0> : tensor<1x8xf32>
  %g = heddle.weight "g" <type = "f32", file = 0, offset = 64> : tensor<6x8xf32>
  %d = heddle.weight "d" <type = "f32", file = 0, offset = 512> : tensor<8x3xf32>
  // expected-error @+1 {{has kernels for rows of gates and ups in turn of an intermediate size (3) that is a multiple of 16}}
  %0 = heddle.moe <silu> %x, %r gates(%g : tensor<6x8xf32>) downs(%d : tensor<8x3xf32>) {top_k = 1 : i64, normalize = true} : tensor<?x8xf32>, tensor<1x8xf32> -> tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}

// -----

func.func @biases_of_gates_alone(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %r = heddle.weight "r" <type = "f32", file = 0, offset = 0> : tensor<1x8xf32>
  %g = heddle.weight "g" <type = "f32", file = 0, offset = 64> : tensor<3x8xf32>
  %b = heddle.weight "b" <type = "f32", file = 0, offset = 256> : tensor<3xf32>
  %d = heddle.weight "d" <type = "f32", file = 0, offset = 512> : tensor<8x3xf32>
  // expected-error @+1 {{has kernels for biases of gates and ups, or of neither}}
  %0 = heddle.moe <silu> %x, %r gates(%g : tensor<3x8xf32>) ups(%g : tensor<3x8xf32>) downs(%d : tensor<8x3xf32>) gate_biases(%b : tensor<3xf32>)
    {top_k = 1 : i64, normalize = true} : tensor<?x8xf32>, tensor<1x8xf32> -> tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}
