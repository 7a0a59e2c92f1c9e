// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --heddle-outline-kernels --split-input-file | FileCheck %s

// What feeds one another between two products is one kernel.
// CHECK-LABEL: @row_wise_chain_is_one_kernel
// CHECK-SAME: %[[X:.*]]: tensor<?x64xf32>, %[[Y:.*]]: tensor<?x64xf32>, %[[W:.*]]: tensor<64xf32>
// CHECK-NOT: heddle.rms_norm
// CHECK: heddle.kernel_call @kernel_0 ins(%{{.*}}, %{{.*}}, %[[W]] :
// CHECK-NOT: arith.addf
// CHECK: return
// CHECK: func.func private @kernel_0{{.*}} attributes {heddle.kernel}
// CHECK: arith.addf
// CHECK: heddle.rms_norm
// CHECK-NOT: @kernel_1
func.func private @row_wise_chain_is_one_kernel(%x: tensor<?x64xf32>, %y: tensor<?x64xf32>, %w: tensor<64xf32>) -> tensor<?x64xf32> {
  %0 = arith.addf %x, %y : tensor<?x64xf32>
  %1 = heddle.rms_norm %0, %w {eps = 1.0e-5} : tensor<?x64xf32>, tensor<64xf32>
  return %1 : tensor<?x64xf32>
}

// -----

// CHECK-LABEL: @a_product_between_parts_kernels
// CHECK: heddle.kernel_call @kernel_0
// CHECK: heddle.packed_matmul
// CHECK: heddle.kernel_call @kernel_1
// CHECK: @kernel_0
// CHECK: heddle.rms_norm
// CHECK: @kernel_1
// CHECK: heddle.rms_norm
func.func private @a_product_between_parts_kernels(%x: tensor<?x64xf32>, %n: tensor<64xf32>, %w: tensor<8192xi8>, %d: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %0 = heddle.rms_norm %x, %n {eps = 1.0e-5} : tensor<?x64xf32>, tensor<64xf32>
  %1 = heddle.packed_matmul ins(%0, %w : tensor<?x64xf32>, tensor<8192xi8>) outs(%d : tensor<?x64xf32>)
    {format = "bf16", k = 64 : i64, n = 64 : i64} -> tensor<?x64xf32>
  %2 = heddle.rms_norm %1, %n {eps = 1.0e-5} : tensor<?x64xf32>, tensor<64xf32>
  return %2 : tensor<?x64xf32>
}

// -----

// A number that is repeated is made where it is read, as large as the kernel's rows.
// CHECK-LABEL: @a_repeated_number_is_part_of_the_kernel
// CHECK: heddle.kernel_call @kernel_0 ins(%{{[^,]*}} : tensor<?x64xf32>)
// CHECK: @kernel_0
// CHECK: tensor.splat
// CHECK: arith.mulf
func.func private @a_repeated_number_is_part_of_the_kernel(%x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %c0 = arith.constant 0 : index
  %rows = tensor.dim %x, %c0 : tensor<?x64xf32>
  %number = arith.constant 0.25 : f32
  %quarter = tensor.splat %number[%rows] : tensor<?x64xf32>
  %0 = arith.mulf %x, %quarter : tensor<?x64xf32>
  return %0 : tensor<?x64xf32>
}

// -----

// The size of a norm, and of a sum, is asked of what they read: both stay in the kernel.
// CHECK-LABEL: @a_size_does_not_leave_its_kernel
// CHECK-SAME: (%[[X:[a-z0-9]*]]: tensor<?x64xf32>
// CHECK-NOT: arith.addf
// CHECK-NOT: heddle.rms_norm
// CHECK: tensor.dim %[[X]]
// CHECK: heddle.kernel_call
// CHECK-NOT: arith.addf
// CHECK-NOT: heddle.rms_norm
// CHECK: return
func.func private @a_size_does_not_leave_its_kernel(%x: tensor<?x64xf32>, %y: tensor<?x64xf32>, %w: tensor<64xf32>) -> (tensor<?x64xf32>, index) {
  %c0 = arith.constant 0 : index
  %0 = arith.addf %x, %y : tensor<?x64xf32>
  %1 = heddle.rms_norm %0, %w {eps = 1.0e-5} : tensor<?x64xf32>, tensor<64xf32>
  %rows = tensor.dim %1, %c0 : tensor<?x64xf32>
  return %1, %rows : tensor<?x64xf32>, index
}

// -----

// Ids pick any row of the table.
// CHECK-LABEL: @gathered_table_is_whole
// CHECK: heddle.kernel_call @kernel_0
// CHECK: @kernel_0(%{{.*}}: tensor<?xi32>, %{{.*}}: tensor<?x64xf32> {heddle.whole})
func.func private @gathered_table_is_whole(%ids: tensor<?xi32>, %x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %0 = heddle.embedding %ids, %x : tensor<?xi32>, tensor<?x64xf32> -> tensor<?x64xf32>
  return %0 : tensor<?x64xf32>
}

// -----

// CHECK-LABEL: @products_alone_need_no_kernel
// CHECK-NOT: heddle.kernel_call
// CHECK: return
// CHECK-NOT: @kernel_0
func.func private @products_alone_need_no_kernel(%x: tensor<?x64xf32>, %w: tensor<8192xi8>, %d: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %0 = heddle.packed_matmul ins(%x, %w : tensor<?x64xf32>, tensor<8192xi8>) outs(%d : tensor<?x64xf32>)
    {format = "bf16", k = 64 : i64, n = 64 : i64} -> tensor<?x64xf32>
  return %0 : tensor<?x64xf32>
}

