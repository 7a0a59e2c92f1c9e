// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --heddle-split-kv=context=2000 --split-input-file | FileCheck %s
// RUN: %heddle-opt %s --heddle-split-kv=context=512 --split-input-file | FileCheck %s --check-prefix=SHORT
// RUN: %heddle-opt %s --heddle-split-kv=context=200000 --split-input-file | FileCheck %s --check-prefix=LONG
// RUN: not %heddle-opt %s --heddle-split-kv=slots=0 --split-input-file -o %t 2>&1 | FileCheck %s --check-prefix=OPTIONS
// OPTIONS: error: context (8192), split-kv (512) and slots (0) must be positive

// Four splits of 512 in 2000 tokens, 256 / 4 rows; sinks are merged once, by the op that merges.
// CHECK-LABEL: @few_rows_are_split
// CHECK-SAME: %[[Q:.*]]: tensor<?x64xf32>, %[[CACHE:.*]]: !heddle.kv_cache<2 x 2 x 16 x bf16>, %[[LAYER:.*]]: index, %[[SINKS:.*]]: tensor<4xf32>, %[[OUT:.*]]: tensor<?x64xf32>
// CHECK: %[[ROWS:.*]] = tensor.dim %[[Q]]
// CHECK: %[[FEW:.*]] = heddle.prefer_splits %[[CACHE]], %[[ROWS]] {items = 2 : i64, max_rows = 64 : i64, split_kv = 512 : i64}
// CHECK: %[[O:.*]] = scf.if %[[FEW]]
// CHECK: %[[S:.*]]:3 = heddle.online_attention <causal, window = 5> ins(%[[Q]], %[[CACHE]][%[[LAYER]]] :
// CHECK-SAME: outs({{.*}} : tensor<64x256xf32>, tensor<64x16xf32>, tensor<64x16xf32>)
// CHECK-SAME: split_kv = 512 : i64
// CHECK: heddle.combine_splits <causal, window = 5> ins(%[[S]]#0, %[[S]]#1, %[[S]]#2, %[[CACHE]] sinks %[[SINKS]]
// CHECK-SAME: outs(%[[OUT]]
// CHECK: } else {
// CHECK: heddle.online_attention <causal, window = 5> ins(%[[Q]], %[[CACHE]][%[[LAYER]]] sinks %[[SINKS]]
// CHECK-NOT: split_kv
// CHECK: return %[[O]]
// Where no sequence has a second split, nothing changes.
// SHORT-LABEL: @few_rows_are_split
// SHORT-NOT: scf.if
// SHORT-NOT: split
// SHORT: heddle.online_attention
// More splits than slots: a row at a time.
// LONG-LABEL: @few_rows_are_split
// LONG: heddle.prefer_splits {{.*}} {items = 2 : i64, max_rows = 1 : i64, split_kv = 512 : i64}
// LONG: outs({{.*}} : tensor<1x25024xf32>, tensor<1x1564xf32>, tensor<1x1564xf32>)
func.func @few_rows_are_split(%q: tensor<?x64xf32>, %cache: !heddle.kv_cache<2 x 2 x 16 x bf16>, %layer: index, %sinks: tensor<4xf32>, %out: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %0 = heddle.online_attention <causal, window = 5> ins(%q, %cache[%layer] sinks %sinks : tensor<?x64xf32>, <2 x 2 x 16 x bf16>, tensor<4xf32>) outs(%out : tensor<?x64xf32>) {num_heads = 4 : i64, scale = 0.25, softcap = 30.0, block_kv = 64 : i64, share_kv = true} -> tensor<?x64xf32>
  return %0 : tensor<?x64xf32>
}

// -----

