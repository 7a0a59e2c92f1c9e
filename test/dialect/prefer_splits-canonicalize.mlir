// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --heddle-check-all --canonicalize | FileCheck %s

// CHECK-LABEL: @too_many_rows
// CHECK-NEXT: %[[NO:.*]] = arith.constant false
// CHECK-NEXT: return %[[NO]]
func.func @too_many_rows(%cache: !heddle.kv_cache<2 x 2 x 8 x f32>) -> i1 {
  %rows = arith.constant 17 : index
  %0 = heddle.prefer_splits %cache, %rows {items = 2, max_rows = 16, split_kv = 512} : <2 x 2 x 8 x f32>
  return %0 : i1
}

// With few enough rows, the cache and the threads decide.
// CHECK-LABEL: @rows_few_enough
// CHECK: heddle.prefer_splits
func.func @rows_few_enough(%cache: !heddle.kv_cache<2 x 2 x 8 x f32>) -> i1 {
  %rows = arith.constant 16 : index
  %0 = heddle.prefer_splits %cache, %rows {items = 2, max_rows = 16, split_kv = 512} : <2 x 2 x 8 x f32>
  return %0 : i1
}

// CHECK-LABEL: @rows_unknown
// CHECK: heddle.prefer_splits
func.func @rows_unknown(%cache: !heddle.kv_cache<2 x 2 x 8 x f32>, %rows: index) -> i1 {
  %0 = heddle.prefer_splits %cache, %rows {items = 2, max_rows = 16, split_kv = 512} : <2 x 2 x 8 x f32>
  return %0 : i1
}
