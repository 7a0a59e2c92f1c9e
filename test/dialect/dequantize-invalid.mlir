// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --split-input-file --verify-diagnostics -o %t

func.func @dequantize_c1(%ids: tensor<?xi64>, %w: tensor<4096xi8>, %o: tensor<?x64xf32>) {
  // expected-error @+1 {{ids must be (rows) of i32 and the one destination (rows, 64)}}
  %0 = heddle.dequantize ins(%ids, %w : tensor<?xi64>, tensor<4096xi8>) outs(%o : tensor<?x64xf32>) {n = 16 : i64, k = 64 : i64, format = "q8_0", scale = 1.0} -> tensor<?x64xf32>
  return
}

// -----

func.func @dequantize_c1_destination(%ids: tensor<?xi32>, %w: tensor<4096xi8>, %o: tensor<?x32xf32>) {
  // expected-error @+1 {{ids must be (rows) of i32 and the one destination (rows, 64)}}
  %0 = heddle.dequantize ins(%ids, %w : tensor<?xi32>, tensor<4096xi8>) outs(%o : tensor<?x32xf32>) {n = 16 : i64, k = 64 : i64, format = "q8_0", scale = 1.0} -> tensor<?x32xf32>
  return
}

// -----

func.func @dequantize_c2(%ids: tensor<?xi32>, %w: tensor<4096xi8>, %g: tensor<?x32xf32>, %o: tensor<?x64xf32>) {
  // expected-error @+1 {{given must be (any number, 64), got 'tensor<?x32xf32>'}}
  %0 = heddle.dequantize ins(%ids, %w : tensor<?xi32>, tensor<4096xi8>) given(%g : tensor<?x32xf32>) outs(%o : tensor<?x64xf32>) {n = 16 : i64, k = 64 : i64, format = "q8_0", scale = 1.0} -> tensor<?x64xf32>
  return
}
