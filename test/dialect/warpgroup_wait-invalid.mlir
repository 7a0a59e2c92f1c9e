// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --split-input-file --verify-diagnostics -o %t

func.func @warpgroup_wait_c1() {
  // expected-error @+1 {{pending (8) must lie between 0 and 7}}
  heddle.warpgroup_wait() {pending = 8}
  return
}

// -----

func.func @warpgroup_wait_c2(%sum: f32) {
  // expected-error @+1 {{must have as many results (2) as sums (1)}}
  %r:2 = heddle.warpgroup_wait(%sum) {pending = 0} : f32, f32
  return
}
