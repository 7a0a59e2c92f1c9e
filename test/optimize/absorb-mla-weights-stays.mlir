// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --heddle-absorb-mla-weights 2>%t.err | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK --input-file=%t.err
// What must stay, each but for one op a low-rank factorisation. The remark names that op.
// CHECK-NOT: latent_attention

#rope = #heddle.rope<half, table = 0, attention_factor = 1.0, inverse_frequency = array<f32: 1.0, 0.1>>

// REMARK: keys and values are cached whole: 'heddle.rope' at {{.*}} makes the key depend on its position
// CHECK-LABEL: @rotated_after_the_product
// CHECK: heddle.attention
func.func @rotated_after_the_product(%p: tensor<1x6xi32>, %x: tensor<1x6x16xf32>, %wq: tensor<16x16xf32>, %down: tensor<7x16xf32>, %up_k: tensor<8x7xf32>, %up_v: tensor<6x7xf32>) -> tensor<1x4x6x3xf32> {
  %q = heddle.linear %x, weights(%wq : tensor<16x16xf32>) : tensor<1x6x16xf32> -> tensor<1x6x16xf32>
  %qs = tensor.expand_shape %q [[0], [1], [2, 3]] output_shape [1, 6, 4, 4] : tensor<1x6x16xf32> into tensor<1x6x4x4xf32>
  %qe = tensor.empty() : tensor<1x4x6x4xf32>
  %qh = linalg.transpose ins(%qs : tensor<1x6x4x4xf32>) outs(%qe : tensor<1x4x6x4xf32>) permutation = [0, 2, 1, 3]
  %c = heddle.linear %x, weights(%down : tensor<7x16xf32>) : tensor<1x6x16xf32> -> tensor<1x6x7xf32>
  %k = heddle.linear %c, weights(%up_k : tensor<8x7xf32>) : tensor<1x6x7xf32> -> tensor<1x6x8xf32>
  %ks = tensor.expand_shape %k [[0], [1], [2, 3]] output_shape [1, 6, 2, 4] : tensor<1x6x8xf32> into tensor<1x6x2x4xf32>
  %ke = tensor.empty() : tensor<1x2x6x4xf32>
  %kh = linalg.transpose ins(%ks : tensor<1x6x2x4xf32>) outs(%ke : tensor<1x2x6x4xf32>) permutation = [0, 2, 1, 3]
  %kr = heddle.rope %kh, %p, #rope : tensor<1x2x6x4xf32>, tensor<1x6xi32>
  %v = heddle.linear %c, weights(%up_v : tensor<6x7xf32>) : tensor<1x6x7xf32> -> tensor<1x6x6xf32>
  %vs = tensor.expand_shape %v [[0], [1], [2, 3]] output_shape [1, 6, 2, 3] : tensor<1x6x6xf32> into tensor<1x6x2x3xf32>
  %ve = tensor.empty() : tensor<1x2x6x3xf32>
  %vh = linalg.transpose ins(%vs : tensor<1x6x2x3xf32>) outs(%ve : tensor<1x2x6x3xf32>) permutation = [0, 2, 1, 3]
  %o = heddle.attention %qh, %kr, %vh <causal> {scale = 0.5} : tensor<1x4x6x4xf32>, tensor<1x2x6x4xf32>, tensor<1x2x6x3xf32> -> tensor<1x4x6x3xf32>
  return %o : tensor<1x4x6x3xf32>
}

