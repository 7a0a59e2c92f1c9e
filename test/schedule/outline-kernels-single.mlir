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

// -----

// Queries and keys, neighbours in what one product made, are rotated by one kernel.
#rope = #heddle.rope<half, table = 0, attention_factor = 1.0, inverse_frequency = array<f32: 1.0, 0.1>>
// CHECK-LABEL: @queries_and_keys
// CHECK: heddle.kernel_call @kernel_0 ins({{.*}}) outs({{.*}} : tensor<?x12xf32>)
// CHECK-NOT: heddle.kernel_call
// CHECK: %[[Q:.*]] = tensor.extract_slice {{.*}}[0, 0] [%{{.*}}, 8]
// CHECK: %[[K:.*]] = tensor.extract_slice {{.*}}[0, 8] [%{{.*}}, 4]
// CHECK: return %[[Q]], %[[K]]
// CHECK: @kernel_0({{.*}}) -> tensor<?x12xf32>
// CHECK: tensor.extract_slice %{{.*}}[0, 0] [%{{.*}}, 12]
// CHECK: heddle.rope {{.*}} : tensor<1x3x?x4xf32>
// CHECK-NOT: @kernel_1
func.func private @queries_and_keys(%qkv: tensor<?x16xf32>, %p: tensor<?xi32>, %t: tensor<?x4xf32>) -> (tensor<?x8xf32>, tensor<?x4xf32>) {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %qkv, %c0 : tensor<?x16xf32>
  %positions = tensor.expand_shape %p [[0, 1]] output_shape [1, %n] : tensor<?xi32> into tensor<1x?xi32>
  %q = tensor.extract_slice %qkv[0, 0] [%n, 8] [1, 1] : tensor<?x16xf32> to tensor<?x8xf32>
  %k = tensor.extract_slice %qkv[0, 8] [%n, 4] [1, 1] : tensor<?x16xf32> to tensor<?x4xf32>
  %qs = tensor.expand_shape %q [[0, 1], [2, 3]] output_shape [1, %n, 2, 4] : tensor<?x8xf32> into tensor<1x?x2x4xf32>
  %ks = tensor.expand_shape %k [[0, 1], [2, 3]] output_shape [1, %n, 1, 4] : tensor<?x4xf32> into tensor<1x?x1x4xf32>
  %qe = tensor.empty(%n) : tensor<1x2x?x4xf32>
  %ke = tensor.empty(%n) : tensor<1x1x?x4xf32>
  %qt = linalg.transpose ins(%qs : tensor<1x?x2x4xf32>) outs(%qe : tensor<1x2x?x4xf32>) permutation = [0, 2, 1, 3]
  %kt = linalg.transpose ins(%ks : tensor<1x?x1x4xf32>) outs(%ke : tensor<1x1x?x4xf32>) permutation = [0, 2, 1, 3]
  %qr = heddle.rope %qt, %positions table(%t : tensor<?x4xf32>) #rope : tensor<1x2x?x4xf32>, tensor<1x?xi32>
  %kr = heddle.rope %kt, %positions table(%t : tensor<?x4xf32>) #rope : tensor<1x1x?x4xf32>, tensor<1x?xi32>
  %qb = linalg.transpose ins(%qr : tensor<1x2x?x4xf32>) outs(%qs : tensor<1x?x2x4xf32>) permutation = [0, 2, 1, 3]
  %kb = linalg.transpose ins(%kr : tensor<1x1x?x4xf32>) outs(%ks : tensor<1x?x1x4xf32>) permutation = [0, 2, 1, 3]
  %qc = tensor.collapse_shape %qb [[0, 1], [2, 3]] : tensor<1x?x2x4xf32> into tensor<?x8xf32>
  %kc = tensor.collapse_shape %kb [[0, 1], [2, 3]] : tensor<1x?x1x4xf32> into tensor<?x4xf32>
  return %qc, %kc : tensor<?x8xf32>, tensor<?x4xf32>
}

// -----

// Angles of two tables, or columns that are no neighbours, stay apart.
#rope = #heddle.rope<half, table = 0, attention_factor = 1.0, inverse_frequency = array<f32: 1.0, 0.1>>
// CHECK-LABEL: @two_tables
// CHECK-COUNT-2: heddle.kernel_call
func.func private @two_tables(%qkv: tensor<?x16xf32>, %p: tensor<?xi32>, %t: tensor<?x4xf32>, %u: tensor<?x4xf32>) -> (tensor<?x8xf32>, tensor<?x4xf32>) {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %qkv, %c0 : tensor<?x16xf32>
  %positions = tensor.expand_shape %p [[0, 1]] output_shape [1, %n] : tensor<?xi32> into tensor<1x?xi32>
  %q = tensor.extract_slice %qkv[0, 0] [%n, 8] [1, 1] : tensor<?x16xf32> to tensor<?x8xf32>
  %k = tensor.extract_slice %qkv[0, 8] [%n, 4] [1, 1] : tensor<?x16xf32> to tensor<?x4xf32>
  %qs = tensor.expand_shape %q [[0, 1], [2, 3]] output_shape [1, %n, 2, 4] : tensor<?x8xf32> into tensor<1x?x2x4xf32>
  %ks = tensor.expand_shape %k [[0, 1], [2, 3]] output_shape [1, %n, 1, 4] : tensor<?x4xf32> into tensor<1x?x1x4xf32>
  %qe = tensor.empty(%n) : tensor<1x2x?x4xf32>
  %ke = tensor.empty(%n) : tensor<1x1x?x4xf32>
  %qt = linalg.transpose ins(%qs : tensor<1x?x2x4xf32>) outs(%qe : tensor<1x2x?x4xf32>) permutation = [0, 2, 1, 3]
  %kt = linalg.transpose ins(%ks : tensor<1x?x1x4xf32>) outs(%ke : tensor<1x1x?x4xf32>) permutation = [0, 2, 1, 3]
  %qr = heddle.rope %qt, %positions table(%t : tensor<?x4xf32>) #rope : tensor<1x2x?x4xf32>, tensor<1x?xi32>
  %kr = heddle.rope %kt, %positions table(%u : tensor<?x4xf32>) #rope : tensor<1x1x?x4xf32>, tensor<1x?xi32>
  %qb = linalg.transpose ins(%qr : tensor<1x2x?x4xf32>) outs(%qs : tensor<1x?x2x4xf32>) permutation = [0, 2, 1, 3]
  %kb = linalg.transpose ins(%kr : tensor<1x1x?x4xf32>) outs(%ks : tensor<1x?x1x4xf32>) permutation = [0, 2, 1, 3]
  %qc = tensor.collapse_shape %qb [[0, 1], [2, 3]] : tensor<1x?x2x4xf32> into tensor<?x8xf32>
  %kc = tensor.collapse_shape %kb [[0, 1], [2, 3]] : tensor<1x?x1x4xf32> into tensor<?x4xf32>
  return %qc, %kc : tensor<?x8xf32>, tensor<?x4xf32>
}
