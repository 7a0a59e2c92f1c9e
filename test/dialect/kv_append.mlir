// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s | %heddle-opt | FileCheck %s
// RUN: %heddle-opt %s --mlir-print-op-generic | %heddle-opt | FileCheck %s

// CHECK-LABEL: @tensors
func.func @tensors(%c: !heddle.kv_cache<30 x 3 x 64 x bf16>, %k: tensor<?x192xf32>, %layer: index) {
  // CHECK: heddle.kv_append %{{.*}}[%{{.*}}], %{{.*}}, %{{.*}} : <30 x 3 x 64 x bf16>, tensor<?x192xf32>, tensor<?x192xf32>
  heddle.kv_append %c[%layer], %k, %k : <30 x 3 x 64 x bf16>, tensor<?x192xf32>, tensor<?x192xf32>
  return
}

// CHECK-LABEL: @buffers
func.func @buffers(%c: !heddle.kv_cache<2 x 1 x 4 x f32>, %k: memref<?x4xf32>) {
  %last = arith.constant 1 : index
  // CHECK: heddle.kv_append %{{.*}}[%{{.*}}], %{{.*}}, %{{.*}} : <2 x 1 x 4 x f32>, memref<?x4xf32>, memref<?x4xf32>
  heddle.kv_append %c[%last], %k, %k : <2 x 1 x 4 x f32>, memref<?x4xf32>, memref<?x4xf32>
  return
}

// CHECK-LABEL: @latent
func.func @latent(%c: !heddle.kv_cache<2 x 1 x 11 x f32, latent = 7>, %l: tensor<?x7xf32>, %r: tensor<?x4xf32>, %layer: index) {
  // CHECK: heddle.kv_append %{{.*}}[%{{.*}}], %{{.*}}, %{{.*}} : <2 x 1 x 11 x f32, latent = 7>, tensor<?x7xf32>, tensor<?x4xf32>
  heddle.kv_append %c[%layer], %l, %r : <2 x 1 x 11 x f32, latent = 7>, tensor<?x7xf32>, tensor<?x4xf32>
  return
}

// CHECK-LABEL: @latent_without_rotary_key
func.func @latent_without_rotary_key(%c: !heddle.kv_cache<2 x 1 x 7 x f32, latent = 7>, %l: tensor<?x7xf32>, %layer: index) {
  // CHECK: heddle.kv_append %{{.*}}[%{{.*}}], %{{.*}} : <2 x 1 x 7 x f32, latent = 7>, tensor<?x7xf32>
  heddle.kv_append %c[%layer], %l : <2 x 1 x 7 x f32, latent = 7>, tensor<?x7xf32>
  return
}
