// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --heddle-flash-tile --split-input-file --verify-diagnostics | FileCheck %s
// RUN: %heddle-opt %s --heddle-flash-tile=block-kv=32\ share-kv=false --split-input-file --verify-diagnostics | FileCheck %s --check-prefix=OPTIONS
// RUN: %heddle-opt %s --heddle-flash-tile=tiles=false\ context=100 --split-input-file --verify-diagnostics | FileCheck %s --check-prefix=STORED

// CHECK-LABEL: @views_become_blocks
// CHECK-SAME: %[[Q:.*]]: tensor<?x64xf32>, %[[CACHE:.*]]: !heddle.kv_cache<2 x 2 x 16 x bf16>, %[[LAYER:.*]]: index
// CHECK-NOT: heddle.kv_view
// CHECK-NOT: heddle.attention
// CHECK: %[[O:.*]] = heddle.online_attention <causal, window = 5> ins(%[[Q]], %[[CACHE]][%[[LAYER]]]
// CHECK-SAME: block_kv = 64 : i64, num_heads = 4 : i64, scale = 2.500000e-01 : f64, share_kv = true, softcap = 3.000000e+01 : f64
// CHECK: return %[[O]]
// STORED-LABEL: @views_become_blocks
// STORED: %[[SCORES:.*]] = tensor.empty(%{{.*}}) : tensor<?x512xf32>
// STORED: %{{.*}}:2 = heddle.online_attention <causal, window = 5> {{.*}} outs(%{{.*}}, %[[SCORES]] : tensor<?x64xf32>, tensor<?x512xf32>)
// OPTIONS-LABEL: @views_become_blocks
// OPTIONS: block_kv = 32 : i64, {{.*}} share_kv = false
func.func @views_become_blocks(%rows: tensor<?x64xf32>, %cache: !heddle.kv_cache<2 x 2 x 16 x bf16>, %layer: index) -> tensor<?x64xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %rows, %c0 : tensor<?x64xf32>
  %s = tensor.expand_shape %rows [[0, 1], [2, 3]] output_shape [1, %n, 4, 16] : tensor<?x64xf32> into tensor<1x?x4x16xf32>
  %e = tensor.empty(%n) : tensor<1x4x?x16xf32>
  %q = linalg.transpose ins(%s : tensor<1x?x4x16xf32>) outs(%e : tensor<1x4x?x16xf32>) permutation = [0, 2, 1, 3]
  %k, %v = heddle.kv_view %cache[%layer] : <2 x 2 x 16 x bf16> -> tensor<1x2x?x16xbf16>, tensor<1x2x?x16xbf16>
  %a = heddle.attention %q, %k, %v <causal, window = 5> {scale = 0.25, softcap = 30.0}
    : tensor<1x4x?x16xf32>, tensor<1x2x?x16xbf16>, tensor<1x2x?x16xbf16> -> tensor<1x4x?x16xf32>
  %ee = tensor.empty(%n) : tensor<1x?x4x16xf32>
  %t = linalg.transpose ins(%a : tensor<1x4x?x16xf32>) outs(%ee : tensor<1x?x4x16xf32>) permutation = [0, 2, 1, 3]
  %o = tensor.collapse_shape %t [[0, 1], [2, 3]] : tensor<1x?x4x16xf32> into tensor<?x64xf32>
  return %o : tensor<?x64xf32>
}

// -----

// CHECK-LABEL: @sinks_kept
// CHECK: heddle.online_attention <causal> ins({{.*}} sinks %[[SINKS:.*]] : tensor<?x64xf32>, <1 x 4 x 16 x f32>, tensor<4xf32>)
func.func @sinks_kept(%q: tensor<1x4x?x16xf32>, %cache: !heddle.kv_cache<1 x 4 x 16 x f32>, %layer: index, %sinks: tensor<4xf32>) -> tensor<1x4x?x16xf32> {
  %k, %v = heddle.kv_view %cache[%layer] : <1 x 4 x 16 x f32> -> tensor<1x4x?x16xf32>, tensor<1x4x?x16xf32>
  %a = heddle.attention %q, %k, %v sinks(%sinks : tensor<4xf32>) <causal> {scale = 0.25}
    : tensor<1x4x?x16xf32>, tensor<1x4x?x16xf32>, tensor<1x4x?x16xf32> -> tensor<1x4x?x16xf32>
  return %a : tensor<1x4x?x16xf32>
}

