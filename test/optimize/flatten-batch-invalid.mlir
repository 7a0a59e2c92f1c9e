// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --heddle-flatten-batch --verify-diagnostics --split-input-file

// expected-error @+1 {{has no function @forward}}
module {
  func.func private @other(%x: tensor<?x?xi32>) { return }
}

// -----

// expected-error @+1 {{has no attention: a sequence is what its tokens attend to}}
module {
  func.func @forward(%ids: tensor<?x?xi32>, %p: tensor<?x?xi32>) -> tensor<?x?xi32> { return %ids : tensor<?x?xi32> }
}

// -----

// A cache holds what was; the tokens ahead are not there yet.
func.func private @sees_the_future(%q: tensor<?x2x?x4xf32>, %p: tensor<?x?xi32>) -> tensor<?x2x?x4xf32> {
  %0 = heddle.attention %q, %q, %q <causal> {scale = 0.5} : tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32> -> tensor<?x2x?x4xf32>
  // expected-error @+1 {{attends to tokens ahead, where attention before it is causal}}
  %1 = heddle.attention %0, %q, %q <full> {scale = 0.5} : tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32> -> tensor<?x2x?x4xf32>
  return %1 : tensor<?x2x?x4xf32>
}
func.func @forward(%q: tensor<?x2x?x4xf32>, %p: tensor<?x?xi32>) -> tensor<?x2x?x4xf32> {
  %o = call @sees_the_future(%q, %p) : (tensor<?x2x?x4xf32>, tensor<?x?xi32>) -> tensor<?x2x?x4xf32>
  return %o : tensor<?x2x?x4xf32>
}

// -----

func.func @forward(%q: tensor<?x2x?x4xf32>, %p: tensor<?x?xi32>, %bias: tensor<1x2x?x?xf32>) -> tensor<?x2x?x4xf32> {
  // expected-error @+1 {{a bias of scores has no form on the rows of a ragged batch}}
  %0 = heddle.attention %q, %q, %q bias(%bias : tensor<1x2x?x?xf32>) <full> {scale = 0.5} : tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32> -> tensor<?x2x?x4xf32>
  return %0 : tensor<?x2x?x4xf32>
}

// -----

func.func @forward(%x: tensor<?x?x4xf32>, %p: tensor<?x?xi32>, %q: tensor<?x2x?x4xf32>) -> tensor<?x3xf32> {
  %c0 = arith.constant 0 : index
  %0 = heddle.attention %q, %q, %q <full> {scale = 0.5} : tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32> -> tensor<?x2x?x4xf32>
  %b = tensor.dim %x, %c0 : tensor<?x?x4xf32>
  // expected-error @+1 {{takes some tokens out of their sequences: only an encode can, and only whole ones of one place}}
  %part = tensor.extract_slice %x[0, 0, 1] [%b, 1, 3] [1, 1, 1] : tensor<?x?x4xf32> to tensor<?x3xf32>
  return %part : tensor<?x3xf32>
}

// -----

func.func private @two_attentions(%q: tensor<?x2x?x4xf32>, %p: tensor<?x?xi32>) -> tensor<?x2x?x4xf32> {
  %0 = heddle.attention %q, %q, %q <causal> {scale = 0.5} : tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32> -> tensor<?x2x?x4xf32>
  // expected-error @+1 {{a layer function may hold one attention}}
  %1 = heddle.attention %0, %q, %q <causal> {scale = 0.5} : tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32> -> tensor<?x2x?x4xf32>
  return %1 : tensor<?x2x?x4xf32>
}
func.func @forward(%q: tensor<?x2x?x4xf32>, %p: tensor<?x?xi32>) -> tensor<?x2x?x4xf32> {
  %o = call @two_attentions(%q, %p) : (tensor<?x2x?x4xf32>, tensor<?x?xi32>) -> tensor<?x2x?x4xf32>
  return %o : tensor<?x2x?x4xf32>
}

// -----

func.func private @two_shapes(%q: tensor<?x2x?x4xf32>, %p: tensor<?x?xi32>, %k: tensor<?x1x?x4xf32>) -> tensor<?x2x?x4xf32> {
  %0 = heddle.attention %q, %q, %q <causal> {scale = 0.5} : tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32> -> tensor<?x2x?x4xf32>
  // expected-error @+1 {{a layer must have one num_kv_heads and head_dim: (1, 4) after (2, 4)}}
  %1 = heddle.attention %0, %k, %k <causal> {scale = 0.5} : tensor<?x2x?x4xf32>, tensor<?x1x?x4xf32>, tensor<?x1x?x4xf32> -> tensor<?x2x?x4xf32>
  return %1 : tensor<?x2x?x4xf32>
}
func.func @forward(%q: tensor<?x2x?x4xf32>, %p: tensor<?x?xi32>) -> tensor<?x2x?x4xf32> { return %q : tensor<?x2x?x4xf32> }

