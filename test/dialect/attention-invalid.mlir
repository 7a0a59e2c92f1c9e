// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --split-input-file --verify-diagnostics -o %t

func.func @attention_c1(%q: tensor<4x5x8xf32>, %k: tensor<1x2x7x8xf32>, %v: tensor<1x2x7x8xf32>) {
  // expected-error @+1 {{operand #0 must be 4D tensor of floating-point values, but got 'tensor<4x5x8xf32>'}}
  %0 = heddle.attention %q, %k, %v <causal> {scale = 1.0} : tensor<4x5x8xf32>, tensor<1x2x7x8xf32>, tensor<1x2x7x8xf32> -> tensor<4x5x8xf32>
  return
}

// -----

func.func @attention_c2(%q: tensor<1x4x5x8xf32>, %k: tensor<1x3x7x8xf32>, %v: tensor<1x3x7x8xf32>) {
  // expected-error @+1 {{num_heads (4) must be a multiple of num_kv_heads (3)}}
  %0 = heddle.attention %q, %k, %v <causal> {scale = 1.0} : tensor<1x4x5x8xf32>, tensor<1x3x7x8xf32>, tensor<1x3x7x8xf32> -> tensor<1x4x5x8xf32>
  return
}

// -----

func.func @attention_c3(%q: tensor<1x4x5x8xf32>, %k: tensor<1x2x7x16xf32>, %v: tensor<1x2x7x16xf32>) {
  // expected-error @+1 {{head_dim of query (8) must be that of key (16)}}
  %0 = heddle.attention %q, %k, %v <causal> {scale = 1.0} : tensor<1x4x5x8xf32>, tensor<1x2x7x16xf32>, tensor<1x2x7x16xf32> -> tensor<1x4x5x8xf32>
  return
}

// -----

func.func @attention_c3_heads(%q: tensor<1x4x5x8xf32>, %k: tensor<1x2x7x8xf32>, %v: tensor<1x4x7x8xf32>) {
  // expected-error @+1 {{heads of key (2) must be those of value (4)}}
  %0 = heddle.attention %q, %k, %v <causal> {scale = 1.0} : tensor<1x4x5x8xf32>, tensor<1x2x7x8xf32>, tensor<1x4x7x8xf32> -> tensor<1x4x5x8xf32>
  return
}

// -----

func.func @attention_c3_sequence(%q: tensor<1x4x5x8xf32>, %k: tensor<1x2x7x8xf32>, %v: tensor<1x2x6x8xf32>) {
  // expected-error @+1 {{batch and sequence of key 'tensor<1x2x7x8xf32>' must be those of value 'tensor<1x2x6x8xf32>'}}
  %0 = heddle.attention %q, %k, %v <causal> {scale = 1.0} : tensor<1x4x5x8xf32>, tensor<1x2x7x8xf32>, tensor<1x2x6x8xf32> -> tensor<1x4x5x8xf32>
  return
}

// -----

func.func @attention_c4(%q: tensor<1x4x5x8xf32>, %k: tensor<1x2x7x8xf32>, %v: tensor<1x2x7x8xf32>) {
  // expected-error @+1 {{must be (batch, num_heads, queries, head_dim of value)}}
  %0 = heddle.attention %q, %k, %v <causal> {scale = 1.0} : tensor<1x4x5x8xf32>, tensor<1x2x7x8xf32>, tensor<1x2x7x8xf32> -> tensor<1x4x5x9xf32>
  return
}

// -----

func.func @attention_c5(%q: tensor<1x4x5x8xf32>, %k: tensor<1x2x7x8xf32>, %v: tensor<1x2x7x8xf32>, %s: tensor<3xf32>) {
  // expected-error @+1 {{sinks (3) must be num_heads (4)}}
  %0 = heddle.attention %q, %k, %v sinks(%s : tensor<3xf32>) <causal> {scale = 1.0} : tensor<1x4x5x8xf32>, tensor<1x2x7x8xf32>, tensor<1x2x7x8xf32> -> tensor<1x4x5x8xf32>
  return
}

// -----