// -----

// CHECK-LABEL: @appended_rows_are_not_transposed_twice
// CHECK-SAME: %[[ROWS:.*]]: tensor<?x32xf32>
// CHECK: heddle.kv_append %{{.*}}, %[[ROWS]], %[[ROWS]]
func.func @appended_rows_are_not_transposed_twice(%rows: tensor<?x32xf32>, %cache: !heddle.kv_cache<1 x 2 x 16 x f32>, %layer: index) {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %rows, %c0 : tensor<?x32xf32>
  %s = tensor.expand_shape %rows [[0, 1], [2, 3]] output_shape [1, %n, 2, 16] : tensor<?x32xf32> into tensor<1x?x2x16xf32>
  %e = tensor.empty(%n) : tensor<1x2x?x16xf32>
  %h = linalg.transpose ins(%s : tensor<1x?x2x16xf32>) outs(%e : tensor<1x2x?x16xf32>) permutation = [0, 2, 1, 3]
  %ee = tensor.empty(%n) : tensor<1x?x2x16xf32>
  %t = linalg.transpose ins(%h : tensor<1x2x?x16xf32>) outs(%ee : tensor<1x?x2x16xf32>) permutation = [0, 2, 1, 3]
  %r = tensor.collapse_shape %t [[0, 1], [2, 3]] : tensor<1x?x2x16xf32> into tensor<?x32xf32>
  heddle.kv_append %cache[%layer], %r, %r : <1 x 2 x 16 x f32>, tensor<?x32xf32>, tensor<?x32xf32>
  return
}

// -----

// CHECK-LABEL: @no_attention_nothing_changes
// CHECK-NEXT: return
func.func @no_attention_nothing_changes(%x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  return %x : tensor<?x64xf32>
}

// -----

func.func @values_of_the_call(%q: tensor<1x4x?x16xf32>, %cache: !heddle.kv_cache<1 x 4 x 16 x f32>, %layer: index) -> tensor<1x4x?x16xf32> {
  %k, %v = heddle.kv_view %cache[%layer] : <1 x 4 x 16 x f32> -> tensor<1x4x?x16xf32>, tensor<1x4x?x16xf32>
  // expected-error @+1 {{keys and values must be views of one layer of the cache, or neither of them}}
  %a = heddle.attention %q, %k, %q <causal> {scale = 0.25} : tensor<1x4x?x16xf32>, tensor<1x4x?x16xf32>, tensor<1x4x?x16xf32> -> tensor<1x4x?x16xf32>
  return %a : tensor<1x4x?x16xf32>
}

// -----

// CHECK-LABEL: @positions_kept
// CHECK: heddle.online_attention <causal> ins({{.*}} positions %[[TABLE:.*]] : tensor<?x64xf32>, <1 x 4 x 16 x f32> positions tensor<3x4xf32>)
// CHECK-SAME: rows = array<i64: 0, 2>
// CHECK-SAME: starts = array<i64: 7>
// CHECK-NOT: heddle.position_bias
func.func @positions_kept(%q: tensor<1x4x?x16xf32>, %cache: !heddle.kv_cache<1 x 4 x 16 x f32>, %layer: index, %table: tensor<3x4xf32>) -> tensor<1x4x?x16xf32> {
  %k, %v = heddle.kv_view %cache[%layer] : <1 x 4 x 16 x f32> -> tensor<1x4x?x16xf32>, tensor<1x4x?x16xf32>
  %a = heddle.attention %q, %k, %v positions(%table : tensor<3x4xf32>) <causal> {scale = 0.25, starts = array<i64: 7>, rows = array<i64: 0, 2>}
    : tensor<1x4x?x16xf32>, tensor<1x4x?x16xf32>, tensor<1x4x?x16xf32> -> tensor<1x4x?x16xf32>
  return %a : tensor<1x4x?x16xf32>
}
