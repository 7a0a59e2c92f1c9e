// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --heddle-check-all --canonicalize | FileCheck %s

#rope = #heddle.rope<half, table = 0, attention_factor = 1.0, inverse_frequency = array<f32: 1.0, 0.1>>
#scaled = #heddle.rope<half, table = 1, attention_factor = 1.25, inverse_frequency = array<f32: 1.0, 0.1>>
#still = #heddle.rope<interleaved, table = 2, attention_factor = 1.0, inverse_frequency = array<f32: 0.0, 0.0>>
#grown = #heddle.rope<interleaved, table = 4, attention_factor = 1.0, growth = 0.5, floor = 1, inverse_frequency = array<f32: 0.0, 0.0>>
#slow = #heddle.rope<interleaved, table = 3, attention_factor = 1.0, inverse_frequency = array<f32: 0.0, 0.01>>

// CHECK-LABEL: func.func @at_position_zero(
// CHECK-SAME: %[[X:[^:]*]]
// CHECK-NEXT: return %[[X]]
func.func @at_position_zero(%x: tensor<1x2x3x6xf32>) -> tensor<1x2x3x6xf32> {
  %positions = arith.constant dense<0> : tensor<1x3xi32>
  %0 = heddle.rope %x, %positions, #rope {offset = 1} : tensor<1x2x3x6xf32>, tensor<1x3xi32>
  return %0 : tensor<1x2x3x6xf32>
}

// CHECK-LABEL: func.func @without_frequencies(
// CHECK-SAME: %[[X:[^:]*]]
// CHECK-NEXT: return %[[X]]
func.func @without_frequencies(%x: tensor<1x2x?x4xf32>, %positions: tensor<1x?xi32>) -> tensor<1x2x?x4xf32> {
  %0 = heddle.rope %x, %positions, #still : tensor<1x2x?x4xf32>, tensor<1x?xi32>
  return %0 : tensor<1x2x?x4xf32>
}

// CHECK-LABEL: @second_token_turns
// CHECK: heddle.rope
func.func @second_token_turns(%x: tensor<1x2x2x4xf32>) -> tensor<1x2x2x4xf32> {
  %positions = arith.constant dense<[[0, 1]]> : tensor<1x2xi32>
  %0 = heddle.rope %x, %positions, #rope : tensor<1x2x2x4xf32>, tensor<1x2xi32>
  return %0 : tensor<1x2x2x4xf32>
}

// CHECK-LABEL: @growth_multiplies
// CHECK: heddle.rope
func.func @growth_multiplies(%x: tensor<1x2x3x4xf32>, %positions: tensor<1x3xi32>) -> tensor<1x2x3x4xf32> {
  %0 = heddle.rope %x, %positions, #grown : tensor<1x2x3x4xf32>, tensor<1x3xi32>
  return %0 : tensor<1x2x3x4xf32>
}

// CHECK-LABEL: @attention_factor_multiplies
// CHECK: heddle.rope
func.func @attention_factor_multiplies(%x: tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32> {
  %positions = arith.constant dense<0> : tensor<1x3xi32>
  %0 = heddle.rope %x, %positions, #scaled : tensor<1x2x3x4xf32>, tensor<1x3xi32>
  return %0 : tensor<1x2x3x4xf32>
}

// CHECK-LABEL: @one_pair_turns
// CHECK: heddle.rope
func.func @one_pair_turns(%x: tensor<1x2x?x4xf32>, %positions: tensor<1x?xi32>) -> tensor<1x2x?x4xf32> {
  %0 = heddle.rope %x, %positions, #slow : tensor<1x2x?x4xf32>, tensor<1x?xi32>
  return %0 : tensor<1x2x?x4xf32>
}

// A table may hold anything.
// CHECK-LABEL: @table_decides
// CHECK: heddle.rope
func.func @table_decides(%x: tensor<1x2x3x4xf32>, %table: tensor<8x4xf32>) -> tensor<1x2x3x4xf32> {
  %positions = arith.constant dense<0> : tensor<1x3xi32>
  %0 = heddle.rope %x, %positions table(%table : tensor<8x4xf32>) #rope : tensor<1x2x3x4xf32>, tensor<1x3xi32>
  return %0 : tensor<1x2x3x4xf32>
}
