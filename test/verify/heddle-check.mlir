// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --heddle-check --canonicalize --cse | FileCheck %s
// RUN: not %heddle-opt %s --heddle-check --heddle-check-limit=1e-30 --canonicalize --math-uplift-to-fma -o %t 2>&1 | FileCheck %s --check-prefix=MOVED
// RUN: not %heddle-opt %s --heddle-check-all --heddle-check-limit=1e-30 --canonicalize --math-uplift-to-fma -o %t 2>&1 | FileCheck %s --check-prefix=ALL
// RUN: not %heddle-opt %s --heddle-check --heddle-check-entry=absent --cse -o %t 2>&1 | FileCheck %s --check-prefix=ABSENT

// Equal multiplications become one, which changes nothing. As an fma it is not rounded before the sum, which changes the last bits.
// MOVED: error: after pass 'math-uplift-to-fma', result 0 of 'multiply_add' differs: NMSE {{.*}} (limit 1.000e-30)
// ALL: error: after pass 'math-uplift-to-fma', result 0 of 'multiply_add' differs
// ALL: error: after pass 'math-uplift-to-fma', result 0 of 'square_add' differs
// ABSENT: error: after the input, there is no function 'absent' to evaluate

// CHECK-LABEL: @multiply_add
// CHECK: arith.mulf
// CHECK-NOT: arith.mulf
func.func @multiply_add(%x: tensor<8xf32>, %y: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %0 = arith.mulf %x, %y fastmath<fast> : tensor<8xf32>
  %1 = arith.mulf %x, %y fastmath<fast> : tensor<8xf32>
  %2 = arith.addf %0, %x fastmath<fast> : tensor<8xf32>
  return %2, %1 : tensor<8xf32>, tensor<8xf32>
}

func.func @square_add(%x: tensor<8xf32>, %y: tensor<8xf32>) -> tensor<8xf32> {
  %0 = arith.mulf %x, %x fastmath<fast> : tensor<8xf32>
  %1 = arith.addf %0, %y fastmath<fast> : tensor<8xf32>
  return %1 : tensor<8xf32>
}