// -----

// What is added to a product is written where the product is: where the caller says.
// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[X:[a-z0-9]*]]: tensor<?x64xf32>, %[[W:[a-z0-9]*]]: tensor<8192xi8>, %[[OUT:[a-z0-9]*]]: tensor<?x64xf32>)
// CHECK: %[[FIRST:.*]] = heddle.packed_matmul ins(%[[X]], %[[W]] : {{.*}} outs(%[[OUT]] :
// CHECK: %[[SUM:.*]] = heddle.packed_matmul ins(%[[X]], %[[W]] : {{.*}} outs(%[[FIRST]] :
// CHECK: return %[[SUM]]
func.func @step(%x: tensor<?x64xf32>, %w: tensor<8192xi8>) -> tensor<?x64xf32> {
  %c0 = arith.constant 0 : index
  %rows = tensor.dim %x, %c0 : tensor<?x64xf32>
  %d = tensor.empty(%rows) : tensor<?x64xf32>
  %0 = heddle.packed_matmul ins(%x, %w : tensor<?x64xf32>, tensor<8192xi8>) outs(%d : tensor<?x64xf32>)
    {format = "bf16", k = 64 : i64, n = 64 : i64} -> tensor<?x64xf32>
  %1 = heddle.packed_matmul ins(%x, %w : tensor<?x64xf32>, tensor<8192xi8>) outs(%0 : tensor<?x64xf32>)
    {accumulate, format = "bf16", k = 64 : i64, n = 64 : i64} -> tensor<?x64xf32>
  return %1 : tensor<?x64xf32>
}

// -----

// Loops over rows are part of a kernel as well, with what their sums begin with.
// CHECK-LABEL: @loops_over_rows_are_part_of_a_kernel
// CHECK-NOT: linalg.generic
// CHECK: heddle.kernel_call @kernel_0 ins(%{{[^,]*}} : tensor<?x64xf32>)
// CHECK-NOT: kernel_call
// CHECK: @kernel_0
// CHECK: linalg.fill
// CHECK: linalg.generic
// CHECK: arith.mulf {{.*}} : tensor<?x64xf32>
func.func private @loops_over_rows_are_part_of_a_kernel(%x: tensor<?x64xf32>) -> tensor<?x64xf32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %rows = tensor.dim %x, %c0 : tensor<?x64xf32>
  %room = tensor.empty(%rows) : tensor<?xf32>
  %start = linalg.fill ins(%zero : f32) outs(%room : tensor<?xf32>) -> tensor<?xf32>
  %sums = linalg.generic {indexing_maps = [affine_map<(r, c) -> (r, c)>, affine_map<(r, c) -> (r)>], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<?x64xf32>) outs(%start : tensor<?xf32>) {
  ^bb0(%in: f32, %sum: f32):
    %more = arith.addf %in, %sum : f32
    linalg.yield %more : f32
  } -> tensor<?xf32>
  %wide = tensor.empty(%rows) : tensor<?x64xf32>
  %divided = linalg.generic {indexing_maps = [affine_map<(r, c) -> (r, c)>, affine_map<(r, c) -> (r)>, affine_map<(r, c) -> (r, c)>], iterator_types = ["parallel", "parallel"]}
      ins(%x, %sums : tensor<?x64xf32>, tensor<?xf32>) outs(%wide : tensor<?x64xf32>) {
  ^bb0(%in: f32, %sum: f32, %out: f32):
    %part = arith.divf %in, %sum : f32
    linalg.yield %part : f32
  } -> tensor<?x64xf32>
  %0 = arith.mulf %divided, %x : tensor<?x64xf32>
  return %0 : tensor<?x64xf32>
}

// -----

// A part of a result that something else reads is taken behind the kernel, which runs where the last of its ops does.
// CHECK-LABEL: @parts_follow_their_kernel
// CHECK: %[[ALL:.*]]:2 = heddle.kernel_call @kernel_0
// CHECK: tensor.extract_slice %[[ALL]]#{{[01]}}[0, 0]
// CHECK: heddle.packed_matmul
func.func private @parts_follow_their_kernel(%x: tensor<?x128xf32>, %w: tensor<8192xi8>, %d: tensor<?x64xf32>) -> (tensor<?x64xf32>, tensor<?x64xf32>) {
  %c0 = arith.constant 0 : index
  %rows = tensor.dim %x, %c0 : tensor<?x128xf32>
  %0 = heddle.glu <relu> %x : tensor<?x128xf32>
  %part = tensor.extract_slice %0[0, 0] [%rows, 64] [1, 1] : tensor<?x128xf32> to tensor<?x64xf32>
  %rest = tensor.extract_slice %0[0, 64] [%rows, 64] [1, 1] : tensor<?x128xf32> to tensor<?x64xf32>
  %1 = heddle.glu <silu> %rest : tensor<?x64xf32>
  %2 = heddle.packed_matmul ins(%part, %w : tensor<?x64xf32>, tensor<8192xi8>) outs(%d : tensor<?x64xf32>)
    {format = "bf16", k = 64 : i64, n = 64 : i64} -> tensor<?x64xf32>
  return %1, %2 : tensor<?x64xf32>, tensor<?x64xf32>
}
