// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Slopes go into attention, which counts distances in the cache; two layers share them.
// RUN: %heddle-opt %s --heddle-flatten-batch --canonicalize | FileCheck %s --implicit-check-not=heddle.position_bias
// RUN: %heddle-opt %s --heddle-check --heddle-check-ids=3,1,4,1,5,2 --heddle-flatten-batch --heddle-flash-tile -o %t

// CHECK-LABEL: func.func private @layer
// CHECK: %[[SLOPES:.*]] = arith.constant dense<[5.000000e-01, 2.500000e-01]> : tensor<2xf32>
// CHECK: %[[K:.*]], %[[V:.*]] = heddle.kv_view
// CHECK: heddle.attention %{{.*}}, %[[K]], %[[V]] positions(%[[SLOPES]] : tensor<2xf32>) <causal> {scale = 5.000000e-01 : f64}
func.func private @layer(%x: tensor<?x?x8xf32>, %p: tensor<?x?xi32>, %w: tensor<8x8xf32>) -> tensor<?x?x8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %slopes = arith.constant dense<[0.5, 0.25]> : tensor<2xf32>
  %b = tensor.dim %x, %c0 : tensor<?x?x8xf32>
  %s = tensor.dim %x, %c1 : tensor<?x?x8xf32>
  %q = heddle.linear %x, weights(%w : tensor<8x8xf32>) : tensor<?x?x8xf32> -> tensor<?x?x8xf32>
  %qs = tensor.expand_shape %q [[0], [1], [2, 3]] output_shape [%b, %s, 2, 4] : tensor<?x?x8xf32> into tensor<?x?x2x4xf32>
  %qe = tensor.empty(%b, %s) : tensor<?x2x?x4xf32>
  %qt = linalg.transpose ins(%qs : tensor<?x?x2x4xf32>) outs(%qe : tensor<?x2x?x4xf32>) permutation = [0, 2, 1, 3]
  %bias = heddle.position_bias %slopes[%s, %s] : tensor<2xf32> -> tensor<1x2x?x?xf32>
  %a = heddle.attention %qt, %qt, %qt bias(%bias : tensor<1x2x?x?xf32>) <causal> {scale = 0.5} : tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32> -> tensor<?x2x?x4xf32>
  %ae = tensor.empty(%b, %s) : tensor<?x?x2x4xf32>
  %at = linalg.transpose ins(%a : tensor<?x2x?x4xf32>) outs(%ae : tensor<?x?x2x4xf32>) permutation = [0, 2, 1, 3]
  %o = tensor.collapse_shape %at [[0], [1], [2, 3]] : tensor<?x?x2x4xf32> into tensor<?x?x8xf32>
  %y = arith.addf %x, %o : tensor<?x?x8xf32>
  return %y : tensor<?x?x8xf32>
}

func.func @forward(%ids: tensor<?x?xi32>, %p: tensor<?x?xi32>) -> tensor<?x?x16xf32> {
  %table = heddle.weight "table" <type = "f32", file = 0, offset = 0> : tensor<16x8xf32>
  %w = heddle.weight "w" <type = "f32", file = 0, offset = 512> : tensor<8x8xf32>
  %x = heddle.embedding %ids, %table : tensor<?x?xi32>, tensor<16x8xf32> -> tensor<?x?x8xf32>
  %y = call @layer(%x, %p, %w) : (tensor<?x?x8xf32>, tensor<?x?xi32>, tensor<8x8xf32>) -> tensor<?x?x8xf32>
  %z = call @layer(%y, %p, %w) : (tensor<?x?x8xf32>, tensor<?x?xi32>, tensor<8x8xf32>) -> tensor<?x?x8xf32>
  %l = heddle.linear %z, weights(%table : tensor<16x8xf32>) : tensor<?x?x8xf32> -> tensor<?x?x16xf32>
  return %l : tensor<?x?x16xf32>
}
