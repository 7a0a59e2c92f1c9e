// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A layer that attends to keys and values of an earlier one reads them in the cache, which has a place for the earlier one alone; and loops over
// tokens, of which rows take the place of batch and sequence.
// RUN: %heddle-opt %s --heddle-flatten-batch --canonicalize | FileCheck %s --implicit-check-not=@forward
// RUN: %heddle-opt %s --heddle-flatten-batch --heddle-flash-tile --canonicalize | FileCheck %s --check-prefix=TILED

// The two layers share a cache of one layer; the one without a window decides what it keeps.
// CHECK: module attributes {heddle.kv_windows = array<i64: 0, 3>}
// CHECK-LABEL: func.func private @gives
// CHECK-SAME: %{{.*}}: tensor<?x8xf32>, %{{.*}}: tensor<?xi32>, %[[CACHE:.*]]: !heddle.kv_cache<2 x 2 x 4 x f32>, %[[LAYER:.*]]: index, %{{.*}}: tensor<8x8xf32>) -> tensor<?x8xf32>
// CHECK: heddle.kv_append %[[CACHE]][%[[LAYER]]]
// CHECK: heddle.attention {{.*}} <causal, window = 3>
// CHECK: return %{{.*}} : tensor<?x8xf32>
func.func private @gives(%x: tensor<?x?x8xf32>, %p: tensor<?x?xi32>, %w: tensor<8x8xf32>) -> (tensor<?x?x8xf32>, tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %b = tensor.dim %x, %c0 : tensor<?x?x8xf32>
  %s = tensor.dim %x, %c1 : tensor<?x?x8xf32>
  %k = heddle.linear %x, weights(%w : tensor<8x8xf32>) : tensor<?x?x8xf32> -> tensor<?x?x8xf32>
  %e = tensor.empty(%b, %s) : tensor<?x2x?x4xf32>
  %ks = tensor.expand_shape %k [[0], [1], [2, 3]] output_shape [%b, %s, 2, 4] : tensor<?x?x8xf32> into tensor<?x?x2x4xf32>
  %kt = linalg.transpose ins(%ks : tensor<?x?x2x4xf32>) outs(%e : tensor<?x2x?x4xf32>) permutation = [0, 2, 1, 3]
  %xs = tensor.expand_shape %x [[0], [1], [2, 3]] output_shape [%b, %s, 2, 4] : tensor<?x?x8xf32> into tensor<?x?x2x4xf32>
  %v = linalg.transpose ins(%xs : tensor<?x?x2x4xf32>) outs(%e : tensor<?x2x?x4xf32>) permutation = [0, 2, 1, 3]
  %a = heddle.attention %kt, %kt, %v <causal, window = 3> {scale = 0.5} : tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32> -> tensor<?x2x?x4xf32>
  %ae = tensor.empty(%b, %s) : tensor<?x?x2x4xf32>
  %at = linalg.transpose ins(%a : tensor<?x2x?x4xf32>) outs(%ae : tensor<?x?x2x4xf32>) permutation = [0, 2, 1, 3]
  %o = tensor.collapse_shape %at [[0], [1], [2, 3]] : tensor<?x?x2x4xf32> into tensor<?x?x8xf32>
  return %o, %kt, %v : tensor<?x?x8xf32>, tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>
}

