// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Products before the layers see every row. Behind them the wanted rows are selected once, for both products that read the result
// of the last layer, and not again for the product of a product. A number that scales all logits scales those.
// RUN: %heddle-opt %s --heddle-flatten-batch | FileCheck %s
// RUN: %heddle-opt %s --heddle-check --heddle-check-ids=3,1,4,1,5,2 --heddle-flatten-batch -o %t

// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[IDS:.*]]: tensor<?xi32>, %[[POSITIONS:.*]]: tensor<?xi32>, %[[ROWS:.*]]: tensor<?xi32>,
// CHECK: %[[X:.*]] = heddle.embedding %[[IDS]]
// CHECK-NEXT: %[[X1:.*]] = heddle.linear %[[X]]
// CHECK: call @layer(%[[X1]]
// CHECK: %[[Z:.*]] = call @layer
// CHECK-NEXT: %[[SELECTED:.*]] = heddle.embedding %[[ROWS]], %[[Z]]
// CHECK-NEXT: %[[LOW:.*]] = heddle.linear %[[SELECTED]]
// CHECK: heddle.linear %[[LOW]]
// CHECK-NEXT: heddle.linear %[[SELECTED]]
// CHECK-NOT: heddle.embedding
// CHECK: %[[LOGITS:.*]] = arith.addf
// CHECK: %[[COUNT:.*]] = tensor.dim %[[LOGITS]]
// CHECK: %[[SCALE:.*]] = tensor.splat %{{.*}}[%[[COUNT]]] : tensor<?x16xf32>
// CHECK: arith.mulf %[[LOGITS]], %[[SCALE]] : tensor<?x16xf32>
// CHECK-NOT: heddle.embedding
// CHECK: return %{{.*}}, %[[Z]]
func.func private @layer(%x: tensor<?x?x8xf32>, %p: tensor<?x?xi32>, %wq: tensor<8x8xf32>, %wk: tensor<4x8xf32>, %wv: tensor<4x8xf32>)
    -> tensor<?x?x8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %b = tensor.dim %x, %c0 : tensor<?x?x8xf32>
  %s = tensor.dim %x, %c1 : tensor<?x?x8xf32>
  %q = heddle.linear %x, weights(%wq : tensor<8x8xf32>) : tensor<?x?x8xf32> -> tensor<?x?x8xf32>
  %qs = tensor.expand_shape %q [[0], [1], [2, 3]] output_shape [%b, %s, 2, 4] : tensor<?x?x8xf32> into tensor<?x?x2x4xf32>
  %qe = tensor.empty(%b, %s) : tensor<?x2x?x4xf32>
  %qt = linalg.transpose ins(%qs : tensor<?x?x2x4xf32>) outs(%qe : tensor<?x2x?x4xf32>) permutation = [0, 2, 1, 3]
  %k = heddle.linear %x, weights(%wk : tensor<4x8xf32>) : tensor<?x?x8xf32> -> tensor<?x?x4xf32>
  %ks = tensor.expand_shape %k [[0], [1], [2, 3]] output_shape [%b, %s, 1, 4] : tensor<?x?x4xf32> into tensor<?x?x1x4xf32>
  %ke = tensor.empty(%b, %s) : tensor<?x1x?x4xf32>
  %kt = linalg.transpose ins(%ks : tensor<?x?x1x4xf32>) outs(%ke : tensor<?x1x?x4xf32>) permutation = [0, 2, 1, 3]
  %v = heddle.linear %x, weights(%wv : tensor<4x8xf32>) : tensor<?x?x8xf32> -> tensor<?x?x4xf32>
  %vs = tensor.expand_shape %v [[0], [1], [2, 3]] output_shape [%b, %s, 1, 4] : tensor<?x?x4xf32> into tensor<?x?x1x4xf32>
  %vt = linalg.transpose ins(%vs : tensor<?x?x1x4xf32>) outs(%ke : tensor<?x1x?x4xf32>) permutation = [0, 2, 1, 3]
  %a = heddle.attention %qt, %kt, %vt <causal, window = 3> {scale = 0.5, softcap = 30.0}
    : tensor<?x2x?x4xf32>, tensor<?x1x?x4xf32>, tensor<?x1x?x4xf32> -> tensor<?x2x?x4xf32>
  %ae = tensor.empty(%b, %s) : tensor<?x?x2x4xf32>
  %at = linalg.transpose ins(%a : tensor<?x2x?x4xf32>) outs(%ae : tensor<?x?x2x4xf32>) permutation = [0, 2, 1, 3]
  %o = tensor.collapse_shape %at [[0], [1], [2, 3]] : tensor<?x?x2x4xf32> into tensor<?x?x8xf32>
  %y = arith.addf %x, %o : tensor<?x?x8xf32>
  return %y : tensor<?x?x8xf32>
}

func.func @forward(%ids: tensor<?x?xi32>, %p: tensor<?x?xi32>) -> tensor<?x?x16xf32> {
  %table = heddle.weight "table" <type = "f32", file = 0, offset = 0> : tensor<16x8xf32>
  %wq = heddle.weight "q" <type = "f32", file = 0, offset = 512> : tensor<8x8xf32>
  %wk = heddle.weight "k" <type = "f32", file = 0, offset = 768> : tensor<4x8xf32>
  %wv = heddle.weight "v" <type = "f32", file = 0, offset = 896> : tensor<4x8xf32>
  %x = heddle.embedding %ids, %table : tensor<?x?xi32>, tensor<16x8xf32> -> tensor<?x?x8xf32>
  %x1 = heddle.linear %x, weights(%wq : tensor<8x8xf32>) : tensor<?x?x8xf32> -> tensor<?x?x8xf32>
  %y = call @layer(%x1, %p, %wq, %wk, %wv)
    : (tensor<?x?x8xf32>, tensor<?x?xi32>, tensor<8x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<?x?x8xf32>
  %z = call @layer(%y, %p, %wq, %wk, %wv)
    : (tensor<?x?x8xf32>, tensor<?x?xi32>, tensor<8x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<?x?x8xf32>
  %low = heddle.linear %z, weights(%wk : tensor<4x8xf32>) : tensor<?x?x8xf32> -> tensor<?x?x4xf32>
  %up = heddle.weight "up" <type = "f32", file = 0, offset = 1024> : tensor<16x4xf32>
  %part = heddle.linear %low, weights(%up : tensor<16x4xf32>) : tensor<?x?x4xf32> -> tensor<?x?x16xf32>
  %whole = heddle.linear %z, weights(%table : tensor<16x8xf32>) : tensor<?x?x8xf32> -> tensor<?x?x16xf32>
  %logits = arith.addf %part, %whole : tensor<?x?x16xf32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %b = tensor.dim %logits, %c0 : tensor<?x?x16xf32>
  %s = tensor.dim %logits, %c1 : tensor<?x?x16xf32>
  %half = arith.constant 0.5 : f32
  %scale = tensor.splat %half[%b, %s] : tensor<?x?x16xf32>
  %scaled = arith.mulf %logits, %scale : tensor<?x?x16xf32>
  return %scaled : tensor<?x?x16xf32>
}
