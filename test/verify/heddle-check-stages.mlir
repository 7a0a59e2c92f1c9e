// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --heddle-check --heddle-check-ids=3,1,4,1,5 --heddle-share-kv-heads --heddle-flatten-batch | FileCheck %s
// RUN: not %heddle-opt %s --heddle-check --heddle-check-ids=3,1,4,1,5 --heddle-check-limit=1e-12 --heddle-flatten-batch=element-type=bf16 -o %t 2>&1 | FileCheck %s --check-prefix=MOVED

// A step over rows and a cache gives the logits of the whole sequence; a cache of 16 bits does not keep them to 12 digits.
// CHECK: heddle.kv_append
// CHECK: heddle.kv_view
// MOVED: error: after pass 'heddle-flatten-batch', result 0 of 'step' differs

#rope = #heddle.rope<half, table = 0, attention_factor = 1.0, inverse_frequency = array<f32: 1.0, 0.1>>

func.func private @layer_0(%x: tensor<?x?x8xf32>, %p: tensor<?x?xi32>, %norm: tensor<8xf32>, %wq: tensor<8x8xf32>, %wk: tensor<4x8xf32>,
                           %wv: tensor<4x8xf32>, %wo: tensor<8x8xf32>, %gate: tensor<16x8xf32>, %down: tensor<8x16xf32>) -> tensor<?x?x8xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %b = tensor.dim %x, %c0 : tensor<?x?x8xf32>
  %s = tensor.dim %x, %c1 : tensor<?x?x8xf32>
  %n = heddle.rms_norm %x, %norm {eps = 1.0e-6} : tensor<?x?x8xf32>, tensor<8xf32>
  %q = heddle.linear %n, weights(%wq : tensor<8x8xf32>) : tensor<?x?x8xf32> -> tensor<?x?x8xf32>
  %qs = tensor.expand_shape %q [[0], [1], [2, 3]] output_shape [%b, %s, 2, 4] : tensor<?x?x8xf32> into tensor<?x?x2x4xf32>
  %qe = tensor.empty(%b, %s) : tensor<?x2x?x4xf32>
  %qt = linalg.transpose ins(%qs : tensor<?x?x2x4xf32>) outs(%qe : tensor<?x2x?x4xf32>) permutation = [0, 2, 1, 3]
  %qr = heddle.rope %qt, %p, #rope : tensor<?x2x?x4xf32>, tensor<?x?xi32>
  %k = heddle.linear %n, weights(%wk : tensor<4x8xf32>) : tensor<?x?x8xf32> -> tensor<?x?x4xf32>
  %ks = tensor.expand_shape %k [[0], [1], [2, 3]] output_shape [%b, %s, 1, 4] : tensor<?x?x4xf32> into tensor<?x?x1x4xf32>
  %ke = tensor.empty(%b, %s) : tensor<?x1x?x4xf32>
  %kt = linalg.transpose ins(%ks : tensor<?x?x1x4xf32>) outs(%ke : tensor<?x1x?x4xf32>) permutation = [0, 2, 1, 3]
  %kr = heddle.rope %kt, %p, #rope : tensor<?x1x?x4xf32>, tensor<?x?xi32>
  %v = heddle.linear %n, weights(%wv : tensor<4x8xf32>) : tensor<?x?x8xf32> -> tensor<?x?x4xf32>
  %vs = tensor.expand_shape %v [[0], [1], [2, 3]] output_shape [%b, %s, 1, 4] : tensor<?x?x4xf32> into tensor<?x?x1x4xf32>
  %ve = tensor.empty(%b, %s) : tensor<?x1x?x4xf32>
  %vt = linalg.transpose ins(%vs : tensor<?x?x1x4xf32>) outs(%ve : tensor<?x1x?x4xf32>) permutation = [0, 2, 1, 3]
  %a = heddle.attention %qr, %kr, %vt <causal> {scale = 0.5} : tensor<?x2x?x4xf32>, tensor<?x1x?x4xf32>, tensor<?x1x?x4xf32> -> tensor<?x2x?x4xf32>
  %ae = tensor.empty(%b, %s) : tensor<?x?x2x4xf32>
  %at = linalg.transpose ins(%a : tensor<?x2x?x4xf32>) outs(%ae : tensor<?x?x2x4xf32>) permutation = [0, 2, 1, 3]
  %ac = tensor.collapse_shape %at [[0], [1], [2, 3]] : tensor<?x?x2x4xf32> into tensor<?x?x8xf32>
  %o = heddle.linear %ac, weights(%wo : tensor<8x8xf32>) : tensor<?x?x8xf32> -> tensor<?x?x8xf32>
  %r = arith.addf %x, %o : tensor<?x?x8xf32>
  %g = heddle.linear %r, weights(%gate : tensor<16x8xf32>) : tensor<?x?x8xf32> -> tensor<?x?x16xf32>
  %h = heddle.glu <silu> %g : tensor<?x?x16xf32>
  %d = heddle.linear %h, weights(%down : tensor<8x16xf32>) : tensor<?x?x16xf32> -> tensor<?x?x8xf32>
  %y = arith.addf %r, %d : tensor<?x?x8xf32>
  return %y : tensor<?x?x8xf32>
}

func.func @forward(%ids: tensor<?x?xi32>, %p: tensor<?x?xi32>) -> tensor<?x?x16xf32> {
  %table = heddle.weight "table" <type = "f32", file = 0, offset = 0> : tensor<16x8xf32>
  %x = heddle.embedding %ids, %table : tensor<?x?xi32>, tensor<16x8xf32> -> tensor<?x?x8xf32>
  %norm = heddle.weight "norm" <type = "f32", file = 0, offset = 512> : tensor<8xf32>
  %wq = heddle.weight "q" <type = "f32", file = 0, offset = 544> : tensor<8x8xf32>
  %wk = heddle.weight "k" <type = "f32", file = 0, offset = 800> : tensor<4x8xf32>
  %wv = heddle.weight "v" <type = "f32", file = 0, offset = 928> : tensor<4x8xf32>
  %wo = heddle.weight "o" <type = "f32", file = 0, offset = 1056> : tensor<8x8xf32>
  %gate = heddle.weight "gate" <type = "f32", file = 0, offset = 1312> : tensor<16x8xf32>
  %down = heddle.weight "down" <type = "f32", file = 0, offset = 1824> : tensor<8x16xf32>
  %y = call @layer_0(%x, %p, %norm, %wq, %wk, %wv, %wo, %gate, %down)
    : (tensor<?x?x8xf32>, tensor<?x?xi32>, tensor<8xf32>, tensor<8x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<8x8xf32>, tensor<16x8xf32>, tensor<8x16xf32>) -> tensor<?x?x8xf32>
  %logits = heddle.linear %y, weights(%table : tensor<16x8xf32>) : tensor<?x?x8xf32> -> tensor<?x?x16xf32>
  return %logits : tensor<?x?x16xf32>
}
