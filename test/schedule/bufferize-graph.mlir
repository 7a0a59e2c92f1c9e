// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --heddle-bufferize --split-input-file | FileCheck %s

#row = affine_map<(i) -> (i)>

// What is computed gets a buffer of its own, although the input is read no more.
// CHECK-LABEL: @inputs_are_not_written
// CHECK-SAME: %[[X:.*]]: memref<8xf32>{{.*}}) -> memref<8xf32>
// CHECK: %[[Y:.*]] = memref.alloc()
// CHECK: linalg.generic {{.*}} ins(%[[X]] : memref<8xf32>) outs(%[[Y]] : memref<8xf32>)
// CHECK: return %[[Y]]
func.func @inputs_are_not_written(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = linalg.generic {indexing_maps = [#row, #row], iterator_types = ["parallel"]} ins(%x : tensor<8xf32>) outs(%x : tensor<8xf32>) {
  ^bb0(%in: f32, %out: f32):
    %t = math.tanh %in : f32
    linalg.yield %t : f32
  } -> tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----

// An output that is an input stays an output.
// CHECK-LABEL: @returned_as_it_came
// CHECK-SAME: %[[X:.*]]: memref<?xf32>{{.*}}) -> memref<?xf32>
// CHECK: return %[[X]] : memref<?xf32>
func.func @returned_as_it_came(%x: tensor<?xf32>) -> tensor<?xf32> {
  return %x : tensor<?xf32>
}

// -----

// Beside a step, whose results are its caller's places: each entry by its own rules, in its place in the module.
// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[D:[^:]*]]: memref<?x64xf32>) ->
// CHECK-NOT: memref.alloc
// CHECK: heddle.kernel_call @norm {{.*}} outs(%[[D]] : memref<?x64xf32>)
// CHECK: return %[[D]]
// CHECK-LABEL: func.func @tower
// CHECK-SAME: -> memref<?x64xf32>
// CHECK-LABEL: func.func private @norm
// CHECK-SAME: tensor<?x64xf32>
func.func @step(%x: tensor<?x64xf32>, %w: tensor<64xf32>, %d: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %0 = heddle.kernel_call @norm ins(%x, %w : tensor<?x64xf32>, tensor<64xf32>) outs(%d : tensor<?x64xf32>) -> tensor<?x64xf32>
  return %0 : tensor<?x64xf32>
}
func.func @tower(%x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  return %x : tensor<?x64xf32>
}
func.func private @norm(%x: tensor<?x64xf32>, %w: tensor<64xf32>) -> tensor<?x64xf32> attributes {heddle.kernel} {
  %0 = heddle.rms_norm %x, %w {eps = 1.0e-5} : tensor<?x64xf32>, tensor<64xf32>
  return %0 : tensor<?x64xf32>
}
