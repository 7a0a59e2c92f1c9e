// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Attention whose softmax is written by hand (test/raise/fuse-attention-weights.mlir), compiled: the binary agrees with the interpreter's
// evaluation of what is written here.
// RUN: %heddle compile %s -o %t.mlir --emit=mlir --stop-after=raise --quiet && FileCheck %s --input-file=%t.mlir --check-prefix=RAISED
// Those that mean the same are one: division last; both causal masks; both with one more in the sum; the given mask. The transposed one is the
// first, transposed.
// RAISED-NOT: {{math.exp|linalg.softmax}}
// RAISED-COUNT-4: = heddle.attention
// RAISED-NOT: {{math.exp|linalg.softmax|heddle.attention}}
// RUN: %heddle verify %s | FileCheck %s
// CHECK: binary NMSE

!heads = tensor<1x2x7x8xf32>  // (batch, heads, sequence, head_dim)
!scores = tensor<1x2x7x7xf32> // (batch, heads, queries, keys)
!rows = tensor<1x2x7xf32>
#q = affine_map<(b, h, i, j, d) -> (b, h, i, d)>
#k = affine_map<(b, h, i, j, d) -> (b, h, j, d)>
#s = affine_map<(b, h, i, j, d) -> (b, h, i, j)>
#p = affine_map<(b, h, i, d, j) -> (b, h, i, j)>
#v = affine_map<(b, h, i, d, j) -> (b, h, j, d)>
#o = affine_map<(b, h, i, d, j) -> (b, h, i, d)>
#kt = affine_map<(b, h, j, i, d) -> (b, h, j, d)>
#qt = affine_map<(b, h, j, i, d) -> (b, h, i, d)>
#st = affine_map<(b, h, j, i, d) -> (b, h, j, i)>
#vt = affine_map<(b, h, d, i, j) -> (b, h, j, d)>
#pt = affine_map<(b, h, d, i, j) -> (b, h, j, i)>
#ot = affine_map<(b, h, d, i, j) -> (b, h, d, i)>
func.func @graph(%q: !heads {heddle.name = "q"}, %k: !heads {heddle.name = "k"}, %v: !heads {heddle.name = "v"},
                 %given: tensor<7x7xi32> {heddle.name = "given"})
    -> (!heads {heddle.name = "divided_last"},
        !heads {heddle.name = "masked_weights"},
        !heads {heddle.name = "masked_scores"},
        !heads {heddle.name = "plus_one"},
        !heads {heddle.name = "plus_one_shifted"},
        !heads {heddle.name = "safely_masked"},
        tensor<1x2x8x7xf32> {heddle.name = "transposed"}) {
  %zero = arith.constant 0.0 : f32
  %heads = tensor.empty() : !heads
  %no_heads = linalg.fill ins(%zero : f32) outs(%heads : !heads) -> !heads
  %init = tensor.empty() : !scores
  %zeros = linalg.fill ins(%zero : f32) outs(%init : !scores) -> !scores
  %row = tensor.empty() : !rows
  %row_zeros = linalg.fill ins(%zero : f32) outs(%row : !rows) -> !rows
  %row_lowest = arith.constant dense<0xFF800000> : !rows
  %s = linalg.contract indexing_maps = [#q, #k, #s] ins(%q, %k : !heads, !heads) outs(%zeros : !scores) -> !scores
  %top = linalg.reduce { arith.maximumf } ins(%s : !scores) outs(%row_lowest : !rows) dimensions = [3]
  %tops = linalg.broadcast ins(%top : !rows) outs(%init : !scores) dimensions = [3]
  %shifted = arith.subf %s, %tops : !scores
  %e = math.exp %shifted : !scores

  // The values are weighed first, the sum divides after them.
  %sum = linalg.reduce { arith.addf } ins(%e : !scores) outs(%row_zeros : !rows) dimensions = [3]
  %sums_of_heads = linalg.broadcast ins(%sum : !rows) outs(%heads : !heads) dimensions = [3]
  %weighed = linalg.contract indexing_maps = [#p, #v, #o] ins(%e, %v : !scores, !heads) outs(%no_heads : !heads) -> !heads
  %divided_last = arith.divf %weighed, %sums_of_heads : !heads

  // Ones below the diagonal, times the weights and times the scores.
  %i1 = tensor.empty() : tensor<7x7xf32>
  %triangle = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} outs(%i1 : tensor<7x7xf32>) {
  ^bb0(%out: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %behind = arith.cmpi sle, %j, %i : index
    %number = arith.uitofp %behind : i1 to f32
    linalg.yield %number : f32
  } -> tensor<7x7xf32>
  %ones = linalg.broadcast ins(%triangle : tensor<7x7xf32>) outs(%init : !scores) dimensions = [0, 1]
  %m = arith.mulf %e, %ones : !scores
  %m_sum = linalg.reduce { arith.addf } ins(%m : !scores) outs(%row_zeros : !rows) dimensions = [3]
  %m_sums = linalg.broadcast ins(%m_sum : !rows) outs(%init : !scores) dimensions = [3]
  %m_p = arith.divf %m, %m_sums : !scores
  %masked_weights = linalg.contract indexing_maps = [#p, #v, #o] ins(%m_p, %v : !scores, !heads) outs(%no_heads : !heads) -> !heads

  %one = arith.constant dense<1.0> : !scores
  %large = arith.constant dense<-1.0e9> : !scores
  %kept = arith.mulf %s, %ones : !scores
  %off = arith.subf %one, %ones : !scores
  %hidden = arith.mulf %off, %large : !scores
  %masked = arith.addf %kept, %hidden : !scores
  %masked_p = linalg.softmax dimension(3) ins(%masked : !scores) outs(%init : !scores) -> !scores
  %masked_scores = linalg.contract indexing_maps = [#p, #v, #o] ins(%masked_p, %v : !scores, !heads) outs(%no_heads : !heads) -> !heads

  // One is added to the sum, as it is and shifted as the scores are.
  %plain_e = math.exp %s : !scores
  %plain_sum = linalg.reduce { arith.addf } ins(%plain_e : !scores) outs(%row_zeros : !rows) dimensions = [3]
  %row_ones = arith.constant dense<1.0> : !rows
  %more = arith.addf %plain_sum, %row_ones : !rows
  %mores = linalg.broadcast ins(%more : !rows) outs(%init : !scores) dimensions = [3]
  %more_p = arith.divf %plain_e, %mores : !scores
  %plus_one = linalg.contract indexing_maps = [#p, #v, #o] ins(%more_p, %v : !scores, !heads) outs(%no_heads : !heads) -> !heads
  %minus_top = arith.negf %top : !rows
  %shifted_one = math.exp %minus_top : !rows
  %shifted_more = arith.addf %sum, %shifted_one : !rows
  %shifted_mores = linalg.broadcast ins(%shifted_more : !rows) outs(%init : !scores) dimensions = [3]
  %shifted_p = arith.divf %e, %shifted_mores : !scores
  %plus_one_shifted = linalg.contract indexing_maps = [#p, #v, #o] ins(%shifted_p, %v : !scores, !heads) outs(%no_heads : !heads) -> !heads

  // A mask of the input, which hides all keys of the second query, and a division that is safe there.
  %c1 = arith.constant dense<[[1, 1, 0, 1, 0, 1, 1], [0, 0, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1]]> : tensor<7x7xi32>
  %both = arith.andi %given, %c1 : tensor<7x7xi32>
  %none = arith.constant dense<0> : tensor<7x7xi32>
  %isSeen = arith.cmpi ne, %both, %none : tensor<7x7xi32>
  %seen = arith.uitofp %isSeen : tensor<7x7xi1> to tensor<7x7xf32>
  %all_seen = linalg.broadcast ins(%seen : tensor<7x7xf32>) outs(%init : !scores) dimensions = [0, 1]
  %g = arith.mulf %e, %all_seen : !scores
  %g_sum = linalg.reduce { arith.addf } ins(%g : !scores) outs(%row_zeros : !rows) dimensions = [3]
  %isZero = arith.cmpf oeq, %g_sum, %row_zeros : !rows
  %g_safe = arith.select %isZero, %row_ones, %g_sum : tensor<1x2x7xi1>, !rows
  %g_sums = linalg.broadcast ins(%g_safe : !rows) outs(%init : !scores) dimensions = [3]
  %g_p = arith.divf %g, %g_sums : !scores
  %safely_masked = linalg.contract indexing_maps = [#p, #v, #o] ins(%g_p, %v : !scores, !heads) outs(%no_heads : !heads) -> !heads

  // Keys times queries, softmax down the columns, values times that.
  %t = linalg.contract indexing_maps = [#kt, #qt, #st] ins(%k, %q : !heads, !heads) outs(%zeros : !scores) -> !scores
  %t_p = linalg.softmax dimension(2) ins(%t : !scores) outs(%init : !scores) -> !scores
  %t_heads = tensor.empty() : tensor<1x2x8x7xf32>
  %t_start = linalg.fill ins(%zero : f32) outs(%t_heads : tensor<1x2x8x7xf32>) -> tensor<1x2x8x7xf32>
  %transposed = linalg.contract indexing_maps = [#vt, #pt, #ot] ins(%v, %t_p : !heads, !scores) outs(%t_start : tensor<1x2x8x7xf32>) -> tensor<1x2x8x7xf32>

  return %divided_last, %masked_weights, %masked_scores, %plus_one, %plus_one_shifted, %safely_masked, %transposed
    : !heads, !heads, !heads, !heads, !heads, !heads, tensor<1x2x8x7xf32>
}
