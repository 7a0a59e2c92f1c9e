// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s | %heddle-opt | FileCheck %s
// RUN: %heddle-opt %s --mlir-print-op-generic | %heddle-opt | FileCheck %s

// CHECK-LABEL: @matrix_per_head
func.func @matrix_per_head(%q: tensor<?x18xf32>, %c: !heddle.kv_cache<2 x 1 x 11 x f32, latent = 7>, %u: tensor<5x7xf32>, %w: tensor<3x7xf32>, %o: tensor<?x6xf32>, %s: tensor<?x64xf32>) -> tensor<?x6xf32> {
  %layer = arith.constant 1 : index
  // CHECK: heddle.online_latent_attention <materialised> <causal> ins(%{{.*}}, %{{.*}}[%{{.*}}] : tensor<?x18xf32>, <2 x 1 x 11 x f32, latent = 7>) key_ups(%{{.*}}, %{{.*}} : tensor<5x7xf32>, tensor<5x7xf32>) value_ups(%{{.*}}, %{{.*}} : tensor<3x7xf32>, tensor<3x7xf32>) outs(%{{.*}}, %{{.*}} : tensor<?x6xf32>, tensor<?x64xf32>)
  %0:2 = heddle.online_latent_attention <materialised> <causal> ins(%q, %c[%layer] : tensor<?x18xf32>, <2 x 1 x 11 x f32, latent = 7>) key_ups(%u, %u : tensor<5x7xf32>, tensor<5x7xf32>) value_ups(%w, %w : tensor<3x7xf32>, tensor<3x7xf32>) outs(%o, %s : tensor<?x6xf32>, tensor<?x64xf32>) {num_heads = 2 : i64, num_kv_heads = 2 : i64, nope = 5 : i64, value = 3 : i64, scale = 1.0 : f64} -> tensor<?x6xf32>, tensor<?x64xf32>
  return %0#0 : tensor<?x6xf32>
}

// CHECK-LABEL: @packed_for_absorbing
func.func @packed_for_absorbing(%q: tensor<?x18xf32>, %c: !heddle.kv_cache<2 x 1 x 11 x bf16, latent = 7>, %fold: tensor<640xi8>, %w: tensor<896xi8>, %o: tensor<?x6xf32>, %s: tensor<?x64xf32>) -> tensor<?x6xf32> {
  %layer = arith.constant 0 : index
  // CHECK: heddle.online_latent_attention <absorbed> <causal> {{.*}} value_ups(%{{.*}} : tensor<896xi8>) key_folds(%{{.*}} : tensor<640xi8>)
  %0:2 = heddle.online_latent_attention <absorbed> <causal> ins(%q, %c[%layer] : tensor<?x18xf32>, <2 x 1 x 11 x bf16, latent = 7>) value_ups(%w : tensor<896xi8>) key_folds(%fold : tensor<640xi8>) outs(%o, %s : tensor<?x6xf32>, tensor<?x64xf32>) {num_heads = 2 : i64, num_kv_heads = 2 : i64, nope = 5 : i64, value = 3 : i64, scale = 1.0 : f64, fold_format = "f32", value_format = "f32"} -> tensor<?x6xf32>, tensor<?x64xf32>
  return %0#0 : tensor<?x6xf32>
}
