// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --split-input-file --verify-diagnostics -o %t

func.func @expert_matmul_c1(%x: tensor<?x64xf32>, %w: tensor<4096xi8>, %f: tensor<?x9xi32>, %i: tensor<?x2xi32>, %r: tensor<?x2xf32>, %o: tensor<?x16xf32>) {
  // expected-error @+1 {{input must be (rows, 64) and the one destination (rows, 32)}}
  %0 = heddle.expert_matmul activated <silu> ins(%x, %w : tensor<?x64xf32>, tensor<4096xi8>) list(%f, %i, %r : tensor<?x9xi32>, tensor<?x2xi32>, tensor<?x2xf32>) outs(%o : tensor<?x16xf32>) {format = "q4_1", k = 64 : i64, n = 16 : i64, num_experts = 8 : i64, top_k = 2 : i64} -> tensor<?x16xf32>
  return
}

// -----

func.func @expert_matmul_c1_without_activation(%x: tensor<?x64xf32>, %w: tensor<4096xi8>, %f: tensor<?x9xi32>, %i: tensor<?x2xi32>, %r: tensor<?x2xf32>, %o: tensor<?x16xf32>) {
  // expected-error @+1 {{input must be (rows, 128) and the one destination (rows, 16)}}
  %0 = heddle.expert_matmul ins(%x, %w : tensor<?x64xf32>, tensor<4096xi8>) list(%f, %i, %r : tensor<?x9xi32>, tensor<?x2xi32>, tensor<?x2xf32>) outs(%o : tensor<?x16xf32>) {format = "q4_1", k = 64 : i64, n = 16 : i64, num_experts = 8 : i64, top_k = 2 : i64} -> tensor<?x16xf32>
  return
}

// -----

func.func @expert_matmul_c2(%x: tensor<?x128xi8>, %w: tensor<4096xi8>, %f: tensor<?x9xi32>, %i: tensor<?x2xi32>, %r: tensor<?x2xf32>, %o: tensor<?x16xf32>) {
  // expected-error @+1 {{scales and sums belong to an i8 input}}
  %0 = heddle.expert_matmul ins(%x, %w : tensor<?x128xi8>, tensor<4096xi8>) list(%f, %i, %r : tensor<?x9xi32>, tensor<?x2xi32>, tensor<?x2xf32>) outs(%o : tensor<?x16xf32>) {format = "q4_1", k = 64 : i64, n = 16 : i64, num_experts = 8 : i64, top_k = 2 : i64} -> tensor<?x16xf32>
  return
}

// -----

func.func @expert_matmul_c2_shapes(%x: tensor<?x128xi8>, %s: tensor<?x2xf32>, %m: tensor<?x8xi32>, %w: tensor<4096xi8>, %f: tensor<?x9xi32>, %i: tensor<?x2xi32>, %r: tensor<?x2xf32>, %o: tensor<?x16xf32>) {
  // expected-error @+1 {{scales must be (rows, 4) and sums (rows, 8)}}
  %0 = heddle.expert_matmul ins(%x scales %s sums %m, %w : tensor<?x128xi8> scales tensor<?x2xf32> sums tensor<?x8xi32>, tensor<4096xi8>) list(%f, %i, %r : tensor<?x9xi32>, tensor<?x2xi32>, tensor<?x2xf32>) outs(%o : tensor<?x16xf32>) {format = "q4_1", k = 64 : i64, n = 16 : i64, num_experts = 8 : i64, top_k = 2 : i64} -> tensor<?x16xf32>
  return
}

// -----

func.func @expert_matmul_c3(%x: tensor<?x128xf32>, %w: tensor<4096xi8>, %f: tensor<?x8xi32>, %i: tensor<?x2xi32>, %r: tensor<?x2xf32>, %o: tensor<?x16xf32>) {
  // expected-error @+1 {{offsets must be i32 (rows, 9), row_index i32 and row_scale f32 (rows, 2)}}
  %0 = heddle.expert_matmul ins(%x, %w : tensor<?x128xf32>, tensor<4096xi8>) list(%f, %i, %r : tensor<?x8xi32>, tensor<?x2xi32>, tensor<?x2xf32>) outs(%o : tensor<?x16xf32>) {format = "q4_1", k = 64 : i64, n = 16 : i64, num_experts = 8 : i64, top_k = 2 : i64} -> tensor<?x16xf32>
  return
}

// -----

func.func @expert_matmul_c3_index(%x: tensor<?x128xf32>, %w: tensor<4096xi8>, %f: tensor<?x9xi32>, %i: tensor<?x2xi64>, %r: tensor<?x2xf32>, %o: tensor<?x16xf32>) {
  // expected-error @+1 {{offsets must be i32 (rows, 9), row_index i32 and row_scale f32 (rows, 2)}}
  %0 = heddle.expert_matmul ins(%x, %w : tensor<?x128xf32>, tensor<4096xi8>) list(%f, %i, %r : tensor<?x9xi32>, tensor<?x2xi64>, tensor<?x2xf32>) outs(%o : tensor<?x16xf32>) {format = "q4_1", k = 64 : i64, n = 16 : i64, num_experts = 8 : i64, top_k = 2 : i64} -> tensor<?x16xf32>
  return
}