// What is split already is left alone.
// CHECK-LABEL: @once_only
// CHECK-NOT: scf.if
// CHECK: return
func.func @once_only(%q: tensor<?x48xf32>, %c: !heddle.kv_cache<2 x 2 x 8 x f32>, %layer: index, %a: tensor<4x144xf32>, %m: tensor<4x18xf32>, %l: tensor<4x18xf32>) -> tensor<4x18xf32> {
  %0:3 = heddle.online_attention <causal> ins(%q, %c[%layer] : tensor<?x48xf32>, <2 x 2 x 8 x f32>) outs(%a, %m, %l : tensor<4x144xf32>, tensor<4x18xf32>, tensor<4x18xf32>) {num_heads = 6 : i64, scale = 1.0, softcap = 0.0, block_kv = 64 : i64, share_kv = true, split_kv = 512 : i64} -> tensor<4x144xf32>, tensor<4x18xf32>, tensor<4x18xf32>
  return %0#2 : tensor<4x18xf32>
}

// -----

// Distances are those of the keys of a split: the merge knows nothing of them.
// CHECK-LABEL: @positions_are_of_the_splits
// CHECK: heddle.online_attention <causal> ins({{.*}} positions %[[TABLE:[a-z0-9]*]] : {{.*}}split_kv = 512 : i64, starts = array<i64: 7>
// CHECK: heddle.combine_splits
// CHECK: } else {
// CHECK: heddle.online_attention <causal> ins({{.*}} positions %[[TABLE]] :
func.func @positions_are_of_the_splits(%q: tensor<?x64xf32>, %cache: !heddle.kv_cache<2 x 2 x 16 x bf16>, %layer: index, %table: tensor<3x4xf32>, %out: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %0 = heddle.online_attention <causal> ins(%q, %cache[%layer] positions %table : tensor<?x64xf32>, <2 x 2 x 16 x bf16> positions tensor<3x4xf32>) outs(%out : tensor<?x64xf32>) {num_heads = 4 : i64, scale = 0.25, softcap = 0.0, block_kv = 64 : i64, share_kv = true, starts = array<i64: 7>, rows = array<i64: 0, 2>} -> tensor<?x64xf32>
  return %0 : tensor<?x64xf32>
}

// -----

// Folded queries attend to splits, which the same op merges; in buffers for 4 heads of latents of 8. Heads that share a load of the cache are one item.
// CHECK-LABEL: @latents_are_split
// CHECK: %[[FEW:.*]] = heddle.prefer_splits {{.*}} {items = 1 : i64, max_rows = 64 : i64, split_kv = 512 : i64}
// CHECK: %[[O:.*]]:2 = scf.if %[[FEW]]
// CHECK: %[[S:.*]]:3 = heddle.online_latent_attention <automatic> <causal>
// CHECK-SAME: outs({{.*}} : tensor<?x12xf32>, tensor<?x128xf32>, tensor<64x160xf32>)
// CHECK-SAME: split_kv = 512 : i64
// CHECK: scf.yield %[[S]]#0, %[[S]]#1
// CHECK: } else {
// CHECK: %[[W:.*]]:2 = heddle.online_latent_attention <automatic> <causal>
// CHECK-NOT: split_kv
// CHECK: scf.yield %[[W]]#0, %[[W]]#1
// CHECK: return %[[O]]#0
// SHORT-LABEL: @latents_are_split
// SHORT-NOT: scf.if
// SHORT: heddle.online_latent_attention
func.func @latents_are_split(%q: tensor<?x36xf32>, %c: !heddle.kv_cache<2 x 1 x 12 x bf16, latent = 8>, %layer: index, %u: tensor<5x8xf32>, %w: tensor<3x8xf32>, %out: tensor<?x12xf32>, %scratch: tensor<?x128xf32>) -> tensor<?x12xf32> {
  %0:2 = heddle.online_latent_attention <automatic> <causal> ins(%q, %c[%layer] : tensor<?x36xf32>, <2 x 1 x 12 x bf16, latent = 8>) key_ups(%u, %u : tensor<5x8xf32>, tensor<5x8xf32>) value_ups(%w, %w : tensor<3x8xf32>, tensor<3x8xf32>) outs(%out, %scratch : tensor<?x12xf32>, tensor<?x128xf32>) {num_heads = 4 : i64, num_kv_heads = 2 : i64, nope = 5 : i64, value = 3 : i64, scale = 1.0 : f64} -> tensor<?x12xf32>, tensor<?x128xf32>
  return %0#0 : tensor<?x12xf32>
}

