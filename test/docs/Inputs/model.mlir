// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A decoder of one layer without stored weights, as compiler/verify/README.md's commands take it.
func.func private @layer(%x: tensor<?x?x8xf32>, %positions: tensor<?x?xi32>) -> tensor<?x?x8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %b = tensor.dim %x, %c0 : tensor<?x?x8xf32>
  %n = tensor.dim %x, %c1 : tensor<?x?x8xf32>
  %split = tensor.expand_shape %x [[0], [1], [2, 3]] output_shape [%b, %n, 1, 8] : tensor<?x?x8xf32> into tensor<?x?x1x8xf32>
  %init = tensor.empty(%b, %n) : tensor<?x1x?x8xf32>
  %h = linalg.transpose ins(%split : tensor<?x?x1x8xf32>) outs(%init : tensor<?x1x?x8xf32>) permutation = [0, 2, 1, 3]
  %o = heddle.attention %h, %h, %h <causal> {scale = 0.5}
    : tensor<?x1x?x8xf32>, tensor<?x1x?x8xf32>, tensor<?x1x?x8xf32> -> tensor<?x1x?x8xf32>
  %room = tensor.empty(%b, %n) : tensor<?x?x1x8xf32>
  %back = linalg.transpose ins(%o : tensor<?x1x?x8xf32>) outs(%room : tensor<?x?x1x8xf32>) permutation = [0, 2, 1, 3]
  %y = tensor.collapse_shape %back [[0], [1], [2, 3]] : tensor<?x?x1x8xf32> into tensor<?x?x8xf32>
  return %y : tensor<?x?x8xf32>
}
func.func @forward(%ids: tensor<?x?xi32>, %positions: tensor<?x?xi32>) -> tensor<?x?x4xf32> {
  %table = arith.constant dense<[[1.0, 0.5, 0.25, 0.0, -1.0, 2.0, 0.5, 1.0], [0.0, 1.0, -0.5, 3.0, 1.0, 0.0, 0.25, -2.0],
    [2.0, 0.0, 1.0, -1.0, 0.5, 0.75, 1.5, 0.0], [-1.0, 1.0, 2.0, 0.0, 3.0, -0.5, 0.0, 1.0]]> : tensor<4x8xf32>
  %x = heddle.embedding %ids, %table : tensor<?x?xi32>, tensor<4x8xf32> -> tensor<?x?x8xf32>
  %y = call @layer(%x, %positions) : (tensor<?x?x8xf32>, tensor<?x?xi32>) -> tensor<?x?x8xf32>
  %w = arith.constant dense<0.5> : tensor<4x8xf32>
  %logits = heddle.linear %y, weights(%w : tensor<4x8xf32>) : tensor<?x?x8xf32> -> tensor<?x?x4xf32>
  return %logits : tensor<?x?x4xf32>
}