// -----

func.func @forward(%q: tensor<?x2x?x4xf32>, %p: tensor<?x?xi32>) -> tensor<?x2x?x4xf32> {
  // expected-error @+1 {{attention must lie in a layer function that @forward calls}}
  %0 = heddle.attention %q, %q, %q <causal> {scale = 0.5} : tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32> -> tensor<?x2x?x4xf32>
  return %0 : tensor<?x2x?x4xf32>
}

// -----

// expected-error @+1 {{takes 1 arguments, expected at least 2: what it computes on and positions}}
func.func private @layer(%x: tensor<?x?x8xf32>) -> tensor<?x?x8xf32> {
  %h = tensor.expand_shape %x [[0, 1], [2], [3]] output_shape [1, 1, 1, 8] : tensor<?x?x8xf32> into tensor<?x1x?x8xf32>
  %o = heddle.attention %h, %h, %h <causal> {scale = 0.5}
    : tensor<?x1x?x8xf32>, tensor<?x1x?x8xf32>, tensor<?x1x?x8xf32> -> tensor<?x1x?x8xf32>
  %y = tensor.collapse_shape %o [[0, 1], [2], [3]] : tensor<?x1x?x8xf32> into tensor<?x?x8xf32>
  return %y : tensor<?x?x8xf32>
}
func.func @forward(%ids: tensor<?x?xi32>, %positions: tensor<?x?xi32>) -> tensor<?x?x8xf32> {
  %w = heddle.weight "w" <type = "f32", file = 0, offset = 0> : tensor<8x8xf32>
  %x = heddle.embedding %ids, %w : tensor<?x?xi32>, tensor<8x8xf32> -> tensor<?x?x8xf32>
  %y = call @layer(%x) : (tensor<?x?x8xf32>) -> tensor<?x?x8xf32>
  %z = heddle.linear %y, weights(%w : tensor<8x8xf32>) : tensor<?x?x8xf32> -> tensor<?x?x8xf32>
  return %z : tensor<?x?x8xf32>
}

// -----

// A bias that something else reads has the shape of scores, which rows have not.
func.func @forward(%q: tensor<?x2x?x4xf32>, %p: tensor<?x?xi32>, %slopes: tensor<2xf32>) -> tensor<?x2x?x4xf32> {
  %c2 = arith.constant 2 : index
  %n = tensor.dim %q, %c2 : tensor<?x2x?x4xf32>
  // expected-error @+1 {{is computed in attention alone, where rows are those of a ragged batch}}
  %bias = heddle.position_bias %slopes[%n, %n] : tensor<2xf32> -> tensor<1x2x?x?xf32>
  %twice = arith.addf %bias, %bias : tensor<1x2x?x?xf32>
  %0 = heddle.attention %q, %q, %q bias(%twice : tensor<1x2x?x?xf32>) <full> {scale = 0.5} : tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32> -> tensor<?x2x?x4xf32>
  return %0 : tensor<?x2x?x4xf32>
}

// -----

func.func private @global_tokens(%q: tensor<?x2x?x4xf32>, %p: tensor<?x?xi32>, %g: tensor<?x?xi32>) -> tensor<?x2x?x4xf32> {
  // expected-error @+1 {{has global tokens, which see all: some are not there yet where tokens are computed step by step}}
  %0 = heddle.attention %q, %q, %q globals(%g, %q, %q, %q : tensor<?x?xi32>, tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>) <causal> {scale = 0.5} : tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32> -> tensor<?x2x?x4xf32>
  return %0 : tensor<?x2x?x4xf32>
}
func.func @forward(%q: tensor<?x2x?x4xf32>, %p: tensor<?x?xi32>) -> tensor<?x2x?x4xf32> {
  %0 = func.call @global_tokens(%q, %p, %p) : (tensor<?x2x?x4xf32>, tensor<?x?xi32>, tensor<?x?xi32>) -> tensor<?x2x?x4xf32>
  return %0 : tensor<?x2x?x4xf32>
}

// -----

