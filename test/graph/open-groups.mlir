// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One dimension is split into two whose sizes only the run knows, of a whole buffer and of a part of one.
// RUN: %heddle compile %s -o %t --quiet
// RUN: %python %tools/graph_io.py %t x=F32[6]:0,1,2,3,0.5,0 like=F32[2,3]:0 | FileCheck %s
// CHECK: whole F32[2,1,3] 0 2 4 6 1 0
// CHECK-NEXT: part F32[2,3,2] 0 2 4 6 1 0 0 2 4 6 1 0

func.func @graph(%x: tensor<?xf32> {heddle.name = "x"}, %like: tensor<?x?xf32> {heddle.name = "like"})
    -> (tensor<?x1x?xf32> {heddle.name = "whole"}, tensor<2x?x?xf32> {heddle.name = "part"}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = tensor.dim %like, %c0 : tensor<?x?xf32>
  %m = tensor.dim %like, %c1 : tensor<?x?xf32>
  %length = tensor.dim %x, %c0 : tensor<?xf32>
  %twice = arith.addf %x, %x : tensor<?xf32>
  %whole = tensor.expand_shape %twice [[0, 1, 2]] output_shape [%n, 1, %m] : tensor<?xf32> into tensor<?x1x?xf32>
  %room = tensor.empty(%length) : tensor<3x?xf32>
  %rows = linalg.broadcast ins(%twice : tensor<?xf32>) outs(%room : tensor<3x?xf32>) dimensions = [0]
  %two = tensor.extract_slice %rows[1, 0] [2, %length] [1, 1] : tensor<3x?xf32> to tensor<2x?xf32>
  %part = tensor.expand_shape %two [[0], [1, 2]] output_shape [2, %m, %n] : tensor<2x?xf32> into tensor<2x?x?xf32>
  return %whole, %part : tensor<?x1x?xf32>, tensor<2x?x?xf32>
}