// CHECK-LABEL: func.func private @takes
// CHECK-SAME: %{{.*}}: tensor<?x8xf32>, %{{.*}}: tensor<?xi32>, %[[CACHE:.*]]: !heddle.kv_cache<2 x 2 x 4 x f32>, %[[LAYER:.*]]: index, %[[SCALES:.*]]: tensor<?x3xf32>) -> tensor<?x8xf32>
// CHECK-NOT: heddle.kv_append
// CHECK: %[[K:.*]], %[[V:.*]] = heddle.kv_view %[[CACHE]][%[[LAYER]]]
// CHECK: heddle.attention %{{.*}}, %[[K]], %[[V]] <causal>
// Sums of squares of rows, and rows times one of their numbers: the loops have one dimension less.
// CHECK: %[[START:.*]] = linalg.fill {{.*}} -> tensor<?xf32>
// CHECK: %[[SUMS:.*]] = linalg.generic {{.*}} iterator_types = ["parallel", "reduction"]} ins(%{{.*}} : tensor<?x8xf32>) outs(%[[START]] : tensor<?xf32>)
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "parallel"]} ins(%{{.*}}, %[[SUMS]], %[[SCALES]] : tensor<?x8xf32>, tensor<?xf32>, tensor<?x3xf32>)
// TILED-LABEL: func.func private @takes
// TILED-NOT: heddle.kv_append
// TILED: heddle.online_attention <causal>
func.func private @takes(%x: tensor<?x?x8xf32>, %p: tensor<?x?xi32>, %k: tensor<?x2x?x4xf32>, %v: tensor<?x2x?x4xf32>, %scales: tensor<?x?x3xf32>) -> tensor<?x?x8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %b = tensor.dim %x, %c0 : tensor<?x?x8xf32>
  %s = tensor.dim %x, %c1 : tensor<?x?x8xf32>
  %xs = tensor.expand_shape %x [[0], [1], [2, 3]] output_shape [%b, %s, 2, 4] : tensor<?x?x8xf32> into tensor<?x?x2x4xf32>
  %e = tensor.empty(%b, %s) : tensor<?x2x?x4xf32>
  %q = linalg.transpose ins(%xs : tensor<?x?x2x4xf32>) outs(%e : tensor<?x2x?x4xf32>) permutation = [0, 2, 1, 3]
  %a = heddle.attention %q, %k, %v <causal> {scale = 0.5} : tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32> -> tensor<?x2x?x4xf32>
  %ae = tensor.empty(%b, %s) : tensor<?x?x2x4xf32>
  %at = linalg.transpose ins(%a : tensor<?x2x?x4xf32>) outs(%ae : tensor<?x?x2x4xf32>) permutation = [0, 2, 1, 3]
  %o = tensor.collapse_shape %at [[0], [1], [2, 3]] : tensor<?x?x2x4xf32> into tensor<?x?x8xf32>
  %room = tensor.empty(%b, %s) : tensor<?x?xf32>
  %start = linalg.fill ins(%zero : f32) outs(%room : tensor<?x?xf32>) -> tensor<?x?xf32>
  %sums = linalg.generic {indexing_maps = [affine_map<(b, s, d) -> (b, s, d)>, affine_map<(b, s, d) -> (b, s)>], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%o : tensor<?x?x8xf32>) outs(%start : tensor<?x?xf32>) {
  ^bb0(%in: f32, %sum: f32):
    %square = arith.mulf %in, %in : f32
    %more = arith.addf %square, %sum : f32
    linalg.yield %more : f32
  } -> tensor<?x?xf32>
  %rows = tensor.empty(%b, %s) : tensor<?x?x8xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(b, s, d) -> (b, s, d)>, affine_map<(b, s, d) -> (b, s)>, affine_map<(b, s, d) -> (b, s, 1)>, affine_map<(b, s, d) -> (b, s, d)>],
                       iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%o, %sums, %scales : tensor<?x?x8xf32>, tensor<?x?xf32>, tensor<?x?x3xf32>) outs(%rows : tensor<?x?x8xf32>) {
  ^bb0(%in: f32, %sum: f32, %scale: f32, %out: f32):
    %scaled = arith.mulf %in, %scale : f32
    %divided = arith.divf %scaled, %sum : f32
    linalg.yield %divided : f32
  } -> tensor<?x?x8xf32>
  return %y : tensor<?x?x8xf32>
}

// Each reads the place of the layer whose keys it takes.
// CHECK: func.func @step
// CHECK: %[[X:.*]] = call @gives(%{{.*}}, %{{.*}}, %[[CACHE:.*]], %c0,
// CHECK: %[[Y:.*]] = call @gives(%[[X]], %{{.*}}, %[[CACHE]], %c1,
// CHECK: %[[Z:.*]] = call @takes(%[[Y]], %{{.*}}, %[[CACHE]], %c0, %{{.*}})
func.func @forward(%ids: tensor<?x?xi32>, %p: tensor<?x?xi32>) -> tensor<?x?x16xf32> {
  %table = heddle.weight "table" <type = "f32", file = 0, offset = 0> : tensor<16x8xf32>
  %w = heddle.weight "w" <type = "f32", file = 0, offset = 1024> : tensor<8x8xf32>
  %narrow = heddle.weight "narrow" <type = "f32", file = 0, offset = 2048> : tensor<3x8xf32>
  %x = heddle.embedding %ids, %table : tensor<?x?xi32>, tensor<16x8xf32> -> tensor<?x?x8xf32>
  %scales = heddle.linear %x, weights(%narrow : tensor<3x8xf32>) : tensor<?x?x8xf32> -> tensor<?x?x3xf32>
  %y, %k, %v = call @gives(%x, %p, %w) : (tensor<?x?x8xf32>, tensor<?x?xi32>, tensor<8x8xf32>) -> (tensor<?x?x8xf32>, tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>)
  %y2, %k2, %v2 = call @gives(%y, %p, %w) : (tensor<?x?x8xf32>, tensor<?x?xi32>, tensor<8x8xf32>) -> (tensor<?x?x8xf32>, tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>)
  %z = call @takes(%y2, %p, %k, %v, %scales) : (tensor<?x?x8xf32>, tensor<?x?xi32>, tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>, tensor<?x?x3xf32>) -> tensor<?x?x8xf32>
  %logits = heddle.linear %z, weights(%table : tensor<16x8xf32>) : tensor<?x?x8xf32> -> tensor<?x?x16xf32>
  return %logits : tensor<?x?x16xf32>
}
