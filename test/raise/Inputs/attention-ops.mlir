// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parts of attentions, for 4 query heads, 2 KV heads and a head_dim of 8: the tests beside this folder put them in front of
// theirs and inline them, so that each shows only what is spelled otherwise.

!heads = tensor<1x4x?x8xf32>   // (batch, heads, sequence, head_dim)
!kv_heads = tensor<1x2x?x8xf32>
!scores = tensor<1x4x?x?xf32>  // (batch, heads, queries, keys)
!grid = tensor<?x?xi64>        // (queries, keys)
!mask = tensor<?x?xi1>
!bias = tensor<?x?xf32>
#s = ["", "", "s", ""]

#q = affine_map<(b, h, i, j, d) -> (b, h, i, d)>
#k = affine_map<(b, h, i, j, d) -> (b, h, j, d)>
#s_out = affine_map<(b, h, i, j, d) -> (b, h, i, j)>
#p = affine_map<(b, h, i, d, j) -> (b, h, i, j)>
#v = affine_map<(b, h, i, d, j) -> (b, h, j, d)>
#o = affine_map<(b, h, i, d, j) -> (b, h, i, d)>

func.func private @length(%x: !heads) -> index {
  %c2 = arith.constant 2 : index
  %n = tensor.dim %x, %c2 : !heads
  return %n : index
}

