// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An encoder-decoder: what the encoder gives for the layers of the decoder lies in a cache, which the step reads whole.
// RUN: %heddle-opt %s --heddle-flatten-batch --canonicalize | FileCheck %s --implicit-check-not=@forward
// RUN: %heddle-opt %s --heddle-flatten-batch --heddle-flash-tile --canonicalize | FileCheck %s --check-prefix=TILED

// Keys and values of the layer's own tokens, then those of the source.
// CHECK-LABEL: func.func private @layer
// CHECK-SAME: %{{.*}}: tensor<?x8xf32>, %{{.*}}: tensor<?xi32>, %[[CACHE:.*]]: !heddle.kv_cache<2 x 2 x 4 x f32>, %[[LAYER:.*]]: index, %[[CROSS:.*]]: !heddle.kv_cache<2 x 2 x 4 x f32 cross>, %{{.*}}: tensor<8x8xf32>
// CHECK: heddle.kv_append %[[CACHE]][%[[LAYER]]]
// CHECK: heddle.attention {{.*}} <causal>
// CHECK-NOT: heddle.kv_append
// CHECK: %[[K:.*]], %[[V:.*]] = heddle.kv_view %[[CROSS]][%[[LAYER]]] : <2 x 2 x 4 x f32 cross>
// CHECK: heddle.attention %{{.*}}, %[[K]], %[[V]] <full>
// TILED-LABEL: func.func private @layer
// TILED: heddle.online_attention <causal>
// TILED: heddle.online_attention <full> ins({{.*}} <2 x 2 x 4 x f32 cross>)
func.func private @layer(%x: tensor<?x?x8xf32>, %p: tensor<?x?xi32>, %w: tensor<8x8xf32>, %sk: tensor<?x2x?x4xf32>, %sv: tensor<?x2x?x4xf32>) -> tensor<?x?x8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %b = tensor.dim %x, %c0 : tensor<?x?x8xf32>
  %s = tensor.dim %x, %c1 : tensor<?x?x8xf32>
  %q = heddle.linear %x, weights(%w : tensor<8x8xf32>) : tensor<?x?x8xf32> -> tensor<?x?x8xf32>
  %qs = tensor.expand_shape %q [[0], [1], [2, 3]] output_shape [%b, %s, 2, 4] : tensor<?x?x8xf32> into tensor<?x?x2x4xf32>
  %qe = tensor.empty(%b, %s) : tensor<?x2x?x4xf32>
  %qt = linalg.transpose ins(%qs : tensor<?x?x2x4xf32>) outs(%qe : tensor<?x2x?x4xf32>) permutation = [0, 2, 1, 3]
  %a = heddle.attention %qt, %qt, %qt <causal> {scale = 0.5} : tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32> -> tensor<?x2x?x4xf32>
  %c = heddle.attention %a, %sk, %sv <full> {scale = 0.5} : tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32> -> tensor<?x2x?x4xf32>
  %ae = tensor.empty(%b, %s) : tensor<?x?x2x4xf32>
  %at = linalg.transpose ins(%c : tensor<?x2x?x4xf32>) outs(%ae : tensor<?x?x2x4xf32>) permutation = [0, 2, 1, 3]
  %o = tensor.collapse_shape %at [[0], [1], [2, 3]] : tensor<?x?x2x4xf32> into tensor<?x?x8xf32>
  %y = arith.addf %x, %o : tensor<?x?x8xf32>
  return %y : tensor<?x?x8xf32>
}

