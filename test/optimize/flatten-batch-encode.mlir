// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Attention that is not causal makes an encode: rows of whole sequences, which attention is told, and no cache.
// RUN: %heddle-opt %s --heddle-flatten-batch --canonicalize | FileCheck %s --implicit-check-not=kv_ --implicit-check-not=@forward
// RUN: %heddle-opt %s --heddle-check --heddle-check-ids=3,1,4,1,5,2 --heddle-flatten-batch --heddle-flash-tile -o %t
// RUN: %heddle-opt %s --heddle-flatten-batch --heddle-flash-tile --canonicalize | FileCheck %s --check-prefix=TILED --implicit-check-not=linalg.transpose

// CHECK-LABEL: func.func private @layer
// CHECK-SAME: %[[X:.*]]: tensor<?x8xf32>, %{{.*}}: tensor<?xi32>, %[[SEQUENCES:.*]]: tensor<?x2xi32>, %{{.*}}: tensor<8x8xf32>
// CHECK: heddle.attention %[[HEADS:.*]], %[[HEADS]], %[[HEADS]] sequences(%[[SEQUENCES]] : tensor<?x2xi32>) <full> {scale = 5.000000e-01 : f64}
// TILED-LABEL: func.func private @layer
// TILED-SAME: %{{.*}}: tensor<?x8xf32>, %{{.*}}: tensor<?xi32>, %[[SEQUENCES:.*]]: tensor<?x2xi32>
// TILED: %[[Q:.*]] = heddle.linear
// TILED: heddle.ragged_attention <full> ins(%[[Q]], %[[Q]], %[[Q]], %[[SEQUENCES]] : {{.*}}) {{.*}} {num_heads = 2 : i64, num_kv_heads = 2 : i64, scale = 5.000000e-01 : f64}
func.func private @layer(%x: tensor<?x?x8xf32>, %p: tensor<?x?xi32>, %w: tensor<8x8xf32>) -> tensor<?x?x8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %b = tensor.dim %x, %c0 : tensor<?x?x8xf32>
  %s = tensor.dim %x, %c1 : tensor<?x?x8xf32>
  %q = heddle.linear %x, weights(%w : tensor<8x8xf32>) : tensor<?x?x8xf32> -> tensor<?x?x8xf32>
  %qs = tensor.expand_shape %q [[0], [1], [2, 3]] output_shape [%b, %s, 2, 4] : tensor<?x?x8xf32> into tensor<?x?x2x4xf32>
  %qe = tensor.empty(%b, %s) : tensor<?x2x?x4xf32>
  %qt = linalg.transpose ins(%qs : tensor<?x?x2x4xf32>) outs(%qe : tensor<?x2x?x4xf32>) permutation = [0, 2, 1, 3]
  %a = heddle.attention %qt, %qt, %qt <full> {scale = 0.5} : tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32> -> tensor<?x2x?x4xf32>
  %ae = tensor.empty(%b, %s) : tensor<?x?x2x4xf32>
  %at = linalg.transpose ins(%a : tensor<?x2x?x4xf32>) outs(%ae : tensor<?x?x2x4xf32>) permutation = [0, 2, 1, 3]
  %o = tensor.collapse_shape %at [[0], [1], [2, 3]] : tensor<?x?x2x4xf32> into tensor<?x?x8xf32>
  %y = arith.addf %x, %o : tensor<?x?x8xf32>
  return %y : tensor<?x?x8xf32>
}

// First tokens are rows that the entry is given, second ones those behind them; token types stay behind what attention needs.
// CHECK: func.func @encode(%[[IDS:.*]]: tensor<?xi32>, %[[POSITIONS:.*]]: tensor<?xi32>, %[[FIRST_ROWS:.*]]: tensor<?xi32>, %[[SEQUENCES:.*]]: tensor<?x2xi32>, %[[TYPES:.*]]: tensor<?xi32>) -> (tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>)
// CHECK-SAME: attributes {heddle.outputs = [{name = "last_hidden_state"}, {name = "output_1", of_sequences}, {name = "output_2", of_sequences}]}
// CHECK: heddle.embedding %[[TYPES]],
// CHECK: call @layer(%{{.*}}, %[[POSITIONS]], %[[SEQUENCES]],
// CHECK: %[[HIDDEN:.*]] = call @layer(%{{.*}}, %[[POSITIONS]], %[[SEQUENCES]],
// CHECK: %[[FIRST:.*]] = heddle.embedding %[[FIRST_ROWS]], %[[HIDDEN]]
// CHECK: %[[POOLED:.*]] = heddle.glu <tanh> %[[FIRST]]
// CHECK: %[[ONE:.*]] = tensor.splat %c1_i32
// CHECK: %[[SECOND_ROWS:.*]] = arith.addi %[[FIRST_ROWS]], %[[ONE]]
// CHECK: %[[SECOND:.*]] = heddle.embedding %[[SECOND_ROWS]], %[[HIDDEN]]
// CHECK: return %[[HIDDEN]], %[[POOLED]], %[[SECOND]]
func.func @forward(%ids: tensor<?x?xi32>, %p: tensor<?x?xi32>, %types: tensor<?x?xi32>) -> (tensor<?x?x8xf32> {heddle.name = "last_hidden_state"}, tensor<?x8xf32>, tensor<?x8xf32>) {
  %c0 = arith.constant 0 : index
  %table = heddle.weight "table" <type = "f32", file = 0, offset = 0> : tensor<16x8xf32>
  %kinds = heddle.weight "kinds" <type = "f32", file = 0, offset = 512> : tensor<2x8xf32>
  %w = heddle.weight "w" <type = "f32", file = 0, offset = 576> : tensor<8x8xf32>
  %i = heddle.embedding %ids, %table : tensor<?x?xi32>, tensor<16x8xf32> -> tensor<?x?x8xf32>
  %t = heddle.embedding %types, %kinds : tensor<?x?xi32>, tensor<2x8xf32> -> tensor<?x?x8xf32>
  %x = arith.addf %i, %t : tensor<?x?x8xf32>
  %y = call @layer(%x, %p, %w) : (tensor<?x?x8xf32>, tensor<?x?xi32>, tensor<8x8xf32>) -> tensor<?x?x8xf32>
  %z = call @layer(%y, %p, %w) : (tensor<?x?x8xf32>, tensor<?x?xi32>, tensor<8x8xf32>) -> tensor<?x?x8xf32>
  %b = tensor.dim %z, %c0 : tensor<?x?x8xf32>
  %first = tensor.extract_slice %z[0, 0, 0] [%b, 1, 8] [1, 1, 1] : tensor<?x?x8xf32> to tensor<?x8xf32>
  %pooled = heddle.glu <tanh> %first : tensor<?x8xf32>
  %second = tensor.extract_slice %z[0, 1, 0] [%b, 1, 8] [1, 1, 1] : tensor<?x?x8xf32> to tensor<?x8xf32>
  return %z, %pooled, %second : tensor<?x?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32>
}
