// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Attention over tensors: transposes beside it are read through, unless rows would be scattered.
// RUN: %heddle-opt %s --heddle-flash-tile --canonicalize --cse --split-input-file | FileCheck %s
// RUN: %heddle-opt %s --heddle-flash-tile=tiles=false --canonicalize --cse --split-input-file | FileCheck %s --check-prefix=LOOPS

// CHECK-LABEL: @heads_stay_where_projections_left_them
// CHECK-SAME: %[[Q:.*]]: tensor<1x?x6x8xf32>, %[[K:.*]]: tensor<1x?x2x8xf32>, %[[V:.*]]: tensor<1x2x?x8xf32>
// CHECK-NOT: linalg.transpose
// CHECK: %[[O:.*]] = heddle.flash_attention <full> ins(%[[Q]], %[[K]], %[[V]] : {{.*}}) outs(%{{.*}} : tensor<1x?x6x8xf32>)
// CHECK-SAME: {key_axes = array<i64: 0, 2, 1, 3>, out_axes = array<i64: 0, 2, 1, 3>, query_axes = array<i64: 0, 2, 1, 3>, scale = 2.500000e-01 : f64, softcap = 3.000000e+01 : f64}
// CHECK-NOT: linalg.transpose
// CHECK: return %[[O]]
// LOOPS-LABEL: @heads_stay_where_projections_left_them
// LOOPS-NOT: heddle.
// LOOPS: math.tanh
// LOOPS-NOT: heddle.
func.func @heads_stay_where_projections_left_them(%q: tensor<1x?x6x8xf32>, %k: tensor<1x?x2x8xf32>, %v: tensor<1x2x?x8xf32>) -> tensor<1x?x6x8xf32> {
  %c1 = arith.constant 1 : index
  %n = tensor.dim %q, %c1 : tensor<1x?x6x8xf32>
  %m = tensor.dim %k, %c1 : tensor<1x?x2x8xf32>
  %eq = tensor.empty(%n) : tensor<1x6x?x8xf32>
  %ek = tensor.empty(%m) : tensor<1x2x?x8xf32>
  %eo = tensor.empty(%n) : tensor<1x?x6x8xf32>
  %tq = linalg.transpose ins(%q : tensor<1x?x6x8xf32>) outs(%eq : tensor<1x6x?x8xf32>) permutation = [0, 2, 1, 3]
  %tk = linalg.transpose ins(%k : tensor<1x?x2x8xf32>) outs(%ek : tensor<1x2x?x8xf32>) permutation = [0, 2, 1, 3]
  %a = heddle.attention %tq, %tk, %v <full> {scale = 0.25, softcap = 30.0}
    : tensor<1x6x?x8xf32>, tensor<1x2x?x8xf32>, tensor<1x2x?x8xf32> -> tensor<1x6x?x8xf32>
  %o = linalg.transpose ins(%a : tensor<1x6x?x8xf32>) outs(%eo : tensor<1x?x6x8xf32>) permutation = [0, 2, 1, 3]
  return %o : tensor<1x?x6x8xf32>
}

// -----

