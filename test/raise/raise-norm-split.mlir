// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --heddle-check-all --heddle-raise-norm --canonicalize -o %t.out
// RUN: FileCheck %s --input-file=%t.out

// Heads among the rows of a norm, (batch, sequence * heads, width), are put apart before it.
// CHECK-LABEL: @heads_among_rows
// CHECK: %[[APART:.*]] = tensor.expand_shape %{{.*}} {{\[\[}}0], [1], [2, 3]] output_shape {{.*}} : tensor<?x?x24xf32> into tensor<?x?x3x8xf32>
// CHECK-NOT: tensor.{{expand|collapse}}_shape
// CHECK: heddle.rms_norm %[[APART]], %{{.*}} : tensor<?x?x3x8xf32>
func.func @heads_among_rows(%x: tensor<?x?x24xf32>, %w: tensor<8xf32>) -> tensor<?x?x3x8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %b = tensor.dim %x, %c0 : tensor<?x?x24xf32>
  %s = tensor.dim %x, %c1 : tensor<?x?x24xf32>
  %rows = arith.muli %s, %c3 : index
  %flat = tensor.collapse_shape %x [[0], [1, 2]] : tensor<?x?x24xf32> into tensor<?x?xf32>
  %among = tensor.expand_shape %flat [[0], [1, 2]] output_shape [%b, %rows, 8] : tensor<?x?xf32> into tensor<?x?x8xf32>
  %normed = heddle.rms_norm %among, %w {eps = 1.0e-6} : tensor<?x?x8xf32>, tensor<8xf32>
  %heads = tensor.expand_shape %normed [[0], [1, 2], [3]] output_shape [%b, %s, 3, 8] : tensor<?x?x8xf32> into tensor<?x?x3x8xf32>
  return %heads : tensor<?x?x3x8xf32>
}

// What splits the width of a norm is no split of its rows.
// CHECK-LABEL: @width_kept
// CHECK: %[[NORMED:.*]] = heddle.rms_norm %{{.*}} : tensor<?x?x24xf32>
// CHECK: tensor.expand_shape %[[NORMED]]
func.func @width_kept(%x: tensor<?x?x24xf32>, %w: tensor<24xf32>) -> tensor<?x?x3x8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %b = tensor.dim %x, %c0 : tensor<?x?x24xf32>
  %s = tensor.dim %x, %c1 : tensor<?x?x24xf32>
  %normed = heddle.rms_norm %x, %w {eps = 1.0e-6} : tensor<?x?x24xf32>, tensor<24xf32>
  %heads = tensor.expand_shape %normed [[0], [1], [2, 3]] output_shape [%b, %s, 3, 8] : tensor<?x?x24xf32> into tensor<?x?x3x8xf32>
  return %heads : tensor<?x?x3x8xf32>
}
