// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s | %heddle-opt | FileCheck %s
// RUN: %heddle-opt %s --mlir-print-op-generic | %heddle-opt | FileCheck %s

// CHECK-LABEL: @rotary_key_of_all_heads
func.func @rotary_key_of_all_heads(%q: tensor<1x4x?x9xf32>, %c: tensor<1x1x?x7xf32>, %r: tensor<1x1x?x4xf32>, %u: tensor<5x7xf32>, %w: tensor<3x7xf32>) -> tensor<1x4x?x3xf32> {
  // CHECK: heddle.latent_attention %{{.*}}, %{{.*}} rope(%{{.*}} : tensor<1x1x?x4xf32>) key_ups(%{{.*}}, %{{.*}} : tensor<5x7xf32>, tensor<5x7xf32>) value_ups(%{{.*}}, %{{.*}} : tensor<3x7xf32>, tensor<3x7xf32>) <causal> {scale = 5.000000e-01 : f64} : tensor<1x4x?x9xf32>, tensor<1x1x?x7xf32> -> tensor<1x4x?x3xf32>
  %0 = heddle.latent_attention %q, %c rope(%r : tensor<1x1x?x4xf32>) key_ups(%u, %u : tensor<5x7xf32>, tensor<5x7xf32>) value_ups(%w, %w : tensor<3x7xf32>, tensor<3x7xf32>) <causal> {scale = 0.5} : tensor<1x4x?x9xf32>, tensor<1x1x?x7xf32> -> tensor<1x4x?x3xf32>
  return %0 : tensor<1x4x?x3xf32>
}

// CHECK-LABEL: @no_rotary_key
func.func @no_rotary_key(%q: tensor<1x2x?x5xf32>, %c: tensor<1x1x?x7xf32>, %u: tensor<5x7xf32>, %w: tensor<3x7xf32>) -> tensor<1x2x?x3xf32> {
  // CHECK: heddle.latent_attention %{{.*}}, %{{.*}} key_ups(%{{.*}} : tensor<5x7xf32>) value_ups(%{{.*}} : tensor<3x7xf32>) <causal> {form = #heddle.latent_form<automatic>, scale = 1.000000e+00 : f64}
  %0 = heddle.latent_attention %q, %c key_ups(%u : tensor<5x7xf32>) value_ups(%w : tensor<3x7xf32>) <causal> {form = #heddle.latent_form<automatic>, scale = 1.0} : tensor<1x2x?x5xf32>, tensor<1x1x?x7xf32> -> tensor<1x2x?x3xf32>
  return %0 : tensor<1x2x?x3xf32>
}
