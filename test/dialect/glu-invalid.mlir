// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --split-input-file --verify-diagnostics -o %t

func.func @same_types(%g: tensor<2x8xf32>, %u: tensor<2x4xf32>) {
  // expected-error @+1 {{requires the same type for all operands and results}}
  %0 = "heddle.glu"(%g, %u) <{activation = #heddle.activation<silu>}> : (tensor<2x8xf32>, tensor<2x4xf32>) -> tensor<2x8xf32>
  return
}

// -----

func.func @unknown_activation(%g: tensor<2x8xf32>) {
  // expected-error @+2 {{expected ::heddle::ActivationKind to be one of: silu, gelu, gelu_tanh, relu, quick_gelu, tanh, squared_relu}}
  // expected-error @+1 {{failed to parse}}
  %0 = heddle.glu <swiglu> %g : tensor<2x8xf32>
  return
}