// One tensor of queries, keys and values: each is a part of it, before it is turned.
// CHECK-LABEL: @parts_of_one_projection
// CHECK-SAME: %[[X:.*]]: tensor<2x?x3x4x8xf32>
// CHECK-NOT: linalg.transpose
// CHECK-DAG: %[[Q:.*]] = tensor.extract_slice %[[X]][0, 0, 0, 0, 0] [2, %{{.*}}, 1, 4, 8] [1, 1, 1, 1, 1] : tensor<2x?x3x4x8xf32> to tensor<2x?x4x8xf32>
// CHECK-DAG: %[[K:.*]] = tensor.extract_slice %[[X]][0, 0, 1, 0, 0] [2, %{{.*}}, 1, 4, 8] [1, 1, 1, 1, 1]
// CHECK-DAG: %[[V:.*]] = tensor.extract_slice %[[X]][0, 0, 2, 0, 0] [2, %{{.*}}, 1, 4, 8] [1, 1, 1, 1, 1]
// CHECK: heddle.flash_attention <full> ins(%[[Q]], %[[K]], %[[V]] :
// CHECK-SAME: {key_axes = array<i64: 0, 2, 1, 3>, query_axes = array<i64: 0, 2, 1, 3>, scale = 1.000000e+00 : f64, value_axes = array<i64: 0, 2, 1, 3>}
func.func @parts_of_one_projection(%x: tensor<2x?x3x4x8xf32>) -> tensor<2x4x?x8xf32> {
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c1 : tensor<2x?x3x4x8xf32>
  %e = tensor.empty(%n) : tensor<3x2x4x?x8xf32>
  %t = linalg.transpose ins(%x : tensor<2x?x3x4x8xf32>) outs(%e : tensor<3x2x4x?x8xf32>) permutation = [2, 0, 3, 1, 4]
  %q = tensor.extract_slice %t[0, 0, 0, 0, 0] [1, 2, 4, %n, 8] [1, 1, 1, 1, 1] : tensor<3x2x4x?x8xf32> to tensor<2x4x?x8xf32>
  %k = tensor.extract_slice %t[1, 0, 0, 0, 0] [1, 2, 4, %n, 8] [1, 1, 1, 1, 1] : tensor<3x2x4x?x8xf32> to tensor<2x4x?x8xf32>
  %v = tensor.extract_slice %t[2, 0, 0, 0, 0] [1, 2, 4, %n, 8] [1, 1, 1, 1, 1] : tensor<3x2x4x?x8xf32> to tensor<2x4x?x8xf32>
  %a = heddle.attention %q, %k, %v <full> {scale = 1.0} : tensor<2x4x?x8xf32>, tensor<2x4x?x8xf32>, tensor<2x4x?x8xf32> -> tensor<2x4x?x8xf32>
  return %a : tensor<2x4x?x8xf32>
}

// -----

// Keys whose head_dim is not the innermost are turned by a copy, and so is a result that somebody else reads as well.
// CHECK-LABEL: @scattered_rows_are_copied
// CHECK: %[[K:.*]] = linalg.transpose
// CHECK: %[[A:.*]] = heddle.flash_attention <causal> ins(%{{.*}}, %[[K]], %[[K]] :
// CHECK-NOT: axes
// CHECK: %[[T:.*]] = linalg.transpose ins(%[[A]]
// CHECK: return %[[A]], %[[T]]
func.func @scattered_rows_are_copied(%q: tensor<1x2x5x8xf32>, %k: tensor<1x2x8x5xf32>) -> (tensor<1x2x5x8xf32>, tensor<1x5x2x8xf32>) {
  %e = tensor.empty() : tensor<1x2x5x8xf32>
  %t = linalg.transpose ins(%k : tensor<1x2x8x5xf32>) outs(%e : tensor<1x2x5x8xf32>) permutation = [0, 1, 3, 2]
  %a = heddle.attention %q, %t, %t <causal> {scale = 1.0} : tensor<1x2x5x8xf32>, tensor<1x2x5x8xf32>, tensor<1x2x5x8xf32> -> tensor<1x2x5x8xf32>
  %ee = tensor.empty() : tensor<1x5x2x8xf32>
  %o = linalg.transpose ins(%a : tensor<1x2x5x8xf32>) outs(%ee : tensor<1x5x2x8xf32>) permutation = [0, 2, 1, 3]
  return %a, %o : tensor<1x2x5x8xf32>, tensor<1x5x2x8xf32>
}

// -----

// What only the run knows is compared there; what follows from the types is not.
// CHECK-LABEL: @open_sizes_are_compared
// CHECK-DAG: cf.assert %{{.*}}, "attention: keys have another batch than queries"
// CHECK-DAG: cf.assert %{{.*}}, "attention: there are not as many values as keys"
// CHECK-DAG: cf.assert %{{.*}}, "attention: the bias has another shape than the scores"
// CHECK: heddle.flash_attention
func.func @open_sizes_are_compared(%q: tensor<?x2x5x8xf32>, %k: tensor<3x2x?x8xf32>, %v: tensor<3x2x?x8xf32>, %b: tensor<1x1x1x?xf32>) -> tensor<?x2x5x8xf32> {
  %a = heddle.attention %q, %k, %v bias(%b : tensor<1x1x1x?xf32>) <full> {scale = 1.0}
    : tensor<?x2x5x8xf32>, tensor<3x2x?x8xf32>, tensor<3x2x?x8xf32> -> tensor<?x2x5x8xf32>
  return %a : tensor<?x2x5x8xf32>
}

