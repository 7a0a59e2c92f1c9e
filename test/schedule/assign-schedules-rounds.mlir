// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --heddle-assign-schedules='activations=by-rows bf16-products' | FileCheck %s

#target = #heddle.target<device = cpu, name = "native", lanes = 16, registers = 32, features = ["avx512vnni", "avx512bf16", "amx-tile", "amx-bf16", "amx-int8"]>
module attributes {heddle.target = #target} {

// What many rows of a product read rounded, the product before it rounds; what few read stays f32.
// CHECK-LABEL: @by_rows
// CHECK: %[[OUT:.*]] = tensor.empty(%{{.*}}) : tensor<?x64xf32>
// CHECK: %[[MANY:.*]] = tensor.empty(%{{.*}}) : tensor<?x64xbf16>
// CHECK: %[[UP:.*]]:2 = heddle.packed_matmul activated <silu> {{.*}} outs(%[[OUT]], %[[MANY]] : tensor<?x64xf32>, tensor<?x64xbf16>) {{.*}}heddle.schedule = {{.*}}rounded_above = 12
// CHECK-NOT: arith.truncf
// CHECK: heddle.packed_matmul ins(%[[UP]]#0 rounded %[[UP]]#1
func.func private @by_rows(%x: tensor<?x64xf32>, %up: tensor<2304xi8>, %down: tensor<2304xi8>, %out: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %c0 = arith.constant 0 : index
  %rows = tensor.dim %x, %c0 : tensor<?x64xf32>
  %empty = tensor.empty(%rows) : tensor<?x64xf32>
  %h = heddle.packed_matmul activated <silu> ins(%x, %up : tensor<?x64xf32>, tensor<2304xi8>) outs(%empty : tensor<?x64xf32>) {n = 64, k = 64, format = "q4_0"} -> tensor<?x64xf32>
  %y = heddle.packed_matmul ins(%h, %down : tensor<?x64xf32>, tensor<2304xi8>) outs(%out : tensor<?x64xf32>) {n = 64, k = 64, format = "q4_0", accumulate} -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}

// Of plain weights every number of rows is rounded.
// CHECK-LABEL: @plain
// CHECK: %[[ALL:.*]] = tensor.empty(%{{.*}}) : tensor<?x64xbf16>
// CHECK: %[[UP:.*]] = heddle.packed_matmul {{.*}} outs(%[[ALL]] : tensor<?x64xbf16>)
// CHECK-NOT: arith.truncf
// CHECK: heddle.packed_matmul ins(%[[UP]],
func.func private @plain(%x: tensor<?x64xf32>, %up: tensor<8192xi8>, %down: tensor<8192xi8>, %out: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %c0 = arith.constant 0 : index
  %rows = tensor.dim %x, %c0 : tensor<?x64xf32>
  %empty = tensor.empty(%rows) : tensor<?x64xf32>
  %h = heddle.packed_matmul activated <silu> ins(%x, %up : tensor<?x64xf32>, tensor<8192xi8>) outs(%empty : tensor<?x64xf32>) {n = 64, k = 64, format = "bf16"} -> tensor<?x64xf32>
  %y = heddle.packed_matmul ins(%h, %down : tensor<?x64xf32>, tensor<8192xi8>) outs(%out : tensor<?x64xf32>) {n = 64, k = 64, format = "bf16", accumulate} -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}

// A result that something else reads in f32 stays, and so does a residual.
// CHECK-LABEL: @read_otherwise
// CHECK: heddle.packed_matmul {{.*}} outs(%{{.*}} : tensor<?x64xf32>) {{.*}}int16
// CHECK: arith.truncf
// CHECK: return
func.func private @read_otherwise(%x: tensor<?x64xf32>, %up: tensor<2304xi8>, %down: tensor<2304xi8>, %out: tensor<?x64xf32>) -> (tensor<?x64xf32>, tensor<?x64xf32>) {
  %c0 = arith.constant 0 : index
  %rows = tensor.dim %x, %c0 : tensor<?x64xf32>
  %empty = tensor.empty(%rows) : tensor<?x64xf32>
  %h = heddle.packed_matmul ins(%x, %up : tensor<?x64xf32>, tensor<2304xi8>) outs(%empty : tensor<?x64xf32>) {n = 64, k = 64, format = "q4_0"} -> tensor<?x64xf32>
  %y = heddle.packed_matmul ins(%h, %down : tensor<?x64xf32>, tensor<2304xi8>) outs(%out : tensor<?x64xf32>) {n = 64, k = 64, format = "q4_0"} -> tensor<?x64xf32>
  return %y, %h : tensor<?x64xf32>, tensor<?x64xf32>
}
// CHECK-LABEL: @residual
// CHECK-NOT: rounded_above
// CHECK: return
func.func private @residual(%x: tensor<?x64xf32>, %up: tensor<2304xi8>, %down: tensor<2304xi8>, %sum: tensor<?x64xf32>, %out: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %h = heddle.packed_matmul ins(%x, %up : tensor<?x64xf32>, tensor<2304xi8>) outs(%sum : tensor<?x64xf32>) {n = 64, k = 64, format = "q4_0", accumulate} -> tensor<?x64xf32>
  %y = heddle.packed_matmul ins(%h, %down : tensor<?x64xf32>, tensor<2304xi8>) outs(%out : tensor<?x64xf32>) {n = 64, k = 64, format = "q4_0"} -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}

// What a reader adds to is read in f32.
// CHECK-LABEL: @added_to
// CHECK-NOT: rounded_above
// CHECK: return
func.func private @added_to(%x: tensor<?x64xf32>, %up: tensor<2304xi8>, %down: tensor<2304xi8>) -> tensor<?x64xf32> {
  %c0 = arith.constant 0 : index
  %rows = tensor.dim %x, %c0 : tensor<?x64xf32>
  %empty = tensor.empty(%rows) : tensor<?x64xf32>
  %h = heddle.packed_matmul ins(%x, %up : tensor<?x64xf32>, tensor<2304xi8>) outs(%empty : tensor<?x64xf32>) {n = 64, k = 64, format = "q4_0"} -> tensor<?x64xf32>
  %y = heddle.packed_matmul ins(%h, %down : tensor<?x64xf32>, tensor<2304xi8>) outs(%h : tensor<?x64xf32>) {n = 64, k = 64, format = "q4_0", accumulate} -> tensor<?x64xf32>
  return %y : tensor<?x64xf32>
}

// Readers to whom other numbers of rows are few are not served by one rounding.
// CHECK-LABEL: @readers_differ
// CHECK-NOT: rounded_above
// CHECK: return
func.func private @readers_differ(%x: tensor<?x64xf32>, %up: tensor<2304xi8>, %a: tensor<2304xi8>, %b: tensor<4352xi8>, %out: tensor<?x64xf32>) -> (tensor<?x64xf32>, tensor<?x64xf32>) {
  %c0 = arith.constant 0 : index
  %rows = tensor.dim %x, %c0 : tensor<?x64xf32>
  %empty = tensor.empty(%rows) : tensor<?x64xf32>
  %h = heddle.packed_matmul ins(%x, %up : tensor<?x64xf32>, tensor<2304xi8>) outs(%empty : tensor<?x64xf32>) {n = 64, k = 64, format = "q4_0"} -> tensor<?x64xf32>
  %y = heddle.packed_matmul ins(%h, %a : tensor<?x64xf32>, tensor<2304xi8>) outs(%out : tensor<?x64xf32>) {n = 64, k = 64, format = "q4_0"} -> tensor<?x64xf32>
  %z = heddle.packed_matmul ins(%h, %b : tensor<?x64xf32>, tensor<4352xi8>) outs(%out : tensor<?x64xf32>) {n = 64, k = 64, format = "q8_0"} -> tensor<?x64xf32>
  return %y, %z : tensor<?x64xf32>, tensor<?x64xf32>
}
}
