// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --split-input-file --verify-diagnostics -o %t

func.func @online_latent_attention_c1(%q: tensor<?x20xf32>, %c: !heddle.kv_cache<2 x 1 x 11 x f32, latent = 7>, %u: tensor<5x7xf32>, %w: tensor<3x7xf32>, %o: tensor<?x6xf32>, %s: tensor<?x64xf32>) {
  %layer = arith.constant 1 : index
  // expected-error @+1 {{query must be (rows, 18), the destinations (rows, 6) and (rows, 64)}}
  %0:2 = heddle.online_latent_attention <materialised> <causal> ins(%q, %c[%layer] : tensor<?x20xf32>, <2 x 1 x 11 x f32, latent = 7>) key_ups(%u, %u : tensor<5x7xf32>, tensor<5x7xf32>) value_ups(%w, %w : tensor<3x7xf32>, tensor<3x7xf32>) outs(%o, %s : tensor<?x6xf32>, tensor<?x64xf32>) {num_heads = 2 : i64, num_kv_heads = 2 : i64, nope = 5 : i64, value = 3 : i64, scale = 1.0 : f64} -> tensor<?x6xf32>, tensor<?x64xf32>
  return
}

// -----

func.func @online_latent_attention_c1_scratch(%q: tensor<?x18xf32>, %c: !heddle.kv_cache<2 x 1 x 11 x f32, latent = 7>, %u: tensor<5x7xf32>, %w: tensor<3x7xf32>, %o: tensor<?x6xf32>, %s: tensor<?x60xf32>) {
  %layer = arith.constant 1 : index
  // expected-error @+1 {{query must be (rows, 18), the destinations (rows, 6) and (rows, 64)}}
  %0:2 = heddle.online_latent_attention <materialised> <causal> ins(%q, %c[%layer] : tensor<?x18xf32>, <2 x 1 x 11 x f32, latent = 7>) key_ups(%u, %u : tensor<5x7xf32>, tensor<5x7xf32>) value_ups(%w, %w : tensor<3x7xf32>, tensor<3x7xf32>) outs(%o, %s : tensor<?x6xf32>, tensor<?x60xf32>) {num_heads = 2 : i64, num_kv_heads = 2 : i64, nope = 5 : i64, value = 3 : i64, scale = 1.0 : f64} -> tensor<?x6xf32>, tensor<?x60xf32>
  return
}

// -----

func.func @online_latent_attention_c2(%q: tensor<?x18xf32>, %c: !heddle.kv_cache<2 x 1 x 11 x f32>, %u: tensor<5x7xf32>, %w: tensor<3x7xf32>, %o: tensor<?x6xf32>, %s: tensor<?x64xf32>) {
  %layer = arith.constant 1 : index
  // expected-error @+1 {{needs a latent cache, and num_heads (2) a multiple of num_kv_heads (2)}}
  %0:2 = heddle.online_latent_attention <materialised> <causal> ins(%q, %c[%layer] : tensor<?x18xf32>, <2 x 1 x 11 x f32>) key_ups(%u, %u : tensor<5x7xf32>, tensor<5x7xf32>) value_ups(%w, %w : tensor<3x7xf32>, tensor<3x7xf32>) outs(%o, %s : tensor<?x6xf32>, tensor<?x64xf32>) {num_heads = 2 : i64, num_kv_heads = 2 : i64, nope = 5 : i64, value = 3 : i64, scale = 1.0 : f64} -> tensor<?x6xf32>, tensor<?x64xf32>
  return
}

// -----

func.func @online_latent_attention_c2_heads(%q: tensor<?x27xf32>, %c: !heddle.kv_cache<2 x 1 x 11 x f32, latent = 7>, %u: tensor<5x7xf32>, %w: tensor<3x7xf32>, %o: tensor<?x9xf32>, %s: tensor<?x96xf32>) {
  %layer = arith.constant 1 : index
  // expected-error @+1 {{needs a latent cache, and num_heads (3) a multiple of num_kv_heads (2)}}
  %0:2 = heddle.online_latent_attention <materialised> <causal> ins(%q, %c[%layer] : tensor<?x27xf32>, <2 x 1 x 11 x f32, latent = 7>) key_ups(%u, %u : tensor<5x7xf32>, tensor<5x7xf32>) value_ups(%w, %w : tensor<3x7xf32>, tensor<3x7xf32>) outs(%o, %s : tensor<?x9xf32>, tensor<?x96xf32>) {num_heads = 3 : i64, num_kv_heads = 2 : i64, nope = 5 : i64, value = 3 : i64, scale = 1.0 : f64} -> tensor<?x9xf32>, tensor<?x96xf32>
  return
}

