// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --heddle-outline-kernels=single-result=true | FileCheck %s
// RUN: %heddle-opt %s --heddle-outline-kernels=single-result=true -o %t 2>&1 | FileCheck %s --check-prefix=REMARK

#rope = #heddle.rope<half, table = 0, attention_factor = 1.0, inverse_frequency = array<f32: 1.0, 0.1>>

module attributes {heddle.target = #heddle.target<device = cuda, name = "cuda:sm_80">} {

// The rotation ends the product, which comes with its norm and its schedule.
// CHECK-LABEL: func.func private @of_a_product
// CHECK-SAME: %[[X:.*]]: tensor<?x64xf32>, %[[W:.*]]: tensor<1088xi8>, %[[G:.*]]: tensor<64xf32>, %{{.*}}: tensor<4xf32>, %{{.*}}: tensor<4xf32>, %[[P:.*]]: tensor<?xi32>, %[[T:.*]]: tensor<?x4xf32>, %[[CACHE:.*]]: !heddle.kv_cache<2 x 1 x 4 x bf16>, %[[LAYER:.*]]: index
// CHECK-NOT: heddle.packed_matmul
// CHECK: %[[Q:.*]]:3 = heddle.rotate_append #{{.*}} ins(%[[X]], %[[P]], %[[T]], %[[CACHE]][%[[LAYER]]] weights %[[W]] norm %[[G]] : {{.*}} outs(%{{.*}}, %{{.*}}, %{{.*}} : tensor<?x8xf32>, tensor<?x16xf32>, tensor<?x64xf32>) {eps = 1.000000e-05 : f64, format = "q8_0", heddle.schedule = {{.*}}, k = 64 : i64, num_heads = 2 : i64, weight_offset = 0.000000e+00 : f64}
// CHECK-NOT: heddle.kv_append
// CHECK: return %[[Q]]#0
func.func private @of_a_product(%x: tensor<?x64xf32>, %w: tensor<1088xi8>, %g: tensor<64xf32>, %qn: tensor<4xf32>, %kn: tensor<4xf32>, %p: tensor<?xi32>, %t: tensor<?x4xf32>, %cache: !heddle.kv_cache<2 x 1 x 4 x bf16>, %layer: index) -> tensor<?x8xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x64xf32>
  %o = tensor.empty(%n) : tensor<?x16xf32>
  %r = tensor.empty(%n) : tensor<?x64xf32>
  %qkv, %left = heddle.packed_matmul ins(%x, %w norm %g : tensor<?x64xf32>, tensor<1088xi8> norm tensor<64xf32>)
    outs(%o, %r : tensor<?x16xf32>, tensor<?x64xf32>) {n = 16, k = 64, format = "q8_0", eps = 1.0e-5, weight_offset = 0.0, heddle.schedule = #heddle.schedule<tiles = []>} -> tensor<?x16xf32>, tensor<?x64xf32>
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

// Norms of heads, which keep the ropes of queries and keys apart, are part of it.
// CHECK-LABEL: func.func private @norms_of_heads
// CHECK-SAME: %{{.*}}: tensor<64xf32>, %[[QN:.*]]: tensor<4xf32>, %[[KN:.*]]: tensor<4xf32>,
// CHECK: heddle.rotate_append #{{.*}} norms %[[QN]], %[[KN]] weights {{.*}}heads_eps = 9.9999999999999995E-7 : f64, heads_weight_offset = 0.000000e+00 : f64
// CHECK-NOT: heddle.kernel_call
// CHECK: return
func.func private @norms_of_heads(%x: tensor<?x64xf32>, %w: tensor<1088xi8>, %g: tensor<64xf32>, %qn: tensor<4xf32>, %kn: tensor<4xf32>, %p: tensor<?xi32>, %t: tensor<?x4xf32>, %cache: !heddle.kv_cache<2 x 1 x 4 x bf16>, %layer: index) -> tensor<?x8xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x64xf32>
  %o = tensor.empty(%n) : tensor<?x16xf32>
  %r = tensor.empty(%n) : tensor<?x64xf32>
  %qkv, %left = heddle.packed_matmul ins(%x, %w norm %g : tensor<?x64xf32>, tensor<1088xi8> norm tensor<64xf32>)
    outs(%o, %r : tensor<?x16xf32>, tensor<?x64xf32>) {n = 16, k = 64, format = "q8_0", eps = 1.0e-5, weight_offset = 0.0, heddle.schedule = #heddle.schedule<tiles = []>} -> tensor<?x16xf32>, tensor<?x64xf32>
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
  %qq = heddle.rms_norm %qt, %qn {eps = 1.0e-6, weight_offset = 0.0} : tensor<1x2x?x4xf32>, tensor<4xf32>
  %kk = heddle.rms_norm %kt, %kn {eps = 1.0e-6, weight_offset = 0.0} : tensor<1x1x?x4xf32>, tensor<4xf32>
  %qr = heddle.rope %qq, %positions table(%t : tensor<?x4xf32>) #rope : tensor<1x2x?x4xf32>, tensor<1x?xi32>
  %kr = heddle.rope %kk, %positions table(%t : tensor<?x4xf32>) #rope : tensor<1x1x?x4xf32>, tensor<1x?xi32>
  %qb = linalg.transpose ins(%qr : tensor<1x2x?x4xf32>) outs(%qs : tensor<1x?x2x4xf32>) permutation = [0, 2, 1, 3]
  %kb = linalg.transpose ins(%kr : tensor<1x1x?x4xf32>) outs(%ks : tensor<1x?x1x4xf32>) permutation = [0, 2, 1, 3]
  %qc = tensor.collapse_shape %qb [[0, 1], [2, 3]] : tensor<1x?x2x4xf32> into tensor<?x8xf32>
  %kc = tensor.collapse_shape %kb [[0, 1], [2, 3]] : tensor<1x?x1x4xf32> into tensor<?x4xf32>
  heddle.kv_append %cache[%layer], %kc, %v : <2 x 1 x 4 x bf16>, tensor<?x4xf32>, tensor<?x4xf32>
  return %qc : tensor<?x8xf32>
}

// REMARK-COUNT-2: remark: rotates by a kernel of its own: the product before it has another reader, or no kernel for few rows
// REMARK-NOT: remark
// Somebody else reads the product.
// CHECK-LABEL: func.func private @another_reader
// CHECK: heddle.packed_matmul
// CHECK: heddle.rotate_append #{{.*}} ins(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}[%{{.*}}] : tensor<?x16xf32>,
func.func private @another_reader(%x: tensor<?x64xf32>, %w: tensor<1088xi8>, %g: tensor<64xf32>, %qn: tensor<4xf32>, %kn: tensor<4xf32>, %p: tensor<?xi32>, %t: tensor<?x4xf32>, %cache: !heddle.kv_cache<2 x 1 x 4 x bf16>, %layer: index) -> (tensor<?x8xf32>, tensor<?x16xf32>) {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x64xf32>
  %o = tensor.empty(%n) : tensor<?x16xf32>
  %r = tensor.empty(%n) : tensor<?x64xf32>
  %qkv, %left = heddle.packed_matmul ins(%x, %w norm %g : tensor<?x64xf32>, tensor<1088xi8> norm tensor<64xf32>)
    outs(%o, %r : tensor<?x16xf32>, tensor<?x64xf32>) {n = 16, k = 64, format = "q8_0", eps = 1.0e-5, weight_offset = 0.0, heddle.schedule = #heddle.schedule<tiles = []>} -> tensor<?x16xf32>, tensor<?x64xf32>
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
  return %qc, %qkv : tensor<?x8xf32>, tensor<?x16xf32>
}

// Codes of a table have no kernel for few rows.
// CHECK-LABEL: func.func private @code_book
// CHECK: heddle.packed_matmul
// CHECK: heddle.rotate_append
func.func private @code_book(%x: tensor<?x64xf32>, %w: tensor<1088xi8>, %g: tensor<64xf32>, %qn: tensor<4xf32>, %kn: tensor<4xf32>, %p: tensor<?xi32>, %t: tensor<?x4xf32>, %cache: !heddle.kv_cache<2 x 1 x 4 x bf16>, %layer: index) -> tensor<?x8xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x64xf32>
  %o = tensor.empty(%n) : tensor<?x16xf32>
  %r = tensor.empty(%n) : tensor<?x64xf32>
  %qkv = heddle.packed_matmul ins(%x, %w : tensor<?x64xf32>, tensor<1088xi8>) outs(%o : tensor<?x16xf32>) {n = 16, k = 64, format = "iq4_nl"} -> tensor<?x16xf32>
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

}
