// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --split-input-file --verify-diagnostics -o %t

func.func @quantize_c1(%x: tensor<?x48xf32>) {
  // expected-error @+1 {{width (48) must be a multiple of 32}}
  %c, %s, %m = heddle.quantize %x : tensor<?x48xf32> -> tensor<?x48xi8>, tensor<?x1xf32>, tensor<?x3xi32>
  return
}

// -----

func.func @quantize_c1_sums(%x: tensor<?x64xf32>) {
  // expected-error @+1 {{sums (rows, width / 16)}}
  %c, %s, %m = heddle.quantize %x : tensor<?x64xf32> -> tensor<?x64xi8>, tensor<?x2xf32>, tensor<?x2xi32>
  return
}
