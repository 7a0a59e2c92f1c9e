// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Mixtures of experts whose matrices are gathered for each choice of a token, as transformers' `batched_mm` is exported, and experts that
// all tokens pass: every function is evaluated before and after, each spelling is followed by one that looks alike and stays.
// RUN: %heddle-opt %s --inline --symbol-dce --heddle-check-all --heddle-raise-moe --canonicalize -o %t.out 2> %t.err
// RUN: FileCheck %s --input-file=%t.out
// RUN: FileCheck %s --input-file=%t.err --check-prefix=MISS

!rows = tensor<?x5xf32>         // (tokens, width)
!weights = tensor<?x4xf32>      // (tokens, experts)
!gate_up = tensor<4x6x5xf32>    // (experts, 2 intermediate, width)
!down = tensor<4x5x3xf32>       // (experts, width, intermediate)
!router = tensor<4x5xf32>
!hidden = tensor<?x3xf32>       // (tokens * choices, intermediate)
!values = tensor<?x2xf32>       // (tokens, choices)
!places = tensor<?x2xi64>

#w = affine_map<(s, o, h) -> (s, o, h)>
#x = affine_map<(s, o, h) -> (s, h)>
#y = affine_map<(s, o, h) -> (s, o)>

func.func private @count(%x: !rows) -> index {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : !rows
  return %n : index
}

func.func private @probabilities(%logits: !weights) -> !weights {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %logits, %c0 : !weights
  %init = tensor.empty(%n) : !weights
  %p = linalg.softmax dimension(1) ins(%logits : !weights) outs(%init : !weights) -> !weights
  return %p : !weights
}

// The two greatest of a row and where they are.
func.func private @two_greatest(%p: !weights) -> (tensor<?x2xf32>, tensor<?x2xi64>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c4 = arith.constant 4 : index
  %none = arith.constant -1 : index
  %lowest = arith.constant 0xFF800000 : f32
  %n = tensor.dim %p, %c0 : !weights
  %values = tensor.empty(%n) : tensor<?x2xf32>
  %places = tensor.empty(%n) : tensor<?x2xi64>
  %all:2 = scf.for %t = %c0 to %n step %c1 iter_args(%v = %values, %i = %places) -> (tensor<?x2xf32>, tensor<?x2xi64>) {
    %row:3 = scf.for %k = %c0 to %c2 step %c1 iter_args(%rv = %v, %ri = %i, %last = %none) -> (tensor<?x2xf32>, tensor<?x2xi64>, index) {
      %best:2 = scf.for %e = %c0 to %c4 step %c1 iter_args(%greatest = %lowest, %at = %none) -> (f32, index) {
        %x = tensor.extract %p[%t, %e] : !weights
        %isTaken = arith.cmpi eq, %e, %last : index
        %isGreater = arith.cmpf ogt, %x, %greatest : f32
        %true = arith.constant true
        %isFree = arith.xori %isTaken, %true : i1
        %isBest = arith.andi %isGreater, %isFree : i1
        %nextValue = arith.select %isBest, %x, %greatest : f32
        %nextPlace = arith.select %isBest, %e, %at : index
        scf.yield %nextValue, %nextPlace : f32, index
      }
      %place = arith.index_cast %best#1 : index to i64
      %rv2 = tensor.insert %best#0 into %rv[%t, %k] : tensor<?x2xf32>
      %ri2 = tensor.insert %place into %ri[%t, %k] : tensor<?x2xi64>
      scf.yield %rv2, %ri2, %best#1 : tensor<?x2xf32>, tensor<?x2xi64>, index
    }
    scf.yield %row#0, %row#1 : tensor<?x2xf32>, tensor<?x2xi64>
  }
  return %all#0, %all#1 : tensor<?x2xf32>, tensor<?x2xi64>
}