// CHECK-LABEL: @known_sizes_are_not
// CHECK-NOT: cf.assert
// CHECK: return
func.func @known_sizes_are_not(%q: tensor<3x2x?x8xf32>, %k: tensor<3x2x7x8xf32>, %b: tensor<3x1x1x7xf32>) -> tensor<3x2x?x8xf32> {
  %a = heddle.attention %q, %k, %k bias(%b : tensor<3x1x1x7xf32>) <full> {scale = 1.0}
    : tensor<3x2x?x8xf32>, tensor<3x2x7x8xf32>, tensor<3x2x7x8xf32> -> tensor<3x2x?x8xf32>
  return %a : tensor<3x2x?x8xf32>
}

// -----

// Types that differ meet in f32.
// CHECK-LABEL: @mixed_types
// CHECK: %[[Q:.*]] = arith.extf %{{.*}} : tensor<1x2x5x8xf16> to tensor<1x2x5x8xf32>
// CHECK: %[[B:.*]] = arith.extf %{{.*}} : tensor<1x1x1x5xf16> to tensor<1x1x1x5xf32>
// CHECK: heddle.flash_attention <full> ins(%[[Q]], %{{.*}}, %{{.*}} bias %[[B]] : tensor<1x2x5x8xf32>, tensor<1x2x5x8xbf16>, tensor<1x2x5x8xbf16> bias tensor<1x1x1x5xf32>)
// CHECK: arith.truncf %{{.*}} : tensor<1x2x5x8xf32> to tensor<1x2x5x8xbf16>
func.func @mixed_types(%q: tensor<1x2x5x8xf16>, %k: tensor<1x2x5x8xbf16>, %b: tensor<1x1x1x5xf16>) -> tensor<1x2x5x8xbf16> {
  %a = heddle.attention %q, %k, %k bias(%b : tensor<1x1x1x5xf16>) <full> {scale = 1.0}
    : tensor<1x2x5x8xf16>, tensor<1x2x5x8xbf16>, tensor<1x2x5x8xbf16> -> tensor<1x2x5x8xbf16>
  return %a : tensor<1x2x5x8xbf16>
}

// -----

// What the kernel lacks becomes loops.
// CHECK-LABEL: @doubles
// CHECK-NOT: heddle.
// CHECK: linalg.generic
// CHECK: math.exp {{.*}} : f64
func.func @doubles(%q: tensor<1x2x5x8xf64>) -> tensor<1x2x5x8xf64> {
  %a = heddle.attention %q, %q, %q <causal> {scale = 1.0} : tensor<1x2x5x8xf64>, tensor<1x2x5x8xf64>, tensor<1x2x5x8xf64> -> tensor<1x2x5x8xf64>
  return %a : tensor<1x2x5x8xf64>
}

// -----

// CHECK-LABEL: @position_bias_is_a_loop
// CHECK-NOT: heddle.position_bias
// CHECK: linalg.generic
// CHECK: heddle.flash_attention {{.*}} bias
func.func @position_bias_is_a_loop(%q: tensor<1x4x5x8xf32>, %table: tensor<3x4xf32>) -> tensor<1x4x5x8xf32> {
  %c5 = arith.constant 5 : index
  %b = heddle.position_bias %table[%c5, %c5] {starts = array<i64: 1, 3>, rows = array<i64: 0, 1, 2>} : tensor<3x4xf32> -> tensor<1x4x?x?xf32>
  %a = heddle.attention %q, %q, %q bias(%b : tensor<1x4x?x?xf32>) <full> {scale = 1.0}
    : tensor<1x4x5x8xf32>, tensor<1x4x5x8xf32>, tensor<1x4x5x8xf32> -> tensor<1x4x5x8xf32>
  return %a : tensor<1x4x5x8xf32>
}

// -----

// Kernels over tensors read a bias: distances become one.
// CHECK-LABEL: @positions_of_tensors_are_a_bias
// CHECK: heddle.flash_attention <causal> ins({{.*}} bias
func.func @positions_of_tensors_are_a_bias(%q: tensor<1x2x3x16xf32>, %k: tensor<1x2x5x16xf32>, %slopes: tensor<2xf32>) -> tensor<1x2x3x16xf32> {
  %a = heddle.attention %q, %k, %k positions(%slopes : tensor<2xf32>) <causal> {scale = 0.25}
    : tensor<1x2x3x16xf32>, tensor<1x2x5x16xf32>, tensor<1x2x5x16xf32> -> tensor<1x2x3x16xf32>
  return %a : tensor<1x2x3x16xf32>
}
