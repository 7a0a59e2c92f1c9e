// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --heddle-bufferize --split-input-file --verify-diagnostics | FileCheck %s

// CHECK-LABEL: @buffers_outside_tensors_inside
// CHECK-SAME: %[[X:.*]]: memref<?x64xf32>, %[[W:.*]]: memref<64xf32>, %[[D:.*]]: memref<?x64xf32>
// CHECK: heddle.kernel_call @norm ins(%[[X]], %[[W]] : memref<?x64xf32>, memref<64xf32>) outs(%[[D]] : memref<?x64xf32>)
// CHECK-NOT: memref.copy
// CHECK: func.func private @norm(%{{.*}}: tensor<?x64xf32>, %{{.*}}: tensor<64xf32>) -> tensor<?x64xf32> attributes {heddle.kernel}
// CHECK: heddle.rms_norm
func.func private @buffers_outside_tensors_inside(%x: tensor<?x64xf32>, %w: tensor<64xf32>, %d: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %0 = heddle.kernel_call @norm ins(%x, %w : tensor<?x64xf32>, tensor<64xf32>) outs(%d : tensor<?x64xf32>) -> tensor<?x64xf32>
  return %0 : tensor<?x64xf32>
}
func.func private @norm(%x: tensor<?x64xf32>, %w: tensor<64xf32>) -> tensor<?x64xf32> attributes {heddle.kernel} {
  %0 = heddle.rms_norm %x, %w {eps = 1.0e-5} : tensor<?x64xf32>, tensor<64xf32>
  return %0 : tensor<?x64xf32>
}

// -----

// CHECK-LABEL: @accumulation_is_in_place
// CHECK-SAME: %[[X:.*]]: memref<?x64xf32>, %[[Y:.*]]: memref<?x64xf32>, %[[W:.*]]: memref<8192xi8>
// CHECK-NOT: memref.alloc
// CHECK: heddle.packed_matmul ins(%[[Y]], %[[W]] : {{.*}}) outs(%[[X]] : memref<?x64xf32>) {accumulate
func.func private @accumulation_is_in_place(%x: tensor<?x64xf32>, %y: tensor<?x64xf32>, %w: tensor<8192xi8>) -> tensor<?x64xf32> {
  %0 = heddle.packed_matmul ins(%y, %w : tensor<?x64xf32>, tensor<8192xi8>) outs(%x : tensor<?x64xf32>)
    {accumulate, format = "bf16", k = 64 : i64, n = 64 : i64} -> tensor<?x64xf32>
  return %0 : tensor<?x64xf32>
}

// -----

// Parts stand in a room of their own, though another op has asked for one of that size.
// CHECK-LABEL: @parts_beside_a_room_of_their_size
// CHECK: memref.alloc
// CHECK: memref.alloc
// CHECK-NOT: memref.copy
// CHECK: return
func.func private @parts_beside_a_room_of_their_size(%x: tensor<?x64xf32>, %v: tensor<4096xi8>, %w: tensor<8192xi8>, %d: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %c0 = arith.constant 0 : index
  %rows = tensor.dim %x, %c0 : tensor<?x64xf32>
  %room = tensor.empty(%rows) : tensor<?x64xf32>
  %left = tensor.extract_slice %room[0, 0] [%rows, 32] [1, 1] : tensor<?x64xf32> to tensor<?x32xf32>
  %0 = heddle.packed_matmul ins(%x, %v : tensor<?x64xf32>, tensor<4096xi8>) outs(%left : tensor<?x32xf32>)
    {format = "bf16", k = 64 : i64, n = 32 : i64} -> tensor<?x32xf32>
  %half = tensor.insert_slice %0 into %room[0, 0] [%rows, 32] [1, 1] : tensor<?x32xf32> into tensor<?x64xf32>
  %right = tensor.extract_slice %half[0, 32] [%rows, 32] [1, 1] : tensor<?x64xf32> to tensor<?x32xf32>
  %1 = heddle.packed_matmul ins(%x, %v : tensor<?x64xf32>, tensor<4096xi8>) outs(%right : tensor<?x32xf32>)
    {format = "bf16", k = 64 : i64, n = 32 : i64} -> tensor<?x32xf32>
  %whole = tensor.insert_slice %1 into %half[0, 32] [%rows, 32] [1, 1] : tensor<?x32xf32> into tensor<?x64xf32>
  %2 = heddle.packed_matmul ins(%whole, %w : tensor<?x64xf32>, tensor<8192xi8>) outs(%room : tensor<?x64xf32>)
    {format = "bf16", k = 64 : i64, n = 64 : i64} -> tensor<?x64xf32>
  %3 = heddle.packed_matmul ins(%2, %w : tensor<?x64xf32>, tensor<8192xi8>) outs(%d : tensor<?x64xf32>)
    {format = "bf16", k = 64 : i64, n = 64 : i64} -> tensor<?x64xf32>
  return %3 : tensor<?x64xf32>
}

// -----

func.func private @overwritten_value_read_later(%x: tensor<?x64xf32>, %y: tensor<?x64xf32>, %w: tensor<8192xi8>) -> (tensor<?x64xf32>, tensor<?x64xf32>) {
  // expected-error @+1 {{a buffer is copied: its value is still read after it is written}}
  %0 = heddle.packed_matmul ins(%y, %w : tensor<?x64xf32>, tensor<8192xi8>) outs(%x : tensor<?x64xf32>)
    {accumulate, format = "bf16", k = 64 : i64, n = 64 : i64} -> tensor<?x64xf32>
  return %0, %x : tensor<?x64xf32>, tensor<?x64xf32>
}