// REMARK: 'heddle.linear' at {{.*}} adds a bias
// CHECK-LABEL: @biased_keys
// CHECK: heddle.attention
func.func @biased_keys(%x: tensor<1x6x16xf32>, %wq: tensor<20x16xf32>, %down: tensor<7x16xf32>, %up_k: tensor<10x7xf32>, %up_v: tensor<6x7xf32>, %b: tensor<10xf32>) -> tensor<1x4x6x3xf32> {
  %q = heddle.linear %x, weights(%wq : tensor<20x16xf32>) : tensor<1x6x16xf32> -> tensor<1x6x20xf32>
  %qs = tensor.expand_shape %q [[0], [1], [2, 3]] output_shape [1, 6, 4, 5] : tensor<1x6x20xf32> into tensor<1x6x4x5xf32>
  %qe = tensor.empty() : tensor<1x4x6x5xf32>
  %qh = linalg.transpose ins(%qs : tensor<1x6x4x5xf32>) outs(%qe : tensor<1x4x6x5xf32>) permutation = [0, 2, 1, 3]
  %c = heddle.linear %x, weights(%down : tensor<7x16xf32>) : tensor<1x6x16xf32> -> tensor<1x6x7xf32>
  %k = heddle.linear %c, weights(%up_k : tensor<10x7xf32>) biases(%b : tensor<10xf32>) : tensor<1x6x7xf32> -> tensor<1x6x10xf32>
  %ks = tensor.expand_shape %k [[0], [1], [2, 3]] output_shape [1, 6, 2, 5] : tensor<1x6x10xf32> into tensor<1x6x2x5xf32>
  %ke = tensor.empty() : tensor<1x2x6x5xf32>
  %kh = linalg.transpose ins(%ks : tensor<1x6x2x5xf32>) outs(%ke : tensor<1x2x6x5xf32>) permutation = [0, 2, 1, 3]
  %v = heddle.linear %c, weights(%up_v : tensor<6x7xf32>) : tensor<1x6x7xf32> -> tensor<1x6x6xf32>
  %vs = tensor.expand_shape %v [[0], [1], [2, 3]] output_shape [1, 6, 2, 3] : tensor<1x6x6xf32> into tensor<1x6x2x3xf32>
  %ve = tensor.empty() : tensor<1x2x6x3xf32>
  %vh = linalg.transpose ins(%vs : tensor<1x6x2x3xf32>) outs(%ve : tensor<1x2x6x3xf32>) permutation = [0, 2, 1, 3]
  %o = heddle.attention %qh, %kh, %vh <causal> {scale = 0.5} : tensor<1x4x6x5xf32>, tensor<1x2x6x5xf32>, tensor<1x2x6x3xf32> -> tensor<1x4x6x3xf32>
  return %o : tensor<1x4x6x3xf32>
}

// REMARK: 'heddle.attention' at {{.*}} has keys and values of different latents
// CHECK-LABEL: @latents_apart
// CHECK: heddle.attention
func.func @latents_apart(%x: tensor<1x6x16xf32>, %wq: tensor<20x16xf32>, %down: tensor<7x16xf32>, %up_k: tensor<10x7xf32>, %up_v: tensor<6x7xf32>, %other: tensor<7x16xf32>) -> tensor<1x4x6x3xf32> {
  %q = heddle.linear %x, weights(%wq : tensor<20x16xf32>) : tensor<1x6x16xf32> -> tensor<1x6x20xf32>
  %qs = tensor.expand_shape %q [[0], [1], [2, 3]] output_shape [1, 6, 4, 5] : tensor<1x6x20xf32> into tensor<1x6x4x5xf32>
  %qe = tensor.empty() : tensor<1x4x6x5xf32>
  %qh = linalg.transpose ins(%qs : tensor<1x6x4x5xf32>) outs(%qe : tensor<1x4x6x5xf32>) permutation = [0, 2, 1, 3]
  %c = heddle.linear %x, weights(%down : tensor<7x16xf32>) : tensor<1x6x16xf32> -> tensor<1x6x7xf32>
  %d = heddle.linear %x, weights(%other : tensor<7x16xf32>) : tensor<1x6x16xf32> -> tensor<1x6x7xf32>
  %k = heddle.linear %c, weights(%up_k : tensor<10x7xf32>) : tensor<1x6x7xf32> -> tensor<1x6x10xf32>
  %ks = tensor.expand_shape %k [[0], [1], [2, 3]] output_shape [1, 6, 2, 5] : tensor<1x6x10xf32> into tensor<1x6x2x5xf32>
  %ke = tensor.empty() : tensor<1x2x6x5xf32>
  %kh = linalg.transpose ins(%ks : tensor<1x6x2x5xf32>) outs(%ke : tensor<1x2x6x5xf32>) permutation = [0, 2, 1, 3]
  %v = heddle.linear %d, weights(%up_v : tensor<6x7xf32>) : tensor<1x6x7xf32> -> tensor<1x6x6xf32>
  %vs = tensor.expand_shape %v [[0], [1], [2, 3]] output_shape [1, 6, 2, 3] : tensor<1x6x6xf32> into tensor<1x6x2x3xf32>
  %ve = tensor.empty() : tensor<1x2x6x3xf32>
  %vh = linalg.transpose ins(%vs : tensor<1x6x2x3xf32>) outs(%ve : tensor<1x2x6x3xf32>) permutation = [0, 2, 1, 3]
  %o = heddle.attention %qh, %kh, %vh <causal> {scale = 0.5} : tensor<1x4x6x5xf32>, tensor<1x2x6x5xf32>, tensor<1x2x6x3xf32> -> tensor<1x4x6x3xf32>
  return %o : tensor<1x4x6x3xf32>
}

