// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What tokens give for buckets of distances, as queries and as keys: products side by side become rows.
// RUN: %heddle-opt %s --heddle-flatten-batch --canonicalize | FileCheck %s
// RUN: %heddle-opt %s --heddle-check --heddle-check-ids=3,1,4,1,5,2 --heddle-flatten-batch --heddle-flash-tile -o %t

// CHECK-LABEL: func.func private @layer
// CHECK-SAME: %[[SEQUENCES:[a-z0-9]*]]: tensor<?x2xi32>
// CHECK: %[[GIVEN:.*]] = tensor.concat dim(1) {{.*}} -> tensor<?x12xf32>
// CHECK: heddle.attention {{.*}} positions(%[[GIVEN]] : tensor<?x12xf32>) sequences(%[[SEQUENCES]] : tensor<?x2xi32>) <full> {rows = array<i64: 1, 0, 2>, scale = 5.000000e-01 : f64, starts = array<i64: 0, 2>}
func.func private @layer(%x: tensor<?x?x8xf32>, %p: tensor<?x?xi32>, %w: tensor<8x8xf32>, %table: tensor<6x8xf32>) -> tensor<?x?x8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %b = tensor.dim %x, %c0 : tensor<?x?x8xf32>
  %s = tensor.dim %x, %c1 : tensor<?x?x8xf32>
  %q = heddle.linear %x, weights(%w : tensor<8x8xf32>) : tensor<?x?x8xf32> -> tensor<?x?x8xf32>
  %qs = tensor.expand_shape %q [[0], [1], [2, 3]] output_shape [%b, %s, 2, 4] : tensor<?x?x8xf32> into tensor<?x?x2x4xf32>
  %qe = tensor.empty(%b, %s) : tensor<?x2x?x4xf32>
  %qt = linalg.transpose ins(%qs : tensor<?x?x2x4xf32>) outs(%qe : tensor<?x2x?x4xf32>) permutation = [0, 2, 1, 3]
  %ofQueries = heddle.linear %q, weights(%table : tensor<6x8xf32>) : tensor<?x?x8xf32> -> tensor<?x?x6xf32>
  %ofKeys = heddle.linear %x, weights(%table : tensor<6x8xf32>) : tensor<?x?x8xf32> -> tensor<?x?x6xf32>
  %given = tensor.concat dim(2) %ofQueries, %ofKeys : (tensor<?x?x6xf32>, tensor<?x?x6xf32>) -> tensor<?x?x12xf32>
  %a = heddle.attention %qt, %qt, %qt positions(%given : tensor<?x?x12xf32>) <full> {scale = 0.5, starts = array<i64: 0, 2>, rows = array<i64: 1, 0, 2>} : tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32> -> tensor<?x2x?x4xf32>
  %ae = tensor.empty(%b, %s) : tensor<?x?x2x4xf32>
  %at = linalg.transpose ins(%a : tensor<?x2x?x4xf32>) outs(%ae : tensor<?x?x2x4xf32>) permutation = [0, 2, 1, 3]
  %o = tensor.collapse_shape %at [[0], [1], [2, 3]] : tensor<?x?x2x4xf32> into tensor<?x?x8xf32>
  %y = arith.addf %x, %o : tensor<?x?x8xf32>
  return %y : tensor<?x?x8xf32>
}

func.func @forward(%ids: tensor<?x?xi32>, %p: tensor<?x?xi32>, %types: tensor<?x?xi32>) -> tensor<?x?x8xf32> {
  %table = heddle.weight "table" <type = "f32", file = 0, offset = 0> : tensor<16x8xf32>
  %w = heddle.weight "w" <type = "f32", file = 0, offset = 512> : tensor<8x8xf32>
  %buckets = heddle.weight "buckets" <type = "f32", file = 0, offset = 768> : tensor<6x8xf32>
  %x = heddle.embedding %ids, %table : tensor<?x?xi32>, tensor<16x8xf32> -> tensor<?x?x8xf32>
  %y = call @layer(%x, %p, %w, %buckets) : (tensor<?x?x8xf32>, tensor<?x?xi32>, tensor<8x8xf32>, tensor<6x8xf32>) -> tensor<?x?x8xf32>
  %z = call @layer(%y, %p, %w, %buckets) : (tensor<?x?x8xf32>, tensor<?x?xi32>, tensor<8x8xf32>, tensor<6x8xf32>) -> tensor<?x?x8xf32>
  return %z : tensor<?x?x8xf32>
}
