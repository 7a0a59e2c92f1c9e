// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Keys joined from a part of each head and a part that all share, as latent attention has them (arXiv:2405.04434). Every function is
// evaluated before and after.
// RUN: cat %S/Inputs/attention-ops.mlir %s > %t.mlir
// RUN: %heddle-opt %t.mlir --inline --symbol-dce --heddle-check-all --heddle-fuse-attention --canonicalize -o %t.out 2> %t.err
// RUN: FileCheck %s --input-file=%t.out
// RUN: FileCheck %s --input-file=%t.err --check-prefix=MISS

func.func private @joined(%k: tensor<1x4x?x5xf32>, %r: tensor<1x1x?x3xf32>) -> !heads {
  %c2 = arith.constant 2 : index
  %n = tensor.dim %k, %c2 : tensor<1x4x?x5xf32>
  %one = tensor.collapse_shape %r [[0], [1, 2], [3]] : tensor<1x1x?x3xf32> into tensor<1x?x3xf32>
  %init = tensor.empty(%n) : tensor<1x4x?x3xf32>
  %all = linalg.broadcast ins(%one : tensor<1x?x3xf32>) outs(%init : tensor<1x4x?x3xf32>) dimensions = [1]
  %keys = tensor.concat dim(3) %k, %all : (tensor<1x4x?x5xf32>, tensor<1x4x?x3xf32>) -> !heads
  return %keys : !heads
}