// REMARK: 'heddle.attention' at {{.*}} caches 16 values per token, its latent would be 16
// CHECK-LABEL: @full_rank
// CHECK: heddle.attention
func.func @full_rank(%x: tensor<1x6x16xf32>, %wq: tensor<20x16xf32>, %down: tensor<16x16xf32>, %up_k: tensor<10x16xf32>, %up_v: tensor<6x16xf32>) -> tensor<1x4x6x3xf32> {
  %q = heddle.linear %x, weights(%wq : tensor<20x16xf32>) : tensor<1x6x16xf32> -> tensor<1x6x20xf32>
  %qs = tensor.expand_shape %q [[0], [1], [2, 3]] output_shape [1, 6, 4, 5] : tensor<1x6x20xf32> into tensor<1x6x4x5xf32>
  %qe = tensor.empty() : tensor<1x4x6x5xf32>
  %qh = linalg.transpose ins(%qs : tensor<1x6x4x5xf32>) outs(%qe : tensor<1x4x6x5xf32>) permutation = [0, 2, 1, 3]
  %c = heddle.linear %x, weights(%down : tensor<16x16xf32>) : tensor<1x6x16xf32> -> tensor<1x6x16xf32>
  %k = heddle.linear %c, weights(%up_k : tensor<10x16xf32>) : tensor<1x6x16xf32> -> tensor<1x6x10xf32>
  %ks = tensor.expand_shape %k [[0], [1], [2, 3]] output_shape [1, 6, 2, 5] : tensor<1x6x10xf32> into tensor<1x6x2x5xf32>
  %ke = tensor.empty() : tensor<1x2x6x5xf32>
  %kh = linalg.transpose ins(%ks : tensor<1x6x2x5xf32>) outs(%ke : tensor<1x2x6x5xf32>) permutation = [0, 2, 1, 3]
  %v = heddle.linear %c, weights(%up_v : tensor<6x16xf32>) : tensor<1x6x16xf32> -> tensor<1x6x6xf32>
  %vs = tensor.expand_shape %v [[0], [1], [2, 3]] output_shape [1, 6, 2, 3] : tensor<1x6x6xf32> into tensor<1x6x2x3xf32>
  %ve = tensor.empty() : tensor<1x2x6x3xf32>
  %vh = linalg.transpose ins(%vs : tensor<1x6x2x3xf32>) outs(%ve : tensor<1x2x6x3xf32>) permutation = [0, 2, 1, 3]
  %o = heddle.attention %qh, %kh, %vh <causal> {scale = 0.5} : tensor<1x4x6x5xf32>, tensor<1x2x6x5xf32>, tensor<1x2x6x3xf32> -> tensor<1x4x6x3xf32>
  return %o : tensor<1x4x6x3xf32>
}

