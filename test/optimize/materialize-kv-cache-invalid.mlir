// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --heddle-materialize-kv-cache --verify-diagnostics --split-input-file

// expected-error @+1 {{has no function @forward}}
module {
  func.func @other(%x: tensor<?x?xi32>) { return }
}

// -----

// expected-error @+1 {{has no attention: there is nothing to cache}}
module {
  func.func @forward(%ids: tensor<?x?xi32>, %p: tensor<?x?xi32>) -> tensor<?x?xi32> { return %ids : tensor<?x?xi32> }
}

// -----

// Every token would need the tokens after it.
func.func private @sees_the_future(%q: tensor<?x2x?x4xf32>, %p: tensor<?x?xi32>) -> tensor<?x2x?x4xf32> {
  // expected-error @+1 {{only causal attention without bias can be computed step by step}}
  %o = heddle.attention %q, %q, %q <full> {scale = 0.5} : tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32> -> tensor<?x2x?x4xf32>
  return %o : tensor<?x2x?x4xf32>
}
func.func @forward(%q: tensor<?x2x?x4xf32>, %p: tensor<?x?xi32>) -> tensor<?x2x?x4xf32> {
  %o = call @sees_the_future(%q, %p) : (tensor<?x2x?x4xf32>, tensor<?x?xi32>) -> tensor<?x2x?x4xf32>
  return %o : tensor<?x2x?x4xf32>
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

func.func private @two_heads(%q: tensor<?x2x?x4xf32>, %p: tensor<?x?xi32>) -> tensor<?x2x?x4xf32> {
  %0 = heddle.attention %q, %q, %q <causal> {scale = 0.5} : tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32> -> tensor<?x2x?x4xf32>
  return %0 : tensor<?x2x?x4xf32>
}
func.func private @one_head(%q: tensor<?x2x?x4xf32>, %k: tensor<?x1x?x4xf32>) -> tensor<?x2x?x4xf32> {
  // expected-error @+1 {{all layers must have the same num_kv_heads and head_dim: (1, 4) after (2, 4)}}
  %0 = heddle.attention %q, %k, %k <causal> {scale = 0.5} : tensor<?x2x?x4xf32>, tensor<?x1x?x4xf32>, tensor<?x1x?x4xf32> -> tensor<?x2x?x4xf32>
  return %0 : tensor<?x2x?x4xf32>
}
func.func @forward(%q: tensor<?x2x?x4xf32>, %p: tensor<?x?xi32>) -> tensor<?x2x?x4xf32> { return %q : tensor<?x2x?x4xf32> }

// -----

func.func @forward(%q: tensor<?x2x?x4xf32>, %p: tensor<?x?xi32>) -> tensor<?x2x?x4xf32> {
  // expected-error @+1 {{attention must lie in a layer function that @forward calls}}
  %0 = heddle.attention %q, %q, %q <causal> {scale = 0.5} : tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32>, tensor<?x2x?x4xf32> -> tensor<?x2x?x4xf32>
  return %0 : tensor<?x2x?x4xf32>
}
