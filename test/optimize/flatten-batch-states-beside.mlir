// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A layer that attends and keeps a state has a place in a cache of each, in the order of its ops; one that does neither is given the first cache.
// RUN: %heddle-opt %s --heddle-flatten-batch --canonicalize | FileCheck %s --implicit-check-not=@forward

// CHECK: module attributes {heddle.kv_windows = array<i64: 0, 0, 2>}
// CHECK-LABEL: func.func private @both
// CHECK-SAME: %[[TOKENS:[a-z0-9]+]]: !heddle.kv_cache<2 x 2 x 4 x f32>, %[[PLACE:[a-z0-9]+]]: index, %[[STATES:[a-z0-9]+]]: !heddle.kv_cache<1 x 1 x 32 x f32 state begin = 8192>, %[[STATE:[a-z0-9]+]]: index, %{{.*}}: tensor<24xbf16>) -> tensor<?x8xf32>
// CHECK: heddle.kv_append %[[TOKENS]][%[[PLACE]]]
// CHECK: heddle.kv_view %[[TOKENS]][%[[PLACE]]]
// CHECK: heddle.causal_conv %{{.*}}, %{{.*}} state(%[[STATES]][%[[STATE]]]
// CHECK: heddle.linear_attention {{.*}} state(%[[STATES]][%[[STATE]]] {{.*}} offset = 16 : i64}
func.func private @both(%x: tensor<?x?x8xf32>, %p: tensor<?x?xi32>, %w: tensor<24xbf16>) -> tensor<?x?x8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %b = tensor.dim %x, %c0 : tensor<?x?x8xf32>
  %s = tensor.dim %x, %c1 : tensor<?x?x8xf32>
  %xs = tensor.expand_shape %x [[0], [1], [2, 3]] output_shape [%b, %s, 2, 4] : tensor<?x?x8xf32> into tensor<?x?x2x4xf32>
  %e = tensor.empty(%b, %s) : tensor<?x2x?x4xf32>
  %q = linalg.transpose ins(%xs : tensor<?x?x2x4xf32>) outs(%e : tensor<?x2x?x4xf32>) permutation = [0, 2, 1, 3]
  %a = heddle.attention %q, %q, %q <causal> {scale = 0.5} : tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32> -> tensor<?x2x?x4xf32>
  %ae = tensor.empty(%b, %s) : tensor<?x?x2x4xf32>
  %at = linalg.transpose ins(%a : tensor<?x2x?x4xf32>) outs(%ae : tensor<?x?x2x4xf32>) permutation = [0, 2, 1, 3]
  %o = tensor.collapse_shape %at [[0], [1], [2, 3]] : tensor<?x?x2x4xf32> into tensor<?x?x8xf32>
  %c = heddle.causal_conv %x, %w : tensor<?x?x8xf32>, tensor<24xbf16> -> tensor<?x?x8xf32>
  %y = heddle.linear_attention %c, %c, %o {num_heads = 4, num_key_heads = 4} : tensor<?x?x8xf32>, tensor<?x?x8xf32>, tensor<?x?x8xf32> -> tensor<?x?x8xf32>
  return %y : tensor<?x?x8xf32>
}

func.func private @attends(%q: tensor<?x2x?x4xf32>, %p: tensor<?x?xi32>) -> tensor<?x2x?x4xf32> {
  %a = heddle.attention %q, %q, %q <causal> {scale = 0.5} : tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32> -> tensor<?x2x?x4xf32>
  return %a : tensor<?x2x?x4xf32>
}

// CHECK-LABEL: func.func private @neither
// CHECK-SAME: !heddle.kv_cache<2 x 2 x 4 x f32>, %{{.*}}: index) -> tensor<?x8xf32>
func.func private @neither(%x: tensor<?x?x8xf32>, %p: tensor<?x?xi32>) -> tensor<?x?x8xf32> {
  %0 = arith.addf %x, %x : tensor<?x?x8xf32>
  return %0 : tensor<?x?x8xf32>
}

// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[TOKENS:[a-z0-9]+]]: !heddle.kv_cache<2 x 2 x 4 x f32>, %[[STATES:[a-z0-9]+]]: !heddle.kv_cache<1 x 1 x 32 x f32 state begin = 8192>
// CHECK-DAG: %[[ZERO:.*]] = arith.constant 0 : index
// CHECK-DAG: %[[ONE:.*]] = arith.constant 1 : index
// CHECK: call @neither(%{{.*}}, %{{.*}}, %[[TOKENS]], %[[ZERO]])
// CHECK: call @attends(%{{.*}}, %{{.*}}, %[[TOKENS]], %[[ZERO]])
// CHECK: call @both(%{{.*}}, %{{.*}}, %[[TOKENS]], %[[ONE]], %[[STATES]], %[[ZERO]], %{{.*}})
func.func @forward(%ids: tensor<?x?xi32>, %p: tensor<?x?xi32>) -> tensor<?x?x16xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %table = heddle.weight "table" <type = "f32", file = 0, offset = 0> : tensor<16x8xf32>
  %w = heddle.weight "conv" <type = "bf16", file = 0, offset = 1024> : tensor<24xbf16>
  %x = heddle.embedding %ids, %table : tensor<?x?xi32>, tensor<16x8xf32> -> tensor<?x?x8xf32>
  %0 = call @neither(%x, %p) : (tensor<?x?x8xf32>, tensor<?x?xi32>) -> tensor<?x?x8xf32>
  %b = tensor.dim %0, %c0 : tensor<?x?x8xf32>
  %s = tensor.dim %0, %c1 : tensor<?x?x8xf32>
  %xs = tensor.expand_shape %0 [[0], [1], [2, 3]] output_shape [%b, %s, 2, 4] : tensor<?x?x8xf32> into tensor<?x?x2x4xf32>
  %e = tensor.empty(%b, %s) : tensor<?x2x?x4xf32>
  %q = linalg.transpose ins(%xs : tensor<?x?x2x4xf32>) outs(%e : tensor<?x2x?x4xf32>) permutation = [0, 2, 1, 3]
  %a = call @attends(%q, %p) : (tensor<?x2x?x4xf32>, tensor<?x?xi32>) -> tensor<?x2x?x4xf32>
  %ae = tensor.empty(%b, %s) : tensor<?x?x2x4xf32>
  %at = linalg.transpose ins(%a : tensor<?x2x?x4xf32>) outs(%ae : tensor<?x?x2x4xf32>) permutation = [0, 2, 1, 3]
  %h = tensor.collapse_shape %at [[0], [1], [2, 3]] : tensor<?x?x2x4xf32> into tensor<?x?x8xf32>
  %y = call @both(%h, %p, %w) : (tensor<?x?x8xf32>, tensor<?x?xi32>, tensor<24xbf16>) -> tensor<?x?x8xf32>
  %logits = heddle.linear %y, weights(%table : tensor<16x8xf32>) : tensor<?x?x8xf32> -> tensor<?x?x16xf32>
  return %logits : tensor<?x?x16xf32>
}