// -----

func.func @online_latent_attention_c3(%q: tensor<?x18xf32>, %c: !heddle.kv_cache<2 x 1 x 11 x f32, latent = 7>, %u: tensor<5x7xf32>, %w: tensor<3x7xf32>, %o: tensor<?x6xf32>, %s: tensor<?x64xf32>) {
  %layer = arith.constant 1 : index
  // expected-error @+1 {{key_ups (3) and value_ups (2) must be 2 matrices or one packed tensor}}
  %0:2 = heddle.online_latent_attention <materialised> <causal> ins(%q, %c[%layer] : tensor<?x18xf32>, <2 x 1 x 11 x f32, latent = 7>) key_ups(%u, %u, %u : tensor<5x7xf32>, tensor<5x7xf32>, tensor<5x7xf32>) value_ups(%w, %w : tensor<3x7xf32>, tensor<3x7xf32>) outs(%o, %s : tensor<?x6xf32>, tensor<?x64xf32>) {num_heads = 2 : i64, num_kv_heads = 2 : i64, nope = 5 : i64, value = 3 : i64, scale = 1.0 : f64} -> tensor<?x6xf32>, tensor<?x64xf32>
  return
}

// -----

// Splits of rebuilt keys.
func.func @online_latent_attention_c4(%q: tensor<?x18xf32>, %c: !heddle.kv_cache<2 x 1 x 11 x f32, latent = 7>, %u: tensor<5x7xf32>, %w: tensor<3x7xf32>, %o: tensor<?x6xf32>, %s: tensor<?x64xf32>, %a: tensor<4x36xf32>) {
  %layer = arith.constant 1 : index
  // expected-error @+1 {{split_kv (64) must be positive, of a body with folded queries, and come with f32 (max_rows, splits * 18)}}
  %0:3 = heddle.online_latent_attention <materialised> <causal> ins(%q, %c[%layer] : tensor<?x18xf32>, <2 x 1 x 11 x f32, latent = 7>) key_ups(%u, %u : tensor<5x7xf32>, tensor<5x7xf32>) value_ups(%w, %w : tensor<3x7xf32>, tensor<3x7xf32>) outs(%o, %s, %a : tensor<?x6xf32>, tensor<?x64xf32>, tensor<4x36xf32>) {num_heads = 2 : i64, num_kv_heads = 2 : i64, nope = 5 : i64, value = 3 : i64, scale = 1.0 : f64, split_kv = 64 : i64} -> tensor<?x6xf32>, tensor<?x64xf32>, tensor<4x36xf32>
  return
}

// -----

func.func @online_latent_attention_c4_states(%q: tensor<?x18xf32>, %c: !heddle.kv_cache<2 x 1 x 11 x f32, latent = 7>, %u: tensor<5x7xf32>, %w: tensor<3x7xf32>, %o: tensor<?x6xf32>, %s: tensor<?x64xf32>, %a: tensor<4x28xf32>) {
  %layer = arith.constant 1 : index
  // expected-error @+1 {{come with f32 (max_rows, splits * 18)}}
  %0:3 = heddle.online_latent_attention <automatic> <causal> ins(%q, %c[%layer] : tensor<?x18xf32>, <2 x 1 x 11 x f32, latent = 7>) key_ups(%u, %u : tensor<5x7xf32>, tensor<5x7xf32>) value_ups(%w, %w : tensor<3x7xf32>, tensor<3x7xf32>) outs(%o, %s, %a : tensor<?x6xf32>, tensor<?x64xf32>, tensor<4x28xf32>) {num_heads = 2 : i64, num_kv_heads = 2 : i64, nope = 5 : i64, value = 3 : i64, scale = 1.0 : f64, split_kv = 64 : i64} -> tensor<?x6xf32>, tensor<?x64xf32>, tensor<4x28xf32>
  return
}
