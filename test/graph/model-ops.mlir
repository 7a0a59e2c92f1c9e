// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Model ops in a graph run as their formulas say: compiled, they agree with the reference interpreter.
// RUN: %heddle verify %s | FileCheck %s
// CHECK: binary NMSE

#rope = #heddle.rope<half, table = 0, attention_factor = 1.5, inverse_frequency = array<f32: 1.0, 0.1>>
#pairs = #heddle.rope<interleaved, table = 0, attention_factor = 1.0, inverse_frequency = array<f32: 1.0, 0.1>>
func.func @graph(%x: tensor<3x?x33xf32> {heddle.name = "x"}, %w: tensor<33xf32> {heddle.name = "w"}, %b: tensor<33xf32> {heddle.name = "b"},
                 %q: tensor<2x3x5x7xf32> {heddle.name = "q"}, %table: tensor<3x4xf32> {heddle.name = "table"}, %slopes: tensor<4xf32> {heddle.name = "slopes"},
                 %wh: tensor<21xf32> {heddle.name = "wh"}, %bh: tensor<21xf32> {heddle.name = "bh"})
    -> (tensor<3x?x33xf32> {heddle.name = "layer"}, tensor<3x?x33xf32> {heddle.name = "plain"}, tensor<3x?x33xf32> {heddle.name = "rms"},
        tensor<3x?x33xf32> {heddle.name = "silu"}, tensor<3x?x33xf32> {heddle.name = "gelu"}, tensor<3x?x33xf32> {heddle.name = "quick"},
        tensor<3x?x33xf32> {heddle.name = "capped"}, tensor<2x3x5x7xf32> {heddle.name = "halves"}, tensor<2x3x5x7xf32> {heddle.name = "pairs"},
        tensor<1x4x5x6xf32> {heddle.name = "buckets"}, tensor<1x4x5x6xf32> {heddle.name = "alibi"},
        tensor<2x3x5x7xf32> {heddle.name = "layer_heads"}, tensor<2x3x5x7xf32> {heddle.name = "rms_heads"}) {
  %layer = heddle.layer_norm %x, %w, %b {eps = 1.0e-5} : tensor<3x?x33xf32>, tensor<33xf32>, tensor<33xf32>
  %plain = heddle.layer_norm %x, %w {eps = 1.0e-3} : tensor<3x?x33xf32>, tensor<33xf32>
  %rms = heddle.rms_norm %x, %w {eps = 1.0e-6, weight_offset = 1.0} : tensor<3x?x33xf32>, tensor<33xf32>
  %silu = heddle.glu <silu> %x, %rms : tensor<3x?x33xf32>
  %gelu = heddle.glu <gelu> %x : tensor<3x?x33xf32>
  %tanh = heddle.glu <gelu_tanh> %x, %gelu : tensor<3x?x33xf32>
  %squared = heddle.glu <squared_relu> %tanh : tensor<3x?x33xf32>
  %quick = heddle.glu <quick_gelu> %squared : tensor<3x?x33xf32>
  %capped = heddle.softcap %x {cap = 3.0} : tensor<3x?x33xf32>
  %positions = arith.constant dense<[[0, 1, 2, 3, 4], [7, 5, 3, 1, 0]]> : tensor<2x5xi32>
  %halves = heddle.rope %q, %positions, #rope {offset = 2} : tensor<2x3x5x7xf32>, tensor<2x5xi32>
  %pairs = heddle.rope %q, %positions, #pairs {offset = 1} : tensor<2x3x5x7xf32>, tensor<2x5xi32>
  %c5 = arith.constant 5 : index
  %c6 = arith.constant 6 : index
  %buckets = heddle.position_bias %table[%c5, %c6] {starts = array<i64: 0, 2>, rows = array<i64: 0, 1, 2>} : tensor<3x4xf32> -> tensor<1x4x5x6xf32>
  %alibi = heddle.position_bias %slopes[%c5, %c6] : tensor<4xf32> -> tensor<1x4x5x6xf32>
  %layer_heads = heddle.layer_norm %q, %wh, %bh {eps = 1.0e-5} : tensor<2x3x5x7xf32>, tensor<21xf32>, tensor<21xf32>
  %rms_heads = heddle.rms_norm %q, %wh {eps = 1.0e-6} : tensor<2x3x5x7xf32>, tensor<21xf32>
  return %layer, %plain, %rms, %silu, %gelu, %quick, %capped, %halves, %pairs, %buckets, %alibi, %layer_heads, %rms_heads
    : tensor<3x?x33xf32>, tensor<3x?x33xf32>, tensor<3x?x33xf32>, tensor<3x?x33xf32>, tensor<3x?x33xf32>, tensor<3x?x33xf32>, tensor<3x?x33xf32>,
      tensor<2x3x5x7xf32>, tensor<2x3x5x7xf32>, tensor<1x4x5x6xf32>, tensor<1x4x5x6xf32>, tensor<2x3x5x7xf32>,
      tensor<2x3x5x7xf32>
}