// CHECK-LABEL: @part_of_the_key_shared
// CHECK-SAME: %[[Q:.*]]: tensor<1x4x?x8xf32> {{.*}}, %[[K:.*]]: tensor<1x4x?x5xf32> {{.*}}, %[[R:.*]]: tensor<1x1x?x3xf32> {{.*}}, %[[V:.*]]: tensor<1x4x?x8xf32>
// CHECK: %[[ALL:.*]] = linalg.broadcast ins(%[[R]] : tensor<1x1x?x3xf32>) {{.*}} dimensions = [2]
// CHECK: %[[HEADS:.*]] = tensor.collapse_shape %[[ALL]] {{\[\[}}0], [1, 2], [3], [4]]
// CHECK: %[[KEYS:.*]] = tensor.concat dim(3) %[[K]], %[[HEADS]]
// CHECK: heddle.attention %[[Q]], %[[KEYS]], %[[V]] <causal> {scale = 2.500000e-01 : f64}
func.func @part_of_the_key_shared(%q: !heads {heddle.dims = #s}, %k: tensor<1x4x?x5xf32> {heddle.dims = #s}, %r: tensor<1x1x?x3xf32> {heddle.dims = #s}, %v: !heads {heddle.dims = #s}) -> !heads {
  %quarter = arith.constant 0.25 : f32
  %keys = call @joined(%k, %r) : (tensor<1x4x?x5xf32>, tensor<1x1x?x3xf32>) -> !heads
  %s = call @product(%q, %keys) : (!heads, !heads) -> !scores
  %scaled = call @scaled(%s, %quarter) : (!scores, f32) -> !scores
  %masked = call @causal(%scaled) : (!scores) -> !scores
  %o = call @attend(%masked, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// One part of the key is scaled, the other is not: no scale of the whole score.
// MISS: not fused: the parts of a head are scaled differently
// CHECK-LABEL: @part_of_the_key_scaled
// CHECK-NOT: heddle.attention
// CHECK: linalg.softmax
func.func @part_of_the_key_scaled(%q: !heads {heddle.dims = #s}, %k: tensor<1x4x?x5xf32> {heddle.dims = #s}, %r: tensor<1x1x?x3xf32> {heddle.dims = #s}, %v: !heads {heddle.dims = #s}) -> !heads {
  %two = arith.constant 2.0 : f32
  %c2 = arith.constant 2 : index
  %n = tensor.dim %k, %c2 : tensor<1x4x?x5xf32>
  %twos = tensor.splat %two[%n] : tensor<1x4x?x5xf32>
  %twice = arith.mulf %k, %twos : tensor<1x4x?x5xf32>
  %keys = call @joined(%twice, %r) : (tensor<1x4x?x5xf32>, tensor<1x1x?x3xf32>) -> !heads
  %s = call @product(%q, %keys) : (!heads, !heads) -> !scores
  %masked = call @causal(%s) : (!scores) -> !scores
  %o = call @attend(%masked, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// `part` written into `keys` from `begin` on along the depth, as assignments to slices are exported.
func.func private @written(%keys: !heads, %part: tensor<1x4x?x?xf32>, %begin: index) -> !heads {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %c4 = arith.constant 4 : index
  %n = tensor.dim %part, %c2 : tensor<1x4x?x?xf32>
  %width = tensor.dim %part, %c3 : tensor<1x4x?x?xf32>
  %all = scf.for %h = %c0 to %c4 step %c1 iter_args(%x = %keys) -> (!heads) {
    %head = scf.for %i = %c0 to %n step %c1 iter_args(%y = %x) -> (!heads) {
      %row = scf.for %d = %c0 to %width step %c1 iter_args(%z = %y) -> (!heads) {
        %element = tensor.extract %part[%c0, %h, %i, %d] : tensor<1x4x?x?xf32>
        %place = arith.addi %d, %begin : index
        %next = tensor.insert %element into %z[%c0, %h, %i, %place] : !heads
        scf.yield %next : !heads
      }
      scf.yield %row : !heads
    }
    scf.yield %head : !heads
  }
  return %all : !heads
}
func.func private @written_part_by_part(%k: tensor<1x4x?x5xf32>, %r: tensor<1x4x?x3xf32>, %begin: index) -> !heads {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %n = tensor.dim %k, %c2 : tensor<1x4x?x5xf32>
  %zeros = tensor.splat %zero[%n] : !heads
  %first = tensor.cast %k : tensor<1x4x?x5xf32> to tensor<1x4x?x?xf32>
  %second = tensor.cast %r : tensor<1x4x?x3xf32> to tensor<1x4x?x?xf32>
  %one = call @written(%zeros, %first, %c0) : (!heads, tensor<1x4x?x?xf32>, index) -> !heads
  %both = call @written(%one, %second, %begin) : (!heads, tensor<1x4x?x?xf32>, index) -> !heads
  return %both : !heads
}

// CHECK-LABEL: @parts_written_one_by_one
// CHECK-SAME: %[[Q:.*]]: tensor<1x4x?x8xf32> {{.*}}, %[[K:.*]]: tensor<1x4x?x5xf32> {{.*}}, %[[R:.*]]: tensor<1x4x?x3xf32> {{.*}}, %[[V:.*]]: tensor<1x4x?x8xf32>
// CHECK: %[[KEYS:.*]] = tensor.concat dim(3) %[[K]], %[[R]]
// CHECK: heddle.attention %[[Q]], %[[KEYS]], %[[V]] <causal>
func.func @parts_written_one_by_one(%q: !heads {heddle.dims = #s}, %k: tensor<1x4x?x5xf32> {heddle.dims = #s}, %r: tensor<1x4x?x3xf32> {heddle.dims = #s}, %v: !heads {heddle.dims = #s}) -> !heads {
  %c5 = arith.constant 5 : index
  %keys = call @written_part_by_part(%k, %r, %c5) : (tensor<1x4x?x5xf32>, tensor<1x4x?x3xf32>, index) -> !heads
  %s = call @product(%q, %keys) : (!heads, !heads) -> !scores
  %masked = call @causal(%s) : (!scores) -> !scores
  %o = call @attend(%masked, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}

// The second part is written over the end of the first, and zeros are left.
// CHECK-LABEL: @parts_written_over_each_other
// CHECK-NOT: tensor.concat dim(3) %{{.*}}, %{{.*}} : (tensor<1x4x?x5xf32>, tensor<1x4x?x3xf32>)
// CHECK: return
func.func @parts_written_over_each_other(%q: !heads {heddle.dims = #s}, %k: tensor<1x4x?x5xf32> {heddle.dims = #s}, %r: tensor<1x4x?x3xf32> {heddle.dims = #s}, %v: !heads {heddle.dims = #s}) -> !heads {
  %c4 = arith.constant 4 : index
  %keys = call @written_part_by_part(%k, %r, %c4) : (tensor<1x4x?x5xf32>, tensor<1x4x?x3xf32>, index) -> !heads
  %s = call @product(%q, %keys) : (!heads, !heads) -> !scores
  %masked = call @causal(%s) : (!scores) -> !scores
  %o = call @attend(%masked, %v) : (!scores, !heads) -> !heads
  return %o : !heads
}
