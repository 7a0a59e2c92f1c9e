// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --heddle-pack-weights --split-input-file | FileCheck %s
// RUN: sed 's/, offset = 4>/, offset = 4, taps = 2>/' %s | not %heddle-opt --heddle-pack-weights 2>&1 | FileCheck %s --check-prefix=TAPS
// TAPS: error: a stored tensor must have no stride, taps or fileType, and be a matrix if it is transposed, got #heddle.storage<type = "f32", file = 0, offset = 4, taps = 2>

// What no kernel packs is stored as the file has it. Places are multiples of 64 bytes; what is the same in the file is stored once.
// CHECK: module attributes {{.*}}heddle.weights_size = 144 : i64
// CHECK: heddle.weight "a" packed <layout = stored, format = "f32", shape = [2, 2], offset = 0, sources = [<name = "a", rows = 4, storage = <type = "f32", file = 0, offset = 4>>]> : tensor<2x2xf32>
// CHECK: heddle.weight "again" packed <layout = stored, {{.*}} offset = 0,
// CHECK: heddle.weight "flags" packed <layout = stored, format = "bool", shape = [2], offset = 64,
// CHECK: heddle.weight "a" packed <layout = stored, format = "f32", shape = [2, 2], offset = 128, {{.*}}transposed = true>>]> : tensor<2x2xf32>
func.func @graph() -> (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2xi1>, tensor<2x2xf32>) {
  %a = heddle.weight "a" <type = "f32", file = 0, offset = 4> : tensor<2x2xf32>
  %again = heddle.weight "again" <type = "f32", file = 0, offset = 4> : tensor<2x2xf32>
  %flags = heddle.weight "flags" <type = "bool", file = 0, offset = 20> : tensor<2xi1>
  %turned = heddle.weight "a" <type = "f32", file = 0, offset = 4, transposed = true> : tensor<2x2xf32>
  return %a, %again, %flags, %turned : tensor<2x2xf32>, tensor<2x2xf32>, tensor<2xi1>, tensor<2x2xf32>
}

// -----

// A weight of a graph that a kernel asks for is packed, another that an op reads as it is, is not; what nobody reads is gone.
// CHECK-LABEL: @product
// CHECK-NOT: "unused"
// CHECK-DAG: heddle.weight "packed" packed <layout = stacked, {{.*}} offset = 0,
// CHECK-DAG: heddle.weight "as_it_is" packed <layout = stored, {{.*}} offset = 1024,
func.func @product() -> (tensor<1024xi8>, tensor<16x16xf32>) {
  %unused = heddle.weight "unused" <type = "f32", file = 0, offset = 4096> : tensor<16x16xf32>
  %w = heddle.weight "packed" <type = "f32", file = 0, offset = 1024> : tensor<16x16xf32>
  %x = heddle.weight "as_it_is" <type = "f32", file = 0, offset = 2048> : tensor<16x16xf32>
  %0 = heddle.pack <stacked> "f32" (%w : tensor<16x16xf32>) -> tensor<1024xi8>
  return %0, %x : tensor<1024xi8>, tensor<16x16xf32>
}
