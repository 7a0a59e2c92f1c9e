// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --split-input-file --verify-diagnostics -o %t

func.func @kv_append_c1(%c: !heddle.kv_cache<30 x 3 x 64 x bf16>, %k: tensor<?x128xf32>, %layer: index) {
  // expected-error @+1 {{key must be (rows, 192), got 'tensor<?x128xf32>'}}
  heddle.kv_append %c[%layer], %k, %k : <30 x 3 x 64 x bf16>, tensor<?x128xf32>, tensor<?x128xf32>
  return
}

// -----

func.func @kv_append_c2(%c: !heddle.kv_cache<30 x 3 x 64 x bf16>, %k: tensor<?x192xf32>) {
  %layer = arith.constant 30 : index
  // expected-error @+1 {{layer (30) must be less than the cache's layers (30)}}
  heddle.kv_append %c[%layer], %k, %k : <30 x 3 x 64 x bf16>, tensor<?x192xf32>, tensor<?x192xf32>
  return
}

// -----

func.func @kv_append_c1_value(%c: !heddle.kv_cache<30 x 3 x 64 x bf16>, %k: tensor<?x192xf32>, %v: tensor<?x128xf32>, %layer: index) {
  // expected-error @+1 {{value must be (rows, 192), got 'tensor<?x128xf32>'}}
  heddle.kv_append %c[%layer], %k, %v : <30 x 3 x 64 x bf16>, tensor<?x192xf32>, tensor<?x128xf32>
  return
}

// -----

func.func @kv_append_c1_latent(%c: !heddle.kv_cache<2 x 1 x 11 x f32, latent = 7>, %l: tensor<?x7xf32>, %layer: index) {
  // expected-error @+1 {{must have a value of 4 columns}}
  heddle.kv_append %c[%layer], %l : <2 x 1 x 11 x f32, latent = 7>, tensor<?x7xf32>
  return
}

// -----

func.func @kv_append_c3(%c: !heddle.kv_cache<2 x 1 x 11 x f32 state>, %l: tensor<?x11xf32>, %layer: index) {
  // expected-error @+1 {{needs a cache of tokens, got '!heddle.kv_cache<2 x 1 x 11 x f32 state>'}}
  heddle.kv_append %c[%layer], %l : <2 x 1 x 11 x f32 state>, tensor<?x11xf32>
  return
}
