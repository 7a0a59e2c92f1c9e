// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s | %heddle-opt | FileCheck %s
// RUN: %heddle-opt %s --mlir-print-op-generic | %heddle-opt | FileCheck %s

// CHECK-LABEL: @three_splits
func.func @three_splits(%a: tensor<4x144xf32>, %m: tensor<4x18xf32>, %l: tensor<4x18xf32>, %c: !heddle.kv_cache<2 x 2 x 8 x f32>, %o: tensor<?x48xf32>) -> tensor<?x48xf32> {
  // CHECK: heddle.combine_splits <causal> ins(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : tensor<4x144xf32>, tensor<4x18xf32>, tensor<4x18xf32>, <2 x 2 x 8 x f32>) outs(%{{.*}} : tensor<?x48xf32>) {num_heads = 6 : i64, split_kv = 512 : i64} -> tensor<?x48xf32>
  %0 = heddle.combine_splits <causal> ins(%a, %m, %l, %c : tensor<4x144xf32>, tensor<4x18xf32>, tensor<4x18xf32>, <2 x 2 x 8 x f32>) outs(%o : tensor<?x48xf32>) {num_heads = 6 : i64, split_kv = 512 : i64} -> tensor<?x48xf32>
  return %0 : tensor<?x48xf32>
}

// CHECK-LABEL: @sinks_and_window_on_buffers
func.func @sinks_and_window_on_buffers(%a: memref<4x144xf32>, %m: memref<4x18xf32>, %l: memref<4x18xf32>, %c: !heddle.kv_cache<2 x 2 x 8 x f32>, %s: memref<6xf32>, %o: memref<?x48xf32>) {
  // CHECK: heddle.combine_splits <causal, window = 4> ins(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} sinks %{{.*}} : memref<4x144xf32>, memref<4x18xf32>, memref<4x18xf32>, <2 x 2 x 8 x f32>, memref<6xf32>)
  heddle.combine_splits <causal, window = 4> ins(%a, %m, %l, %c sinks %s : memref<4x144xf32>, memref<4x18xf32>, memref<4x18xf32>, <2 x 2 x 8 x f32>, memref<6xf32>) outs(%o : memref<?x48xf32>) {num_heads = 6 : i64, split_kv = 512 : i64}
  return
}

// CHECK-LABEL: @states_of_splits
func.func @states_of_splits(%q: tensor<?x48xf32>, %c: !heddle.kv_cache<2 x 2 x 8 x f32>, %layer: index, %a: tensor<4x144xf32>, %m: tensor<4x18xf32>, %l: tensor<4x18xf32>) -> tensor<4x18xf32> {
  // CHECK: heddle.online_attention <causal> ins({{.*}}) outs(%{{.*}}, %{{.*}}, %{{.*}} : tensor<4x144xf32>, tensor<4x18xf32>, tensor<4x18xf32>) {{.*}}split_kv = 512 : i64
  %0:3 = heddle.online_attention <causal> ins(%q, %c[%layer] : tensor<?x48xf32>, <2 x 2 x 8 x f32>) outs(%a, %m, %l : tensor<4x144xf32>, tensor<4x18xf32>, tensor<4x18xf32>) {num_heads = 6 : i64, scale = 1.0, softcap = 0.0, block_kv = 64 : i64, share_kv = true, split_kv = 512 : i64} -> tensor<4x144xf32>, tensor<4x18xf32>, tensor<4x18xf32>
  return %0#2 : tensor<4x18xf32>
}

// CHECK-LABEL: @preference
func.func @preference(%c: !heddle.kv_cache<2 x 2 x 8 x f32>, %rows: index) -> i1 {
  // CHECK: heddle.prefer_splits %{{.*}}, %{{.*}} {items = 2 : i64, items_per_thread = 4 : i64, max_rows = 16 : i64, split_kv = 512 : i64} : <2 x 2 x 8 x f32>
  %0 = heddle.prefer_splits %c, %rows {items = 2 : i64, max_rows = 16 : i64, split_kv = 512 : i64, items_per_thread = 4 : i64} : <2 x 2 x 8 x f32>
  return %0 : i1
}
