// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s | %heddle-opt | FileCheck %s
// RUN: %heddle-opt %s --mlir-print-op-generic | %heddle-opt | FileCheck %s

// CHECK: #[[ROPE:.*]] = #heddle.rope<half, table = 1, attention_factor = 1.000000e+00, inverse_frequency = array<f32: 1.000000e+00, 1.000000e-01>>
// CHECK: #[[GROWN:.*]] = #heddle.rope<half, table = 2, attention_factor = 1.000000e+00, growth = 1.000000e-01, floor = 8192, inverse_frequency = array<f32: 0.000000e+00>>
#rope = #heddle.rope<half, table = 1, attention_factor = 1.0, inverse_frequency = array<f32: 1.0, 0.1>>

// CHECK-LABEL: @angles_from_frequencies
func.func @angles_from_frequencies(%x: tensor<1x2x?x8xf32>, %p: tensor<1x?xi32>) -> tensor<1x2x?x8xf32> {
  // CHECK: heddle.rope %{{.*}}, %{{.*}}, #[[ROPE]] : tensor<1x2x?x8xf32>, tensor<1x?xi32>
  %0 = heddle.rope %x, %p, #rope : tensor<1x2x?x8xf32>, tensor<1x?xi32>
  return %0 : tensor<1x2x?x8xf32>
}

// CHECK-LABEL: @grows_with_the_position
// CHECK-SAME: rope = #[[GROWN]]
func.func private @grows_with_the_position() attributes {rope = #heddle.rope<half, table = 2, attention_factor = 1.0, growth = 0.1, floor = 8192,
  inverse_frequency = array<f32: 0.0>>}

// CHECK-LABEL: @angles_from_a_table
func.func @angles_from_a_table(%x: tensor<1x2x?x8xf32>, %p: tensor<1x?xi32>, %t: tensor<?x4xf32>) -> tensor<1x2x?x8xf32> {
  // CHECK: heddle.rope %{{.*}}, %{{.*}} table(%{{.*}} : tensor<?x4xf32>) #[[ROPE]] : tensor<1x2x?x8xf32>, tensor<1x?xi32>
  %0 = heddle.rope %x, %p table(%t : tensor<?x4xf32>) #rope : tensor<1x2x?x8xf32>, tensor<1x?xi32>
  return %0 : tensor<1x2x?x8xf32>
}