// Row t of x for each choice of token t.
func.func private @repeated(%x: !rows) -> !rows {
  %n = call @count(%x) : (!rows) -> index
  %init = tensor.empty(%n) : tensor<?x2x5xf32>
  %twice = linalg.broadcast ins(%x : !rows) outs(%init : tensor<?x2x5xf32>) dimensions = [1]
  %rows = tensor.collapse_shape %twice [[0, 1], [2]] : tensor<?x2x5xf32> into !rows
  return %rows : !rows
}
// Numbers of experts from the front; one of -4 to -1 counts from the end.
func.func private @numbers(%places: !places) -> tensor<?xi64> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0 : i64
  %four = arith.constant 4 : i64
  %flat = tensor.collapse_shape %places [[0, 1]] : !places into tensor<?xi64>
  %n = tensor.dim %flat, %c0 : tensor<?xi64>
  %zeros = tensor.splat %zero[%n] : tensor<?xi64>
  %fours = tensor.splat %four[%n] : tensor<?xi64>
  %isBehind = arith.cmpi slt, %flat, %zeros : tensor<?xi64>
  %shifted = arith.addi %flat, %fours : tensor<?xi64>
  %numbers = arith.select %isBehind, %shifted, %flat : tensor<?xi1>, tensor<?xi64>
  return %numbers : tensor<?xi64>
}
// gate_up of each number, times its row: (choices of all tokens, 2 intermediate).
func.func private @first_product(%rows: !rows, %numbers: tensor<?xi64>, %gate_up: !gate_up) -> tensor<?x6xf32> {
  %n = call @count(%rows) : (!rows) -> index
  %zero = arith.constant 0.0 : f32
  %each = tensor.generate %n {
  ^bb0(%s: index, %o: index, %h: index):
    %number = tensor.extract %numbers[%s] : tensor<?xi64>
    %e = arith.index_cast %number : i64 to index
    %w = tensor.extract %gate_up[%e, %o, %h] : !gate_up
    tensor.yield %w : f32
  } : tensor<?x6x5xf32>
  %init = tensor.empty(%n) : tensor<?x6xf32>
  %start = linalg.fill ins(%zero : f32) outs(%init : tensor<?x6xf32>) -> tensor<?x6xf32>
  %both = linalg.contract indexing_maps = [#w, #x, #y] ins(%each, %rows : tensor<?x6x5xf32>, !rows) outs(%start : tensor<?x6xf32>) -> tensor<?x6xf32>
  return %both : tensor<?x6xf32>
}
func.func private @half(%both: tensor<?x6xf32>, %begin: index) -> !hidden {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %both, %c0 : tensor<?x6xf32>
  %half = tensor.extract_slice %both[0, %begin] [%n, 3] [1, 1] : tensor<?x6xf32> to !hidden
  return %half : !hidden
}
func.func private @second_product(%hidden: !hidden, %numbers: tensor<?xi64>, %down: !down) -> !rows {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %hidden, %c0 : !hidden
  %zero = arith.constant 0.0 : f32
  %each = tensor.generate %n {
  ^bb0(%s: index, %o: index, %h: index):
    %number = tensor.extract %numbers[%s] : tensor<?xi64>
    %e = arith.index_cast %number : i64 to index
    %w = tensor.extract %down[%e, %o, %h] : !down
    tensor.yield %w : f32
  } : tensor<?x5x3xf32>
  %init = tensor.empty(%n) : !rows
  %start = linalg.fill ins(%zero : f32) outs(%init : !rows) -> !rows
  %y = linalg.contract indexing_maps = [#w, #x, #y] ins(%each, %hidden : tensor<?x5x3xf32>, !hidden) outs(%start : !rows) -> !rows
  return %y : !rows
}
// The sum over the choices of a token.
func.func private @weighted_sum(%each: !rows, %values: !values) -> !rows {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %tokens = tensor.dim %values, %c0 : !values
  %flat = tensor.collapse_shape %values [[0, 1]] : !values into tensor<?xf32>
  %n = call @count(%each) : (!rows) -> index
  %all_init = tensor.empty(%n) : !rows
  %all = linalg.broadcast ins(%flat : tensor<?xf32>) outs(%all_init : !rows) dimensions = [1]
  %weighted = arith.mulf %each, %all : !rows
  %apart = tensor.expand_shape %weighted [[0, 1], [2]] output_shape [%tokens, 2, 5] : !rows into tensor<?x2x5xf32>
  %init = tensor.empty(%tokens) : !rows
  %start = linalg.fill ins(%zero : f32) outs(%init : !rows) -> !rows
  %y = linalg.reduce { arith.addf } ins(%apart : tensor<?x2x5xf32>) outs(%start : !rows) dimensions = [1]
  return %y : !rows
}

// CHECK-LABEL: @matrices_of_each_choice
// CHECK-SAME: %[[X:.*]]: tensor<?x5xf32>, %[[ROUTER:.*]]: tensor<4x5xf32>
// CHECK-NOT: linalg.softmax
// CHECK-NOT: scf.for
// CHECK: %[[Y:.*]] = heddle.moe <silu> %[[X]], %[[ROUTER]] gates({{.*}}) {normalize = false, top_k = 2 : i64} : tensor<?x5xf32>, tensor<4x5xf32> -> tensor<?x5xf32>
// CHECK-NEXT: return %[[Y]]
func.func @matrices_of_each_choice(%x: !rows, %router: !router, %gate_up: !gate_up, %down: !down) -> !rows {
  %logits = heddle.linear %x, weights(%router : !router) : !rows -> !weights
  %p = call @probabilities(%logits) : (!weights) -> !weights
  %best:2 = call @two_greatest(%p) : (!weights) -> (!values, !places)
  %numbers = call @numbers(%best#1) : (!places) -> tensor<?xi64>
  %rows = call @repeated(%x) : (!rows) -> !rows
  %both = call @first_product(%rows, %numbers, %gate_up) : (!rows, tensor<?xi64>, !gate_up) -> tensor<?x6xf32>
  %g0 = arith.constant 0 : index
  %u0 = arith.constant 3 : index
  %gate = call @half(%both, %g0) : (tensor<?x6xf32>, index) -> !hidden
  %up = call @half(%both, %u0) : (tensor<?x6xf32>, index) -> !hidden
  %hidden = heddle.glu <silu> %gate, %up : !hidden
  %each = call @second_product(%hidden, %numbers, %down) : (!hidden, tensor<?xi64>, !down) -> !rows
  %y = call @weighted_sum(%each, %best#0) : (!rows, !values) -> !rows
  return %y : !rows
}

// The second matrix is that of another expert.
// MISS: no moe: {{.*}} has matrices of different experts
// CHECK-LABEL: @down_of_the_neighbour
// CHECK-NOT: heddle.moe
// CHECK: linalg.softmax
func.func @down_of_the_neighbour(%x: !rows, %router: !router, %gate_up: !gate_up, %down: !down) -> !rows {
  %logits = heddle.linear %x, weights(%router : !router) : !rows -> !weights
  %p = call @probabilities(%logits) : (!weights) -> !weights
  %best:2 = call @two_greatest(%p) : (!weights) -> (!values, !places)
  %numbers = call @numbers(%best#1) : (!places) -> tensor<?xi64>
  %c0 = arith.constant 0 : index
  %one = arith.constant 1 : i64
  %s = tensor.dim %numbers, %c0 : tensor<?xi64>
  %ones = tensor.splat %one[%s] : tensor<?xi64>
  %other = arith.xori %numbers, %ones : tensor<?xi64>
  %rows = call @repeated(%x) : (!rows) -> !rows
  %both = call @first_product(%rows, %numbers, %gate_up) : (!rows, tensor<?xi64>, !gate_up) -> tensor<?x6xf32>
  %g0 = arith.constant 0 : index
  %u0 = arith.constant 3 : index
  %gate = call @half(%both, %g0) : (tensor<?x6xf32>, index) -> !hidden
  %up = call @half(%both, %u0) : (tensor<?x6xf32>, index) -> !hidden
  %hidden = heddle.glu <silu> %gate, %up : !hidden
  %each = call @second_product(%hidden, %other, %down) : (!hidden, tensor<?xi64>, !down) -> !rows
  %y = call @weighted_sum(%each, %best#0) : (!rows, !values) -> !rows
  return %y : !rows
}

// One expert that all tokens pass, times a sigmoid of each, as shared experts are in Qwen2-MoE.
// CHECK-LABEL: @shared_expert
// CHECK-SAME: %[[X:.*]]: tensor<?x5xf32>, %[[ROUTER:.*]]: tensor<1x5xf32>, %[[GATE:.*]]: tensor<3x5xf32>, %[[UP:.*]]: tensor<3x5xf32>, %[[DOWN:.*]]: tensor<5x3xf32>
// CHECK: %[[Y:.*]] = heddle.moe <silu> %[[X]], %[[ROUTER]] routing <sigmoid = true> gates(%[[GATE]] : {{.*}}) ups(%[[UP]] : {{.*}}) downs(%[[DOWN]] : {{.*}}) {normalize = false, top_k = 1 : i64}
// CHECK-NEXT: return %[[Y]]
func.func @shared_expert(%x: !rows, %router: tensor<1x5xf32>, %gate: tensor<3x5xf32>, %up: tensor<3x5xf32>, %down: tensor<5x3xf32>) -> !rows {
  %one = arith.constant 1.0 : f32
  %n = call @count(%x) : (!rows) -> index
  %logit = heddle.linear %x, weights(%router : tensor<1x5xf32>) : !rows -> tensor<?x1xf32>
  %minus = arith.negf %logit : tensor<?x1xf32>
  %e = math.exp %minus : tensor<?x1xf32>
  %ones = tensor.splat %one[%n] : tensor<?x1xf32>
  %sum = arith.addf %ones, %e : tensor<?x1xf32>
  %p = arith.divf %ones, %sum : tensor<?x1xf32>
  %g = heddle.linear %x, weights(%gate : tensor<3x5xf32>) : !rows -> !hidden
  %u = heddle.linear %x, weights(%up : tensor<3x5xf32>) : !rows -> !hidden
  %hidden = heddle.glu <silu> %g, %u : !hidden
  %each = heddle.linear %hidden, weights(%down : tensor<5x3xf32>) : !hidden -> !rows
  %y = call @weighted(%each, %p) : (!rows, tensor<?x1xf32>) -> !rows
  return %y : !rows
}
func.func private @weighted(%each: !rows, %p: tensor<?x1xf32>) -> !rows {
  %n = call @count(%each) : (!rows) -> index
  %column = tensor.collapse_shape %p [[0, 1]] : tensor<?x1xf32> into tensor<?xf32>
  %init = tensor.empty(%n) : !rows
  %all = linalg.broadcast ins(%column : tensor<?xf32>) outs(%init : !rows) dimensions = [1]
  %y = arith.mulf %each, %all : !rows
  return %y : !rows
}

// Times the exponential, which is no score.
// CHECK-LABEL: @expert_times_an_exponential
// CHECK-NOT: heddle.moe
// CHECK: math.exp
func.func @expert_times_an_exponential(%x: !rows, %router: tensor<1x5xf32>, %gate: tensor<3x5xf32>, %up: tensor<3x5xf32>, %down: tensor<5x3xf32>) -> !rows {
  %logit = heddle.linear %x, weights(%router : tensor<1x5xf32>) : !rows -> tensor<?x1xf32>
  %p = math.exp %logit : tensor<?x1xf32>
  %g = heddle.linear %x, weights(%gate : tensor<3x5xf32>) : !rows -> !hidden
  %u = heddle.linear %x, weights(%up : tensor<3x5xf32>) : !rows -> !hidden
  %hidden = heddle.glu <silu> %g, %u : !hidden
  %each = heddle.linear %hidden, weights(%down : tensor<5x3xf32>) : !hidden -> !rows
  %y = call @weighted(%each, %p) : (!rows, tensor<?x1xf32>) -> !rows
  return %y : !rows
}
