// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: split-file %s %t
// RUN: %heddle-opt %t/bent.mlir --heddle-form-forward --canonicalize --cse | FileCheck %s --check-prefix=BENT
// RUN: sed 's/select %above/select %outside/' %t/bent.mlir | %heddle-opt --heddle-form-forward 2>&1 | FileCheck %s --check-prefix=JOINED
// RUN: %heddle-opt %t/normed.mlir --heddle-form-forward --canonicalize --cse | FileCheck %s --check-prefix=NORMED

// An activation that no op names: what is computed of each element and of numbers, and how they compare. Behind the last layer no norm.
// BENT-LABEL: func.func private @layer_0(
// BENT-DAG: %[[ZERO:.*]] = arith.constant 0.000000e+00 : f32
// BENT-DAG: %[[TENTH:.*]] = arith.constant 1.000000e-01 : f32
// BENT: heddle.attention {{.*}} <causal>
// BENT: %[[Y:.*]] = arith.addf
// BENT: %[[ZEROS:.*]] = tensor.splat %[[ZERO]][%{{.*}}, %{{.*}}] : tensor<?x?x4xf32>
// BENT: %[[ABOVE:.*]] = arith.cmpf ogt, %[[Y]], %[[ZEROS]] : tensor<?x?x4xf32>
// BENT: %[[SQUARE:.*]] = arith.mulf %[[Y]], %[[Y]] : tensor<?x?x4xf32>
// BENT: %[[TENTHS:.*]] = tensor.splat %[[TENTH]][%{{.*}}, %{{.*}}] : tensor<?x?x4xf32>
// BENT: %[[LINE:.*]] = arith.mulf %[[Y]], %[[TENTHS]] : tensor<?x?x4xf32>
// BENT: %[[BENT:.*]] = arith.select %[[ABOVE]], %[[SQUARE]], %[[LINE]] : tensor<?x?x4xi1>, tensor<?x?x4xf32>
// BENT: return %[[BENT]]
// BENT-LABEL: func.func @forward(
// BENT: %[[LAST:.*]] = call @layer_0(
// BENT: heddle.linear %[[LAST]]
// BENT-NOT: @graph
// A comparison that others make is none of elements.
// JOINED: remark: no generate: 'arith.andi' at {{.*}} is no part of a decoder's step
// JOINED: func.func @graph
//--- bent.mlir
func.func @graph(%ids: tensor<?x?xi64> {heddle.name = "input_ids"}) -> (tensor<?x?x6xf32> {heddle.name = "logits"}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %b = tensor.dim %ids, %c0 : tensor<?x?xi64>
  %n = tensor.dim %ids, %c1 : tensor<?x?xi64>
  %narrow = arith.trunci %ids : tensor<?x?xi64> to tensor<?x?xi32>
  %table = heddle.weight "t" <type = "f32", file = 0, offset = 0> : tensor<6x4xf32>
  %x = heddle.embedding %narrow, %table : tensor<?x?xi32>, tensor<6x4xf32> -> tensor<?x?x4xf32>
  %e = tensor.expand_shape %x [[0], [1], [2, 3]] output_shape [%b, %n, 1, 4] : tensor<?x?x4xf32> into tensor<?x?x1x4xf32>
  %h_init = tensor.empty(%b, %n) : tensor<?x1x?x4xf32>
  %h = linalg.transpose ins(%e : tensor<?x?x1x4xf32>) outs(%h_init : tensor<?x1x?x4xf32>) permutation = [0, 2, 1, 3]
  %o = heddle.attention %h, %h, %h <causal> {scale = 0.5 : f64} : tensor<?x1x?x4xf32>, tensor<?x1x?x4xf32>, tensor<?x1x?x4xf32> -> tensor<?x1x?x4xf32>
  %t_init = tensor.empty(%b, %n) : tensor<?x?x1x4xf32>
  %t = linalg.transpose ins(%o : tensor<?x1x?x4xf32>) outs(%t_init : tensor<?x?x1x4xf32>) permutation = [0, 2, 1, 3]
  %r = tensor.collapse_shape %t [[0], [1], [2, 3]] : tensor<?x?x1x4xf32> into tensor<?x?x4xf32>
  %y = arith.addf %r, %x : tensor<?x?x4xf32>
  %zero = arith.constant 0.0 : f32
  %tenth = arith.constant 0.1 : f32
  %rows = tensor.empty(%b, %n) : tensor<?x?x4xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%rows : tensor<?x?x4xf32>) -> tensor<?x?x4xf32>
  %tenths = linalg.fill ins(%tenth : f32) outs(%rows : tensor<?x?x4xf32>) -> tensor<?x?x4xf32>
  %above = arith.cmpf ogt, %y, %zeros : tensor<?x?x4xf32>
  %below = arith.cmpf olt, %y, %tenths : tensor<?x?x4xf32>
  %outside = arith.andi %above, %below : tensor<?x?x4xi1>
  %square = arith.mulf %y, %y : tensor<?x?x4xf32>
  %line = arith.mulf %tenths, %y : tensor<?x?x4xf32>
  %z = arith.select %above, %square, %line : tensor<?x?x4xi1>, tensor<?x?x4xf32>
  %logits = heddle.linear %z, weights(%table : tensor<6x4xf32>) : tensor<?x?x4xf32> -> tensor<?x?x6xf32>
  return %logits : tensor<?x?x6xf32>
}

