// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Orders of axes. Every function is evaluated before and after; each spelling is followed by one that looks alike.
// RUN: %heddle-opt %s --inline --symbol-dce --heddle-check-all --heddle-fuse-attention --canonicalize -o %t.out 2> %t.err
// RUN: FileCheck %s --input-file=%t.out
// RUN: FileCheck %s --input-file=%t.err --check-prefix=MISS

!rows = tensor<2x?x4x8xf32>     // (batch, sequence, heads, head_dim)
!scores = tensor<2x4x?x?xf32>
#s = ["", "s", "", ""]

func.func private @softmax(%s: !scores) -> !scores {
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %n = tensor.dim %s, %c2 : !scores
  %m = tensor.dim %s, %c3 : !scores
  %init = tensor.empty(%n, %m) : !scores
  %p = linalg.softmax dimension(3) ins(%s : !scores) outs(%init : !scores) -> !scores
  return %p : !scores
}

// einsum("bihd,bjhd->bhij") and einsum("bhij,bjhd->bihd"): nothing is transposed.
// CHECK-LABEL: @einsum_over_rows
// CHECK: heddle.attention {{.*}} <full>
#qr = affine_map<(b, h, i, j, d) -> (b, i, h, d)>
#kr = affine_map<(b, h, i, j, d) -> (b, j, h, d)>
#sr = affine_map<(b, h, i, j, d) -> (b, h, i, j)>
#pr = affine_map<(b, i, h, d, j) -> (b, h, i, j)>
#vr = affine_map<(b, i, h, d, j) -> (b, j, h, d)>
#or = affine_map<(b, i, h, d, j) -> (b, i, h, d)>
func.func @einsum_over_rows(%q: !rows {heddle.dims = #s}, %k: !rows {heddle.dims = #s}, %v: !rows {heddle.dims = #s}) -> !rows {
  %c1 = arith.constant 1 : index
  %n = tensor.dim %q, %c1 : !rows
  %zero = arith.constant 0.0 : f32
  %s_init = tensor.empty(%n, %n) : !scores
  %s_start = linalg.fill ins(%zero : f32) outs(%s_init : !scores) -> !scores
  %s = linalg.contract indexing_maps = [#qr, #kr, #sr] ins(%q, %k : !rows, !rows) outs(%s_start : !scores) -> !scores
  %p = call @softmax(%s) : (!scores) -> !scores
  %o_init = tensor.empty(%n) : !rows
  %o_start = linalg.fill ins(%zero : f32) outs(%o_init : !rows) -> !rows
  %o = linalg.contract indexing_maps = [#pr, #vr, #or] ins(%p, %v : !scores, !rows) outs(%o_start : !rows) -> !rows
  return %o : !rows
}

// The values are read at the query's place, not the key's: sums over keys are of probabilities alone.
// CHECK-LABEL: @einsum_with_values_of_the_query
// CHECK-NOT: heddle.attention
// CHECK: linalg.softmax
// MISS: not fused:
#vq = affine_map<(b, i, h, d, j) -> (b, i, h, d)>
func.func @einsum_with_values_of_the_query(%q: !rows {heddle.dims = #s}, %k: !rows {heddle.dims = #s}, %v: !rows {heddle.dims = #s}) -> !rows {
  %c1 = arith.constant 1 : index
  %n = tensor.dim %q, %c1 : !rows
  %zero = arith.constant 0.0 : f32
  %s_init = tensor.empty(%n, %n) : !scores
  %s_start = linalg.fill ins(%zero : f32) outs(%s_init : !scores) -> !scores
  %s = linalg.contract indexing_maps = [#qr, #kr, #sr] ins(%q, %k : !rows, !rows) outs(%s_start : !scores) -> !scores
  %p = call @softmax(%s) : (!scores) -> !scores
  %o_init = tensor.empty(%n) : !rows
  %o_start = linalg.fill ins(%zero : f32) outs(%o_init : !rows) -> !rows
  %o = linalg.generic {indexing_maps = [#pr, #vq, #or], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}
       ins(%p, %v : !scores, !rows) outs(%o_start : !rows) {
  ^bb0(%a: f32, %b: f32, %out: f32):
    %both = arith.mulf %a, %b : f32
    %sum = arith.addf %out, %both : f32
    linalg.yield %sum : f32
  } -> !rows
  return %o : !rows
}

// Keys come first: the scores are those of (key, query), transposed before the softmax.
// CHECK-LABEL: @keys_times_queries
// CHECK: heddle.attention {{.*}} <full>
#ks = affine_map<(b, h, j, i, d) -> (b, j, h, d)>
#qs = affine_map<(b, h, j, i, d) -> (b, i, h, d)>
#ts = affine_map<(b, h, j, i, d) -> (b, h, j, i)>
func.func @keys_times_queries(%q: !rows {heddle.dims = #s}, %k: !rows {heddle.dims = #s}, %v: !rows {heddle.dims = #s}) -> !rows {
  %c1 = arith.constant 1 : index
  %n = tensor.dim %q, %c1 : !rows
  %zero = arith.constant 0.0 : f32
  %s_init = tensor.empty(%n, %n) : !scores
  %s_start = linalg.fill ins(%zero : f32) outs(%s_init : !scores) -> !scores
  %t = linalg.contract indexing_maps = [#ks, #qs, #ts] ins(%k, %q : !rows, !rows) outs(%s_start : !scores) -> !scores
  %s = linalg.transpose ins(%t : !scores) outs(%s_init : !scores) permutation = [0, 1, 3, 2]
  %p = call @softmax(%s) : (!scores) -> !scores
  %o_init = tensor.empty(%n) : !rows
  %o_start = linalg.fill ins(%zero : f32) outs(%o_init : !rows) -> !rows
  %o = linalg.contract indexing_maps = [#pr, #vr, #or] ins(%p, %v : !scores, !rows) outs(%o_start : !rows) -> !rows
  return %o : !rows
}

// The probabilities are transposed instead: each value is weighed by how much its own query looks elsewhere.
// CHECK-LABEL: @transposed_probabilities
// CHECK-NOT: heddle.attention
// CHECK: linalg.softmax
// MISS: not fused:
func.func @transposed_probabilities(%q: !rows {heddle.dims = #s}, %k: !rows {heddle.dims = #s}, %v: !rows {heddle.dims = #s}) -> !rows {
  %c1 = arith.constant 1 : index
  %n = tensor.dim %q, %c1 : !rows
  %zero = arith.constant 0.0 : f32
  %s_init = tensor.empty(%n, %n) : !scores
  %s_start = linalg.fill ins(%zero : f32) outs(%s_init : !scores) -> !scores
  %s = linalg.contract indexing_maps = [#qr, #kr, #sr] ins(%q, %k : !rows, !rows) outs(%s_start : !scores) -> !scores
  %p = call @softmax(%s) : (!scores) -> !scores
  %t = linalg.transpose ins(%p : !scores) outs(%s_init : !scores) permutation = [0, 1, 3, 2]
  %o_init = tensor.empty(%n) : !rows
  %o_start = linalg.fill ins(%zero : f32) outs(%o_init : !rows) -> !rows
  %o = linalg.contract indexing_maps = [#pr, #vr, #or] ins(%t, %v : !scores, !rows) outs(%o_start : !rows) -> !rows
  return %o : !rows
}

// Batch and heads are one dimension, and the products have three.
// CHECK-LABEL: @batch_and_heads_in_one
// CHECK: heddle.attention {{.*}} <full>
!flat = tensor<8x?x8xf32>
!flat_scores = tensor<8x?x?xf32>
#q3 = affine_map<(h, i, j, d) -> (h, i, d)>
#k3 = affine_map<(h, i, j, d) -> (h, j, d)>
#s3 = affine_map<(h, i, j, d) -> (h, i, j)>
#p3 = affine_map<(h, i, d, j) -> (h, i, j)>
#v3 = affine_map<(h, i, d, j) -> (h, j, d)>
#o3 = affine_map<(h, i, d, j) -> (h, i, d)>
func.func private @flattened(%x: !rows) -> !flat {
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c1 : !rows
  %init = tensor.empty(%n) : tensor<2x4x?x8xf32>
  %heads = linalg.transpose ins(%x : !rows) outs(%init : tensor<2x4x?x8xf32>) permutation = [0, 2, 1, 3]
  %flat = tensor.collapse_shape %heads [[0, 1], [2], [3]] : tensor<2x4x?x8xf32> into !flat
  return %flat : !flat
}
func.func private @attend_flat(%q: !flat, %k: !flat, %v: !flat) -> !flat {
  %c1 = arith.constant 1 : index
  %n = tensor.dim %q, %c1 : !flat
  %zero = arith.constant 0.0 : f32
  %s_init = tensor.empty(%n, %n) : !flat_scores
  %s_start = linalg.fill ins(%zero : f32) outs(%s_init : !flat_scores) -> !flat_scores
  %s = linalg.contract indexing_maps = [#q3, #k3, #s3] ins(%q, %k : !flat, !flat) outs(%s_start : !flat_scores) -> !flat_scores
  %p = linalg.softmax dimension(2) ins(%s : !flat_scores) outs(%s_init : !flat_scores) -> !flat_scores
  %o_init = tensor.empty(%n) : !flat
  %o_start = linalg.fill ins(%zero : f32) outs(%o_init : !flat) -> !flat
  %o = linalg.contract indexing_maps = [#p3, #v3, #o3] ins(%p, %v : !flat_scores, !flat) outs(%o_start : !flat) -> !flat
  return %o : !flat
}
func.func @batch_and_heads_in_one(%q: !rows {heddle.dims = #s}, %k: !rows {heddle.dims = #s}, %v: !rows {heddle.dims = #s}) -> !rows {
  %c1 = arith.constant 1 : index
  %n = tensor.dim %q, %c1 : !rows
  %qf = call @flattened(%q) : (!rows) -> !flat
  %kf = call @flattened(%k) : (!rows) -> !flat
  %vf = call @flattened(%v) : (!rows) -> !flat
  %of = call @attend_flat(%qf, %kf, %vf) : (!flat, !flat, !flat) -> !flat
  %heads = tensor.expand_shape %of [[0, 1], [2], [3]] output_shape [2, 4, %n, 8] : !flat into tensor<2x4x?x8xf32>
  %init = tensor.empty(%n) : !rows
  %o = linalg.transpose ins(%heads : tensor<2x4x?x8xf32>) outs(%init : !rows) permutation = [0, 2, 1, 3]
  return %o : !rows
}

// Heads of a batch beside each other, behind the sequence, as torch.nn.MultiheadAttention counts them.
!beside = tensor<?x2x32xf32> // (sequence, batch, heads * head_dim)
func.func private @beside_each_other(%x: !beside) -> !flat {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : !beside
  %joined = tensor.collapse_shape %x [[0], [1, 2]] : !beside into tensor<?x64xf32>
  %apart = tensor.expand_shape %joined [[0], [1, 2]] output_shape [%n, 8, 8] : tensor<?x64xf32> into tensor<?x8x8xf32>
  %init = tensor.empty(%n) : !flat
  %heads = linalg.transpose ins(%apart : tensor<?x8x8xf32>) outs(%init : !flat) permutation = [1, 0, 2]
  return %heads : !flat
}
// CHECK-LABEL: @heads_of_a_batch_beside_each_other
// CHECK: heddle.attention {{.*}} <full> {{.*}} : tensor<2x4x?x8xf32>
func.func @heads_of_a_batch_beside_each_other(%q: !beside {heddle.dims = ["s", "", ""]}, %k: !beside {heddle.dims = ["s", "", ""]}, %v: !beside {heddle.dims = ["s", "", ""]}) -> !flat {
  %qf = call @beside_each_other(%q) : (!beside) -> !flat
  %kf = call @beside_each_other(%k) : (!beside) -> !flat
  %vf = call @beside_each_other(%v) : (!beside) -> !flat
  %of = call @attend_flat(%qf, %kf, %vf) : (!flat, !flat, !flat) -> !flat
  return %of : !flat
}

// Each head takes every eighth element, of both in the batch: there is one.
// CHECK-LABEL: @heads_across_a_batch
// CHECK: heddle.attention {{.*}} <full> {{.*}} : tensor<1x8x?x8xf32>
func.func @heads_across_a_batch(%q: !beside {heddle.dims = ["s", "", ""]}, %k: !beside {heddle.dims = ["s", "", ""]}, %v: !beside {heddle.dims = ["s", "", ""]}) -> !flat {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %q, %c0 : !beside
  %joined = tensor.collapse_shape %q [[0], [1, 2]] : !beside into tensor<?x64xf32>
  %apart = tensor.expand_shape %joined [[0], [1, 2]] output_shape [%n, 8, 8] : tensor<?x64xf32> into tensor<?x8x8xf32>
  %init = tensor.empty(%n) : !flat
  %qf = linalg.transpose ins(%apart : tensor<?x8x8xf32>) outs(%init : !flat) permutation = [2, 0, 1]
  %of = call @attend_flat(%qf, %qf, %qf) : (!flat, !flat, !flat) -> !flat
  return %of : !flat
}

// Rows are flattened with heads in the wrong order.
// CHECK-LABEL: @sequence_and_heads_in_one
// CHECK-NOT: heddle.attention
// CHECK: linalg.softmax
// MISS: not fused:
func.func @sequence_and_heads_in_one(%q: tensor<2x6x4x8xf32>) -> tensor<2x6x4x8xf32> {
  %all = tensor.collapse_shape %q [[0, 1, 2], [3]] : tensor<2x6x4x8xf32> into tensor<48x8xf32>
  %apart = tensor.expand_shape %all [[0, 1], [2]] output_shape [8, 6, 8] : tensor<48x8xf32> into tensor<8x6x8xf32>
  %x = tensor.cast %apart : tensor<8x6x8xf32> to !flat
  %of = call @attend_flat(%x, %x, %x) : (!flat, !flat, !flat) -> !flat
  %static = tensor.cast %of : !flat to tensor<8x6x8xf32>
  %rows = tensor.collapse_shape %static [[0, 1], [2]] : tensor<8x6x8xf32> into tensor<48x8xf32>
  %o = tensor.expand_shape %rows [[0, 1, 2], [3]] output_shape [2, 6, 4, 8] : tensor<48x8xf32> into tensor<2x6x4x8xf32>
  return %o : tensor<2x6x4x8xf32>
}

// One head, no batch.
// CHECK-LABEL: @one_head_of_rank_two
// CHECK: heddle.attention {{.*}} <full>
#q2 = affine_map<(i, j, d) -> (i, d)>
#k2 = affine_map<(i, j, d) -> (j, d)>
#s2 = affine_map<(i, j, d) -> (i, j)>
#p2 = affine_map<(i, d, j) -> (i, j)>
#v2 = affine_map<(i, d, j) -> (j, d)>
#o2 = affine_map<(i, d, j) -> (i, d)>
func.func @one_head_of_rank_two(%q: tensor<5x8xf32>, %k: tensor<7x8xf32>, %v: tensor<7x4xf32>) -> tensor<5x4xf32> {
  %zero = arith.constant 0.0 : f32
  %s_init = tensor.empty() : tensor<5x7xf32>
  %s_start = linalg.fill ins(%zero : f32) outs(%s_init : tensor<5x7xf32>) -> tensor<5x7xf32>
  %s = linalg.contract indexing_maps = [#q2, #k2, #s2] ins(%q, %k : tensor<5x8xf32>, tensor<7x8xf32>) outs(%s_start : tensor<5x7xf32>) -> tensor<5x7xf32>
  %p = linalg.softmax dimension(1) ins(%s : tensor<5x7xf32>) outs(%s_init : tensor<5x7xf32>) -> tensor<5x7xf32>
  %o_init = tensor.empty() : tensor<5x4xf32>
  %o_start = linalg.fill ins(%zero : f32) outs(%o_init : tensor<5x4xf32>) -> tensor<5x4xf32>
  %o = linalg.contract indexing_maps = [#p2, #v2, #o2] ins(%p, %v : tensor<5x7xf32>, tensor<7x4xf32>) outs(%o_start : tensor<5x4xf32>) -> tensor<5x4xf32>
  return %o : tensor<5x4xf32>
}

// The probabilities are a result too: they have to be there.
// CHECK-LABEL: @probabilities_as_a_result
// CHECK-NOT: heddle.attention
// CHECK: linalg.softmax
// MISS: not fused: {{.*}}also reads its probabilities
func.func @probabilities_as_a_result(%q: tensor<5x8xf32>, %k: tensor<7x8xf32>, %v: tensor<7x4xf32>) -> (tensor<5x4xf32>, tensor<5x7xf32>) {
  %zero = arith.constant 0.0 : f32
  %s_init = tensor.empty() : tensor<5x7xf32>
  %s_start = linalg.fill ins(%zero : f32) outs(%s_init : tensor<5x7xf32>) -> tensor<5x7xf32>
  %s = linalg.contract indexing_maps = [#q2, #k2, #s2] ins(%q, %k : tensor<5x8xf32>, tensor<7x8xf32>) outs(%s_start : tensor<5x7xf32>) -> tensor<5x7xf32>
  %p = linalg.softmax dimension(1) ins(%s : tensor<5x7xf32>) outs(%s_init : tensor<5x7xf32>) -> tensor<5x7xf32>
  %o_init = tensor.empty() : tensor<5x4xf32>
  %o_start = linalg.fill ins(%zero : f32) outs(%o_init : tensor<5x4xf32>) -> tensor<5x4xf32>
  %o = linalg.contract indexing_maps = [#p2, #v2, #o2] ins(%p, %v : tensor<5x7xf32>, tensor<7x4xf32>) outs(%o_start : tensor<5x4xf32>) -> tensor<5x4xf32>
  return %o, %p : tensor<5x4xf32>, tensor<5x7xf32>
}

// The softmax is over all keys, the values are those of the first three.
// CHECK-LABEL: @part_of_the_probabilities
// CHECK-NOT: heddle.attention
// CHECK: linalg.softmax
// MISS: not fused: {{.*}}reads a part of its probabilities
func.func @part_of_the_probabilities(%q: tensor<5x8xf32>, %k: tensor<7x8xf32>, %v: tensor<3x4xf32>) -> tensor<5x4xf32> {
  %zero = arith.constant 0.0 : f32
  %s_init = tensor.empty() : tensor<5x7xf32>
  %s_start = linalg.fill ins(%zero : f32) outs(%s_init : tensor<5x7xf32>) -> tensor<5x7xf32>
  %s = linalg.contract indexing_maps = [#q2, #k2, #s2] ins(%q, %k : tensor<5x8xf32>, tensor<7x8xf32>) outs(%s_start : tensor<5x7xf32>) -> tensor<5x7xf32>
  %p = linalg.softmax dimension(1) ins(%s : tensor<5x7xf32>) outs(%s_init : tensor<5x7xf32>) -> tensor<5x7xf32>
  %part = tensor.extract_slice %p[0, 0] [5, 3] [1, 1] : tensor<5x7xf32> to tensor<5x3xf32>
  %o_init = tensor.empty() : tensor<5x4xf32>
  %o_start = linalg.fill ins(%zero : f32) outs(%o_init : tensor<5x4xf32>) -> tensor<5x4xf32>
  %o = linalg.contract indexing_maps = [#p2, #v2, #o2] ins(%part, %v : tensor<5x3xf32>, tensor<3x4xf32>) outs(%o_start : tensor<5x4xf32>) -> tensor<5x4xf32>
  return %o : tensor<5x4xf32>
}
