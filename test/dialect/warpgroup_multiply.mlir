// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s | %heddle-opt | FileCheck %s
// RUN: %heddle-opt %s --mlir-print-op-generic | %heddle-opt | FileCheck %s

// CHECK-LABEL: @two_steps_of_k
// CHECK: %[[R:.*]]:4 = heddle.warpgroup_multiply(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}), (%{{.*}}, %{{.*}}), (%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) : f32, f32, f32, f32
// CHECK: heddle.warpgroup_wait(%[[R]]#0, %[[R]]#1, %[[R]]#2, %[[R]]#3) {pending = 0 : i64} : f32, f32, f32, f32
func.func @two_steps_of_k(%a: i32, %b: i64, %c: i64, %zero: f32) -> f32 {
  %r:4 = heddle.warpgroup_multiply(%a, %a, %a, %a, %a, %a, %a, %a), (%b, %c), (%zero, %zero, %zero, %zero) : f32, f32, f32, f32
  %done:4 = heddle.warpgroup_wait(%r#0, %r#1, %r#2, %r#3) {pending = 0} : f32, f32, f32, f32
  return %done#0 : f32
}
