// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --split-input-file --verify-diagnostics -o %t

func.func @weight_c1() {
  // expected-error @+1 {{result #0 must be statically shaped tensor of any type values, but got 'tensor<?xf32>'}}
  %0 = heddle.weight "norm" <type = "f32", file = 0, offset = 0> : tensor<?xf32>
  return
}

// -----

func.func @stride() {
  // expected-error @+1 {{stride (-1) must not be negative}}
  %0 = heddle.weight "w" <type = "f32", file = 0, offset = 0, stride = -1> : tensor<2x2xf32>
  return
}