// -----

// Keys and values that are rebuilt are divided by heads.
// CHECK-LABEL: @rebuilt_keys_are_whole
// CHECK-NOT: scf.if
// CHECK: return
func.func @rebuilt_keys_are_whole(%q: tensor<?x18xf32>, %c: !heddle.kv_cache<2 x 1 x 11 x f32, latent = 7>, %layer: index, %u: tensor<5x7xf32>, %w: tensor<3x7xf32>, %o: tensor<?x6xf32>, %s: tensor<?x64xf32>) -> tensor<?x6xf32> {
  %0:2 = heddle.online_latent_attention <materialised> <causal> ins(%q, %c[%layer] : tensor<?x18xf32>, <2 x 1 x 11 x f32, latent = 7>) key_ups(%u, %u : tensor<5x7xf32>, tensor<5x7xf32>) value_ups(%w, %w : tensor<3x7xf32>, tensor<3x7xf32>) outs(%o, %s : tensor<?x6xf32>, tensor<?x64xf32>) {num_heads = 2 : i64, num_kv_heads = 2 : i64, nope = 5 : i64, value = 3 : i64, scale = 1.0 : f64} -> tensor<?x6xf32>, tensor<?x64xf32>
  return %0#0 : tensor<?x6xf32>
}

// -----

// CUDA splits what its tensor cores take, which are no positions, and by the kernel of any device a cache of f32.
// CHECK-LABEL: @on_tensor_cores
// CHECK: heddle.combine_splits
// CHECK-LABEL: @with_positions
// CHECK-NOT: split
// CHECK-LABEL: @of_f32
// CHECK: heddle.combine_splits
module attributes {heddle.target = #heddle.target<device = cuda, name = "cuda:sm_80">} {
func.func @on_tensor_cores(%q: tensor<?x64xf32>, %cache: !heddle.kv_cache<2 x 2 x 16 x bf16>, %layer: index, %out: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %0 = heddle.online_attention <causal> ins(%q, %cache[%layer] : tensor<?x64xf32>, <2 x 2 x 16 x bf16>) outs(%out : tensor<?x64xf32>) {num_heads = 4 : i64, scale = 0.25, softcap = 0.0, block_kv = 64 : i64, share_kv = true} -> tensor<?x64xf32>
  return %0 : tensor<?x64xf32>
}
func.func @with_positions(%q: tensor<?x64xf32>, %cache: !heddle.kv_cache<2 x 2 x 16 x bf16>, %layer: index, %table: tensor<3x4xf32>, %out: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %0 = heddle.online_attention <causal> ins(%q, %cache[%layer] positions %table : tensor<?x64xf32>, <2 x 2 x 16 x bf16> positions tensor<3x4xf32>) outs(%out : tensor<?x64xf32>) {num_heads = 4 : i64, scale = 0.25, softcap = 0.0, block_kv = 64 : i64, share_kv = true, starts = array<i64: 7>, rows = array<i64: 0, 2>} -> tensor<?x64xf32>
  return %0 : tensor<?x64xf32>
}
func.func @of_f32(%q: tensor<?x64xf32>, %cache: !heddle.kv_cache<2 x 2 x 16 x f32>, %layer: index, %out: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %0 = heddle.online_attention <causal> ins(%q, %cache[%layer] : tensor<?x64xf32>, <2 x 2 x 16 x f32>) outs(%out : tensor<?x64xf32>) {num_heads = 4 : i64, scale = 0.25, softcap = 0.0, block_kv = 64 : i64, share_kv = true} -> tensor<?x64xf32>
  return %0 : tensor<?x64xf32>
}
}
