// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s | %heddle-opt | FileCheck %s
// RUN: %heddle-opt %s --mlir-print-op-generic | %heddle-opt | FileCheck %s

// CHECK-LABEL: @all_tokens
func.func @all_tokens(%c: !heddle.kv_cache<30 x 3 x 64 x bf16>, %layer: index) -> (tensor<1x3x?x64xbf16>, tensor<1x3x?x64xbf16>) {
  // CHECK: heddle.kv_view %{{.*}}[%{{.*}}] : <30 x 3 x 64 x bf16> -> tensor<1x3x?x64xbf16>, tensor<1x3x?x64xbf16>
  %k, %v = heddle.kv_view %c[%layer] : <30 x 3 x 64 x bf16> -> tensor<1x3x?x64xbf16>, tensor<1x3x?x64xbf16>
  return %k, %v : tensor<1x3x?x64xbf16>, tensor<1x3x?x64xbf16>
}
