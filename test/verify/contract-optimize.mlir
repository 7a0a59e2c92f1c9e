// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --heddle-verify-stage=optimize --split-input-file --verify-diagnostics -o %t

func.func @step(%x: tensor<?x4xf32>, %q: tensor<1x1x?x4xf32>, %cache: !heddle.kv_cache<1 x 1 x 4 x f32>)
    -> (tensor<?x2xf32>, tensor<1x1x?x4xf32>) {
  %layer = arith.constant 0 : index
  %w = heddle.weight "w" <type = "f32", file = 0, offset = 0> : tensor<2x4xf32>
  %0 = heddle.linear %x, weights(%w : tensor<2x4xf32>) : tensor<?x4xf32> -> tensor<?x2xf32>
  %k, %v = heddle.kv_view %cache[%layer] : <1 x 1 x 4 x f32> -> tensor<1x1x?x4xf32>, tensor<1x1x?x4xf32>
  %1 = heddle.attention %q, %k, %v <causal> {scale = 0.5}
    : tensor<1x1x?x4xf32>, tensor<1x1x?x4xf32>, tensor<1x1x?x4xf32> -> tensor<1x1x?x4xf32>
  return %0, %1 : tensor<?x2xf32>, tensor<1x1x?x4xf32>
}

// -----

func.func @step(%x: tensor<?x4xf32>) -> tensor<?x2xf32> {
  %w = arith.constant dense<[[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]]> : tensor<2x4xf32>
  // expected-error @+1 {{reads 'arith.constant' as a weight after stage optimize: weights stay in the model's file}}
  %0 = heddle.linear %x, weights(%w : tensor<2x4xf32>) : tensor<?x4xf32> -> tensor<?x2xf32>
  return %0 : tensor<?x2xf32>
}

// -----

// A router's rows are computed, as are those of the experts; their numbers are stored.
func.func @step(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %r = heddle.weight "r" <type = "f32", file = 0, offset = 0> : tensor<1x4xf32>
  %g = heddle.weight "g" <type = "f32", file = 0, offset = 64> : tensor<4x4xf32>
  %s = arith.constant dense<2.0> : tensor<1xf32>
  %h = arith.addf %x, %x : tensor<?x4xf32>
  // expected-error @+1 {{reads 'arith.constant' as a weight after stage optimize: weights stay in the model's file}}
  %0 = heddle.moe <silu> %x, %r router_input(%h : tensor<?x4xf32>) scales(%s : tensor<1xf32>) gates(%g : tensor<4x4xf32>) ups(%g : tensor<4x4xf32>) downs(%g : tensor<4x4xf32>)
    {top_k = 1 : i64, normalize = true} : tensor<?x4xf32>, tensor<1x4xf32> -> tensor<?x4xf32>
  return %0 : tensor<?x4xf32>
}

// -----

func.func @step(%x: tensor<?x4xf32>) -> tensor<?x2xf32> {
  %stored = heddle.weight "w" <type = "f32", file = 0, offset = 0> : tensor<4x2xf32>
  %init = tensor.empty() : tensor<2x4xf32>
  %w = linalg.transpose ins(%stored : tensor<4x2xf32>) outs(%init : tensor<2x4xf32>) permutation = [1, 0]
  // expected-error @+1 {{reads 'linalg.transpose' as a weight after stage optimize}}
  %0 = heddle.linear %x, weights(%w : tensor<2x4xf32>) : tensor<?x4xf32> -> tensor<?x2xf32>
  return %0 : tensor<?x2xf32>
}

// -----

func.func @step(%q: tensor<1x1x?x4xf32>, %k: tensor<1x1x?x4xf32>) -> tensor<1x1x?x4xf32> {
  // expected-error @+1 {{attends to keys that are no view of the cache after stage optimize}}
  %0 = heddle.attention %q, %k, %k <causal> {scale = 0.5}
    : tensor<1x1x?x4xf32>, tensor<1x1x?x4xf32>, tensor<1x1x?x4xf32> -> tensor<1x1x?x4xf32>
  return %0 : tensor<1x1x?x4xf32>
}

// -----

func.func @step(%q: tensor<1x2x?x9xf32>, %latent: tensor<1x1x?x7xf32>, %rope: tensor<1x1x?x4xf32>, %u: tensor<5x7xf32>, %w: tensor<3x7xf32>)
    -> tensor<1x2x?x3xf32> {
  // expected-error @+1 {{attends to keys that are no view of the cache after stage optimize}}
  %0 = heddle.latent_attention %q, %latent rope(%rope : tensor<1x1x?x4xf32>) key_ups(%u, %u : tensor<5x7xf32>, tensor<5x7xf32>)
    value_ups(%w, %w : tensor<3x7xf32>, tensor<3x7xf32>) <causal> {scale = 0.33}
    : tensor<1x2x?x9xf32>, tensor<1x1x?x7xf32> -> tensor<1x2x?x3xf32>
  return %0 : tensor<1x2x?x3xf32>
}

// -----

// expected-error @+1 {{@forward must not remain after stage optimize: it becomes @step}}
func.func @forward(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  return %x : tensor<?x4xf32>
}

// -----

func.func @step(%x: tensor<?x64xf32>, %w: tensor<4096xi8>, %out: tensor<?x16xf32>) -> tensor<?x16xf32> {
  // expected-error @+1 {{'heddle.packed_matmul' must not remain after stage optimize}}
  %0 = heddle.packed_matmul ins(%x, %w : tensor<?x64xf32>, tensor<4096xi8>) outs(%out : tensor<?x16xf32>)
    {n = 16, k = 64, format = "f32"} -> tensor<?x16xf32>
  return %0 : tensor<?x16xf32>
}
