// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s '--heddle-assign-schedules=activations=by-rows bf16-products' | FileCheck %s --check-prefixes=CHECK,TYPES
// RUN: %heddle-opt %s '--heddle-assign-schedules=activations=by-rows bf16-products graphs' | FileCheck %s --check-prefixes=CHECK,ROUNDS

// A graph's types say what it computes with, unless its matrices took others; what it rounds is loops, once for all that read it.
// CHECK-LABEL: @graph
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<?x64xf32>
// TYPES-NOT: bf16>
// TYPES: heddle.packed_matmul ins(%[[X]],
// TYPES: heddle.packed_matmul ins(%[[X]],
// TYPES-NOT: int16
// ROUNDS: %[[ROUNDED:.*]] = linalg.generic {{.*}} ins(%[[X]] : tensor<?x64xf32>) outs(%{{.*}} : tensor<?x64xbf16>)
// ROUNDS: arith.truncf %{{.*}} : f32 to bf16
// ROUNDS-NOT: linalg.generic
// ROUNDS: heddle.packed_matmul ins(%[[ROUNDED]],
// ROUNDS: heddle.packed_matmul ins(%[[X]] rounded %[[ROUNDED]], {{.*}} {format = "q8_0", int16,
func.func @graph(%x: tensor<?x64xf32>, %w0: tensor<4096xi8>, %w1: tensor<2304xi8>, %d: tensor<?x32xf32>)
    -> (tensor<?x32xf32>, tensor<?x32xf32>) {
  %0 = heddle.packed_matmul ins(%x, %w0 : tensor<?x64xf32>, tensor<4096xi8>) outs(%d : tensor<?x32xf32>)
    {format = "bf16", k = 64 : i64, n = 32 : i64} -> tensor<?x32xf32>
  %1 = heddle.packed_matmul ins(%x, %w1 : tensor<?x64xf32>, tensor<2304xi8>) outs(%d : tensor<?x32xf32>)
    {format = "q8_0", k = 64 : i64, n = 32 : i64} -> tensor<?x32xf32>
  return %0, %1 : tensor<?x32xf32>, tensor<?x32xf32>
}
