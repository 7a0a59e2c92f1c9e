// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --inline --symbol-dce --heddle-check-all --heddle-raise-norm --canonicalize -o %t.out
// RUN: FileCheck %s --input-file=%t.out

!rows = tensor<1x?x8xf32>
!means = tensor<1x?xf32>

func.func private @mean(%x: !rows) -> !means {
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c1 : !rows
  %zero = arith.constant 0.0 : f32
  %width = arith.constant 8.0 : f32
  %init = tensor.empty(%n) : !means
  %start = linalg.fill ins(%zero : f32) outs(%init : !means) -> !means
  %sum = linalg.reduce { arith.addf } ins(%x : !rows) outs(%start : !means) dimensions = [2]
  %widths = tensor.splat %width[%n] : !means
  %mean = arith.divf %sum, %widths : !means
  return %mean : !means
}
func.func private @to_rows(%x: !means) -> !rows {
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c1 : !means
  %init = tensor.empty(%n) : !rows
  %rows = linalg.broadcast ins(%x : !means) outs(%init : !rows) dimensions = [2]
  return %rows : !rows
}
func.func private @plus(%x: !means, %eps: f32) -> !means {
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c1 : !means
  %all = tensor.splat %eps[%n] : !means
  %sum = arith.addf %x, %all : !means
  return %sum : !means
}
func.func private @stored(%x: !rows, %w: tensor<8xf32>) -> !rows {
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c1 : !rows
  %init = tensor.empty(%n) : !rows
  %rows = linalg.broadcast ins(%w : tensor<8xf32>) outs(%init : !rows) dimensions = [0, 1]
  return %rows : !rows
}

// 1 / sqrt, then two products.
// CHECK-LABEL: @rms_norm
// CHECK: heddle.rms_norm %{{.*}}, %{{.*}} {eps = 9.9{{.*}}E-7 : f64}
// CHECK-NEXT: return
func.func @rms_norm(%x: !rows) -> !rows {
  %w = heddle.weight "w" <type = "f32", file = 0, offset = 0> : tensor<8xf32>
  %eps = arith.constant 1.0e-6 : f32
  %squares = arith.mulf %x, %x : !rows
  %mean = call @mean(%squares) : (!rows) -> !means
  %sum = call @plus(%mean, %eps) : (!means, f32) -> !means
  %root = math.sqrt %sum : !means
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c1 : !rows
  %one = arith.constant 1.0 : f32
  %ones = tensor.splat %one[%n] : !means
  %inverse = arith.divf %ones, %root : !means
  %scale = call @to_rows(%inverse) : (!means) -> !rows
  %normalised = arith.mulf %x, %scale : !rows
  %ws = call @stored(%x, %w) : (!rows, tensor<8xf32>) -> !rows
  %y = arith.mulf %ws, %normalised : !rows
  return %y : !rows
}

// 1 + weight, as Gemma stores it.
// CHECK-LABEL: @rms_norm_with_offset
// CHECK: heddle.rms_norm {{.*}} weight_offset = 1.000000e+00
func.func @rms_norm_with_offset(%x: !rows) -> !rows {
  %w = heddle.weight "w" <type = "f32", file = 0, offset = 0> : tensor<8xf32>
  %eps = arith.constant 1.0e-6 : f32
  %one = arith.constant dense<1.0> : tensor<8xf32>
  %squares = arith.mulf %x, %x : !rows
  %mean = call @mean(%squares) : (!rows) -> !means
  %sum = call @plus(%mean, %eps) : (!means, f32) -> !means
  %inverse = math.rsqrt %sum : !means
  %scale = call @to_rows(%inverse) : (!means) -> !rows
  %normalised = arith.mulf %x, %scale : !rows
  %moved = arith.addf %w, %one : tensor<8xf32>
  %ws = call @stored(%x, %moved) : (!rows, tensor<8xf32>) -> !rows
  %y = arith.mulf %normalised, %ws : !rows
  return %y : !rows
}

// The epsilon is added to the root, not under it.
// CHECK-LABEL: @epsilon_outside_of_the_root
// CHECK-NOT: heddle.rms_norm
// CHECK: return
func.func @epsilon_outside_of_the_root(%x: !rows) -> !rows {
  %w = heddle.weight "w" <type = "f32", file = 0, offset = 0> : tensor<8xf32>
  %eps = arith.constant 1.0e-6 : f32
  %squares = arith.mulf %x, %x : !rows
  %mean = call @mean(%squares) : (!rows) -> !means
  %root = math.sqrt %mean : !means
  %sum = call @plus(%root, %eps) : (!means, f32) -> !means
  %scale = call @to_rows(%sum) : (!means) -> !rows
  %normalised = arith.divf %x, %scale : !rows
  %ws = call @stored(%x, %w) : (!rows, tensor<8xf32>) -> !rows
  %y = arith.mulf %ws, %normalised : !rows
  return %y : !rows
}