func.func @attention_c6_columns(%q: tensor<1x4x5x8xf32>, %s: tensor<2x3xi32>) {
  // expected-error @+1 {{sequences 'tensor<2x3xi32>' must be (count, 2)}}
  %0 = heddle.attention %q, %q, %q sequences(%s : tensor<2x3xi32>) <full> {scale = 1.0} : tensor<1x4x5x8xf32>, tensor<1x4x5x8xf32>, tensor<1x4x5x8xf32> -> tensor<1x4x5x8xf32>
  return
}

// -----

func.func @attention_c6_batch(%q: tensor<2x4x5x8xf32>, %s: tensor<?x2xi32>) {
  // expected-error @+1 {{of sequences needs a batch of 1, as many queries as keys and no bias}}
  %0 = heddle.attention %q, %q, %q sequences(%s : tensor<?x2xi32>) <full> {scale = 1.0} : tensor<2x4x5x8xf32>, tensor<2x4x5x8xf32>, tensor<2x4x5x8xf32> -> tensor<2x4x5x8xf32>
  return
}

// -----

// expected-error @+1 {{expected 'causal' or 'full', got 'banded'}}
func.func private @mask_kind() attributes {mask = #heddle.mask<banded>}

// -----

// expected-error @+1 {{window (-4) must not be negative}}
func.func private @mask_window() attributes {mask = #heddle.mask<causal, window = -4>}

// -----

// expected-error @+1 {{ahead (3) must not be negative, and 0 where the mask is causal}}
func.func private @mask_ahead() attributes {mask = #heddle.mask<causal, window = 4, ahead = 3>}

// -----

// expected-error @+1 {{chunk (-3) must not be negative, and is of a causal mask without a window}}
func.func private @mask_chunk() attributes {mask = #heddle.mask<causal, chunk = -3>}

// -----

// expected-error @+1 {{chunk (3) must not be negative, and is of a causal mask without a window}}
func.func private @mask_chunk_causal() attributes {mask = #heddle.mask<full, chunk = 3>}

// -----

// expected-error @+1 {{chunk (3) must not be negative, and is of a causal mask without a window}}
func.func private @mask_chunk_window() attributes {mask = #heddle.mask<causal, window = 4, chunk = 3>}

// -----

// expected-error @+1 {{given is of a causal mask without chunks}}
func.func private @given_of_all() attributes {mask = #heddle.mask<full, given>}

// -----

// expected-error @+1 {{given is of a causal mask without chunks}}
func.func private @given_in_chunks() attributes {mask = #heddle.mask<causal, chunk = 3, given>}

// -----

// expected-error @+1 {{expected 'window', 'ahead', 'chunk' or 'given', got 'behind'}}
func.func private @mask_side() attributes {mask = #heddle.mask<full, behind = 3>}

// -----

func.func @attention_c7_no_table(%q: tensor<1x4x5x8xf32>) {
  // expected-error @+1 {{has starts or rows, but no positions}}
  %0 = heddle.attention %q, %q, %q <causal> {scale = 1.0, starts = array<i64: 1>, rows = array<i64: 0, 1>} : tensor<1x4x5x8xf32>, tensor<1x4x5x8xf32>, tensor<1x4x5x8xf32> -> tensor<1x4x5x8xf32>
  return
}

// -----

func.func @attention_c7_bias(%q: tensor<1x4x5x8xf32>, %b: tensor<1x4x5x5xf32>, %p: tensor<4xf32>) {
  // expected-error @+1 {{has positions and a bias: one of them may be there}}
  %0 = heddle.attention %q, %q, %q bias(%b : tensor<1x4x5x5xf32>) positions(%p : tensor<4xf32>) <causal> {scale = 1.0} : tensor<1x4x5x8xf32>, tensor<1x4x5x8xf32>, tensor<1x4x5x8xf32> -> tensor<1x4x5x8xf32>
  return
}

// -----

func.func @attention_c7_heads(%q: tensor<1x4x5x8xf32>, %p: tensor<3xf32>) {
  // expected-error @+1 {{positions 'tensor<3xf32>' must be of num_heads (4)}}
  %0 = heddle.attention %q, %q, %q positions(%p : tensor<3xf32>) <causal> {scale = 1.0} : tensor<1x4x5x8xf32>, tensor<1x4x5x8xf32>, tensor<1x4x5x8xf32> -> tensor<1x4x5x8xf32>
  return
}

// -----

func.func @attention_c7_rows(%q: tensor<1x4x5x8xf32>, %p: tensor<3x4xf32>) {
  // expected-error @+1 {{row 3 is not in the table of 3 rows}}
  %0 = heddle.attention %q, %q, %q positions(%p : tensor<3x4xf32>) <causal> {scale = 1.0, starts = array<i64: 1>, rows = array<i64: 0, 3>} : tensor<1x4x5x8xf32>, tensor<1x4x5x8xf32>, tensor<1x4x5x8xf32> -> tensor<1x4x5x8xf32>
  return
}

// -----

func.func @attention_c7_tokens_width(%q: tensor<1x4x?x8xf32>, %p: tensor<?x?x20xf32>) {
  // expected-error @+1 {{positions 'tensor<?x?x20xf32>' of as many queries as keys must be (batch, sequence, 2 * num_heads 4 * num_buckets), with a bucket for each of rows}}
  %0 = heddle.attention %q, %q, %q positions(%p : tensor<?x?x20xf32>) <full> {scale = 1.0, starts = array<i64: 1>, rows = array<i64: 0, 1>} : tensor<1x4x?x8xf32>, tensor<1x4x?x8xf32>, tensor<1x4x?x8xf32> -> tensor<1x4x?x8xf32>
  return
}

// -----

func.func @attention_c7_tokens_rows(%q: tensor<1x4x?x8xf32>, %p: tensor<?x16xf32>, %s: tensor<?x2xi32>) {
  // expected-error @+1 {{must be (rows, 2 * num_heads 4 * num_buckets), with a bucket for each of rows}}
  %0 = heddle.attention %q, %q, %q positions(%p : tensor<?x16xf32>) sequences(%s : tensor<?x2xi32>) <full> {scale = 1.0, starts = array<i64: 1>, rows = array<i64: 0, 2>} : tensor<1x4x?x8xf32>, tensor<1x4x?x8xf32>, tensor<1x4x?x8xf32> -> tensor<1x4x?x8xf32>
  return
}

// -----

func.func @attention_c8_rank(%q: tensor<1x4x?x8xf32>, %s: tensor<?x2xi32>, %g: tensor<?x?xi32>) {
  // expected-error @+1 {{globals 'tensor<?x?xi32>' must have rank 1}}
  %0 = heddle.attention %q, %q, %q sequences(%s : tensor<?x2xi32>) globals(%g, %q, %q, %q : tensor<?x?xi32>, tensor<1x4x?x8xf32>, tensor<1x4x?x8xf32>, tensor<1x4x?x8xf32>) <full, window = 3, ahead = 3> {scale = 1.0} : tensor<1x4x?x8xf32>, tensor<1x4x?x8xf32>, tensor<1x4x?x8xf32> -> tensor<1x4x?x8xf32>
  return
}

// -----

func.func @attention_c8_operands(%q: tensor<1x4x?x8xf32>, %s: tensor<?x2xi32>, %g: tensor<?xi32>) {
  // expected-error @+1 {{global operands must be three of the types of query, key and value}}
  %0 = heddle.attention %q, %q, %q sequences(%s : tensor<?x2xi32>) globals(%g, %q, %q : tensor<?xi32>, tensor<1x4x?x8xf32>, tensor<1x4x?x8xf32>) <full, window = 3, ahead = 3> {scale = 1.0} : tensor<1x4x?x8xf32>, tensor<1x4x?x8xf32>, tensor<1x4x?x8xf32> -> tensor<1x4x?x8xf32>
  return
}

// -----

func.func @attention_c8_sinks(%q: tensor<1x4x?x8xf32>, %s: tensor<?x2xi32>, %g: tensor<?xi32>, %sinks: tensor<4xf32>) {
  // expected-error @+1 {{of globals needs as many queries as keys and neither bias, positions nor sinks}}
  %0 = heddle.attention %q, %q, %q sinks(%sinks : tensor<4xf32>) sequences(%s : tensor<?x2xi32>) globals(%g, %q, %q, %q : tensor<?xi32>, tensor<1x4x?x8xf32>, tensor<1x4x?x8xf32>, tensor<1x4x?x8xf32>) <full, window = 3, ahead = 3> {scale = 1.0} : tensor<1x4x?x8xf32>, tensor<1x4x?x8xf32>, tensor<1x4x?x8xf32> -> tensor<1x4x?x8xf32>
  return
}
