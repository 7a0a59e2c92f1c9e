// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// REQUIRES: heddle-reduce
// RUN: %heddle-reduce %s --reduction-tree='traversal-mode=0 test=%S/Inputs/has-rms-norm.sh' -o %t
// RUN: FileCheck %s < %t

// The reduction keeps what the script calls interesting, and nothing else.
// CHECK-NOT: @uninteresting
// CHECK: heddle.rms_norm
// CHECK-NOT: @uninteresting
func.func @uninteresting(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = arith.addf %x, %x : tensor<8xf32>
  return %0 : tensor<8xf32>
}

func.func @interesting(%x: tensor<?x8xf32>, %w: tensor<8xf32>) -> tensor<?x8xf32> {
  %0 = heddle.rms_norm %x, %w {eps = 1.0e-5} : tensor<?x8xf32>, tensor<8xf32>
  return %0 : tensor<?x8xf32>
}
