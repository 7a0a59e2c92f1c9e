// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --split-input-file --verify-diagnostics -o %t

func.func @linear_attention_c1(%q: tensor<?x?x6xf32>, %v: tensor<?x?x21xf32>) {
  // expected-error @+1 {{query and key must be f32 rows of 2 heads, value and result of 4, decay and beta have 4 columns}}
  %0 = heddle.linear_attention %q, %q, %v {num_heads = 4, num_key_heads = 2} : tensor<?x?x6xf32>, tensor<?x?x6xf32>, tensor<?x?x21xf32> -> tensor<?x?x21xf32>
  return
}

// -----

func.func @linear_attention_c1_decay(%q: tensor<?x?x6xf32>, %v: tensor<?x?x20xf32>, %g: tensor<?x?x2xf32>) {
  // expected-error @+1 {{decay and beta have 4 columns, or decay 12}}
  %0 = heddle.linear_attention %q, %q, %v decay(%g : tensor<?x?x2xf32>) {num_heads = 4, num_key_heads = 2} : tensor<?x?x6xf32>, tensor<?x?x6xf32>, tensor<?x?x20xf32> -> tensor<?x?x20xf32>
  return
}

// -----

func.func @linear_attention_c2(%q: tensor<?x?x6xf32>, %v: tensor<?x?x20xf32>) {
  // expected-error @+1 {{num_heads (4) must be a positive multiple of num_key_heads (3)}}
  %0 = heddle.linear_attention %q, %q, %v {num_heads = 4, num_key_heads = 3} : tensor<?x?x6xf32>, tensor<?x?x6xf32>, tensor<?x?x20xf32> -> tensor<?x?x20xf32>
  return
}

// -----

func.func @linear_attention_c3(%q: tensor<?x6xf32>, %v: tensor<?x20xf32>, %cache: !heddle.kv_cache<2 x 1 x 59 x f32 state>, %layer: index) {
  // expected-error @+1 {{needs a cache of states of at least 60 numbers}}
  %0 = heddle.linear_attention %q, %q, %v state(%cache[%layer] : !heddle.kv_cache<2 x 1 x 59 x f32 state>) {num_heads = 4, num_key_heads = 2} : tensor<?x6xf32>, tensor<?x6xf32>, tensor<?x20xf32> -> tensor<?x20xf32>
  return
}

// -----

func.func @linear_attention_c1_rank(%q: tensor<f32>, %v: tensor<1x4x96xf32>) {
  // expected-error @+1 {{query, key, value and result must have rank 3}}
  %0 = heddle.linear_attention %q, %q, %v {num_heads = 4, num_key_heads = 2} : tensor<f32>, tensor<f32>, tensor<1x4x96xf32> -> tensor<1x4x96xf32>
  return
}

// -----

func.func @linear_attention_c1_tokens(%q: tensor<1x2x6xf32>, %v: tensor<1x40x20xf32>) {
  // expected-error @+1 {{query and key must be f32 rows of 2 heads}}
  %0 = heddle.linear_attention %q, %q, %v {num_heads = 4, num_key_heads = 2} : tensor<1x2x6xf32>, tensor<1x2x6xf32>, tensor<1x40x20xf32> -> tensor<1x40x20xf32>
  return
}

// -----

func.func @linear_attention_c2_width(%q: tensor<1x2x2050xf32>, %v: tensor<1x2x20xf32>) {
  // expected-error @+1 {{dimensions of heads (1025, 5) must be 1 to 1024}}
  %0 = heddle.linear_attention %q, %q, %v {num_heads = 4, num_key_heads = 2} : tensor<1x2x2050xf32>, tensor<1x2x2050xf32>, tensor<1x2x20xf32> -> tensor<1x2x20xf32>
  return
}

// -----

func.func @linear_attention_c1_beta(%q: tensor<?x?x6xf32>, %v: tensor<?x?x20xf32>, %g: tensor<?x?x12xf32>) {
  // expected-error @+1 {{decay and beta have 4 columns, or decay 12}}
  %0 = heddle.linear_attention %q, %q, %v beta(%g : tensor<?x?x12xf32>) {num_heads = 4, num_key_heads = 2} : tensor<?x?x6xf32>, tensor<?x?x6xf32>, tensor<?x?x20xf32> -> tensor<?x?x20xf32>
  return
}
