// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --heddle-place-weights | FileCheck %s
// RUN: sed 's/, offset = 4>/, offset = 4, transposed = true>/' %s | not %heddle-opt --heddle-place-weights 2>&1 | FileCheck %s --check-prefix=TURNED
// TURNED: error: a graph's weight must be stored in the order of its type

// Places are multiples of 64 bytes; what is the same in the file is stored once.
// CHECK: module attributes {{.*}}heddle.weights_size = 66 : i64
// CHECK: heddle.weight "a" <type = "packed", file = 0, offset = 0> {heddle.format = "stored"
// CHECK: heddle.weight "again" <type = "packed", file = 0, offset = 0>
// CHECK: heddle.weight "flags" <type = "packed", file = 0, offset = 64>
func.func @graph() -> (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2xi1>) {
  %a = heddle.weight "a" <type = "f32", file = 0, offset = 4> : tensor<2x2xf32>
  %again = heddle.weight "again" <type = "f32", file = 0, offset = 4> : tensor<2x2xf32>
  %flags = heddle.weight "flags" <type = "bool", file = 0, offset = 20> : tensor<2xi1>
  return %a, %again, %flags : tensor<2x2xf32>, tensor<2x2xf32>, tensor<2xi1>
}