// REMARK: an argument is no product of low rank
// CHECK-LABEL: @no_product_before
// CHECK: heddle.attention
func.func @no_product_before(%x: tensor<1x6x16xf32>, %wq: tensor<20x16xf32>, %down: tensor<7x16xf32>, %up_k: tensor<10x7xf32>, %up_v: tensor<6x7xf32>, %c: tensor<1x6x7xf32>) -> tensor<1x4x6x3xf32> {
  %q = heddle.linear %x, weights(%wq : tensor<20x16xf32>) : tensor<1x6x16xf32> -> tensor<1x6x20xf32>
  %qs = tensor.expand_shape %q [[0], [1], [2, 3]] output_shape [1, 6, 4, 5] : tensor<1x6x20xf32> into tensor<1x6x4x5xf32>
  %qe = tensor.empty() : tensor<1x4x6x5xf32>
  %qh = linalg.transpose ins(%qs : tensor<1x6x4x5xf32>) outs(%qe : tensor<1x4x6x5xf32>) permutation = [0, 2, 1, 3]
  %k = heddle.linear %c, weights(%up_k : tensor<10x7xf32>) : tensor<1x6x7xf32> -> tensor<1x6x10xf32>
  %ks = tensor.expand_shape %k [[0], [1], [2, 3]] output_shape [1, 6, 2, 5] : tensor<1x6x10xf32> into tensor<1x6x2x5xf32>
  %ke = tensor.empty() : tensor<1x2x6x5xf32>
  %kh = linalg.transpose ins(%ks : tensor<1x6x2x5xf32>) outs(%ke : tensor<1x2x6x5xf32>) permutation = [0, 2, 1, 3]
  %v = heddle.linear %c, weights(%up_v : tensor<6x7xf32>) : tensor<1x6x7xf32> -> tensor<1x6x6xf32>
  %vs = tensor.expand_shape %v [[0], [1], [2, 3]] output_shape [1, 6, 2, 3] : tensor<1x6x6xf32> into tensor<1x6x2x3xf32>
  %ve = tensor.empty() : tensor<1x2x6x3xf32>
  %vh = linalg.transpose ins(%vs : tensor<1x6x2x3xf32>) outs(%ve : tensor<1x2x6x3xf32>) permutation = [0, 2, 1, 3]
  %o = heddle.attention %qh, %kh, %vh <causal> {scale = 0.5} : tensor<1x4x6x5xf32>, tensor<1x2x6x5xf32>, tensor<1x2x6x3xf32> -> tensor<1x4x6x3xf32>
  return %o : tensor<1x4x6x3xf32>
}

// REMARK: 'heddle.attention' at {{.*}} has a bias, sinks or a softcap
// CHECK-LABEL: @softcapped
// CHECK: heddle.attention
func.func @softcapped(%x: tensor<1x6x16xf32>, %wq: tensor<20x16xf32>, %down: tensor<7x16xf32>, %up_k: tensor<10x7xf32>, %up_v: tensor<6x7xf32>) -> tensor<1x4x6x3xf32> {
  %q = heddle.linear %x, weights(%wq : tensor<20x16xf32>) : tensor<1x6x16xf32> -> tensor<1x6x20xf32>
  %qs = tensor.expand_shape %q [[0], [1], [2, 3]] output_shape [1, 6, 4, 5] : tensor<1x6x20xf32> into tensor<1x6x4x5xf32>
  %qe = tensor.empty() : tensor<1x4x6x5xf32>
  %qh = linalg.transpose ins(%qs : tensor<1x6x4x5xf32>) outs(%qe : tensor<1x4x6x5xf32>) permutation = [0, 2, 1, 3]
  %c = heddle.linear %x, weights(%down : tensor<7x16xf32>) : tensor<1x6x16xf32> -> tensor<1x6x7xf32>
  %k = heddle.linear %c, weights(%up_k : tensor<10x7xf32>) : tensor<1x6x7xf32> -> tensor<1x6x10xf32>
  %ks = tensor.expand_shape %k [[0], [1], [2, 3]] output_shape [1, 6, 2, 5] : tensor<1x6x10xf32> into tensor<1x6x2x5xf32>
  %ke = tensor.empty() : tensor<1x2x6x5xf32>
  %kh = linalg.transpose ins(%ks : tensor<1x6x2x5xf32>) outs(%ke : tensor<1x2x6x5xf32>) permutation = [0, 2, 1, 3]
  %v = heddle.linear %c, weights(%up_v : tensor<6x7xf32>) : tensor<1x6x7xf32> -> tensor<1x6x6xf32>
  %vs = tensor.expand_shape %v [[0], [1], [2, 3]] output_shape [1, 6, 2, 3] : tensor<1x6x6xf32> into tensor<1x6x2x3xf32>
  %ve = tensor.empty() : tensor<1x2x6x3xf32>
  %vh = linalg.transpose ins(%vs : tensor<1x6x2x3xf32>) outs(%ve : tensor<1x2x6x3xf32>) permutation = [0, 2, 1, 3]
  %o = heddle.attention %qh, %kh, %vh <causal> {scale = 0.5, softcap = 30.0} : tensor<1x4x6x5xf32>, tensor<1x2x6x5xf32>, tensor<1x2x6x3xf32> -> tensor<1x4x6x3xf32>
  return %o : tensor<1x4x6x3xf32>
}
