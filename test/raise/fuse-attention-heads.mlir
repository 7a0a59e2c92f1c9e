// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How keys and values come to every query head, and where heads lie in a packed projection. Every function is evaluated before and
// after; spellings that repeat are followed by ones that look alike.
// RUN: cat %S/Inputs/attention-ops.mlir %s > %t.mlir
// RUN: %heddle-opt %t.mlir --inline --symbol-dce --heddle-check-all --heddle-fuse-attention --canonicalize -o %t.out 2> %t.err
// RUN: FileCheck %s --input-file=%t.out
// RUN: FileCheck %s --input-file=%t.err --check-prefix=MISS

func.func private @attend_all(%q: !heads, %k: !heads, %v: !heads) -> !heads {
  %s = call @product(%q, %k) : (!heads, !heads) -> !scores
  %o = call @attend(%s, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// CHECK-LABEL: @expand_and_reshape
// CHECK-SAME: %[[Q:.*]]: tensor<1x4x?x8xf32> {{.*}}, %[[K:.*]]: tensor<1x2x?x8xf32> {{.*}}, %[[V:.*]]: tensor<1x2x?x8xf32>
// CHECK-NOT: linalg
// CHECK: heddle.attention %[[Q]], %[[K]], %[[V]] <full>
func.func @expand_and_reshape(%q: !heads {heddle.dims = #s}, %k: !kv_heads {heddle.dims = #s}, %v: !kv_heads {heddle.dims = #s}) -> !heads {
  %ks = call @repeated(%k) : (!kv_heads) -> !heads
  %vs = call @repeated(%v) : (!kv_heads) -> !heads
  %o = call @attend_all(%q, %ks, %vs) : (!heads, !heads, !heads) -> !heads
  return %o : !heads
}

// The new axis lies before the heads: query heads read (0, 1, 0, 1).
// CHECK-LABEL: @expand_before_the_heads
// CHECK-NOT: heddle.attention
// CHECK: linalg.softmax
// MISS: not fused: {{.*}}its heads are in no regular order
func.func @expand_before_the_heads(%q: !heads {heddle.dims = #s}, %k: !kv_heads {heddle.dims = #s}, %v: !kv_heads {heddle.dims = #s}) -> !heads {
  %ks = call @tiled(%k) : (!kv_heads) -> !heads
  %vs = call @tiled(%v) : (!kv_heads) -> !heads
  %o = call @attend_all(%q, %ks, %vs) : (!heads, !heads, !heads) -> !heads
  return %o : !heads
}
func.func private @tiled(%x: !kv_heads) -> !heads {
  %c2 = arith.constant 2 : index
  %n = tensor.dim %x, %c2 : !kv_heads
  %init = tensor.empty(%n) : tensor<1x2x2x?x8xf32>
  %twice = linalg.broadcast ins(%x : !kv_heads) outs(%init : tensor<1x2x2x?x8xf32>) dimensions = [1]
  %heads = tensor.collapse_shape %twice [[0], [1, 2], [3], [4]] : tensor<1x2x2x?x8xf32> into !heads
  return %heads : !heads
}

// Tile along a new axis, written as a read at the remainder.
// CHECK-LABEL: @tile
// CHECK-SAME: %[[Q:.*]]: tensor<1x4x?x8xf32> {{.*}}, %[[K:.*]]: tensor<1x2x?x8xf32> {{.*}}, %[[V:.*]]: tensor<1x2x?x8xf32>
// CHECK: heddle.attention %[[Q]], %[[K]], %[[V]] <full>
func.func @tile(%q: !heads {heddle.dims = #s}, %k: !kv_heads {heddle.dims = #s}, %v: !kv_heads {heddle.dims = #s}) -> !heads {
  %ks = call @tile_each(%k) : (!kv_heads) -> !heads
  %vs = call @tile_each(%v) : (!kv_heads) -> !heads
  %o = call @attend_all(%q, %ks, %vs) : (!heads, !heads, !heads) -> !heads
  return %o : !heads
}
func.func private @tile_each(%x: !kv_heads) -> !heads {
  %c2 = arith.constant 2 : index
  %n = tensor.dim %x, %c2 : !kv_heads
  %apart = tensor.expand_shape %x [[0], [1, 2], [3], [4]] output_shape [1, 2, 1, %n, 8] : !kv_heads into tensor<1x2x1x?x8xf32>
  %init = tensor.empty(%n) : tensor<1x2x2x?x8xf32>
  %c1 = arith.constant 1 : index
  %tiled = linalg.generic {indexing_maps = [affine_map<(b, h, g, s, d) -> (b, h, g, s, d)>],
                           iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} outs(%init : tensor<1x2x2x?x8xf32>) {
  ^bb0(%out: f32):
    %b = linalg.index 0 : index
    %h = linalg.index 1 : index
    %g = linalg.index 2 : index
    %s = linalg.index 3 : index
    %d = linalg.index 4 : index
    %at = arith.remui %g, %c1 : index
    %element = tensor.extract %apart[%b, %h, %at, %s, %d] : tensor<1x2x1x?x8xf32>
    linalg.yield %element : f32
  } -> tensor<1x2x2x?x8xf32>
  %heads = tensor.collapse_shape %tiled [[0], [1, 2], [3], [4]] : tensor<1x2x2x?x8xf32> into !heads
  return %heads : !heads
}

// The keys' heads repeat, those of the values are others.
// CHECK-LABEL: @values_repeat_otherwise
// CHECK-NOT: heddle.attention
// CHECK: linalg.softmax
// MISS: not fused: {{.*}}its heads are in no regular order
func.func @values_repeat_otherwise(%q: !heads {heddle.dims = #s}, %k: !kv_heads {heddle.dims = #s}, %v: !kv_heads {heddle.dims = #s}) -> !heads {
  %ks = call @repeated(%k) : (!kv_heads) -> !heads
  %vs = call @tiled(%v) : (!kv_heads) -> !heads
  %o = call @attend_all(%q, %ks, %vs) : (!heads, !heads, !heads) -> !heads
  return %o : !heads
}

// index_select with a stored list of heads.
// CHECK-LABEL: @gather
// CHECK-SAME: %[[Q:.*]]: tensor<1x4x?x8xf32> {{.*}}, %[[K:.*]]: tensor<1x2x?x8xf32> {{.*}}, %[[V:.*]]: tensor<1x2x?x8xf32>
// CHECK: heddle.attention %[[Q]], %[[K]], %[[V]] <full>
func.func @gather(%q: !heads {heddle.dims = #s}, %k: !kv_heads {heddle.dims = #s}, %v: !kv_heads {heddle.dims = #s}) -> !heads {
  %list = arith.constant dense<[0, 0, 1, 1]> : tensor<4xi64>
  %ks = call @gathered(%k, %list) : (!kv_heads, tensor<4xi64>) -> !heads
  %vs = call @gathered(%v, %list) : (!kv_heads, tensor<4xi64>) -> !heads
  %o = call @attend_all(%q, %ks, %vs) : (!heads, !heads, !heads) -> !heads
  return %o : !heads
}
func.func private @gathered(%x: !kv_heads, %list: tensor<4xi64>) -> !heads {
  %c2 = arith.constant 2 : index
  %n = tensor.dim %x, %c2 : !kv_heads
  %init = tensor.empty(%n) : !heads
  %heads = linalg.generic {indexing_maps = [affine_map<(b, h, s, d) -> (h)>, affine_map<(b, h, s, d) -> (b, h, s, d)>],
                           iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%list : tensor<4xi64>) outs(%init : !heads) {
  ^bb0(%in: i64, %out: f32):
    %b = linalg.index 0 : index
    %s = linalg.index 2 : index
    %d = linalg.index 3 : index
    %h = arith.index_cast %in : i64 to index
    %element = tensor.extract %x[%b, %h, %s, %d] : !kv_heads
    linalg.yield %element : f32
  } -> !heads
  return %heads : !heads
}

// CHECK-LABEL: @gather_of_uneven_groups
// CHECK-NOT: heddle.attention
// CHECK: linalg.softmax
// MISS: not fused: {{.*}}its heads
func.func @gather_of_uneven_groups(%q: !heads {heddle.dims = #s}, %k: !kv_heads {heddle.dims = #s}, %v: !kv_heads {heddle.dims = #s}) -> !heads {
  %list = arith.constant dense<[0, 0, 0, 1]> : tensor<4xi64>
  %ks = call @gathered(%k, %list) : (!kv_heads, tensor<4xi64>) -> !heads
  %vs = call @gathered(%v, %list) : (!kv_heads, tensor<4xi64>) -> !heads
  %o = call @attend_all(%q, %ks, %vs) : (!heads, !heads, !heads) -> !heads
  return %o : !heads
}

// CHECK-LABEL: @concatenation_of_heads
// CHECK-SAME: %[[Q:.*]]: tensor<1x4x?x8xf32> {{.*}}, %[[K:.*]]: tensor<1x2x?x8xf32> {{.*}}, %[[V:.*]]: tensor<1x2x?x8xf32>
// CHECK: heddle.attention %[[Q]], %[[K]], %[[V]] <full>
func.func @concatenation_of_heads(%q: !heads {heddle.dims = #s}, %k: !kv_heads {heddle.dims = #s}, %v: !kv_heads {heddle.dims = #s}) -> !heads {
  %ks = call @joined(%k) : (!kv_heads) -> !heads
  %vs = call @joined(%v) : (!kv_heads) -> !heads
  %o = call @attend_all(%q, %ks, %vs) : (!heads, !heads, !heads) -> !heads
  return %o : !heads
}
func.func private @joined(%x: !kv_heads) -> !heads {
  %c2 = arith.constant 2 : index
  %n = tensor.dim %x, %c2 : !kv_heads
  %first = tensor.extract_slice %x[0, 0, 0, 0] [1, 1, %n, 8] [1, 1, 1, 1] : !kv_heads to tensor<1x1x?x8xf32>
  %second = tensor.extract_slice %x[0, 1, 0, 0] [1, 1, %n, 8] [1, 1, 1, 1] : !kv_heads to tensor<1x1x?x8xf32>
  %all = tensor.concat dim(1) %first, %first, %second, %second
       : (tensor<1x1x?x8xf32>, tensor<1x1x?x8xf32>, tensor<1x1x?x8xf32>, tensor<1x1x?x8xf32>) -> !heads
  return %all : !heads
}

// Both heads of the first group are the same head of the keys, those of the second two.
// CHECK-LABEL: @concatenation_of_three_heads
// CHECK-NOT: heddle.attention
// CHECK: linalg.softmax
// MISS: not fused: {{.*}}its heads
func.func @concatenation_of_three_heads(%q: !heads {heddle.dims = #s}, %k: tensor<1x3x?x8xf32> {heddle.dims = #s}, %v: !heads {heddle.dims = #s}) -> !heads {
  %c2 = arith.constant 2 : index
  %n = tensor.dim %k, %c2 : tensor<1x3x?x8xf32>
  %first = tensor.extract_slice %k[0, 0, 0, 0] [1, 1, %n, 8] [1, 1, 1, 1] : tensor<1x3x?x8xf32> to tensor<1x1x?x8xf32>
  %ks = tensor.concat dim(1) %first, %k : (tensor<1x1x?x8xf32>, tensor<1x3x?x8xf32>) -> !heads
  %o = call @attend_all(%q, %ks, %v) : (!heads, !heads, !heads) -> !heads
  return %o : !heads
}

// No repetition: queries are (batch, kv_heads, group, sequence, head_dim), and the products broadcast keys and values.
// CHECK-LABEL: @products_of_rank_five
// CHECK-SAME: %[[Q:.*]]: tensor<1x4x?x8xf32> {{.*}}, %[[K:.*]]: tensor<1x2x?x8xf32> {{.*}}, %[[V:.*]]: tensor<1x2x?x8xf32>
// CHECK: heddle.attention %{{.*}}, %[[K]], %[[V]] <full>
// CHECK-SAME: tensor<1x4x?x8xf32>, tensor<1x2x?x8xf32>, tensor<1x2x?x8xf32>
#q5 = affine_map<(b, h, g, i, j, d) -> (b, h, g, i, d)>
#k5 = affine_map<(b, h, g, i, j, d) -> (b, h, j, d)>
#s5 = affine_map<(b, h, g, i, j, d) -> (b, h, g, i, j)>
#p5 = affine_map<(b, h, g, i, d, j) -> (b, h, g, i, j)>
#v5 = affine_map<(b, h, g, i, d, j) -> (b, h, j, d)>
#o5 = affine_map<(b, h, g, i, d, j) -> (b, h, g, i, d)>
func.func @products_of_rank_five(%q: !heads {heddle.dims = #s}, %k: !kv_heads {heddle.dims = #s}, %v: !kv_heads {heddle.dims = #s}) -> !heads {
  %n = call @length(%q) : (!heads) -> index
  %zero = arith.constant 0.0 : f32
  %q5 = tensor.expand_shape %q [[0], [1, 2], [3], [4]] output_shape [1, 2, 2, %n, 8] : !heads into tensor<1x2x2x?x8xf32>
  %s_init = tensor.empty(%n, %n) : tensor<1x2x2x?x?xf32>
  %s_start = linalg.fill ins(%zero : f32) outs(%s_init : tensor<1x2x2x?x?xf32>) -> tensor<1x2x2x?x?xf32>
  %s = linalg.contract indexing_maps = [#q5, #k5, #s5] ins(%q5, %k : tensor<1x2x2x?x8xf32>, !kv_heads)
       outs(%s_start : tensor<1x2x2x?x?xf32>) -> tensor<1x2x2x?x?xf32>
  %p = linalg.softmax dimension(4) ins(%s : tensor<1x2x2x?x?xf32>) outs(%s_init : tensor<1x2x2x?x?xf32>) -> tensor<1x2x2x?x?xf32>
  %o_init = tensor.empty(%n) : tensor<1x2x2x?x8xf32>
  %o_start = linalg.fill ins(%zero : f32) outs(%o_init : tensor<1x2x2x?x8xf32>) -> tensor<1x2x2x?x8xf32>
  %o5 = linalg.contract indexing_maps = [#p5, #v5, #o5] ins(%p, %v : tensor<1x2x2x?x?xf32>, !kv_heads)
        outs(%o_start : tensor<1x2x2x?x8xf32>) -> tensor<1x2x2x?x8xf32>
  %o = tensor.collapse_shape %o5 [[0], [1, 2], [3], [4]] : tensor<1x2x2x?x8xf32> into !heads
  return %o : !heads
}

// The softmax is over the group instead of the keys.
// CHECK-LABEL: @softmax_over_the_group
// CHECK-NOT: heddle.attention
// CHECK: linalg.softmax
// MISS: not fused: {{.*}}its number of heads is dynamic
func.func @softmax_over_the_group(%q: !heads {heddle.dims = #s}, %k: !kv_heads {heddle.dims = #s}, %v: !kv_heads {heddle.dims = #s}) -> !heads {
  %n = call @length(%q) : (!heads) -> index
  %zero = arith.constant 0.0 : f32
  %q5 = tensor.expand_shape %q [[0], [1, 2], [3], [4]] output_shape [1, 2, 2, %n, 8] : !heads into tensor<1x2x2x?x8xf32>
  %s_init = tensor.empty(%n, %n) : tensor<1x2x2x?x?xf32>
  %s_start = linalg.fill ins(%zero : f32) outs(%s_init : tensor<1x2x2x?x?xf32>) -> tensor<1x2x2x?x?xf32>
  %s = linalg.contract indexing_maps = [#q5, #k5, #s5] ins(%q5, %k : tensor<1x2x2x?x8xf32>, !kv_heads)
       outs(%s_start : tensor<1x2x2x?x?xf32>) -> tensor<1x2x2x?x?xf32>
  %p = linalg.softmax dimension(2) ins(%s : tensor<1x2x2x?x?xf32>) outs(%s_init : tensor<1x2x2x?x?xf32>) -> tensor<1x2x2x?x?xf32>
  %o_init = tensor.empty(%n) : tensor<1x2x2x?x8xf32>
  %o_start = linalg.fill ins(%zero : f32) outs(%o_init : tensor<1x2x2x?x8xf32>) -> tensor<1x2x2x?x8xf32>
  %o5 = linalg.contract indexing_maps = [#p5, #v5, #o5] ins(%p, %v : tensor<1x2x2x?x?xf32>, !kv_heads)
        outs(%o_start : tensor<1x2x2x?x8xf32>) -> tensor<1x2x2x?x8xf32>
  %o = tensor.collapse_shape %o5 [[0], [1, 2], [3], [4]] : tensor<1x2x2x?x8xf32> into !heads
  return %o : !heads
}

// Three blocks of columns: all queries, all keys, all values.
!packed = tensor<1x?x96xf32>
func.func private @head_block(%x: !packed, %begin: index) -> !heads {
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c1 : !packed
  %part = tensor.extract_slice %x[0, 0, %begin] [1, %n, 32] [1, 1, 1] : !packed to tensor<1x?x32xf32>
  %apart = tensor.expand_shape %part [[0], [1], [2, 3]] output_shape [1, %n, 4, 8] : tensor<1x?x32xf32> into tensor<1x?x4x8xf32>
  %init = tensor.empty(%n) : !heads
  %heads = linalg.transpose ins(%apart : tensor<1x?x4x8xf32>) outs(%init : !heads) permutation = [0, 2, 1, 3]
  return %heads : !heads
}
// CHECK-LABEL: @packed_in_blocks
// CHECK: heddle.attention {{.*}} <full>
func.func @packed_in_blocks(%x: !packed {heddle.dims = ["", "s", ""]}) -> !heads {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %q = call @head_block(%x, %c0) : (!packed, index) -> !heads
  %k = call @head_block(%x, %c32) : (!packed, index) -> !heads
  %v = call @head_block(%x, %c64) : (!packed, index) -> !heads
  %o = call @attend_all(%q, %k, %v) : (!heads, !heads, !heads) -> !heads
  return %o : !heads
}

// Each head's query, key and value lie side by side.
// CHECK-LABEL: @packed_in_each_head
// CHECK: heddle.attention {{.*}} <full>
func.func @packed_in_each_head(%x: !packed {heddle.dims = ["", "s", ""]}) -> !heads {
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c1 : !packed
  %apart = tensor.expand_shape %x [[0], [1], [2, 3]] output_shape [1, %n, 4, 24] : !packed into tensor<1x?x4x24xf32>
  %init = tensor.empty(%n) : tensor<1x4x?x24xf32>
  %heads = linalg.transpose ins(%apart : tensor<1x?x4x24xf32>) outs(%init : tensor<1x4x?x24xf32>) permutation = [0, 2, 1, 3]
  %q = tensor.extract_slice %heads[0, 0, 0, 0] [1, 4, %n, 8] [1, 1, 1, 1] : tensor<1x4x?x24xf32> to !heads
  %k = tensor.extract_slice %heads[0, 0, 0, 8] [1, 4, %n, 8] [1, 1, 1, 1] : tensor<1x4x?x24xf32> to !heads
  %v = tensor.extract_slice %heads[0, 0, 0, 16] [1, 4, %n, 8] [1, 1, 1, 1] : tensor<1x4x?x24xf32> to !heads
  %o = call @attend_all(%q, %k, %v) : (!heads, !heads, !heads) -> !heads
  return %o : !heads
}

// The columns are cut into heads across the rows' border.
// CHECK-LABEL: @packed_across_rows
// CHECK-NOT: heddle.attention
// CHECK: linalg.softmax
// MISS: not fused:
func.func @packed_across_rows(%x: tensor<1x6x32xf32>) -> tensor<1x4x6x8xf32> {
  %flat = tensor.collapse_shape %x [[0], [1, 2]] : tensor<1x6x32xf32> into tensor<1x192xf32>
  %mixed = tensor.expand_shape %flat [[0], [1, 2, 3]] output_shape [1, 4, 6, 8] : tensor<1x192xf32> into tensor<1x4x6x8xf32>
  %h = tensor.cast %mixed : tensor<1x4x6x8xf32> to !heads
  %o = call @attend_all(%h, %h, %h) : (!heads, !heads, !heads) -> !heads
  %result = tensor.cast %o : !heads to tensor<1x4x6x8xf32>
  return %result : tensor<1x4x6x8xf32>
}
