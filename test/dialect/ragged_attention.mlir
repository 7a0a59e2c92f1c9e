// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s | %heddle-opt | FileCheck %s
// RUN: %heddle-opt %s --mlir-print-op-generic | %heddle-opt | FileCheck %s

// CHECK-LABEL: @plain
func.func @plain(%q: tensor<?x48xf32>, %k: tensor<?x16xf32>, %s: tensor<?x2xi32>, %o: tensor<?x48xf32>) -> tensor<?x48xf32> {
  // CHECK: heddle.ragged_attention <full> ins(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : tensor<?x48xf32>, tensor<?x16xf32>, tensor<?x16xf32>, tensor<?x2xi32>) outs(%{{.*}} : tensor<?x48xf32>) {num_heads = 6 : i64, num_kv_heads = 2 : i64, scale = 1.000000e+00 : f64} -> tensor<?x48xf32>
  %0 = heddle.ragged_attention <full> ins(%q, %k, %k, %s : tensor<?x48xf32>, tensor<?x16xf32>, tensor<?x16xf32>, tensor<?x2xi32>)
    outs(%o : tensor<?x48xf32>) {num_heads = 6, num_kv_heads = 2, scale = 1.0} -> tensor<?x48xf32>
  return %0 : tensor<?x48xf32>
}

// Values of another head_dim, and all that is optional, on buffers.
// CHECK-LABEL: @every_part
func.func @every_part(%q: memref<?x12xf32, strided<[40, 1]>>, %k: memref<?x4xf32>, %v: memref<?x10xf32>, %s: memref<?x2xi32>, %sinks: memref<6xf32>,
                      %o: memref<?x30xf32>) {
  // CHECK: heddle.ragged_attention <causal, window = 3> ins(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} sinks %{{.*}} : {{.*}} sinks memref<6xf32>) outs({{.*}}) {{{.*}}softcap = 3.000000e+01 : f64}
  heddle.ragged_attention <causal, window = 3> ins(%q, %k, %v, %s sinks %sinks
      : memref<?x12xf32, strided<[40, 1]>>, memref<?x4xf32>, memref<?x10xf32>, memref<?x2xi32> sinks memref<6xf32>)
    outs(%o : memref<?x30xf32>) {num_heads = 6, num_kv_heads = 2, scale = 1.0, softcap = 30.0}
  return
}

// CHECK-LABEL: @buckets
func.func @buckets(%q: tensor<?x48xf32>, %k: tensor<?x16xf32>, %s: tensor<?x2xi32>, %table: tensor<3x6xf32>, %o: tensor<?x48xf32>) -> tensor<?x48xf32> {
  // CHECK: heddle.ragged_attention <full> ins(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} positions %{{.*}} : {{.*}} positions tensor<3x6xf32>) outs({{.*}}) {{{.*}}rows = array<i64: 2, 0>{{.*}}starts = array<i64: -1>}
  %0 = heddle.ragged_attention <full> ins(%q, %k, %k, %s positions %table : tensor<?x48xf32>, tensor<?x16xf32>, tensor<?x16xf32>, tensor<?x2xi32> positions tensor<3x6xf32>)
    outs(%o : tensor<?x48xf32>) {num_heads = 6, num_kv_heads = 2, scale = 1.0, starts = array<i64: -1>, rows = array<i64: 2, 0>} -> tensor<?x48xf32>
  return %0 : tensor<?x48xf32>
}

// CHECK-LABEL: @globals
func.func @globals(%q: tensor<?x48xf32>, %k: tensor<?x16xf32>, %s: tensor<?x2xi32>, %g: tensor<?xi32>, %o: tensor<?x48xf32>) -> tensor<?x48xf32> {
  // CHECK: heddle.ragged_attention <full, window = 5, ahead = 5> ins(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} globals %{{.*}} : {{.*}} globals tensor<?xi32>)
  %0 = heddle.ragged_attention <full, window = 5, ahead = 5> ins(%q, %k, %k, %s globals %g : tensor<?x48xf32>, tensor<?x16xf32>, tensor<?x16xf32>, tensor<?x2xi32> globals tensor<?xi32>)
    outs(%o : tensor<?x48xf32>) {num_heads = 6, num_kv_heads = 2, scale = 1.0} -> tensor<?x48xf32>
  // CHECK: heddle.ragged_attention <full> ins({{.*}}) outs({{.*}}) {{{.*}}of_globals
  %1 = heddle.ragged_attention <full> ins(%q, %k, %k, %s globals %g : tensor<?x48xf32>, tensor<?x16xf32>, tensor<?x16xf32>, tensor<?x2xi32> globals tensor<?xi32>)
    outs(%0 : tensor<?x48xf32>) {num_heads = 6, num_kv_heads = 2, scale = 1.0, of_globals} -> tensor<?x48xf32>
  return %1 : tensor<?x48xf32>
}

// CHECK-LABEL: @buckets_of_tokens
func.func @buckets_of_tokens(%q: tensor<?x48xf32>, %s: tensor<?x2xi32>, %given: tensor<?x24xf32>, %o: tensor<?x48xf32>) -> tensor<?x48xf32> {
  // CHECK: positions %{{.*}} : {{.*}} positions tensor<?x24xf32>) outs({{.*}}) {{{.*}}rows = array<i64: 1, 0>{{.*}}starts = array<i64: -1>}
  %0 = heddle.ragged_attention <full> ins(%q, %q, %q, %s positions %given : tensor<?x48xf32>, tensor<?x48xf32>, tensor<?x48xf32>, tensor<?x2xi32> positions tensor<?x24xf32>)
    outs(%o : tensor<?x48xf32>) {num_heads = 6, num_kv_heads = 6, scale = 1.0, starts = array<i64: -1>, rows = array<i64: 1, 0>} -> tensor<?x48xf32>
  return %0 : tensor<?x48xf32>
}
