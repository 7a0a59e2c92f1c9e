// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s | %heddle-opt | FileCheck %s
// RUN: %heddle-opt %s --mlir-print-op-generic | %heddle-opt | FileCheck %s

// CHECK-LABEL: @grouped_heads
func.func @grouped_heads(%q: tensor<1x6x?x8xf32>, %k: tensor<1x2x?x8xf32>, %v: tensor<1x2x?x4xf32>) -> tensor<1x6x?x4xf32> {
  // CHECK: heddle.attention %{{.*}}, %{{.*}}, %{{.*}} <causal> {scale = 1.250000e-01 : f64} :
  %0 = heddle.attention %q, %k, %v <causal> {scale = 0.125}
    : tensor<1x6x?x8xf32>, tensor<1x2x?x8xf32>, tensor<1x2x?x4xf32> -> tensor<1x6x?x4xf32>
  return %0 : tensor<1x6x?x4xf32>
}

// CHECK-LABEL: @every_variant
func.func @every_variant(%q: tensor<2x4x5x8xf32>, %k: tensor<2x4x7x8xbf16>, %b: tensor<1x4x5x7xf32>, %s: tensor<4xf32>)
    -> tensor<2x4x5x8xf32> {
  // CHECK: bias(%{{.*}} : tensor<1x4x5x7xf32>) sinks(%{{.*}} : tensor<4xf32>) <causal, window = 3> {scale = 1.000000e+00 : f64, softcap = 5.000000e+01 : f64}
  %0 = heddle.attention %q, %k, %k bias(%b : tensor<1x4x5x7xf32>) sinks(%s : tensor<4xf32>) <causal, window = 3>
    {scale = 1.0, softcap = 50.0} : tensor<2x4x5x8xf32>, tensor<2x4x7x8xbf16>, tensor<2x4x7x8xbf16> -> tensor<2x4x5x8xf32>
  return %0 : tensor<2x4x5x8xf32>
}

// CHECK-LABEL: @within_chunks
func.func @within_chunks(%q: tensor<1x1x5x8xf32>, %k: tensor<1x1x7x8xf32>) -> tensor<1x1x5x8xf32> {
  // CHECK: <causal, chunk = 3>
  %0 = heddle.attention %q, %k, %k <causal, chunk = 3> {scale = 1.0}
    : tensor<1x1x5x8xf32>, tensor<1x1x7x8xf32>, tensor<1x1x7x8xf32> -> tensor<1x1x5x8xf32>
  return %0 : tensor<1x1x5x8xf32>
}

// CHECK-LABEL: @every_key_is_seen
func.func @every_key_is_seen(%q: tensor<1x1x5x8xf32>, %k: tensor<1x1x7x8xf32>) -> tensor<1x1x5x8xf32> {
  // CHECK: <full>
  %0 = heddle.attention %q, %k, %k <full> {scale = 1.0}
    : tensor<1x1x5x8xf32>, tensor<1x1x7x8xf32>, tensor<1x1x7x8xf32> -> tensor<1x1x5x8xf32>
  return %0 : tensor<1x1x5x8xf32>
}

// CHECK-LABEL: @within_sequences
func.func @within_sequences(%q: tensor<1x4x?x8xf32>, %k: tensor<1x2x?x8xf32>, %s: tensor<?x2xi32>) -> tensor<1x4x?x8xf32> {
  // CHECK: heddle.attention %{{.*}}, %{{.*}}, %{{.*}} sequences(%{{.*}} : tensor<?x2xi32>) <full> {scale = 1.000000e+00 : f64}
  %0 = heddle.attention %q, %k, %k sequences(%s : tensor<?x2xi32>) <full> {scale = 1.0}
    : tensor<1x4x?x8xf32>, tensor<1x2x?x8xf32>, tensor<1x2x?x8xf32> -> tensor<1x4x?x8xf32>
  return %0 : tensor<1x4x?x8xf32>
}