func.func private @token_positions(%q: tensor<?x2x?x4xf32>, %p: tensor<?x?xi32>, %t: tensor<?x?x12xf32>) -> tensor<?x2x?x4xf32> {
  // expected-error @+1 {{reads what tokens give for distances, which those in a cache have not given}}
  %0 = heddle.attention %q, %q, %q positions(%t : tensor<?x?x12xf32>) <causal> {scale = 0.5, starts = array<i64: 0, 1>, rows = array<i64: 0, 1, 2>} : tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32> -> tensor<?x2x?x4xf32>
  return %0 : tensor<?x2x?x4xf32>
}
func.func @forward(%q: tensor<?x2x?x4xf32>, %p: tensor<?x?xi32>, %t: tensor<?x?x12xf32>) -> tensor<?x2x?x4xf32> {
  %0 = func.call @token_positions(%q, %p, %t) : (tensor<?x2x?x4xf32>, tensor<?x?xi32>, tensor<?x?x12xf32>) -> tensor<?x2x?x4xf32>
  return %0 : tensor<?x2x?x4xf32>
}

// -----

// Keys that a layer gives to others are those that it appends.
func.func private @gives_another(%q: tensor<?x2x?x4xf32>, %p: tensor<?x?xi32>) -> (tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>) {
  %0 = heddle.attention %q, %q, %q <causal> {scale = 0.5} : tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32> -> tensor<?x2x?x4xf32>
  // expected-error @+1 {{gives 2 keys and values, expected the pair that the layer attends to}}
  return %0, %q, %0 : tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>
}
func.func @forward(%q: tensor<?x2x?x4xf32>, %p: tensor<?x?xi32>) -> tensor<?x2x?x4xf32> {
  %o:3 = call @gives_another(%q, %p) : (tensor<?x2x?x4xf32>, tensor<?x?xi32>) -> (tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>)
  return %o#0 : tensor<?x2x?x4xf32>
}

// -----

// And what another layer takes is that pair, in its order.
func.func private @takes(%q: tensor<?x2x?x4xf32>, %p: tensor<?x?xi32>, %k: tensor<?x2x?x4xf32>, %v: tensor<?x2x?x4xf32>) -> tensor<?x2x?x4xf32> {
  %0 = heddle.attention %q, %k, %v <causal> {scale = 0.5} : tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32> -> tensor<?x2x?x4xf32>
  return %0 : tensor<?x2x?x4xf32>
}
func.func private @gives(%q: tensor<?x2x?x4xf32>, %p: tensor<?x?xi32>, %v: tensor<8x8xf32>) -> (tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>) {
  %k = arith.negf %q : tensor<?x2x?x4xf32>
  %0 = heddle.attention %q, %k, %q <causal> {scale = 0.5} : tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32> -> tensor<?x2x?x4xf32>
  return %0, %k, %q : tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>
}
func.func @forward(%q: tensor<?x2x?x4xf32>, %p: tensor<?x?xi32>) -> tensor<?x2x?x4xf32> {
  %w = heddle.weight "w" <type = "f32", file = 0, offset = 0> : tensor<8x8xf32>
  %o:3 = call @gives(%q, %p, %w) : (tensor<?x2x?x4xf32>, tensor<?x?xi32>, tensor<8x8xf32>) -> (tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>)
  // expected-error @+1 {{passes keys and values that are not those of one earlier layer, in its order}}
  %r = call @takes(%o#0, %p, %o#2, %o#1) : (tensor<?x2x?x4xf32>, tensor<?x?xi32>, tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>) -> tensor<?x2x?x4xf32>
  return %r : tensor<?x2x?x4xf32>
}

// -----

// Loops over tokens know nothing of their order.
func.func private @layer(%q: tensor<?x2x?x4xf32>, %p: tensor<?x?xi32>) -> tensor<?x2x?x4xf32> {
  %0 = heddle.attention %q, %q, %q <causal> {scale = 0.5} : tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32> -> tensor<?x2x?x4xf32>
  return %0 : tensor<?x2x?x4xf32>
}
func.func @forward(%q: tensor<?x2x?x4xf32>, %p: tensor<?x?xi32>) -> tensor<?x2x?x4xf32> {
  %c0 = arith.constant 0 : index
  %b = tensor.dim %p, %c0 : tensor<?x?xi32>
  %o = call @layer(%q, %p) : (tensor<?x2x?x4xf32>, tensor<?x?xi32>) -> tensor<?x2x?x4xf32>
  %e = tensor.empty(%b, %b) : tensor<?x?xi32>
  // expected-error @+1 {{does not walk tokens in their order, which rows of a ragged batch have alone}}
  %t = linalg.generic {indexing_maps = [affine_map<(b, s) -> (s, b)>, affine_map<(b, s) -> (b, s)>], iterator_types = ["parallel", "parallel"]}
      ins(%p : tensor<?x?xi32>) outs(%e : tensor<?x?xi32>) {
  ^bb0(%in: i32, %out: i32):
    linalg.yield %in : i32
  } -> tensor<?x?xi32>
  return %o : tensor<?x2x?x4xf32>
}

// -----

func.func private @layer(%q: tensor<?x2x?x4xf32>, %p: tensor<?x?xi32>) -> tensor<?x2x?x4xf32> {
  %0 = heddle.attention %q, %q, %q <causal> {scale = 0.5} : tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32> -> tensor<?x2x?x4xf32>
  return %0 : tensor<?x2x?x4xf32>
}
func.func @forward(%q: tensor<?x2x?x4xf32>, %p: tensor<?x?xi32>) -> tensor<?x2x?x4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %b = tensor.dim %p, %c0 : tensor<?x?xi32>
  %s = tensor.dim %p, %c1 : tensor<?x?xi32>
  %o = call @layer(%q, %p) : (tensor<?x2x?x4xf32>, tensor<?x?xi32>) -> tensor<?x2x?x4xf32>
  %e = tensor.empty(%b, %s) : tensor<?x?xi32>
  // expected-error @+1 {{asks for more than the elements of tokens, which rows of a ragged batch have alone}}
  %t = linalg.generic {indexing_maps = [affine_map<(b, s) -> (b, s)>, affine_map<(b, s) -> (b, s)>], iterator_types = ["parallel", "parallel"]}
      ins(%p : tensor<?x?xi32>) outs(%e : tensor<?x?xi32>) {
  ^bb0(%in: i32, %out: i32):
    %place = linalg.index 1 : index
    %number = arith.index_cast %place : index to i32
    linalg.yield %number : i32
  } -> tensor<?x?xi32>
  return %o : tensor<?x2x?x4xf32>
}

