// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A weight that is the beginning of another one in the file has a place of its own.
// RUN: %heddle-opt %s --heddle-lower-to-kernels --heddle-pack-weights | FileCheck %s

// CHECK: heddle.weights_size = 28672
// CHECK: heddle.weight "a" packed {{.*}}, offset = 0, sources = {{.*}} : tensor<4096xi8>
// CHECK: heddle.weight "b" packed {{.*}}, offset = 4096, sources = {{.*}} : tensor<16384xi8>
// CHECK: heddle.weight "c" packed {{.*}}, offset = 20480, sources = {{.*}} : tensor<8192xi8>
func.func @f(%x: tensor<?x64xf32>) -> (tensor<?x16xf32>, tensor<?x64xf32>, tensor<?x32xf32>) {
  %a = heddle.weight "a" <type = "f32", file = 0, offset = 0> : tensor<16x64xf32>
  %b = heddle.weight "b" <type = "f32", file = 0, offset = 0> : tensor<64x64xf32>
  %c = heddle.weight "c" <type = "f32", file = 0, offset = 65536> : tensor<32x64xf32>
  %0 = heddle.linear %x, weights(%a : tensor<16x64xf32>) : tensor<?x64xf32> -> tensor<?x16xf32>
  %1 = heddle.linear %x, weights(%b : tensor<64x64xf32>) : tensor<?x64xf32> -> tensor<?x64xf32>
  %2 = heddle.linear %x, weights(%c : tensor<32x64xf32>) : tensor<?x64xf32> -> tensor<?x32xf32>
  return %0, %1, %2 : tensor<?x16xf32>, tensor<?x64xf32>, tensor<?x32xf32>
}
