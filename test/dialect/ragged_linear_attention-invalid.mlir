// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --split-input-file --verify-diagnostics -o %t

func.func @ragged_linear_attention_c1(%q: tensor<?x6xf32>, %v: tensor<?x20xf32>, %cache: !heddle.kv_cache<2 x 1 x 64 x f32 state>, %layer: index, %o: tensor<?x24xf32>) {
  // expected-error @+1 {{query and key must be f32 rows of 2 heads, value and result of 4}}
  %0 = heddle.ragged_linear_attention ins(%q, %q, %v : tensor<?x6xf32>, tensor<?x6xf32>, tensor<?x20xf32>) state(%cache[%layer] : <2 x 1 x 64 x f32 state>)
    outs(%o : tensor<?x24xf32>) {num_heads = 4, num_key_heads = 2} -> tensor<?x24xf32>
  return
}

// -----

func.func @ragged_linear_attention_c2(%q: tensor<?x6xf32>, %v: tensor<?x20xf32>, %cache: !heddle.kv_cache<2 x 1 x 64 x f32>, %layer: index, %o: tensor<?x20xf32>) {
  // expected-error @+1 {{needs a cache of states of at least 60 numbers, got '!heddle.kv_cache<2 x 1 x 64 x f32>'}}
  %0 = heddle.ragged_linear_attention ins(%q, %q, %v : tensor<?x6xf32>, tensor<?x6xf32>, tensor<?x20xf32>) state(%cache[%layer] : <2 x 1 x 64 x f32>)
    outs(%o : tensor<?x20xf32>) {num_heads = 4, num_key_heads = 2} -> tensor<?x20xf32>
  return
}
