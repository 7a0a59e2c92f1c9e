// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A layer that keeps a state has a cache of states, in which its ops have a part each, and goes on seeing the token before.
// RUN: %heddle-opt %s --heddle-flatten-batch --canonicalize | FileCheck %s --implicit-check-not=@forward
// RUN: %heddle-opt %s --heddle-flatten-batch --heddle-lower-to-kernels --canonicalize | FileCheck %s --check-prefix=KERNELS

// CHECK: module attributes {heddle.kv_windows = array<i64: 2, 2, 0>}
// CHECK-LABEL: func.func private @keeps
// CHECK-SAME: %{{.*}}: tensor<?x8xf32>, %{{.*}}: tensor<?xi32>, %[[CACHE:.*]]: !heddle.kv_cache<2 x 1 x 32 x f32 state>, %[[LAYER:.*]]: index, %{{.*}}: tensor<24xbf16>) -> tensor<?x8xf32>
// CHECK: heddle.causal_conv %{{.*}}, %{{.*}} state(%[[CACHE]][%[[LAYER]]] : !heddle.kv_cache<2 x 1 x 32 x f32 state>) : tensor<?x8xf32>, tensor<24xbf16> -> tensor<?x8xf32>
// CHECK: heddle.linear_attention {{.*}} state(%[[CACHE]][%[[LAYER]]] : !heddle.kv_cache<2 x 1 x 32 x f32 state>) {num_heads = 4 : i64, num_key_heads = 4 : i64, offset = 16 : i64} : tensor<?x8xf32>, tensor<?x8xf32>, tensor<?x8xf32> -> tensor<?x8xf32>
// KERNELS-LABEL: func.func private @keeps
// KERNELS: heddle.ragged_conv ins(%{{.*}}, %{{.*}} : tensor<?x8xf32>, tensor<24xf32>)
// KERNELS: heddle.ragged_linear_attention
func.func private @keeps(%x: tensor<?x?x8xf32>, %p: tensor<?x?xi32>, %w: tensor<24xbf16>) -> tensor<?x?x8xf32> {
  %c = heddle.causal_conv %x, %w : tensor<?x?x8xf32>, tensor<24xbf16> -> tensor<?x?x8xf32>
  %y = heddle.linear_attention %c, %c, %x {num_heads = 4, num_key_heads = 4} : tensor<?x?x8xf32>, tensor<?x?x8xf32>, tensor<?x?x8xf32> -> tensor<?x?x8xf32>
  return %y : tensor<?x?x8xf32>
}

// CHECK-LABEL: func.func private @attends
// CHECK-SAME: !heddle.kv_cache<1 x 2 x 4 x f32 begin = 256>
func.func private @attends(%x: tensor<?x?x8xf32>, %p: tensor<?x?xi32>) -> tensor<?x?x8xf32> {
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
  return %o : tensor<?x?x8xf32>
}

// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[STATES:[a-z0-9]+]]: !heddle.kv_cache<2 x 1 x 32 x f32 state>, %{{.*}}: !heddle.kv_cache<1 x 2 x 4 x f32 begin = 256>
// CHECK-DAG: %[[ZERO:.*]] = arith.constant 0 : index
// CHECK-DAG: %[[ONE:.*]] = arith.constant 1 : index
// CHECK: call @keeps(%{{.*}}, %{{.*}}, %[[STATES]], %[[ZERO]], %{{.*}})
// CHECK: call @keeps(%{{.*}}, %{{.*}}, %[[STATES]], %[[ONE]], %{{.*}})
func.func @forward(%ids: tensor<?x?xi32>, %p: tensor<?x?xi32>) -> tensor<?x?x16xf32> {
  %table = heddle.weight "table" <type = "f32", file = 0, offset = 0> : tensor<16x8xf32>
  %w = heddle.weight "conv" <type = "bf16", file = 0, offset = 1024> : tensor<24xbf16>
  %x = heddle.embedding %ids, %table : tensor<?x?xi32>, tensor<16x8xf32> -> tensor<?x?x8xf32>
  %1 = call @keeps(%x, %p, %w) : (tensor<?x?x8xf32>, tensor<?x?xi32>, tensor<24xbf16>) -> tensor<?x?x8xf32>
  %2 = call @attends(%1, %p) : (tensor<?x?x8xf32>, tensor<?x?xi32>) -> tensor<?x?x8xf32>
  %3 = call @keeps(%2, %p, %w) : (tensor<?x?x8xf32>, tensor<?x?xi32>, tensor<24xbf16>) -> tensor<?x?x8xf32>
  %logits = heddle.linear %3, weights(%table : tensor<16x8xf32>) : tensor<?x?x8xf32> -> tensor<?x?x16xf32>
  return %logits : tensor<?x?x16xf32>
}