// CHECK-LABEL: @distances_within_sequences
func.func @distances_within_sequences(%q: tensor<1x4x?x8xf32>, %slopes: tensor<4xf32>, %s: tensor<?x2xi32>) -> tensor<1x4x?x8xf32> {
  // CHECK: positions(%{{.*}} : tensor<4xf32>) sequences(%{{.*}} : tensor<?x2xi32>) <full>
  %0 = heddle.attention %q, %q, %q positions(%slopes : tensor<4xf32>) sequences(%s : tensor<?x2xi32>) <full> {scale = 1.0}
    : tensor<1x4x?x8xf32>, tensor<1x4x?x8xf32>, tensor<1x4x?x8xf32> -> tensor<1x4x?x8xf32>
  return %0 : tensor<1x4x?x8xf32>
}

// CHECK-LABEL: @buckets_of_distances
func.func @buckets_of_distances(%q: tensor<1x4x?x8xf32>, %table: tensor<3x4xbf16>) -> tensor<1x4x?x8xf32> {
  // CHECK: positions(%{{.*}} : tensor<3x4xbf16>) <causal> {rows = array<i64: 0, 2>, scale = 1.000000e+00 : f64, starts = array<i64: 1>}
  %0 = heddle.attention %q, %q, %q positions(%table : tensor<3x4xbf16>) <causal> {scale = 1.0, starts = array<i64: 1>, rows = array<i64: 0, 2>}
    : tensor<1x4x?x8xf32>, tensor<1x4x?x8xf32>, tensor<1x4x?x8xf32> -> tensor<1x4x?x8xf32>
  return %0 : tensor<1x4x?x8xf32>
}

// CHECK-LABEL: @globals
func.func @globals(%q: tensor<1x4x?x8xf32>, %k: tensor<1x2x?x8xf32>, %s: tensor<?x2xi32>, %g: tensor<?xi32>) -> tensor<1x4x?x8xf32> {
  // CHECK: heddle.attention {{.*}} sequences({{.*}}) globals(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : tensor<?xi32>, {{.*}}) <full, window = 3, ahead = 3>
  %0 = heddle.attention %q, %k, %k sequences(%s : tensor<?x2xi32>) globals(%g, %q, %k, %k : tensor<?xi32>, tensor<1x4x?x8xf32>, tensor<1x2x?x8xf32>, tensor<1x2x?x8xf32>)
    <full, window = 3, ahead = 3> {scale = 1.0} : tensor<1x4x?x8xf32>, tensor<1x2x?x8xf32>, tensor<1x2x?x8xf32> -> tensor<1x4x?x8xf32>
  return %0 : tensor<1x4x?x8xf32>
}

// What tokens give for buckets of distances, as queries and as keys: of whole sequences, and within those of a ragged batch.
// CHECK-LABEL: @buckets_of_tokens
func.func @buckets_of_tokens(%q: tensor<?x4x?x8xf32>, %p: tensor<?x?x24xf32>, %r: tensor<1x4x?x8xf32>, %t: tensor<?x24xf32>, %s: tensor<?x2xi32>) -> (tensor<?x4x?x8xf32>, tensor<1x4x?x8xf32>) {
  // CHECK: positions(%{{.*}} : tensor<?x?x24xf32>) <full>
  %0 = heddle.attention %q, %q, %q positions(%p : tensor<?x?x24xf32>) <full> {scale = 1.0, starts = array<i64: 0, 1>, rows = array<i64: 0, 1, 2>}
    : tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32>, tensor<?x4x?x8xf32> -> tensor<?x4x?x8xf32>
  // CHECK: positions(%{{.*}} : tensor<?x24xf32>) sequences(%{{.*}} : tensor<?x2xi32>) <full>
  %1 = heddle.attention %r, %r, %r positions(%t : tensor<?x24xf32>) sequences(%s : tensor<?x2xi32>) <full> {scale = 1.0, starts = array<i64: 0, 1>, rows = array<i64: 0, 1, 2>}
    : tensor<1x4x?x8xf32>, tensor<1x4x?x8xf32>, tensor<1x4x?x8xf32> -> tensor<1x4x?x8xf32>
  return %0, %1 : tensor<?x4x?x8xf32>, tensor<1x4x?x8xf32>
}
