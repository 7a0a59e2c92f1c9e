// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Norms of heads, each with numbers of its own, which are a part of one stored tensor: the checks of passes draw other numbers for parts, so that
// test/raise/decoders.test compares what they compute.
// RUN: %heddle-opt %s --inline --symbol-dce --heddle-raise-norm --canonicalize -o %t.out
// RUN: FileCheck %s --input-file=%t.out

#all = affine_map<(b, s, h, d) -> (b, s, h, d)>
#row = affine_map<(b, s, h, d) -> (b, s, h)>
#head = affine_map<(b, s, h, d) -> (h, d)>
#turned = affine_map<(b, s, h, d) -> (d, h)>
#second = affine_map<(b, s, h, d) -> (s, d)>
#first = affine_map<(b, s, h, d) -> (b, d)>
#column = affine_map<(b, s, h, d) -> (d)>

!heads = tensor<2x4x3x8xf32>
!means = tensor<2x4x3xf32>

func.func private @mean(%x: !heads) -> !means {
  %zero = arith.constant 0.0 : f32
  %init = tensor.empty() : !means
  %start = linalg.fill ins(%zero : f32) outs(%init : !means) -> !means
  %sum = linalg.reduce { arith.addf } ins(%x : !heads) outs(%start : !means) dimensions = [3]
  %width = arith.constant dense<8.0> : !means
  %mean = arith.divf %sum, %width : !means
  return %mean : !means
}

// (x - mean) / sqrt(variance + eps)
func.func private @normalised(%x: !heads) -> !heads {
  %init = tensor.empty() : !heads
  %mean = call @mean(%x) : (!heads) -> !means
  %means = linalg.broadcast ins(%mean : !means) outs(%init : !heads) dimensions = [3]
  %centered = arith.subf %x, %means : !heads
  %squares = arith.mulf %centered, %centered : !heads
  %variance = call @mean(%squares) : (!heads) -> !means
  %eps = arith.constant dense<1.0e-5> : !means
  %sum = arith.addf %variance, %eps : !means
  %scale = math.rsqrt %sum : !means
  %scales = linalg.broadcast ins(%scale : !means) outs(%init : !heads) dimensions = [3]
  %y = arith.mulf %centered, %scales : !heads
  return %y : !heads
}

// Heads behind rows, as projections give them (Command R+).
// CHECK-LABEL: @heads_behind_rows
// CHECK-SAME: %[[X:.*]]: tensor<2x4x3x8xf32>
// CHECK: %[[W:.*]] = heddle.weight "w[:, :]" <{{.*}}offset = 64> : tensor<24xf32>
// CHECK: %[[HEADS:.*]] = linalg.transpose ins(%[[X]] : {{.*}} permutation = [0, 2, 1, 3]
// CHECK: %[[NORM:.*]] = heddle.layer_norm %[[HEADS]], %[[W]] {eps = 1.000000e-05 : f64} : tensor<2x3x4x8xf32>, tensor<24xf32>
// CHECK: linalg.transpose ins(%[[NORM]] : {{.*}} permutation = [0, 2, 1, 3]
// CHECK-NEXT: return
func.func @heads_behind_rows(%x: !heads) -> !heads {
  %w = heddle.weight "w" <type = "f32", file = 0, offset = 64> : tensor<3x8xf32>
  %n = call @normalised(%x) : (!heads) -> !heads
  %y = linalg.generic {indexing_maps = [#all, #head, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%n, %w : !heads, tensor<3x8xf32>) outs(%x : !heads) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    linalg.yield %p : f32
  } -> !heads
  return %y : !heads
}

// Heads before rows; a bias of each head as well.
// CHECK-LABEL: @heads_before_rows
// CHECK-NOT: linalg
// CHECK: heddle.layer_norm %{{.*}}, %{{.*}}, %{{.*}} {eps = 1.000000e-05 : f64} : tensor<2x4x3x8xf32>, tensor<32xf32>, tensor<32xf32>
// CHECK-NEXT: return
func.func @heads_before_rows(%x: !heads) -> !heads {
  %w = heddle.weight "w" <type = "f32", file = 0, offset = 0> : tensor<4x8xf32>
  %c = heddle.weight "b" <type = "f32", file = 0, offset = 128> : tensor<4x8xf32>
  %n = call @normalised(%x) : (!heads) -> !heads
  %y = linalg.generic {indexing_maps = [#all, #second, #second, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%n, %w, %c : !heads, tensor<4x8xf32>, tensor<4x8xf32>) outs(%x : !heads) {
  ^bb0(%a: f32, %b: f32, %d: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    %q = arith.addf %p, %d : f32
    linalg.yield %q : f32
  } -> !heads
  return %y : !heads
}

// What is no norm's weight multiplies a norm that has none. One weight for each head, and one bias for all.
// CHECK-LABEL: @bias_of_all_heads
// CHECK: %[[ONES:.*]] = arith.constant dense<1.000000e+00> : tensor<8xf32>
// CHECK: %[[NORMED:.*]] = heddle.layer_norm %{{.*}}, %[[ONES]] {eps
// CHECK: linalg.generic {{.*}} ins(%[[NORMED]],
// CHECK: return
func.func @bias_of_all_heads(%x: !heads) -> !heads {
  %w = heddle.weight "w" <type = "f32", file = 0, offset = 0> : tensor<4x8xf32>
  %c = heddle.weight "b" <type = "f32", file = 0, offset = 128> : tensor<8xf32>
  %n = call @normalised(%x) : (!heads) -> !heads
  %y = linalg.generic {indexing_maps = [#all, #second, #column, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%n, %w, %c : !heads, tensor<4x8xf32>, tensor<8xf32>) outs(%x : !heads) {
  ^bb0(%a: f32, %b: f32, %d: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    %q = arith.addf %p, %d : f32
    linalg.yield %q : f32
  } -> !heads
  return %y : !heads
}

// Numbers of one head do not follow each other.
// CHECK-LABEL: @weight_the_other_way_round
// CHECK: %[[ONES:.*]] = arith.constant dense<1.000000e+00> : tensor<8xf32>
// CHECK: %[[NORMED:.*]] = heddle.layer_norm %{{.*}}, %[[ONES]] {eps
// CHECK: linalg.generic {{.*}} ins(%[[NORMED]],
// CHECK: return
func.func @weight_the_other_way_round(%x: !heads) -> !heads {
  %w = heddle.weight "w" <type = "f32", file = 0, offset = 0> : tensor<8x3xf32>
  %n = call @normalised(%x) : (!heads) -> !heads
  %y = linalg.generic {indexing_maps = [#all, #turned, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%n, %w : !heads, tensor<8x3xf32>) outs(%x : !heads) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    linalg.yield %p : f32
  } -> !heads
  return %y : !heads
}

// CHECK-LABEL: @weight_of_each_sequence
// CHECK: %[[ONES:.*]] = arith.constant dense<1.000000e+00> : tensor<8xf32>
// CHECK: %[[NORMED:.*]] = heddle.layer_norm %{{.*}}, %[[ONES]] {eps
// CHECK: linalg.generic {{.*}} ins(%[[NORMED]],
// CHECK: return
func.func @weight_of_each_sequence(%x: !heads) -> !heads {
  %w = heddle.weight "w" <type = "f32", file = 0, offset = 0> : tensor<2x8xf32>
  %n = call @normalised(%x) : (!heads) -> !heads
  %y = linalg.generic {indexing_maps = [#all, #first, #all], iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%n, %w : !heads, tensor<2x8xf32>) outs(%x : !heads) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    linalg.yield %p : f32
  } -> !heads
  return %y : !heads
}
