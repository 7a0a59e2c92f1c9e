// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --heddle-verify-stage=raise --split-input-file --verify-diagnostics -o %t
// RUN: not %heddle-opt %s --split-input-file --heddle-fuse-attention 2> %t.err | FileCheck %s
// RUN: FileCheck %s --check-prefix=BUFFER --input-file=%t.err
// BUFFER: error: 'heddle-fuse-attention' needs a module after stage import, which holds no such 'memref.load'

// What the pass leaves, it explains: the contract holds behind it.
// CHECK: linalg.softmax {heddle.not_fused = "its input holds no product of queries and keys"}
func.func @forward(%x: tensor<?x8xf32>, %init: tensor<?x8xf32>) -> tensor<?x8xf32> {
  // expected-error @+1 {{is in no attention after stage raise, and nothing says why}}
  %0 = linalg.softmax dimension(1) ins(%x : tensor<?x8xf32>) outs(%init : tensor<?x8xf32>) -> tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}

// -----

func.func @forward(%x: tensor<?x8xf32>, %init: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %0 = linalg.softmax {heddle.not_fused = "experts are chosen by it"} dimension(1) ins(%x : tensor<?x8xf32>)
    outs(%init : tensor<?x8xf32>) -> tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}

// -----

// A graph keeps what its file says.
func.func @graph(%x: tensor<?x8xf32>, %init: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %0 = linalg.softmax dimension(1) ins(%x : tensor<?x8xf32>) outs(%init : tensor<?x8xf32>) -> tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}

// -----

func.func @forward(%x: memref<8xf32>) -> f32 {
  %c0 = arith.constant 0 : index
  // expected-error @+1 {{'memref.load' must not remain after stage raise}}
  %0 = memref.load %x[%c0] : memref<8xf32>
  return %0 : f32
}
