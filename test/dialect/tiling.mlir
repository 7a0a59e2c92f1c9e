// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --heddle-check-all --transform-interpreter --canonicalize | FileCheck %s

#rope = #heddle.rope<half, table = 0, attention_factor = 1.0, inverse_frequency = array<f32: 1.0, 0.1>>

module attributes {transform.with_named_sequence} {
  // Tiles of two rows of five: the last one is smaller. Weights are read whole.
  // CHECK-LABEL: @norm_by_rows
  // CHECK-SAME: %{{.*}}, %[[W:[^:]*]]: tensor<8xf32>, %[[B:[^:]*]]: tensor<8xf32>
  // CHECK: scf.for
  // CHECK: %[[ROWS:.*]] = tensor.extract_slice %{{.*}}[%{{.*}}, 0] [%{{.*}}, 8] [1, 1]
  // CHECK: heddle.layer_norm %[[ROWS]], %[[W]], %[[B]] {eps = 1.000000e-05 : f64} : tensor<?x8xf32>, tensor<8xf32>, tensor<8xf32>
  func.func @norm_by_rows(%x: tensor<5x8xf32>, %w: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<5x8xf32> {
    %0 = heddle.layer_norm %x, %w, %b {eps = 1.0e-5} : tensor<5x8xf32>, tensor<8xf32>, tensor<8xf32>
    return %0 : tensor<5x8xf32>
  }

  // A weight for each head is cut where the heads are.
  // CHECK-LABEL: @norm_by_heads
  // CHECK-SAME: %{{.*}}, %[[W:[^:]*]]: tensor<32xf32>
  // CHECK: scf.for %[[H:[^ ]*]] =
  // CHECK-DAG: tensor.extract_slice %{{.*}}[0, %[[H]], 0, 0] [2, 2, 5, 8] [1, 1, 1, 1]
  // CHECK-DAG: %[[BEGIN:.*]] = arith.muli %[[H]], %c8
  // CHECK: %[[OWN:.*]] = tensor.extract_slice %[[W]][%[[BEGIN]]] [16] [1]
  // CHECK: heddle.rms_norm %{{.*}}, %[[OWN]] {{.*}} : tensor<2x2x5x8xf32>, tensor<16xf32>
  func.func @norm_by_heads(%x: tensor<2x4x5x8xf32>, %w: tensor<32xf32>) -> tensor<2x4x5x8xf32> {
    %0 = heddle.rms_norm %x, %w {eps = 1.0e-5, weight_offset = 1.0} : tensor<2x4x5x8xf32>, tensor<32xf32>
    return %0 : tensor<2x4x5x8xf32>
  }

  // CHECK-LABEL: @linear_by_rows
  // CHECK: scf.for
  // CHECK: heddle.linear %{{.*}}, weights(%{{.*}}, %{{.*}} : tensor<6x8xf32>, tensor<3x8xbf16>) : tensor<1x?x8xf32> -> tensor<1x?x9xf32>
  func.func @linear_by_rows(%x: tensor<1x?x8xf32>, %v: tensor<6x8xf32>, %w: tensor<3x8xbf16>) -> tensor<1x?x9xf32> {
    %0 = heddle.linear %x, weights(%v, %w : tensor<6x8xf32>, tensor<3x8xbf16>) : tensor<1x?x8xf32> -> tensor<1x?x9xf32>
    return %0 : tensor<1x?x9xf32>
  }

  // CHECK-LABEL: @embedding_by_tokens
  // CHECK: scf.for
  // CHECK: heddle.embedding %{{.*}}, %{{.*}} {scale = 2.000000e+00 : f64} : tensor<1x?xi32>, tensor<8x4xf32> -> tensor<1x?x4xf32>
  func.func @embedding_by_tokens(%ids: tensor<1x5xi32>, %table: tensor<8x4xf32>) -> tensor<1x5x4xf32> {
    %0 = heddle.embedding %ids, %table {scale = 2.0} : tensor<1x5xi32>, tensor<8x4xf32> -> tensor<1x5x4xf32>
    return %0 : tensor<1x5x4xf32>
  }

  // Positions follow the sequence, not the heads.
  // CHECK-LABEL: @rope_by_heads_and_tokens
  // CHECK: scf.for %[[H:[^ ]*]] =
  // CHECK: scf.for %[[S:[^ ]*]] =
  // CHECK-DAG: tensor.extract_slice %{{.*}}[0, %[[H]], %[[S]], 0] [1, 1, %[[N:[^ ]*]], 6] [1, 1, 1, 1]
  // CHECK-DAG: tensor.extract_slice %{{.*}}[0, %[[S]]] [1, %[[N]]] [1, 1]
  // CHECK: heddle.rope {{.*}} : tensor<1x1x?x6xf32>, tensor<1x?xi32>
  func.func @rope_by_heads_and_tokens(%x: tensor<1x3x5x6xf32>, %positions: tensor<1x5xi32>) -> tensor<1x3x5x6xf32> {
    %0 = heddle.rope %x, %positions, #rope {offset = 2} : tensor<1x3x5x6xf32>, tensor<1x5xi32>
    return %0 : tensor<1x3x5x6xf32>
  }

  // Element by element: the last dimension may be cut as well.
  // CHECK-LABEL: @gate_by_elements
  // CHECK: scf.for
  // CHECK: scf.for
  // CHECK: heddle.glu <silu> %{{.*}}, %{{.*}} : tensor<?x4xf32>
  func.func @gate_by_elements(%gate: tensor<5x8xf32>, %up: tensor<5x8xf32>) -> tensor<5x8xf32> {
    %0 = heddle.glu <silu> %gate, %up : tensor<5x8xf32>
    return %0 : tensor<5x8xf32>
  }

  // CHECK-LABEL: @experts_by_rows
  // CHECK: scf.for
  // CHECK: heddle.moe <silu> {{.*}} : tensor<?x8xf32>, tensor<2x8xf32> -> tensor<?x8xf32>
  func.func @experts_by_rows(%x: tensor<?x8xf32>, %router: tensor<2x8xf32>, %u: tensor<3x8xf32>, %d: tensor<8x3xf32>) -> tensor<?x8xf32> {
    %0 = heddle.moe <silu> %x, %router gates(%u, %u : tensor<3x8xf32>, tensor<3x8xf32>) ups(%u, %u : tensor<3x8xf32>, tensor<3x8xf32>)
      downs(%d, %d : tensor<8x3xf32>, tensor<8x3xf32>) {top_k = 1, normalize = true} : tensor<?x8xf32>, tensor<2x8xf32> -> tensor<?x8xf32>
    return %0 : tensor<?x8xf32>
  }

  // What the router reads is cut with what the experts read; numbers of the experts are not.
  // CHECK-LABEL: @rows_of_the_router
  // CHECK-SAME: %[[X:[^:]*]]: tensor<5x8xf32>, %[[H:[^:]*]]: tensor<5x8xf32>, {{.*}}, %[[S:[^:]*]]: tensor<2xf32>
  // CHECK: scf.for
  // CHECK: %[[PART:.*]] = tensor.extract_slice %[[X]]
  // CHECK: %[[ROUTED:.*]] = tensor.extract_slice %[[H]]
  // CHECK: heddle.moe <silu> %[[PART]], %{{.*}} router_input(%[[ROUTED]] : tensor<?x8xf32>) scales(%[[S]] : tensor<2xf32>)
  func.func @rows_of_the_router(%x: tensor<5x8xf32>, %h: tensor<5x8xf32>, %router: tensor<2x8xf32>, %u: tensor<3x8xf32>, %d: tensor<8x3xf32>, %s: tensor<2xf32>) -> tensor<5x8xf32> {
    %0 = heddle.moe <silu> %x, %router router_input(%h : tensor<5x8xf32>) scales(%s : tensor<2xf32>) gates(%u, %u : tensor<3x8xf32>, tensor<3x8xf32>)
      ups(%u, %u : tensor<3x8xf32>, tensor<3x8xf32>) downs(%d, %d : tensor<8x3xf32>, tensor<8x3xf32>) {top_k = 1, normalize = true} : tensor<5x8xf32>, tensor<2x8xf32> -> tensor<5x8xf32>
    return %0 : tensor<5x8xf32>
  }

  // What an expert has room for is counted within a sequence, which no tile cuts.
  // CHECK-LABEL: @experts_by_sequences
  // CHECK: scf.for
  // CHECK: heddle.moe <silu> {{.*}} : tensor<?x7x8xf32>, tensor<2x8xf32> -> tensor<?x7x8xf32>
  func.func @experts_by_sequences(%x: tensor<?x7x8xf32>, %router: tensor<2x8xf32>, %u: tensor<3x8xf32>, %d: tensor<8x3xf32>) -> tensor<?x7x8xf32> {
    %0 = heddle.moe <silu> %x, %router routing <capacity = 2> gates(%u, %u : tensor<3x8xf32>, tensor<3x8xf32>)
      downs(%d, %d : tensor<8x3xf32>, tensor<8x3xf32>) {top_k = 1, normalize = true} : tensor<?x7x8xf32>, tensor<2x8xf32> -> tensor<?x7x8xf32>
    return %0 : tensor<?x7x8xf32>
  }

  // The cap's rows are the norm's: one loop computes both, tile by tile.
  // CHECK-LABEL: @norm_in_the_loop_of_its_cap
  // CHECK: scf.for
  // CHECK: heddle.rms_norm {{.*}} : tensor<?x8xf32>, tensor<8xf32>
  // CHECK-NEXT: heddle.softcap {{.*}} : tensor<?x8xf32>
  func.func @norm_in_the_loop_of_its_cap(%x: tensor<5x8xf32>, %w: tensor<8xf32>) -> tensor<5x8xf32> {
    %0 = heddle.rms_norm %x, %w {eps = 1.0e-5} : tensor<5x8xf32>, tensor<8xf32>
    %1 = heddle.softcap %0 {cap = 30.0} : tensor<5x8xf32>
    return %1 : tensor<5x8xf32>
  }

  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %norm = transform.structured.match ops{["heddle.layer_norm"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.structured.tile_using_for %norm tile_sizes [2] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    %heads = transform.structured.match ops{["heddle.rms_norm"]} attributes{weight_offset = 1.0 : f64} in %root : (!transform.any_op) -> !transform.any_op
    transform.structured.tile_using_for %heads tile_sizes [0, 2] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    %linear = transform.structured.match ops{["heddle.linear"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.structured.tile_using_for %linear tile_sizes [0, 2] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    %embedding = transform.structured.match ops{["heddle.embedding"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.structured.tile_using_for %embedding tile_sizes [0, 2] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    %rope = transform.structured.match ops{["heddle.rope"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.structured.tile_using_for %rope tile_sizes [0, 1, 2]
      : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op)
    %glu = transform.structured.match ops{["heddle.glu"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.structured.tile_using_for %glu tile_sizes [2, 4]
      : (!transform.any_op) -> (!transform.any_op, !transform.any_op, !transform.any_op)
    %moe = transform.structured.match ops{["heddle.moe"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.structured.tile_using_for %moe tile_sizes [2] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    %cap = transform.structured.match ops{["heddle.softcap"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.structured.fuse %cap tile_sizes [2] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.yield
  }
}
