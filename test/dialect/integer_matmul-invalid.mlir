// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --split-input-file --verify-diagnostics -o %t

func.func @integer_matmul_c1(%x: tensor<?x64xf32>, %w: tensor<1152xi8>, %o: tensor<?x16xi32>) {
  // expected-error @+1 {{input must be i8 (rows, 64) and the one destination i32 (rows, 16)}}
  %0 = heddle.integer_matmul ins(%x, %w : tensor<?x64xf32>, tensor<1152xi8>) outs(%o : tensor<?x16xi32>) {n = 16 : i64, k = 64 : i64} -> tensor<?x16xi32>
  return
}

// -----

func.func @integer_matmul_c1_destination(%x: tensor<?x64xi8>, %w: tensor<1152xi8>, %o: tensor<?x8xi32>) {
  // expected-error @+1 {{input must be i8 (rows, 64) and the one destination i32 (rows, 16)}}
  %0 = heddle.integer_matmul ins(%x, %w : tensor<?x64xi8>, tensor<1152xi8>) outs(%o : tensor<?x8xi32>) {n = 16 : i64, k = 64 : i64} -> tensor<?x8xi32>
  return
}

// -----

func.func @integer_matmul_c2(%x: tensor<?x64xi8>, %z: tensor<i32>, %w: tensor<1152xi8>, %o: tensor<?x16xi32>) {
  // expected-error @+1 {{zero must be an i8 scalar, got 'tensor<i32>'}}
  %0 = heddle.integer_matmul ins(%x, %w : tensor<?x64xi8>, tensor<1152xi8>) zero(%z : tensor<i32>) outs(%o : tensor<?x16xi32>) {n = 16 : i64, k = 64 : i64} -> tensor<?x16xi32>
  return
}