// The entry takes the cache behind the sequences, and appends each pair once it is there.
// CHECK: func.func @encode(%{{.*}}: tensor<?xi32>, %{{.*}}: tensor<?xi32>, %{{.*}}: tensor<?xi32>, %[[SEQUENCES:.*]]: tensor<?x2xi32>, %[[CROSS:.*]]: !heddle.kv_cache<2 x 2 x 4 x f32 cross>, %{{.*}}: tensor<?xi32>) -> tensor<?x8xf32>
// CHECK: %[[K:.*]] = heddle.linear %[[STATES:.*]], weights
// CHECK: %[[V:.*]] = heddle.linear %[[STATES]], weights
// CHECK-DAG: heddle.kv_append %[[CROSS]][%c0], %[[K]], %[[V]]
// CHECK-DAG: heddle.kv_append %[[CROSS]][%c1], %[[V]], %[[K]]
// CHECK: return %[[STATES]] : tensor<?x8xf32>
// Rows are appended as they were computed, not turned into heads and back.
// TILED-LABEL: func.func @encode
// TILED: %[[K:.*]] = heddle.linear
// TILED: %[[V:.*]] = heddle.linear
// TILED-DAG: heddle.kv_append %{{.*}}[%c0], %[[K]], %[[V]]
func.func @forward_encoder(%ids: tensor<?x?xi32>, %p: tensor<?x?xi32>, %types: tensor<?x?xi32>)
    -> (tensor<?x?x8xf32>, tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %table = heddle.weight "table" <type = "f32", file = 0, offset = 0> : tensor<16x8xf32>
  %wk = heddle.weight "wk" <type = "f32", file = 0, offset = 512> : tensor<8x8xf32>
  %wv = heddle.weight "wv" <type = "f32", file = 0, offset = 768> : tensor<8x8xf32>
  %x = heddle.embedding %ids, %table : tensor<?x?xi32>, tensor<16x8xf32> -> tensor<?x?x8xf32>
  %b = tensor.dim %x, %c0 : tensor<?x?x8xf32>
  %s = tensor.dim %x, %c1 : tensor<?x?x8xf32>
  %k = heddle.linear %x, weights(%wk : tensor<8x8xf32>) : tensor<?x?x8xf32> -> tensor<?x?x8xf32>
  %ks = tensor.expand_shape %k [[0], [1], [2, 3]] output_shape [%b, %s, 2, 4] : tensor<?x?x8xf32> into tensor<?x?x2x4xf32>
  %e = tensor.empty(%b, %s) : tensor<?x2x?x4xf32>
  %kt = linalg.transpose ins(%ks : tensor<?x?x2x4xf32>) outs(%e : tensor<?x2x?x4xf32>) permutation = [0, 2, 1, 3]
  %v = heddle.linear %x, weights(%wv : tensor<8x8xf32>) : tensor<?x?x8xf32> -> tensor<?x?x8xf32>
  %vs = tensor.expand_shape %v [[0], [1], [2, 3]] output_shape [%b, %s, 2, 4] : tensor<?x?x8xf32> into tensor<?x?x2x4xf32>
  %vt = linalg.transpose ins(%vs : tensor<?x?x2x4xf32>) outs(%e : tensor<?x2x?x4xf32>) permutation = [0, 2, 1, 3]
  return %x, %kt, %vt, %vt, %kt : tensor<?x?x8xf32>, tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>
}

// CHECK: func.func @step(%{{.*}}: tensor<?xi32>, %{{.*}}: tensor<?xi32>, %{{.*}}: tensor<?xi32>, %[[CACHE:.*]]: !heddle.kv_cache<2 x 2 x 4 x f32>, %[[CROSS:.*]]: !heddle.kv_cache<2 x 2 x 4 x f32 cross>) -> (tensor<?x16xf32>, tensor<?x8xf32>)
// CHECK: call @layer(%{{.*}}, %{{.*}}, %[[CACHE]], %c0, %[[CROSS]],
// CHECK: call @layer(%{{.*}}, %{{.*}}, %[[CACHE]], %c1, %[[CROSS]],
func.func @forward(%ids: tensor<?x?xi32>, %p: tensor<?x?xi32>, %k0: tensor<?x2x?x4xf32>, %v0: tensor<?x2x?x4xf32>, %k1: tensor<?x2x?x4xf32>, %v1: tensor<?x2x?x4xf32>)
    -> tensor<?x?x16xf32> {
  %table = heddle.weight "table" <type = "f32", file = 0, offset = 0> : tensor<16x8xf32>
  %w = heddle.weight "w" <type = "f32", file = 0, offset = 1024> : tensor<8x8xf32>
  %x = heddle.embedding %ids, %table : tensor<?x?xi32>, tensor<16x8xf32> -> tensor<?x?x8xf32>
  %y = call @layer(%x, %p, %w, %k0, %v0) : (tensor<?x?x8xf32>, tensor<?x?xi32>, tensor<8x8xf32>, tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>) -> tensor<?x?x8xf32>
  %z = call @layer(%y, %p, %w, %k1, %v1) : (tensor<?x?x8xf32>, tensor<?x?xi32>, tensor<8x8xf32>, tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>) -> tensor<?x?x8xf32>
  %logits = heddle.linear %z, weights(%table : tensor<16x8xf32>) : tensor<?x?x8xf32> -> tensor<?x?x16xf32>
  return %logits : tensor<?x?x16xf32>
}