func.func private @product(%q: !heads, %k: !heads) -> !scores {
  %n = call @length(%q) : (!heads) -> index
  %m = call @length(%k) : (!heads) -> index
  %zero = arith.constant 0.0 : f32
  %init = tensor.empty(%n, %m) : !scores
  %start = linalg.fill ins(%zero : f32) outs(%init : !scores) -> !scores
  %s = linalg.contract indexing_maps = [#q, #k, #s_out] ins(%q, %k : !heads, !heads) outs(%start : !scores) -> !scores
  return %s : !scores
}

func.func private @softmax(%s: !scores) -> !scores {
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %n = tensor.dim %s, %c2 : !scores
  %m = tensor.dim %s, %c3 : !scores
  %init = tensor.empty(%n, %m) : !scores
  %p = linalg.softmax dimension(3) ins(%s : !scores) outs(%init : !scores) -> !scores
  return %p : !scores
}

// exp(s - the greatest of its row)
func.func private @weights(%s: !scores) -> !scores {
  %n = call @rows(%s) : (!scores) -> index
  %m = call @columns(%s) : (!scores) -> index
  %lowest = arith.constant 0xFF800000 : f32
  %row_init = tensor.empty(%n) : tensor<1x4x?xf32>
  %tops = linalg.fill ins(%lowest : f32) outs(%row_init : tensor<1x4x?xf32>) -> tensor<1x4x?xf32>
  %top = linalg.reduce { arith.maximumf } ins(%s : !scores) outs(%tops : tensor<1x4x?xf32>) dimensions = [3]
  %init = tensor.empty(%n, %m) : !scores
  %all_tops = linalg.broadcast ins(%top : tensor<1x4x?xf32>) outs(%init : !scores) dimensions = [3]
  %shifted = arith.subf %s, %all_tops : !scores
  %e = math.exp %shifted : !scores
  return %e : !scores
}

// start + the sum of its row, at every place
func.func private @sums_from(%e: !scores, %start: f32) -> !scores {
  %n = call @rows(%e) : (!scores) -> index
  %m = call @columns(%e) : (!scores) -> index
  %row_init = tensor.empty(%n) : tensor<1x4x?xf32>
  %starts = linalg.fill ins(%start : f32) outs(%row_init : tensor<1x4x?xf32>) -> tensor<1x4x?xf32>
  %sum = linalg.reduce { arith.addf } ins(%e : !scores) outs(%starts : tensor<1x4x?xf32>) dimensions = [3]
  %init = tensor.empty(%n, %m) : !scores
  %sums = linalg.broadcast ins(%sum : tensor<1x4x?xf32>) outs(%init : !scores) dimensions = [3]
  return %sums : !scores
}

func.func private @weigh(%p: !scores, %v: !heads) -> !heads {
  %n = call @rows(%p) : (!scores) -> index
  %zero = arith.constant 0.0 : f32
  %init = tensor.empty(%n) : !heads
  %start = linalg.fill ins(%zero : f32) outs(%init : !heads) -> !heads
  %o = linalg.contract indexing_maps = [#p, #v, #o] ins(%p, %v : !scores, !heads) outs(%start : !heads) -> !heads
  return %o : !heads
}

func.func private @rows(%s: !scores) -> index {
  %c2 = arith.constant 2 : index
  %n = tensor.dim %s, %c2 : !scores
  return %n : index
}

func.func private @columns(%s: !scores) -> index {
  %c3 = arith.constant 3 : index
  %n = tensor.dim %s, %c3 : !scores
  return %n : index
}

// softmax(s) @ v
func.func private @attend(%s: !scores, %v: !heads) -> !heads {
  %p = call @softmax(%s) : (!scores) -> !scores
  %o = call @weigh(%p, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

func.func private @scaled(%s: !scores, %factor: f32) -> !scores {
  %n = call @rows(%s) : (!scores) -> index
  %m = call @columns(%s) : (!scores) -> index
  %factors = tensor.splat %factor[%n, %m] : !scores
  %scaled = arith.mulf %s, %factors : !scores
  return %scaled : !scores
}

// 0, 1, 2 …, the query's index at every place of the scores, and the key's.
func.func private @query_index(%s: !scores) -> !grid {
  %n = call @rows(%s) : (!scores) -> index
  %m = call @columns(%s) : (!scores) -> index
  %range = call @range(%n) : (index) -> tensor<?xi64>
  %init = tensor.empty(%n, %m) : !grid
  %grid = linalg.broadcast ins(%range : tensor<?xi64>) outs(%init : !grid) dimensions = [1]
  return %grid : !grid
}

func.func private @key_index(%s: !scores) -> !grid {
  %n = call @rows(%s) : (!scores) -> index
  %m = call @columns(%s) : (!scores) -> index
  %range = call @range(%m) : (index) -> tensor<?xi64>
  %init = tensor.empty(%n, %m) : !grid
  %grid = linalg.broadcast ins(%range : tensor<?xi64>) outs(%init : !grid) dimensions = [0]
  return %grid : !grid
}

func.func private @range(%n: index) -> tensor<?xi64> {
  %init = tensor.empty(%n) : tensor<?xi64>
  %range = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]} outs(%init : tensor<?xi64>) {
  ^bb0(%out: i64):
    %i = linalg.index 0 : index
    %wide = arith.index_cast %i : index to i64
    linalg.yield %wide : i64
  } -> tensor<?xi64>
  return %range : tensor<?xi64>
}

// A number at every place of (queries, keys).
func.func private @everywhere(%s: !scores, %value: i64) -> !grid {
  %n = call @rows(%s) : (!scores) -> index
  %m = call @columns(%s) : (!scores) -> index
  %grid = tensor.splat %value[%n, %m] : !grid
  return %grid : !grid
}

// The scores where `visible` holds, `hidden` elsewhere.
func.func private @keep(%s: !scores, %visible: !mask, %hidden: f32) -> !scores {
  %n = call @rows(%s) : (!scores) -> index
  %m = call @columns(%s) : (!scores) -> index
  %init = tensor.empty(%n, %m) : tensor<1x4x?x?xi1>
  %all = linalg.broadcast ins(%visible : !mask) outs(%init : tensor<1x4x?x?xi1>) dimensions = [0, 1]
  %hiddens = tensor.splat %hidden[%n, %m] : !scores
  %kept = arith.select %all, %s, %hiddens : tensor<1x4x?x?xi1>, !scores
  return %kept : !scores
}

// The scores + `bias`, the same for every head.
func.func private @biased(%s: !scores, %bias: !bias) -> !scores {
  %n = call @rows(%s) : (!scores) -> index
  %m = call @columns(%s) : (!scores) -> index
  %init = tensor.empty(%n, %m) : !scores
  %all = linalg.broadcast ins(%bias : !bias) outs(%init : !scores) dimensions = [0, 1]
  %sum = arith.addf %s, %all : !scores
  return %sum : !scores
}

// 0 where `visible` holds, the lowest number elsewhere.
func.func private @as_bias(%s: !scores, %visible: !mask) -> !bias {
  %n = call @rows(%s) : (!scores) -> index
  %m = call @columns(%s) : (!scores) -> index
  %zero = arith.constant 0.0 : f32
  %lowest = arith.constant -3.40282347E+38 : f32
  %zeros = tensor.splat %zero[%n, %m] : !bias
  %lowests = tensor.splat %lowest[%n, %m] : !bias
  %bias = arith.select %visible, %zeros, %lowests : !mask, !bias
  return %bias : !bias
}

// Whether the key is behind the query, or the query itself, as 1 or 0 for every head.
func.func private @behind(%s: !scores) -> !scores {
  %i = call @query_index(%s) : (!scores) -> !grid
  %j = call @key_index(%s) : (!scores) -> !grid
  %visible = arith.cmpi sle, %j, %i : !grid
  %ones = call @as_ones(%s, %visible) : (!scores, !mask) -> !scores
  return %ones : !scores
}

func.func private @as_ones(%s: !scores, %visible: !mask) -> !scores {
  %n = call @rows(%s) : (!scores) -> index
  %m = call @columns(%s) : (!scores) -> index
  %ones = arith.uitofp %visible : !mask to !bias
  %init = tensor.empty(%n, %m) : !scores
  %all = linalg.broadcast ins(%ones : !bias) outs(%init : !scores) dimensions = [0, 1]
  return %all : !scores
}

func.func private @causal(%s: !scores) -> !scores {
  %i = call @query_index(%s) : (!scores) -> !grid
  %j = call @key_index(%s) : (!scores) -> !grid
  %visible = arith.cmpi sle, %j, %i : !grid
  %bias = call @as_bias(%s, %visible) : (!scores, !mask) -> !bias
  %masked = call @biased(%s, %bias) : (!scores, !bias) -> !scores
  return %masked : !scores
}

// Keys and values, once for every query head that reads them: (0, 0, 1, 1).
func.func private @repeated(%x: !kv_heads) -> !heads {
  %c2 = arith.constant 2 : index
  %n = tensor.dim %x, %c2 : !kv_heads
  %init = tensor.empty(%n) : tensor<1x2x2x?x8xf32>
  %twice = linalg.broadcast ins(%x : !kv_heads) outs(%init : tensor<1x2x2x?x8xf32>) dimensions = [2]
  %heads = tensor.collapse_shape %twice [[0], [1, 2], [3], [4]] : tensor<1x2x2x?x8xf32> into !heads
  return %heads : !heads
}
