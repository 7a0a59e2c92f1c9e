// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --split-input-file --verify-diagnostics -o %t

func.func @kernel_call_c1(%x: tensor<?x4xf32>) {
  // expected-error @+1 {{callee 'thrice' is no function of this module}}
  %0 = heddle.kernel_call @thrice ins(%x : tensor<?x4xf32>) outs(%x : tensor<?x4xf32>) -> tensor<?x4xf32>
  return
}

// -----

func.func private @twice(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %0 = arith.addf %x, %x : tensor<?x4xf32>
  return %0 : tensor<?x4xf32>
}

func.func @kernel_call_c1_shapes(%x: tensor<?x8xf32>) {
  // expected-error @+1 {{operands do not have the shapes of 'twice'}}
  %0 = heddle.kernel_call @twice ins(%x : tensor<?x8xf32>) outs(%x : tensor<?x8xf32>) -> tensor<?x8xf32>
  return
}
