// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --split-input-file --transform-interpreter --verify-diagnostics | FileCheck %s

// The width is normalised over: a tile of columns of the cap cannot be computed from such a tile of the norm.
module attributes {transform.with_named_sequence} {
  // CHECK-LABEL: @norm_stays_outside
  // CHECK: heddle.rms_norm {{.*}} : tensor<5x8xf32>, tensor<8xf32>
  // CHECK: scf.for
  // CHECK: heddle.softcap {{.*}} : tensor<5x4xf32>
  func.func @norm_stays_outside(%x: tensor<5x8xf32>, %w: tensor<8xf32>) -> tensor<5x8xf32> {
    %0 = heddle.rms_norm %x, %w {eps = 1.0e-5} : tensor<5x8xf32>, tensor<8xf32>
    %1 = heddle.softcap %0 {cap = 30.0} : tensor<5x8xf32>
    return %1 : tensor<5x8xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %cap = transform.structured.match ops{["heddle.softcap"]} in %root : (!transform.any_op) -> !transform.any_op
    transform.structured.fuse %cap tile_sizes [0, 4] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.yield
  }
}

// -----

// A row's keys depend on where all rows stand: attention has tiles of its own (heddle-flash-tile).
module attributes {transform.with_named_sequence} {
  func.func @attention_has_no_loops(%q: tensor<1x2x?x4xf32>, %k: tensor<1x2x?x4xf32>) -> tensor<1x2x?x4xf32> {
    // expected-note @+1 {{target op}}
    %0 = heddle.attention %q, %k, %k <causal> {scale = 0.5}
      : tensor<1x2x?x4xf32>, tensor<1x2x?x4xf32>, tensor<1x2x?x4xf32> -> tensor<1x2x?x4xf32>
    return %0 : tensor<1x2x?x4xf32>
  }
  transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
    %attention = transform.structured.match ops{["heddle.attention"]} in %root : (!transform.any_op) -> !transform.any_op
    // expected-error @+1 {{only ops implementing TilingInterface are supported}}
    transform.structured.tile_using_for %attention tile_sizes [0, 0, 2] : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
    transform.yield
  }
}