// -----

func.func @expert_matmul_c4(%x: tensor<?x64xf32>, %w: tensor<4096xi8>, %f: tensor<?x9xi32>, %i: tensor<?x2xi32>, %r: tensor<?x2xf32>, %o: tensor<?x32xf32>) {
  // expected-error @+1 {{with an activation must not accumulate}}
  %0 = heddle.expert_matmul activated <silu> ins(%x, %w : tensor<?x64xf32>, tensor<4096xi8>) list(%f, %i, %r : tensor<?x9xi32>, tensor<?x2xi32>, tensor<?x2xf32>) outs(%o : tensor<?x32xf32>) {accumulate, format = "q4_1", k = 64 : i64, n = 16 : i64, num_experts = 8 : i64, top_k = 2 : i64} -> tensor<?x32xf32>
  return
}

// -----

func.func @expert_matmul_c5(%x: tensor<?x64xf32>, %w: tensor<4096xi8>, %f: tensor<?x9xi32>, %i: tensor<?x2xi32>, %r: tensor<?x2xf32>, %o: tensor<?x32xf32>) {
  // expected-error @+1 {{'int16' needs a f32 input, quantised weights and a multiple of 32 as k, got 'f32', 'bf16' and 64}}
  %0 = heddle.expert_matmul activated <silu> ins(%x, %w : tensor<?x64xf32>, tensor<4096xi8>) list(%f, %i, %r : tensor<?x9xi32>, tensor<?x2xi32>, tensor<?x2xf32>) outs(%o : tensor<?x32xf32>) {int16, format = "bf16", k = 64 : i64, n = 16 : i64, num_experts = 8 : i64, top_k = 2 : i64} -> tensor<?x32xf32>
  return
}

// -----

func.func @expert_matmul_c6(%x: tensor<?x64xf32>, %w: tensor<4096xi8>, %b: tensor<255xf32>, %f: tensor<?x9xi32>, %i: tensor<?x2xi32>, %r: tensor<?x2xf32>, %o: tensor<?x32xf32>) {
  // expected-error @+1 {{bias must be f32 (256)}}
  %0 = heddle.expert_matmul activated <silu> ins(%x, %w bias %b : tensor<?x64xf32>, tensor<4096xi8> bias tensor<255xf32>) list(%f, %i, %r : tensor<?x9xi32>, tensor<?x2xi32>, tensor<?x2xf32>) outs(%o : tensor<?x32xf32>) {format = "q4_1", k = 64 : i64, n = 16 : i64, num_experts = 8 : i64, top_k = 2 : i64} -> tensor<?x32xf32>
  return
}

// -----

func.func @expert_matmul_c7_n(%x: tensor<?x64xf32>, %w: tensor<4096xi8>, %b: tensor<255xf32>, %f: tensor<?x9xi32>, %i: tensor<?x2xi32>, %r: tensor<?x2xf32>, %o: tensor<?x16xf32>) {
  // expected-error @+1 {{alternating needs an n (8) that 16 divides}}
  %0 = heddle.expert_matmul activated <silu> ins(%x, %w : tensor<?x64xf32>, tensor<4096xi8>) list(%f, %i, %r : tensor<?x9xi32>, tensor<?x2xi32>, tensor<?x2xf32>) outs(%o : tensor<?x16xf32>) {alternating, format = "q4_1", k = 64 : i64, n = 8 : i64, num_experts = 8 : i64, top_k = 2 : i64} -> tensor<?x16xf32>
  return
}

// -----

func.func @expert_matmul_c7(%x: tensor<?x128xf32>, %w: tensor<4096xi8>, %f: tensor<?x9xi32>, %i: tensor<?x2xi32>, %r: tensor<?x2xf32>, %o: tensor<?x16xf32>) {
  // expected-error @+1 {{gating, alternating and ungated need an activation}}
  %0 = heddle.expert_matmul ins(%x, %w : tensor<?x128xf32>, tensor<4096xi8>) list(%f, %i, %r : tensor<?x9xi32>, tensor<?x2xi32>, tensor<?x2xf32>) outs(%o : tensor<?x16xf32>) {alternating, format = "q4_1", k = 64 : i64, n = 16 : i64, num_experts = 8 : i64, top_k = 2 : i64} -> tensor<?x16xf32>
  return
}

// -----

func.func @expert_matmul_c7_ungated(%x: tensor<?x64xf32>, %w: tensor<4096xi8>, %f: tensor<?x9xi32>, %i: tensor<?x2xi32>, %r: tensor<?x2xf32>, %o: tensor<?x32xf32>) {
  // expected-error @+1 {{ungated has neither gating nor rows in turn}}
  %0 = heddle.expert_matmul activated <silu> ins(%x, %w : tensor<?x64xf32>, tensor<4096xi8>) list(%f, %i, %r : tensor<?x9xi32>, tensor<?x2xi32>, tensor<?x2xf32>) outs(%o : tensor<?x32xf32>) {alternating, ungated, format = "q4_1", k = 64 : i64, n = 16 : i64, num_experts = 8 : i64, top_k = 2 : i64} -> tensor<?x32xf32>
  return
}
