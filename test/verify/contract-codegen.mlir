// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --heddle-verify-stage=codegen --split-input-file --verify-diagnostics -o %t

llvm.func @lowered(%x: i64) -> i64 {
  llvm.return %x : i64
}

// -----

llvm.func @not_quite(%x: i64) -> i64 {
  // expected-error @+1 {{'arith.addi' must not remain after stage codegen}}
  %0 = arith.addi %x, %x : i64
  llvm.return %0 : i64
}
