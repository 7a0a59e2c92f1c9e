// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --heddle-assign-schedules=activations=int8 | FileCheck %s --check-prefixes=CHECK,INT8
// RUN: %heddle-opt %s --heddle-assign-schedules | FileCheck %s --check-prefixes=CHECK,F32
// RUN: %heddle-opt %s --heddle-assign-schedules=activations=bf16 | FileCheck %s --check-prefixes=CHECK,BF16
// RUN: %heddle-opt %s --heddle-assign-schedules=bf16-products | FileCheck %s --check-prefixes=PRODUCTS
// RUN: %heddle-opt %s --heddle-assign-schedules=activations=by-rows | FileCheck %s --check-prefixes=CHECK,ROWS
// RUN: %heddle-opt %s '--heddle-assign-schedules=activations=by-rows bf16-products' | FileCheck %s --check-prefix=BOTH
// RUN: not %heddle-opt %s --heddle-assign-schedules=activations=int4 -o %t 2>&1 | FileCheck %s --check-prefix=ERROR

// ERROR: error: activations must be by-rows, f32, bf16 or int8, got 'int4'

#rope = #heddle.rope<half, table = 3, attention_factor = 1.0, inverse_frequency = array<f32: 1.0, 0.1>>

// CHECK-LABEL: @one_quantized_input_for_two_products
// CHECK-SAME: %[[X:.*]]: tensor<?x64xf32>
// INT8: %[[CODES:.*]], %[[SCALES:.*]], %[[SUMS:.*]] = heddle.quantize %[[X]] : tensor<?x64xf32> -> tensor<?x64xi8>, tensor<?x2xf32>, tensor<?x4xi32>
// INT8-NOT: heddle.quantize
// INT8-COUNT-2: heddle.packed_matmul ins(%[[CODES]] scales %[[SCALES]] sums %[[SUMS]]
// F32-NOT: heddle.quantize
// F32-COUNT-2: heddle.packed_matmul ins(%[[X]],
// ROWS-NOT: arith.truncf
// ROWS-COUNT-2: heddle.packed_matmul ins(%[[X]], {{.*}} {format = "q8_0", int16,
// BOTH-LABEL: @one_quantized_input_for_two_products
// BOTH-SAME: (%[[X:[a-z0-9]+]]: tensor<?x64xf32>
// BOTH: %[[ROUNDED:.*]] = arith.truncf %[[X]] : tensor<?x64xf32> to tensor<?x64xbf16>
// BOTH-NOT: arith.truncf
// BOTH-COUNT-2: heddle.packed_matmul ins(%[[X]] rounded %[[ROUNDED]], {{.*}} {format = "q8_0", int16,
// BF16: %[[ROUNDED:.*]] = arith.truncf %[[X]] : tensor<?x64xf32> to tensor<?x64xbf16>
// BF16-NOT: arith.truncf
// BF16-COUNT-2: heddle.packed_matmul ins(%[[ROUNDED]],
// PRODUCTS-LABEL: @one_quantized_input_for_two_products
// PRODUCTS-NOT: arith.truncf
func.func private @one_quantized_input_for_two_products(%x: tensor<?x64xf32>, %w0: tensor<2304xi8>, %w1: tensor<2304xi8>, %d: tensor<?x32xf32>)
    -> (tensor<?x32xf32>, tensor<?x32xf32>) {
  %0 = heddle.packed_matmul ins(%x, %w0 : tensor<?x64xf32>, tensor<2304xi8>) outs(%d : tensor<?x32xf32>)
    {format = "q8_0", k = 64 : i64, n = 32 : i64} -> tensor<?x32xf32>
  %1 = heddle.packed_matmul ins(%x, %w1 : tensor<?x64xf32>, tensor<2304xi8>) outs(%d : tensor<?x32xf32>)
    {format = "q8_0", k = 64 : i64, n = 32 : i64} -> tensor<?x32xf32>
  return %0, %1 : tensor<?x32xf32>, tensor<?x32xf32>
}

