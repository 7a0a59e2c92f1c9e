// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --heddle-outline-kernels=single-result=true | FileCheck %s
// RUN: %heddle-opt %s --heddle-outline-kernels=single-result=true -o %t 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: sed 's/device = cuda, name = "cuda:sm_80"/device = opencl, name = "opencl"/' %s | %heddle-opt --heddle-outline-kernels=single-result=true | FileCheck %s --check-prefix=OPENCL

#rope = #heddle.rope<half, table = 0, attention_factor = 1.0, inverse_frequency = array<f32: 1.0, 0.1>>

module attributes {heddle.target = #heddle.target<device = cuda, name = "cuda:sm_80">} {

// Queries, keys and values of one product: one kernel rotates and stores.
// CHECK-LABEL: func.func private @of_one_product
// CHECK-SAME: %[[QKV:.*]]: tensor<?x16xf32>, %[[P:.*]]: tensor<?xi32>, %[[T:.*]]: tensor<?x4xf32>, %[[CACHE:.*]]: !heddle.kv_cache<2 x 1 x 4 x bf16>, %[[LAYER:.*]]: index
// CHECK: %[[Q:.*]] = heddle.rotate_append #{{.*}} ins(%[[QKV]], %[[P]], %[[T]], %[[CACHE]][%[[LAYER]]] : {{.*}} {num_heads = 2 : i64} -> tensor<?x8xf32>
// CHECK-NOT: heddle.kernel_call
// CHECK-NOT: heddle.kv_append
// CHECK: return %[[Q]]
// Any device has that kernel.
// OPENCL-LABEL: func.func private @of_one_product
// OPENCL: heddle.rotate_append
// OPENCL-NOT: heddle.kernel_call
// OPENCL-NOT: heddle.kv_append
// OPENCL: return
func.func private @of_one_product(%qkv: tensor<?x16xf32>, %p: tensor<?xi32>, %t: tensor<?x4xf32>, %cache: !heddle.kv_cache<2 x 1 x 4 x bf16>, %layer: index) -> tensor<?x8xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %qkv, %c0 : tensor<?x16xf32>
  %positions = tensor.expand_shape %p [[0, 1]] output_shape [1, %n] : tensor<?xi32> into tensor<1x?xi32>
  %q = tensor.extract_slice %qkv[0, 0] [%n, 8] [1, 1] : tensor<?x16xf32> to tensor<?x8xf32>
  %k = tensor.extract_slice %qkv[0, 8] [%n, 4] [1, 1] : tensor<?x16xf32> to tensor<?x4xf32>
  %v = tensor.extract_slice %qkv[0, 12] [%n, 4] [1, 1] : tensor<?x16xf32> to tensor<?x4xf32>
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
  heddle.kv_append %cache[%layer], %kc, %v : <2 x 1 x 4 x bf16>, tensor<?x4xf32>, tensor<?x4xf32>
  return %qc : tensor<?x8xf32>
}

// Values that are not behind the keys have no such kernel.
// REMARK-COUNT-2: remark: rotates by a kernel of its own: the product before it has another reader, or no kernel for few rows
// REMARK-COUNT-1: remark: stores keys and values by a kernel of their own: one that rotates them first takes
// REMARK-NOT: remark
// CHECK-LABEL: func.func private @f16
// CHECK: heddle.rotate_append
func.func private @f16(%qkv: tensor<?x16xf32>, %p: tensor<?xi32>, %t: tensor<?x4xf32>, %cache: !heddle.kv_cache<2 x 1 x 4 x f16>, %layer: index) -> tensor<?x8xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %qkv, %c0 : tensor<?x16xf32>
  %positions = tensor.expand_shape %p [[0, 1]] output_shape [1, %n] : tensor<?xi32> into tensor<1x?xi32>
  %q = tensor.extract_slice %qkv[0, 0] [%n, 8] [1, 1] : tensor<?x16xf32> to tensor<?x8xf32>
  %k = tensor.extract_slice %qkv[0, 8] [%n, 4] [1, 1] : tensor<?x16xf32> to tensor<?x4xf32>
  %v = tensor.extract_slice %qkv[0, 12] [%n, 4] [1, 1] : tensor<?x16xf32> to tensor<?x4xf32>
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
  heddle.kv_append %cache[%layer], %kc, %v : <2 x 1 x 4 x f16>, tensor<?x4xf32>, tensor<?x4xf32>
  return %qc : tensor<?x8xf32>
}

// CHECK-LABEL: func.func private @values_elsewhere
// CHECK: heddle.kernel_call
// CHECK: heddle.kv_append
func.func private @values_elsewhere(%qkv: tensor<?x16xf32>, %p: tensor<?xi32>, %t: tensor<?x4xf32>, %cache: !heddle.kv_cache<2 x 1 x 4 x bf16>, %layer: index) -> tensor<?x8xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %qkv, %c0 : tensor<?x16xf32>
  %positions = tensor.expand_shape %p [[0, 1]] output_shape [1, %n] : tensor<?xi32> into tensor<1x?xi32>
  %q = tensor.extract_slice %qkv[0, 0] [%n, 8] [1, 1] : tensor<?x16xf32> to tensor<?x8xf32>
  %k = tensor.extract_slice %qkv[0, 8] [%n, 4] [1, 1] : tensor<?x16xf32> to tensor<?x4xf32>
  %v = tensor.extract_slice %qkv[0, 4] [%n, 4] [1, 1] : tensor<?x16xf32> to tensor<?x4xf32>
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
  heddle.kv_append %cache[%layer], %kc, %v : <2 x 1 x 4 x bf16>, tensor<?x4xf32>, tensor<?x4xf32>
  return %qc : tensor<?x8xf32>
}

}
