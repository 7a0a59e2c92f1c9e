// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --heddle-outline-kernels --split-input-file --verify-diagnostics

// A product that something else reads before it is added to has no destination of the caller's.
func.func @step(%x: tensor<?x64xf32>, %w: tensor<8192xi8>) -> (tensor<?x64xf32>, tensor<?x64xf32>) {
  %c0 = arith.constant 0 : index
  %rows = tensor.dim %x, %c0 : tensor<?x64xf32>
  %d = tensor.empty(%rows) : tensor<?x64xf32>
  %0 = heddle.packed_matmul ins(%x, %w : tensor<?x64xf32>, tensor<8192xi8>) outs(%d : tensor<?x64xf32>)
    {format = "bf16", k = 64 : i64, n = 64 : i64} -> tensor<?x64xf32>
  %e = tensor.empty(%rows) : tensor<?x64xf32>
  %1 = heddle.packed_matmul ins(%0, %w : tensor<?x64xf32>, tensor<8192xi8>) outs(%e : tensor<?x64xf32>)
    {format = "bf16", k = 64 : i64, n = 64 : i64} -> tensor<?x64xf32>
  %2 = heddle.packed_matmul ins(%x, %w : tensor<?x64xf32>, tensor<8192xi8>) outs(%0 : tensor<?x64xf32>)
    {accumulate, format = "bf16", k = 64 : i64, n = 64 : i64} -> tensor<?x64xf32>
  // expected-error @+1 {{gives a value that is written into something else, or twice: a result of an entry is its own}}
  return %2, %1 : tensor<?x64xf32>, tensor<?x64xf32>
}

// -----

func.func @encode(%x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  // expected-error @+1 {{a result of an entry is its own}}
  return %x : tensor<?x64xf32>
}