// Persimmon: query, key and value of a head beside each other, of which two are normalised before they are put apart: each gets a matmul of the rows
// of its heads.
// NORMED-LABEL: func.func private @layer_0(
// NORMED-SAME: %[[X:.*]]: tensor<?x?x4xf32>, %{{.*}}: tensor<?x?xi32>,
// NORMED: heddle.linear %[[X]], weights({{.*}} : tensor<2x4xf32>, tensor<2x4xf32>) : tensor<?x?x4xf32> -> tensor<?x?x4xf32>
// NORMED: %[[KEYS:.*]] = heddle.linear %[[X]], weights({{.*}} : tensor<2x4xf32>, tensor<2x4xf32>) : tensor<?x?x4xf32> -> tensor<?x?x4xf32>
// NORMED: %[[APART:.*]] = tensor.expand_shape %[[KEYS]] {{\[\[}}0], [1], [2, 3]] output_shape [%{{.*}}, %{{.*}}, 2, 2]
// NORMED: heddle.rms_norm %[[APART]]
// NORMED-NOT: tensor.extract_slice
// NORMED: heddle.attention
// NORMED: func.func @forward(
//--- normed.mlir
func.func @graph(%ids: tensor<?x?xi64> {heddle.name = "input_ids"}) -> (tensor<?x?x6xf32> {heddle.name = "logits"}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %b = tensor.dim %ids, %c0 : tensor<?x?xi64>
  %n = tensor.dim %ids, %c1 : tensor<?x?xi64>
  %narrow = arith.trunci %ids : tensor<?x?xi64> to tensor<?x?xi32>
  %table = heddle.weight "t" <type = "f32", file = 0, offset = 0> : tensor<6x4xf32>
  %w = heddle.weight "w" <type = "f32", file = 0, offset = 96> {heddle.content = dense<1.0> : tensor<4xf32>} : tensor<4xf32>
  %of_head = heddle.weight "h" <type = "f32", file = 0, offset = 112> {heddle.content = dense<1.0> : tensor<2xf32>} : tensor<2xf32>
  %x = heddle.embedding %narrow, %table : tensor<?x?xi32>, tensor<6x4xf32> -> tensor<?x?x4xf32>
  %qkv_w = heddle.weight "qkv" <type = "f32", file = 0, offset = 120> : tensor<12x4xf32>
  %qkv = heddle.linear %x, weights(%qkv_w : tensor<12x4xf32>) : tensor<?x?x4xf32> -> tensor<?x?x12xf32>
  %e = tensor.expand_shape %qkv [[0], [1], [2, 3, 4]] output_shape [%b, %n, 2, 3, 2] : tensor<?x?x12xf32> into tensor<?x?x2x3x2xf32>
  %q0 = tensor.extract_slice %e[0, 0, 0, 0, 0] [%b, %n, 2, 1, 2] [1, 1, 1, 1, 1] : tensor<?x?x2x3x2xf32> to tensor<?x?x2x2xf32>
  %k0 = tensor.extract_slice %e[0, 0, 0, 1, 0] [%b, %n, 2, 1, 2] [1, 1, 1, 1, 1] : tensor<?x?x2x3x2xf32> to tensor<?x?x2x2xf32>
  %v0 = tensor.extract_slice %e[0, 0, 0, 2, 0] [%b, %n, 2, 1, 2] [1, 1, 1, 1, 1] : tensor<?x?x2x3x2xf32> to tensor<?x?x2x2xf32>
  %q1 = heddle.rms_norm %q0, %of_head {eps = 1.0e-6 : f64} : tensor<?x?x2x2xf32>, tensor<2xf32>
  %k1 = heddle.rms_norm %k0, %of_head {eps = 1.0e-6 : f64} : tensor<?x?x2x2xf32>, tensor<2xf32>
  %init = tensor.empty(%b, %n) : tensor<?x2x?x2xf32>
  %q = linalg.transpose ins(%q1 : tensor<?x?x2x2xf32>) outs(%init : tensor<?x2x?x2xf32>) permutation = [0, 2, 1, 3]
  %k = linalg.transpose ins(%k1 : tensor<?x?x2x2xf32>) outs(%init : tensor<?x2x?x2xf32>) permutation = [0, 2, 1, 3]
  %v = linalg.transpose ins(%v0 : tensor<?x?x2x2xf32>) outs(%init : tensor<?x2x?x2xf32>) permutation = [0, 2, 1, 3]
  %o = heddle.attention %q, %k, %v <causal> {scale = 0.5 : f64} : tensor<?x2x?x2xf32>, tensor<?x2x?x2xf32>, tensor<?x2x?x2xf32> -> tensor<?x2x?x2xf32>
  %t_init = tensor.empty(%b, %n) : tensor<?x?x2x2xf32>
  %t = linalg.transpose ins(%o : tensor<?x2x?x2xf32>) outs(%t_init : tensor<?x?x2x2xf32>) permutation = [0, 2, 1, 3]
  %r = tensor.collapse_shape %t [[0], [1], [2, 3]] : tensor<?x?x2x2xf32> into tensor<?x?x4xf32>
  %y = arith.addf %r, %x : tensor<?x?x4xf32>
  %z = heddle.rms_norm %y, %w {eps = 1.0e-6 : f64} : tensor<?x?x4xf32>, tensor<4xf32>
  %logits = heddle.linear %z, weights(%table : tensor<6x4xf32>) : tensor<?x?x4xf32> -> tensor<?x?x6xf32>
  return %logits : tensor<?x?x6xf32>
}
