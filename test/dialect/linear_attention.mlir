// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s | %heddle-opt | FileCheck %s
// RUN: %heddle-opt %s --mlir-print-op-generic | %heddle-opt | FileCheck %s

// CHECK-LABEL: @sums
func.func @sums(%q: tensor<?x?x6xf32>, %v: tensor<?x?x20xf32>) -> tensor<?x?x20xf32> {
  // CHECK: heddle.linear_attention %{{.*}}, %{{.*}}, %{{.*}} {num_heads = 4 : i64, num_key_heads = 2 : i64} : tensor<?x?x6xf32>, tensor<?x?x6xf32>, tensor<?x?x20xf32> -> tensor<?x?x20xf32>
  %0 = heddle.linear_attention %q, %q, %v {num_heads = 4, num_key_heads = 2} : tensor<?x?x6xf32>, tensor<?x?x6xf32>, tensor<?x?x20xf32> -> tensor<?x?x20xf32>
  return %0 : tensor<?x?x20xf32>
}

// CHECK-LABEL: @rows
func.func @rows(%q: tensor<?x6xf32>, %v: tensor<?x20xf32>, %g: tensor<?x4xf32>, %cache: !heddle.kv_cache<2 x 1 x 64 x f32 state>, %layer: index) -> tensor<?x20xf32> {
  // CHECK: heddle.linear_attention {{.*}} decay(%{{.*}} : tensor<?x4xf32>) beta(%{{.*}} : tensor<?x4xf32>) state(%{{.*}}[%{{.*}}] : !heddle.kv_cache<2 x 1 x 64 x f32 state>) {num_heads = 4 : i64, num_key_heads = 2 : i64, offset = 4 : i64, scale = 5.000000e-01 : f64}
  %0 = heddle.linear_attention %q, %q, %v decay(%g : tensor<?x4xf32>) beta(%g : tensor<?x4xf32>) state(%cache[%layer] : !heddle.kv_cache<2 x 1 x 64 x f32 state>)
    {num_heads = 4, num_key_heads = 2, scale = 0.5, offset = 4} : tensor<?x6xf32>, tensor<?x6xf32>, tensor<?x20xf32> -> tensor<?x20xf32>
  return %0 : tensor<?x20xf32>
}

// CHECK-LABEL: @columns_decay
func.func @columns_decay(%q: tensor<?x?x12xf32>, %v: tensor<?x?x20xf32>, %g: tensor<?x?x12xf32>) -> tensor<?x?x20xf32> {
  // CHECK: heddle.linear_attention {{.*}} decay(%{{.*}} : tensor<?x?x12xf32>) {num_heads = 4 : i64, num_key_heads = 4 : i64}
  %0 = heddle.linear_attention %q, %q, %v decay(%g : tensor<?x?x12xf32>) {num_heads = 4, num_key_heads = 4} : tensor<?x?x12xf32>, tensor<?x?x12xf32>, tensor<?x?x20xf32> -> tensor<?x?x20xf32>
  return %0 : tensor<?x?x20xf32>
}
