// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --split-input-file --verify-diagnostics -o %t

func.func @route_experts_c1(%l: tensor<?x7xf32>, %e: tensor<?x2xi32>, %w: tensor<?x2xf32>, %o: tensor<?x9xi32>, %i: tensor<?x2xi32>, %s: tensor<?x2xf32>) {
  // expected-error @+1 {{logits must be f32 (rows, 8), num_experts wide}}
  %0:5 = heddle.route_experts ins(%l : tensor<?x7xf32>) outs(%e, %w, %o, %i, %s : tensor<?x2xi32>, tensor<?x2xf32>, tensor<?x9xi32>, tensor<?x2xi32>, tensor<?x2xf32>) {num_experts = 8 : i64, top_k = 2 : i64, normalize = true} -> tensor<?x2xi32>, tensor<?x2xf32>, tensor<?x9xi32>, tensor<?x2xi32>, tensor<?x2xf32>
  return
}

// -----

func.func @route_experts_c2(%l: tensor<?x8xf32>, %e: tensor<?x2xi32>, %w: tensor<?x2xf32>, %o: tensor<?x8xi32>, %i: tensor<?x2xi32>, %s: tensor<?x2xf32>) {
  // expected-error @+1 {{offsets i32 (rows, 9), row_index i32 and row_scale f32 (rows, 2)}}
  %0:5 = heddle.route_experts ins(%l : tensor<?x8xf32>) outs(%e, %w, %o, %i, %s : tensor<?x2xi32>, tensor<?x2xf32>, tensor<?x8xi32>, tensor<?x2xi32>, tensor<?x2xf32>) {num_experts = 8 : i64, top_k = 2 : i64, normalize = true} -> tensor<?x2xi32>, tensor<?x2xf32>, tensor<?x8xi32>, tensor<?x2xi32>, tensor<?x2xf32>
  return
}

// -----

func.func @route_experts_c3(%l: tensor<?x8xf32>, %e: tensor<?x9xi32>, %w: tensor<?x9xf32>, %o: tensor<?x9xi32>, %i: tensor<?x9xi32>, %s: tensor<?x9xf32>) {
  // expected-error @+1 {{top_k (9) must be 1 to num_experts (8)}}
  %0:5 = heddle.route_experts ins(%l : tensor<?x8xf32>) outs(%e, %w, %o, %i, %s : tensor<?x9xi32>, tensor<?x9xf32>, tensor<?x9xi32>, tensor<?x9xi32>, tensor<?x9xf32>) {num_experts = 8 : i64, top_k = 9 : i64, normalize = true} -> tensor<?x9xi32>, tensor<?x9xf32>, tensor<?x9xi32>, tensor<?x9xi32>, tensor<?x9xf32>
  return
}

// -----

func.func @route_experts_c5(%l: memref<?x8xf32>, %p: memref<7xf32>, %e: memref<?x2xi32>, %w: memref<?x2xf32>, %o: memref<?x9xi32>, %i: memref<?x2xi32>, %s: memref<?x2xf32>) {
  // expected-error @+1 {{scales must be f32 (8), got 'memref<7xf32>'}}
  heddle.route_experts ins(%l : memref<?x8xf32>) scales(%p : memref<7xf32>) outs(%e, %w, %o, %i, %s : memref<?x2xi32>, memref<?x2xf32>, memref<?x9xi32>, memref<?x2xi32>, memref<?x2xf32>) {num_experts = 8 : i64, top_k = 2 : i64, normalize = true}
  return
}

// -----

func.func @route_experts_c5_type(%l: memref<?x8xf32>, %p: memref<8xbf16>, %e: memref<?x2xi32>, %w: memref<?x2xf32>, %o: memref<?x9xi32>, %i: memref<?x2xi32>, %s: memref<?x2xf32>) {
  // expected-error @+1 {{scales must be f32 (8), got 'memref<8xbf16>'}}
  heddle.route_experts ins(%l : memref<?x8xf32>) scales(%p : memref<8xbf16>) outs(%e, %w, %o, %i, %s : memref<?x2xi32>, memref<?x2xf32>, memref<?x9xi32>, memref<?x2xi32>, memref<?x2xf32>) {num_experts = 8 : i64, top_k = 2 : i64, normalize = true}
  return
}