// CHECK-LABEL: @layer_norm
// CHECK: heddle.layer_norm %{{.*}}, %{{.*}}, %{{.*}} {eps = 1.000000e-05 : f64}
// CHECK-NEXT: return
func.func @layer_norm(%x: !rows) -> !rows {
  %w = heddle.weight "w" <type = "f32", file = 0, offset = 0> : tensor<8xf32>
  %b = heddle.weight "b" <type = "f32", file = 0, offset = 32> : tensor<8xf32>
  %eps = arith.constant 1.0e-5 : f32
  %mean = call @mean(%x) : (!rows) -> !means
  %means = call @to_rows(%mean) : (!means) -> !rows
  %centered = arith.subf %x, %means : !rows
  %squares = arith.mulf %centered, %centered : !rows
  %variance = call @mean(%squares) : (!rows) -> !means
  %sum = call @plus(%variance, %eps) : (!means, f32) -> !means
  %root = math.sqrt %sum : !means
  %scale = call @to_rows(%root) : (!means) -> !rows
  %normalised = arith.divf %centered, %scale : !rows
  %ws = call @stored(%x, %w) : (!rows, tensor<8xf32>) -> !rows
  %weighted = arith.mulf %normalised, %ws : !rows
  %bs = call @stored(%x, %b) : (!rows, tensor<8xf32>) -> !rows
  %y = arith.addf %weighted, %bs : !rows
  return %y : !rows
}

// The weight is an activation: the norm is one without a weight, and what is computed multiplies it.
// CHECK-LABEL: @weight_that_is_computed
// CHECK: %[[ONES:.*]] = arith.constant dense<1.000000e+00> : tensor<8xf32>
// CHECK: %[[NORMED:.*]] = heddle.rms_norm %{{.*}}, %[[ONES]] {eps = 9.9{{.*}}E-7 : f64}
// CHECK: arith.mulf %{{.*}}, %[[NORMED]]
// CHECK: return
func.func @weight_that_is_computed(%x: !rows, %w: tensor<8xf32>) -> !rows {
  %eps = arith.constant 1.0e-6 : f32
  %squares = arith.mulf %x, %x : !rows
  %mean = call @mean(%squares) : (!rows) -> !means
  %sum = call @plus(%mean, %eps) : (!means, f32) -> !means
  %inverse = math.rsqrt %sum : !means
  %scale = call @to_rows(%inverse) : (!means) -> !rows
  %normalised = arith.mulf %x, %scale : !rows
  %ws = call @stored(%x, %w) : (!rows, tensor<8xf32>) -> !rows
  %y = arith.mulf %ws, %normalised : !rows
  return %y : !rows
}

// Rows that have the length 1 are no norm, which has the mean of the squares.
// CHECK-LABEL: @length_of_one
// CHECK-NOT: heddle.rms_norm
// CHECK: return
func.func @length_of_one(%x: !rows) -> !rows {
  %eps = arith.constant 1.0e-6 : f32
  %width = arith.constant 8.0 : f32
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c1 : !rows
  %squares = arith.mulf %x, %x : !rows
  %mean = call @mean(%squares) : (!rows) -> !means
  %widths = tensor.splat %width[%n] : !means
  %sum = arith.mulf %mean, %widths : !means
  %safe = call @plus(%sum, %eps) : (!means, f32) -> !means
  %inverse = math.rsqrt %safe : !means
  %scale = call @to_rows(%inverse) : (!means) -> !rows
  %y = arith.mulf %x, %scale : !rows
  return %y : !rows
}

// Two norms of one input share its mean of squares: one goes before the attention, one before the block beside it.
// CHECK-LABEL: @two_norms_of_one_input
// CHECK-DAG: heddle.rms_norm %[[X:.*]], %{{.*}} {eps = 9.9{{.*}}E-7 : f64}
// CHECK-DAG: heddle.rms_norm %[[X]], %{{.*}} {eps = 9.9{{.*}}E-7 : f64}
// CHECK-NOT: linalg
// CHECK: return
func.func @two_norms_of_one_input(%x: !rows) -> (!rows, !rows) {
  %w = heddle.weight "w" <type = "f32", file = 0, offset = 0> : tensor<8xf32>
  %u = heddle.weight "u" <type = "f32", file = 0, offset = 32> : tensor<8xf32>
  %eps = arith.constant 1.0e-6 : f32
  %squares = arith.mulf %x, %x : !rows
  %mean = call @mean(%squares) : (!rows) -> !means
  %sum = call @plus(%mean, %eps) : (!means, f32) -> !means
  %root = math.sqrt %sum : !means
  %scale = call @to_rows(%root) : (!means) -> !rows
  %normalised = arith.divf %x, %scale : !rows
  %ws = call @stored(%x, %w) : (!rows, tensor<8xf32>) -> !rows
  %us = call @stored(%x, %u) : (!rows, tensor<8xf32>) -> !rows
  %first = arith.mulf %normalised, %ws : !rows
  %second = arith.mulf %normalised, %us : !rows
  return %first, %second : !rows, !rows
}
