// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s | %heddle-opt | FileCheck %s
// RUN: %heddle-opt %s --mlir-print-op-generic | %heddle-opt | FileCheck %s

// CHECK-LABEL: @one_is_left
// CHECK: heddle.warpgroup_wait() {pending = 1 : i64}
func.func @one_is_left() {
  heddle.warpgroup_wait() {pending = 1}
  return
}

// CHECK-LABEL: @all_are_done
// CHECK: %[[R:.*]]:2 = heddle.warpgroup_wait(%{{.*}}, %{{.*}}) {pending = 0 : i64} : f32, f32
func.func @all_are_done(%sum: f32) -> f32 {
  %r:2 = heddle.warpgroup_wait(%sum, %sum) {pending = 0} : f32, f32
  return %r#1 : f32
}
