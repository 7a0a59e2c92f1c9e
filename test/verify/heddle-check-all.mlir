// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --heddle-check --heddle-check-limit=1e-30 --math-uplift-to-fma -o %t
// RUN: not %heddle-opt %s --heddle-check-all --heddle-check-limit=1e-30 --math-uplift-to-fma -o %t 2>&1 | FileCheck %s

// The first function stays as it is, the second is rounded once less: only who evaluates all of them sees it.
// CHECK: error: after pass 'math-uplift-to-fma', result 0 of 'fused_add' differs
func.func @multiply_add(%x: tensor<8xf32>, %y: tensor<8xf32>) -> tensor<8xf32> {
  %0 = arith.mulf %x, %y : tensor<8xf32>
  %1 = arith.addf %0, %x : tensor<8xf32>
  return %1 : tensor<8xf32>
}

func.func @fused_add(%x: tensor<8xf32>, %y: tensor<8xf32>) -> tensor<8xf32> {
  %0 = arith.mulf %x, %y fastmath<fast> : tensor<8xf32>
  %1 = arith.addf %0, %x fastmath<fast> : tensor<8xf32>
  return %1 : tensor<8xf32>
}
