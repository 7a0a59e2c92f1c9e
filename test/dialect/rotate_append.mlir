// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s | %heddle-opt | FileCheck %s

#rope = #heddle.rope<half, table = 0, attention_factor = 1.0, inverse_frequency = array<f32: 1.0, 0.1>>

// CHECK-LABEL: @on_tensors
// CHECK: heddle.rotate_append #{{.*}} ins(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}[%{{.*}}] : tensor<?x20xf32>, tensor<?xi32>, tensor<?x4xf32>, <2 x 1 x 4 x bf16>) outs(%{{.*}} : tensor<?x12xf32>) {num_heads = 3 : i64} -> tensor<?x12xf32>
func.func @on_tensors(%x: tensor<?x20xf32>, %p: tensor<?xi32>, %t: tensor<?x4xf32>, %cache: !heddle.kv_cache<2 x 1 x 4 x bf16>, %layer: index, %out: tensor<?x12xf32>) -> tensor<?x12xf32> {
  %q = heddle.rotate_append #rope ins(%x, %p, %t, %cache[%layer] : tensor<?x20xf32>, tensor<?xi32>, tensor<?x4xf32>, <2 x 1 x 4 x bf16>)
    outs(%out : tensor<?x12xf32>) {num_heads = 3 : i64} -> tensor<?x12xf32>
  return %q : tensor<?x12xf32>
}

// CHECK-LABEL: @on_buffers
// CHECK: heddle.rotate_append {{.*}} outs(%{{.*}} : memref<?x12xf32>) {num_heads = 2 : i64, offset = 2 : i64}
func.func @on_buffers(%x: memref<?x24xf32>, %p: memref<?xi32>, %t: memref<?x4xf32>, %cache: !heddle.kv_cache<2 x 1 x 6 x f32>, %layer: index, %out: memref<?x12xf32>) {
  heddle.rotate_append #rope ins(%x, %p, %t, %cache[%layer] : memref<?x24xf32>, memref<?xi32>, memref<?x4xf32>, <2 x 1 x 6 x f32>)
    outs(%out : memref<?x12xf32>) {num_heads = 2 : i64, offset = 2 : i64}
  return
}

// CHECK-LABEL: @of_a_product_and_norms_of_heads
// CHECK: heddle.rotate_append #{{.*}} ins(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}[%{{.*}}] norms %{{.*}}, %{{.*}} weights %{{.*}} bias %{{.*}} norm %{{.*}} : tensor<?x64xf32>, tensor<?xi32>, tensor<?x4xf32>, <2 x 1 x 4 x bf16> norms tensor<4xf32>, tensor<4xf32> weights tensor<4096xi8> bias tensor<16xf32> norm tensor<64xf32>) outs(%{{.*}}, %{{.*}}, %{{.*}} : tensor<?x8xf32>, tensor<?x16xf32>, tensor<?x64xf32>)
func.func @of_a_product_and_norms_of_heads(%x: tensor<?x64xf32>, %p: tensor<?xi32>, %t: tensor<?x4xf32>, %cache: !heddle.kv_cache<2 x 1 x 4 x bf16>, %layer: index, %qn: tensor<4xf32>, %kn: tensor<4xf32>, %w: tensor<4096xi8>, %b: tensor<16xf32>, %g: tensor<64xf32>, %out: tensor<?x8xf32>, %rows: tensor<?x16xf32>, %room: tensor<?x64xf32>) -> tensor<?x8xf32> {
  %q, %0, %1 = heddle.rotate_append #rope ins(%x, %p, %t, %cache[%layer] norms %qn, %kn weights %w bias %b norm %g : tensor<?x64xf32>, tensor<?xi32>, tensor<?x4xf32>, <2 x 1 x 4 x bf16> norms tensor<4xf32>, tensor<4xf32> weights tensor<4096xi8> bias tensor<16xf32> norm tensor<64xf32>)
    outs(%out, %rows, %room : tensor<?x8xf32>, tensor<?x16xf32>, tensor<?x64xf32>) {num_heads = 2 : i64, heads_eps = 1.0e-6, heads_weight_offset = 0.0, k = 64 : i64, format = "f32", eps = 1.0e-5, weight_offset = 0.0} -> tensor<?x8xf32>, tensor<?x16xf32>, tensor<?x64xf32>
  return %q : tensor<?x8xf32>
}