// A row of more values would not fit the kernel's stack.
// BOTH-LABEL: @long_rows_stay_f32
// BOTH-NOT: int16
// BOTH: return
func.func private @long_rows_stay_f32(%x: tensor<?x65568xf32>, %w: tensor<1180224xi8>, %d: tensor<?x16xf32>) -> tensor<?x16xf32> {
  %0 = heddle.packed_matmul ins(%x, %w : tensor<?x65568xf32>, tensor<1180224xi8>) outs(%d : tensor<?x16xf32>)
    {format = "q8_0", k = 65568 : i64, n = 16 : i64} -> tensor<?x16xf32>
  return %0 : tensor<?x16xf32>
}

// CHECK-LABEL: @float_weights_read_floats
// CHECK-SAME: %[[X:.*]]: tensor<?x64xf32>
// CHECK-NOT: heddle.quantize
// CHECK: heddle.packed_matmul ins(%[[X]],
// PRODUCTS-LABEL: @float_weights_read_floats
// PRODUCTS: %[[ROUNDED:.*]] = arith.truncf %{{.*}} : tensor<?x64xf32> to tensor<?x64xbf16>
// PRODUCTS: heddle.packed_matmul ins(%[[ROUNDED]],
func.func private @float_weights_read_floats(%x: tensor<?x64xf32>, %w: tensor<4096xi8>, %d: tensor<?x32xf32>) -> tensor<?x32xf32> {
  %0 = heddle.packed_matmul ins(%x, %w : tensor<?x64xf32>, tensor<4096xi8>) outs(%d : tensor<?x32xf32>)
    {format = "bf16", k = 64 : i64, n = 32 : i64} -> tensor<?x32xf32>
  return %0 : tensor<?x32xf32>
}

// A pair of columns is what bf16 products read.
// PRODUCTS-LABEL: @odd_depth_stays_f32
// PRODUCTS-NOT: arith.truncf
// PRODUCTS: return
func.func private @odd_depth_stays_f32(%x: tensor<?x33xf32>, %w: tensor<4096xi8>, %d: tensor<?x32xf32>) -> tensor<?x32xf32> {
  %0 = heddle.packed_matmul ins(%x, %w : tensor<?x33xf32>, tensor<4096xi8>) outs(%d : tensor<?x32xf32>)
    {format = "bf16", k = 33 : i64, n = 32 : i64} -> tensor<?x32xf32>
  return %0 : tensor<?x32xf32>
}

// CHECK-LABEL: @angles_come_from_the_sessions_table
// CHECK: %[[TABLE:.*]] = heddle.rope_table 3 : tensor<?x4xf32>
// CHECK: heddle.rope %{{.*}}, %{{.*}} table(%[[TABLE]] : tensor<?x4xf32>)
func.func private @angles_come_from_the_sessions_table(%x: tensor<1x2x?x8xf32>, %p: tensor<1x?xi32>) -> tensor<1x2x?x8xf32> {
  %0 = heddle.rope %x, %p, #rope : tensor<1x2x?x8xf32>, tensor<1x?xi32>
  return %0 : tensor<1x2x?x8xf32>
}

// CHECK-LABEL: @a_table_that_is_there_stays
// CHECK-SAME: %[[TABLE:[a-z0-9]+]]: tensor<?x4xf32>)
// CHECK-NOT: heddle.rope_table
// CHECK: heddle.rope %{{.*}}, %{{.*}} table(%[[TABLE]]
func.func private @a_table_that_is_there_stays(%x: tensor<1x2x?x8xf32>, %p: tensor<1x?xi32>, %t: tensor<?x4xf32>) -> tensor<1x2x?x8xf32> {
  %0 = heddle.rope %x, %p table(%t : tensor<?x4xf32>) #rope : tensor<1x2x?x8xf32>, tensor<1x?xi32>
  return %0 : tensor<1x2x?x8xf32>
}
