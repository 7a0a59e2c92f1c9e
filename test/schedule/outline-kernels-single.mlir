// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --heddle-outline-kernels=single-result=true --split-input-file | FileCheck %s
// RUN: %heddle-opt %s --heddle-outline-kernels --split-input-file | FileCheck %s --check-prefix=SEVERAL

// A sum that is both normed and returned: two kernels, which both add; without the option, one with two results.
// CHECK-LABEL: @each_result_is_a_kernel
// CHECK-DAG: %[[SUM:.*]] = heddle.kernel_call @kernel_0
// CHECK-DAG: %[[NORM:.*]] = heddle.kernel_call @kernel_1
// CHECK: return %[[SUM]], %[[NORM]]
// CHECK: @kernel_0({{.*}}) -> tensor<?x64xf32>
// CHECK: arith.addf
// CHECK-NOT: heddle.rms_norm
// CHECK: @kernel_1({{.*}}) -> tensor<?x64xf32>
// CHECK: arith.addf
// CHECK: heddle.rms_norm
// CHECK-NOT: @kernel_2
// SEVERAL-LABEL: @each_result_is_a_kernel
// SEVERAL: heddle.kernel_call @kernel_0
// SEVERAL: @kernel_0({{.*}}) -> (tensor<?x64xf32>, tensor<?x64xf32>)
// SEVERAL-NOT: @kernel_1
func.func private @each_result_is_a_kernel(%x: tensor<?x64xf32>, %y: tensor<?x64xf32>, %w: tensor<64xf32>) -> (tensor<?x64xf32>, tensor<?x64xf32>) {
  %0 = arith.addf %x, %y : tensor<?x64xf32>
  %1 = heddle.rms_norm %0, %w {eps = 1.0e-5} : tensor<?x64xf32>, tensor<64xf32>
  return %0, %1 : tensor<?x64xf32>, tensor<?x64xf32>
}

// -----

// CHECK-LABEL: @one_result_is_one_kernel
// CHECK-COUNT-1: heddle.kernel_call
// CHECK-NOT: heddle.kernel_call
// CHECK-NOT: @kernel_1
func.func private @one_result_is_one_kernel(%x: tensor<?x64xf32>, %y: tensor<?x64xf32>, %w: tensor<64xf32>) -> tensor<?x64xf32> {
  %0 = arith.addf %x, %y : tensor<?x64xf32>
  %1 = heddle.rms_norm %0, %w {eps = 1.0e-5} : tensor<?x64xf32>, tensor<64xf32>
  return %1 : tensor<?x64xf32>
}
