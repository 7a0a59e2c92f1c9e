// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --heddle-flatten-batch --canonicalize | FileCheck %s
// RUN: %heddle-opt %s --heddle-check --heddle-check-ids=3,1,4,1,5,2 --heddle-flatten-batch -o %t
//
// Layers whose heads differ: those of each shape have a cache of their own, one behind the other in a page, in which they are counted alone.

// CHECK: module attributes {heddle.kv_windows = array<i64: 0, 0, 3, 3>}

// CHECK-LABEL: func.func private @wide
// CHECK-SAME: %[[CACHE:[a-z0-9]+]]: !heddle.kv_cache<2 x 1 x 8 x f32>, %[[LAYER:[a-z0-9]+]]: index
// CHECK: heddle.kv_append %[[CACHE]][%[[LAYER]]], %{{.*}}, %{{.*}} : <2 x 1 x 8 x f32>, tensor<?x8xf32>, tensor<?x8xf32>
// CHECK: heddle.kv_view %[[CACHE]][%[[LAYER]]] {{.*}}tensor<1x1x?x8xf32>
func.func private @wide(%x: tensor<?x?x8xf32>, %p: tensor<?x?xi32>) -> tensor<?x?x8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %b = tensor.dim %x, %c0 : tensor<?x?x8xf32>
  %s = tensor.dim %x, %c1 : tensor<?x?x8xf32>
  %xs = tensor.expand_shape %x [[0], [1], [2, 3]] output_shape [%b, %s, 1, 8] : tensor<?x?x8xf32> into tensor<?x?x1x8xf32>
  %e = tensor.empty(%b, %s) : tensor<?x1x?x8xf32>
  %q = linalg.transpose ins(%xs : tensor<?x?x1x8xf32>) outs(%e : tensor<?x1x?x8xf32>) permutation = [0, 2, 1, 3]
  %a = heddle.attention %q, %q, %q <causal> {scale = 0.5}
    : tensor<?x1x?x8xf32>, tensor<?x1x?x8xf32>, tensor<?x1x?x8xf32> -> tensor<?x1x?x8xf32>
  %ae = tensor.empty(%b, %s) : tensor<?x?x1x8xf32>
  %at = linalg.transpose ins(%a : tensor<?x1x?x8xf32>) outs(%ae : tensor<?x?x1x8xf32>) permutation = [0, 2, 1, 3]
  %o = tensor.collapse_shape %at [[0], [1], [2, 3]] : tensor<?x?x1x8xf32> into tensor<?x?x8xf32>
  %y = arith.addf %x, %o : tensor<?x?x8xf32>
  return %y : tensor<?x?x8xf32>
}

// CHECK-LABEL: func.func private @narrow
// CHECK-SAME: %[[CACHE:[a-z0-9]+]]: !heddle.kv_cache<2 x 2 x 4 x f32 begin = 8192>, %[[LAYER:[a-z0-9]+]]: index
// CHECK: heddle.kv_append %[[CACHE]][%[[LAYER]]], %{{.*}}, %{{.*}} : <2 x 2 x 4 x f32 begin = 8192>, tensor<?x8xf32>, tensor<?x8xf32>
// CHECK: heddle.kv_view %[[CACHE]][%[[LAYER]]] {{.*}}tensor<1x2x?x4xf32>
func.func private @narrow(%x: tensor<?x?x8xf32>, %p: tensor<?x?xi32>) -> tensor<?x?x8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %b = tensor.dim %x, %c0 : tensor<?x?x8xf32>
  %s = tensor.dim %x, %c1 : tensor<?x?x8xf32>
  %xs = tensor.expand_shape %x [[0], [1], [2, 3]] output_shape [%b, %s, 2, 4] : tensor<?x?x8xf32> into tensor<?x?x2x4xf32>
  %e = tensor.empty(%b, %s) : tensor<?x2x?x4xf32>
  %q = linalg.transpose ins(%xs : tensor<?x?x2x4xf32>) outs(%e : tensor<?x2x?x4xf32>) permutation = [0, 2, 1, 3]
  %a = heddle.attention %q, %q, %q <causal, window = 3> {scale = 0.5}
    : tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32> -> tensor<?x2x?x4xf32>
  %ae = tensor.empty(%b, %s) : tensor<?x?x2x4xf32>
  %at = linalg.transpose ins(%a : tensor<?x2x?x4xf32>) outs(%ae : tensor<?x?x2x4xf32>) permutation = [0, 2, 1, 3]
  %o = tensor.collapse_shape %at [[0], [1], [2, 3]] : tensor<?x?x2x4xf32> into tensor<?x?x8xf32>
  %y = arith.addf %x, %o : tensor<?x?x8xf32>
  return %y : tensor<?x?x8xf32>
}

// CHECK: func.func @step(%{{.*}}: tensor<?xi32>, %[[POSITIONS:[a-z0-9]+]]: tensor<?xi32>, %{{.*}}: tensor<?xi32>, %[[WIDE:[a-z0-9]+]]: !heddle.kv_cache<2 x 1 x 8 x f32>, %[[NARROW:[a-z0-9]+]]: !heddle.kv_cache<2 x 2 x 4 x f32 begin = 8192>)
// CHECK-DAG: %[[FIRST:.*]] = arith.constant 0 : index
// CHECK-DAG: %[[SECOND:.*]] = arith.constant 1 : index
// CHECK: call @narrow(%{{.*}}, %[[POSITIONS]], %[[NARROW]], %[[FIRST]])
// CHECK: call @wide(%{{.*}}, %[[POSITIONS]], %[[WIDE]], %[[FIRST]])
// CHECK: call @narrow(%{{.*}}, %[[POSITIONS]], %[[NARROW]], %[[SECOND]])
// CHECK: call @wide(%{{.*}}, %[[POSITIONS]], %[[WIDE]], %[[SECOND]])
func.func @forward(%ids: tensor<?x?xi32>, %p: tensor<?x?xi32>) -> tensor<?x?x16xf32> {
  %table = heddle.weight "table" <type = "f32", file = 0, offset = 0> : tensor<16x8xf32>
  %x = heddle.embedding %ids, %table : tensor<?x?xi32>, tensor<16x8xf32> -> tensor<?x?x8xf32>
  %0 = call @narrow(%x, %p) : (tensor<?x?x8xf32>, tensor<?x?xi32>) -> tensor<?x?x8xf32>
  %1 = call @wide(%0, %p) : (tensor<?x?x8xf32>, tensor<?x?xi32>) -> tensor<?x?x8xf32>
  %2 = call @narrow(%1, %p) : (tensor<?x?x8xf32>, tensor<?x?xi32>) -> tensor<?x?x8xf32>
  %3 = call @wide(%2, %p) : (tensor<?x?x8xf32>, tensor<?x?xi32>) -> tensor<?x?x8xf32>
  %logits = heddle.linear %3, weights(%table : tensor<16x8xf32>) : tensor<?x?x8xf32> -> tensor<?x?x16xf32>
  return %logits : tensor<?x?x16xf32>
}
