// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --heddle-verify-stage=import --split-input-file --verify-diagnostics -o %t
// RUN: not %heddle-opt %s --heddle-verify-stage=imports -o %t 2>&1 | FileCheck %s
// CHECK: error: --heddle-verify-stage: there is no stage 'imports'

func.func @model_ops_and_linalg(%x: tensor<2x4xf32>, %w: tensor<4xf32>) -> tensor<4x2xf32> {
  %0 = heddle.rms_norm %x, %w {eps = 0.0} : tensor<2x4xf32>, tensor<4xf32>
  %init = tensor.empty() : tensor<4x2xf32>
  %1 = linalg.transpose ins(%0 : tensor<2x4xf32>) outs(%init : tensor<4x2xf32>) permutation = [1, 0]
  return %1 : tensor<4x2xf32>
}

// -----

func.func @no_cache_yet(%cache: !heddle.kv_cache<1 x 1 x 4 x f32>, %k: tensor<?x4xf32>, %layer: index) {
  // expected-error @+1 {{'heddle.kv_append' must not remain after stage import}}
  heddle.kv_append %cache[%layer], %k, %k : <1 x 1 x 4 x f32>, tensor<?x4xf32>, tensor<?x4xf32>
  return
}

// -----

func.func @no_kernel_yet(%x: tensor<?x64xf32>) -> tensor<?x64xi8> {
  // expected-error @+1 {{'heddle.quantize' must not remain after stage import}}
  %codes, %scales, %sums = heddle.quantize %x : tensor<?x64xf32> -> tensor<?x64xi8>, tensor<?x2xf32>, tensor<?x4xi32>
  return %codes : tensor<?x64xi8>
}