// -----

// What was computed for tokens is not where loops over rows begin.
func.func private @layer(%q: tensor<?x2x?x4xf32>, %p: tensor<?x?xi32>) -> tensor<?x2x?x4xf32> {
  %0 = heddle.attention %q, %q, %q <causal> {scale = 0.5} : tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32> -> tensor<?x2x?x4xf32>
  return %0 : tensor<?x2x?x4xf32>
}
func.func @forward(%q: tensor<?x2x?x4xf32>, %p: tensor<?x?xi32>) -> tensor<?x2x?x4xf32> {
  %o = call @layer(%q, %p) : (tensor<?x2x?x4xf32>, tensor<?x?xi32>) -> tensor<?x2x?x4xf32>
  // expected-error @+1 {{adds to numbers that were computed, which rows of a ragged batch do not}}
  %t = linalg.generic {indexing_maps = [affine_map<(b, s) -> (b, s)>, affine_map<(b, s) -> (b, s)>], iterator_types = ["parallel", "parallel"]}
      ins(%p : tensor<?x?xi32>) outs(%p : tensor<?x?xi32>) {
  ^bb0(%in: i32, %out: i32):
    %sum = arith.addi %in, %out : i32
    linalg.yield %sum : i32
  } -> tensor<?x?xi32>
  return %o : tensor<?x2x?x4xf32>
}

// -----

// A sum over the tokens of a sequence.
func.func private @layer(%q: tensor<?x2x?x4xf32>, %p: tensor<?x?xi32>) -> tensor<?x2x?x4xf32> {
  %0 = heddle.attention %q, %q, %q <causal> {scale = 0.5} : tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32> -> tensor<?x2x?x4xf32>
  return %0 : tensor<?x2x?x4xf32>
}
func.func @forward(%q: tensor<?x2x?x4xf32>, %p: tensor<?x?xi32>) -> tensor<?x2x?x4xf32> {
  %zero = arith.constant 0 : i32
  %o = call @layer(%q, %p) : (tensor<?x2x?x4xf32>, tensor<?x?xi32>) -> tensor<?x2x?x4xf32>
  %e = tensor.empty() : tensor<4xi32>
  %f = linalg.fill ins(%zero : i32) outs(%e : tensor<4xi32>) -> tensor<4xi32>
  // expected-error @+1 {{asks for more than the elements of tokens, which rows of a ragged batch have alone}}
  %t = linalg.generic {indexing_maps = [affine_map<(b, s, d) -> (b, s)>, affine_map<(b, s, d) -> (d)>], iterator_types = ["reduction", "reduction", "parallel"]}
      ins(%p : tensor<?x?xi32>) outs(%f : tensor<4xi32>) {
  ^bb0(%in: i32, %out: i32):
    %sum = arith.addi %in, %out : i32
    linalg.yield %sum : i32
  } -> tensor<4xi32>
  return %o : tensor<?x2x?x4xf32>
}
