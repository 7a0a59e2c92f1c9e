// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --heddle-share-kv-heads --canonicalize | FileCheck %s
// RUN: %heddle-opt %s --heddle-check --heddle-check-entry=repeated_heads_are_read_once --heddle-share-kv-heads -o %t
// RUN: %heddle-opt %s --heddle-check --heddle-check-entry=interleaved_heads_stay --heddle-share-kv-heads -o %t

// CHECK-LABEL: @repeated_heads_are_read_once
// CHECK-SAME: %[[Q:.*]]: tensor<1x6x3x8xf32>, %[[K:.*]]: tensor<1x2x5x8xf32>, %[[V:.*]]: tensor<1x2x5x8xf32>
// CHECK-NOT: linalg.broadcast
// CHECK: heddle.attention %[[Q]], %[[K]], %[[V]] <causal>
// CHECK-SAME: tensor<1x6x3x8xf32>, tensor<1x2x5x8xf32>, tensor<1x2x5x8xf32> -> tensor<1x6x3x8xf32>
// CHECK-NOT: linalg.broadcast
// CHECK: return
func.func @repeated_heads_are_read_once(%q: tensor<1x6x3x8xf32>, %k: tensor<1x2x5x8xf32>, %v: tensor<1x2x5x8xf32>) -> tensor<1x6x3x8xf32> {
  %empty = tensor.empty() : tensor<1x2x3x5x8xf32>
  %kb = linalg.broadcast ins(%k : tensor<1x2x5x8xf32>) outs(%empty : tensor<1x2x3x5x8xf32>) dimensions = [2]
  %vb = linalg.broadcast ins(%v : tensor<1x2x5x8xf32>) outs(%empty : tensor<1x2x3x5x8xf32>) dimensions = [2]
  %kr = tensor.collapse_shape %kb [[0], [1, 2], [3], [4]] : tensor<1x2x3x5x8xf32> into tensor<1x6x5x8xf32>
  %vr = tensor.collapse_shape %vb [[0], [1, 2], [3], [4]] : tensor<1x2x3x5x8xf32> into tensor<1x6x5x8xf32>
  %o = heddle.attention %q, %kr, %vr <causal> {scale = 0.5} : tensor<1x6x3x8xf32>, tensor<1x6x5x8xf32>, tensor<1x6x5x8xf32> -> tensor<1x6x3x8xf32>
  return %o : tensor<1x6x3x8xf32>
}

// Query head h would read KV head h / 3, where these are repeated as h % 2.
// CHECK-LABEL: @interleaved_heads_stay
// CHECK-COUNT-2: linalg.broadcast
// CHECK: heddle.attention
// CHECK-SAME: tensor<1x6x3x8xf32>, tensor<1x6x5x8xf32>, tensor<1x6x5x8xf32>
func.func @interleaved_heads_stay(%q: tensor<1x6x3x8xf32>, %k: tensor<1x2x5x8xf32>, %v: tensor<1x2x5x8xf32>) -> tensor<1x6x3x8xf32> {
  %empty = tensor.empty() : tensor<1x3x2x5x8xf32>
  %kb = linalg.broadcast ins(%k : tensor<1x2x5x8xf32>) outs(%empty : tensor<1x3x2x5x8xf32>) dimensions = [1]
  %vb = linalg.broadcast ins(%v : tensor<1x2x5x8xf32>) outs(%empty : tensor<1x3x2x5x8xf32>) dimensions = [1]
  %kr = tensor.collapse_shape %kb [[0], [1, 2], [3], [4]] : tensor<1x3x2x5x8xf32> into tensor<1x6x5x8xf32>
  %vr = tensor.collapse_shape %vb [[0], [1, 2], [3], [4]] : tensor<1x3x2x5x8xf32> into tensor<1x6x5x8xf32>
  %o = heddle.attention %q, %kr, %vr <causal> {scale = 0.5} : tensor<1x6x3x8xf32>, tensor<1x6x5x8xf32>, tensor<1x6x5x8xf32> -> tensor<1x6x3x8xf32>
  return %o : tensor<1x6x3x8xf32>
}

// Head counts of keys and values must agree, so one of them cannot be shared alone.
// CHECK-LABEL: @keys_alone_repeated_stay
// CHECK: linalg.broadcast
// CHECK: heddle.attention
// CHECK-SAME: tensor<1x6x3x8xf32>, tensor<1x6x5x8xf32>, tensor<1x6x5x8xf32>
func.func @keys_alone_repeated_stay(%q: tensor<1x6x3x8xf32>, %k: tensor<1x2x5x8xf32>, %v: tensor<1x6x5x8xf32>) -> tensor<1x6x3x8xf32> {
  %empty = tensor.empty() : tensor<1x2x3x5x8xf32>
  %kb = linalg.broadcast ins(%k : tensor<1x2x5x8xf32>) outs(%empty : tensor<1x2x3x5x8xf32>) dimensions = [2]
  %kr = tensor.collapse_shape %kb [[0], [1, 2], [3], [4]] : tensor<1x2x3x5x8xf32> into tensor<1x6x5x8xf32>
  %o = heddle.attention %q, %kr, %v <causal> {scale = 0.5} : tensor<1x6x3x8xf32>, tensor<1x6x5x8xf32>, tensor<1x6x5x8xf32> -> tensor<1x6x3x8xf32>
  return %o : tensor<1x6x3x8xf32>
}
