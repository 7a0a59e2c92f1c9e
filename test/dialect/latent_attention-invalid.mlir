// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --split-input-file --verify-diagnostics -o %t

func.func @latent_attention_c1(%q: tensor<1x2x?x5xf32>, %c: tensor<1x2x?x7xf32>, %u: tensor<5x7xf32>, %w: tensor<3x7xf32>) {
  // expected-error @+1 {{latent (2) and key_rope (1) must have one head}}
  %0 = heddle.latent_attention %q, %c key_ups(%u : tensor<5x7xf32>) value_ups(%w : tensor<3x7xf32>) <causal> {scale = 1.0} : tensor<1x2x?x5xf32>, tensor<1x2x?x7xf32> -> tensor<1x2x?x3xf32>
  return
}

// -----

func.func @latent_attention_c1_rope(%q: tensor<1x2x?x9xf32>, %c: tensor<1x1x?x7xf32>, %r: tensor<1x3x?x4xf32>, %u: tensor<5x7xf32>, %w: tensor<3x7xf32>) {
  // expected-error @+1 {{latent (1) and key_rope (3) must have one head}}
  %0 = heddle.latent_attention %q, %c rope(%r : tensor<1x3x?x4xf32>) key_ups(%u : tensor<5x7xf32>) value_ups(%w : tensor<3x7xf32>) <causal> {scale = 1.0} : tensor<1x2x?x9xf32>, tensor<1x1x?x7xf32> -> tensor<1x2x?x3xf32>
  return
}

// -----

func.func @latent_attention_c2(%q: tensor<1x3x?x5xf32>, %c: tensor<1x1x?x7xf32>, %u: tensor<5x7xf32>, %w: tensor<3x7xf32>) {
  // expected-error @+1 {{key_ups (2) must be as many as value_ups (1) and divide num_heads (3)}}
  %0 = heddle.latent_attention %q, %c key_ups(%u, %u : tensor<5x7xf32>, tensor<5x7xf32>) value_ups(%w : tensor<3x7xf32>) <causal> {scale = 1.0} : tensor<1x3x?x5xf32>, tensor<1x1x?x7xf32> -> tensor<1x3x?x3xf32>
  return
}

// -----

func.func @latent_attention_c2_none(%q: tensor<1x3x?x5xf32>, %c: tensor<1x1x?x7xf32>) {
  // expected-error @+1 {{key_ups (0) must be as many as value_ups (0) and divide num_heads (3)}}
  %0 = "heddle.latent_attention"(%q, %c) <{mask = #heddle.mask<causal>, scale = 1.0 : f64, operandSegmentSizes = array<i32: 1, 1, 0, 0, 0>}> : (tensor<1x3x?x5xf32>, tensor<1x1x?x7xf32>) -> tensor<1x3x?x3xf32>
  return
}

// -----

func.func @latent_attention_c3(%q: tensor<1x2x?x5xf32>, %c: tensor<1x1x?x7xf32>, %u: tensor<5x6xf32>, %w: tensor<3x7xf32>) {
  // expected-error @+1 {{key_ups 'tensor<5x6xf32>' must be (5, kv_lora_rank 7)}}
  %0 = heddle.latent_attention %q, %c key_ups(%u : tensor<5x6xf32>) value_ups(%w : tensor<3x7xf32>) <causal> {scale = 1.0} : tensor<1x2x?x5xf32>, tensor<1x1x?x7xf32> -> tensor<1x2x?x3xf32>
  return
}

// -----

func.func @latent_attention_c3_query(%q: tensor<1x2x?x8xf32>, %c: tensor<1x1x?x7xf32>, %r: tensor<1x1x?x4xf32>, %u: tensor<5x7xf32>, %w: tensor<3x7xf32>) {
  // expected-error @+1 {{head_dim of query (8) must be qk_nope_head_dim (5) and qk_rope_head_dim (4) together}}
  %0 = heddle.latent_attention %q, %c rope(%r : tensor<1x1x?x4xf32>) key_ups(%u : tensor<5x7xf32>) value_ups(%w : tensor<3x7xf32>) <causal> {scale = 1.0} : tensor<1x2x?x8xf32>, tensor<1x1x?x7xf32> -> tensor<1x2x?x3xf32>
  return
}

// -----

func.func @latent_attention_c4(%q: tensor<1x2x?x5xf32>, %c: tensor<1x1x?x7xf32>, %u: tensor<5x7xf32>, %w: tensor<3x8xf32>) {
  // expected-error @+1 {{value_ups 'tensor<3x8xf32>' must be (3, kv_lora_rank 7)}}
  %0 = heddle.latent_attention %q, %c key_ups(%u : tensor<5x7xf32>) value_ups(%w : tensor<3x8xf32>) <causal> {scale = 1.0} : tensor<1x2x?x5xf32>, tensor<1x1x?x7xf32> -> tensor<1x2x?x3xf32>
  return
}

// -----

func.func @latent_attention_c4_result(%q: tensor<1x2x?x5xf32>, %c: tensor<1x1x?x7xf32>, %u: tensor<5x7xf32>, %w: tensor<3x7xf32>) {
  // expected-error @+1 {{result 'tensor<1x2x?x5xf32>' must be (batch, num_heads, queries, v_head_dim 3)}}
  %0 = heddle.latent_attention %q, %c key_ups(%u : tensor<5x7xf32>) value_ups(%w : tensor<3x7xf32>) <causal> {scale = 1.0} : tensor<1x2x?x5xf32>, tensor<1x1x?x7xf32> -> tensor<1x2x?x5xf32>
  return
}

// -----

func.func @latent_attention_c5(%q: tensor<1x2x2x9xf32>, %c: tensor<1x1x6x7xf32>, %r: tensor<1x1x5x4xf32>, %u: tensor<5x7xf32>, %w: tensor<3x7xf32>) {
  // expected-error @+1 {{batch and sequence of latent 'tensor<1x1x6x7xf32>' must be those of key_rope 'tensor<1x1x5x4xf32>'}}
  %0 = heddle.latent_attention %q, %c rope(%r : tensor<1x1x5x4xf32>) key_ups(%u : tensor<5x7xf32>) value_ups(%w : tensor<3x7xf32>) <causal> {scale = 1.0} : tensor<1x2x2x9xf32>, tensor<1x1x6x7xf32> -> tensor<1x2x2x3xf32>
  return
}
