// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --heddle-plan-barriers --split-input-file | FileCheck %s --implicit-check-not=heddle.runs_on --implicit-check-not=heddle.private --implicit-check-not=heddle.of_many_rows

// One row: each thread computes the norm, and the rounding is left out, so that all threads wait once, behind the product. Many rows: the
// rounding takes the rows of the norm that its thread computed.
// CHECK: heddle.waits = 1 : i64
// CHECK-LABEL: @step
// CHECK: memref.alloc(%{{.*}}) {heddle.private, heddle.row_offset = 0 : i64}
// CHECK: memref.alloc(%{{.*}}) {heddle.row_offset = 256 : i64}
// CHECK: kernel_call @norm {{.*}} {heddle.private, heddle.runs_on, heddle.runs_on_of_one_row}
// CHECK: kernel_call @round {{.*}} {heddle.of_many_rows, heddle.runs_on_of_one_row}
// CHECK: packed_matmul
module {
  func.func @step(%n: index, %x: memref<?x64xf32>, %gain: memref<64xf32>, %w: memref<2304xi8>, %y: memref<?x64xf32>) {
    %a = memref.alloc(%n) {heddle.row_offset = 0 : i64} : memref<?x64xf32>
    %r = memref.alloc(%n) {heddle.row_offset = 256 : i64} : memref<?x64xbf16>
    heddle.kernel_call @norm ins(%x, %gain : memref<?x64xf32>, memref<64xf32>) outs(%a : memref<?x64xf32>)
    heddle.kernel_call @round ins(%a : memref<?x64xf32>) outs(%r : memref<?x64xbf16>)
    heddle.packed_matmul ins(%a rounded %r, %w : memref<?x64xf32> rounded memref<?x64xbf16>, memref<2304xi8>) outs(%y : memref<?x64xf32>) {format = "q4_0", int16, k = 64 : i64, n = 64 : i64}
    return
  }
  func.func private @norm(%x: tensor<?x64xf32>, %w: tensor<64xf32>) -> tensor<?x64xf32> attributes {heddle.kernel} {
    %y = heddle.rms_norm %x, %w {eps = 1.0e-5} : tensor<?x64xf32>, tensor<64xf32>
    return %y : tensor<?x64xf32>
  }
  func.func private @round(%x: tensor<?x64xf32>) -> tensor<?x64xbf16> attributes {heddle.kernel} {
    %y = arith.truncf %x : tensor<?x64xf32> to tensor<?x64xbf16>
    return %y : tensor<?x64xbf16>
  }
}

// -----

// %narrow takes the place of half of %wide: rows of another width lie elsewhere, where another thread may still read. One row is one
// thread's. A norm in place reads what a copy of it would not have: no thread has its own.
// CHECK: heddle.waits = 2 : i64
// CHECK-LABEL: @step
// CHECK-COUNT-3: memref.alloc
// CHECK: kernel_call @halve {{.*}} outs(%{{.*}} : memref<?x32xf32>) {heddle.runs_on, heddle.runs_on_of_one_row}
// CHECK: kernel_call @scale {{.*}} {heddle.runs_on_of_one_row}
// CHECK: kernel_call @scale
// CHECK: packed_matmul
module {
  func.func @step(%n: index, %w: memref<2048xi8>, %y: memref<?x32xf32>) {
    %wide = memref.alloc(%n) {heddle.row_offset = 0 : i64} : memref<?x64xf32>
    %first = memref.alloc(%n) {heddle.row_offset = 256 : i64} : memref<?x32xf32>
    %narrow = memref.alloc(%n) {heddle.row_offset = 0 : i64} : memref<?x32xf32>
    heddle.kernel_call @halve ins(%wide : memref<?x64xf32>) outs(%first : memref<?x32xf32>)
    heddle.kernel_call @scale ins(%first : memref<?x32xf32>) outs(%first : memref<?x32xf32>)
    heddle.kernel_call @scale ins(%first : memref<?x32xf32>) outs(%narrow : memref<?x32xf32>)
    heddle.packed_matmul ins(%narrow, %w : memref<?x32xf32>, memref<2048xi8>) outs(%y : memref<?x32xf32>) {format = "bf16", k = 32 : i64, n = 32 : i64}
    return
  }
  func.func private @halve(%x: tensor<?x64xf32>) -> tensor<?x32xf32> attributes {heddle.kernel} {
    %c0 = arith.constant 0 : index
    %n = tensor.dim %x, %c0 : tensor<?x64xf32>
    %y = tensor.extract_slice %x[0, 0] [%n, 32] [1, 1] : tensor<?x64xf32> to tensor<?x32xf32>
    return %y : tensor<?x32xf32>
  }
  func.func private @scale(%x: tensor<?x32xf32>) -> tensor<?x32xf32> attributes {heddle.kernel} {
    %y = arith.addf %x, %x : tensor<?x32xf32>
    return %y : tensor<?x32xf32>
  }
}
