// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --split-input-file --verify-diagnostics -o %t

func.func @softcap_c1(%x: tensor<2x8xf32>) {
  // expected-error @+1 {{cap must be positive}}
  %0 = heddle.softcap %x {cap = 0.0} : tensor<2x8xf32>
  return
}
