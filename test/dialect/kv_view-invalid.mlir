// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --split-input-file --verify-diagnostics -o %t

func.func @kv_view_c1(%c: !heddle.kv_cache<30 x 3 x 64 x bf16>, %layer: index) {
  // expected-error @+1 {{must have num_kv_heads 3 and head_dim 64}}
  %k, %v = heddle.kv_view %c[%layer] : <30 x 3 x 64 x bf16> -> tensor<1x9x?x64xbf16>, tensor<1x3x?x64xbf16>
  return
}

// -----

func.func @kv_view_c2(%c: !heddle.kv_cache<30 x 3 x 64 x bf16>) {
  %layer = arith.constant -1 : index
  // expected-error @+1 {{layer (-1) must be less than the cache's layers (30)}}
  %k, %v = heddle.kv_view %c[%layer] : <30 x 3 x 64 x bf16> -> tensor<1x3x?x64xbf16>, tensor<1x3x?x64xbf16>
  return
}

// -----

func.func @kv_view_c3(%c: !heddle.kv_cache<2 x 1 x 11 x f32 state>, %layer: index) {
  // expected-error @+1 {{needs a cache of tokens, got '!heddle.kv_cache<2 x 1 x 11 x f32 state>'}}
  %k, %v = heddle.kv_view %c[%layer] : <2 x 1 x 11 x f32 state> -> tensor<1x1x?x11xf32>, tensor<1x1x?x11xf32>
  return
}
