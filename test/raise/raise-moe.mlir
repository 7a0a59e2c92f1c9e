// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Mixtures of experts as exporters leave them: every function is evaluated before and after, each spelling is followed by one that
// looks alike and stays.
// RUN: %heddle-opt %s --inline --symbol-dce --heddle-check-all --heddle-raise-moe --canonicalize -o %t.out 2> %t.err
// RUN: FileCheck %s --input-file=%t.out
// RUN: FileCheck %s --input-file=%t.err --check-prefix=MISS

!rows = tensor<?x5xf32>         // (tokens, width)
!weights = tensor<?x4xf32>      // (tokens, experts)
!gate_up = tensor<4x6x5xf32>    // (experts, 2 intermediate, width)
!down = tensor<4x5x3xf32>       // (experts, width, intermediate)
!router = tensor<4x5xf32>
!hidden = tensor<4x?x3xf32>     // (experts, tokens, intermediate)

#x = affine_map<(e, t, o, h) -> (t, h)>
#w = affine_map<(e, t, o, h) -> (e, o, h)>
#y = affine_map<(e, t, o, h) -> (e, t, o)>
#hidden = affine_map<(e, t, o, h) -> (e, t, h)>

func.func private @count(%x: !rows) -> index {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : !rows
  return %n : index
}

// Gate and up of all experts: (experts, tokens, 2 intermediate).
func.func private @first_product(%x: !rows, %gate_up: !gate_up) -> tensor<4x?x6xf32> {
  %n = call @count(%x) : (!rows) -> index
  %zero = arith.constant 0.0 : f32
  %init = tensor.empty(%n) : tensor<4x?x6xf32>
  %start = linalg.fill ins(%zero : f32) outs(%init : tensor<4x?x6xf32>) -> tensor<4x?x6xf32>
  %both = linalg.contract indexing_maps = [#x, #w, #y] ins(%x, %gate_up : !rows, !gate_up) outs(%start : tensor<4x?x6xf32>) -> tensor<4x?x6xf32>
  return %both : tensor<4x?x6xf32>
}
func.func private @half(%both: tensor<4x?x6xf32>, %begin: index) -> !hidden {
  %c1 = arith.constant 1 : index
  %n = tensor.dim %both, %c1 : tensor<4x?x6xf32>
  %half = tensor.extract_slice %both[0, 0, %begin] [4, %n, 3] [1, 1, 1] : tensor<4x?x6xf32> to !hidden
  return %half : !hidden
}
func.func private @second_product(%hidden: !hidden, %down: !down) -> tensor<4x?x5xf32> {
  %c1 = arith.constant 1 : index
  %n = tensor.dim %hidden, %c1 : !hidden
  %zero = arith.constant 0.0 : f32
  %init = tensor.empty(%n) : tensor<4x?x5xf32>
  %start = linalg.fill ins(%zero : f32) outs(%init : tensor<4x?x5xf32>) -> tensor<4x?x5xf32>
  %each = linalg.contract indexing_maps = [#hidden, #w, #y] ins(%hidden, %down : !hidden, !down) outs(%start : tensor<4x?x5xf32>) -> tensor<4x?x5xf32>
  return %each : tensor<4x?x5xf32>
}

func.func private @weighted_sum(%each: tensor<4x?x5xf32>, %w: !weights) -> !rows {
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %n = tensor.dim %each, %c1 : tensor<4x?x5xf32>
  %turned_init = tensor.empty(%n) : tensor<4x?xf32>
  %turned = linalg.transpose ins(%w : !weights) outs(%turned_init : tensor<4x?xf32>) permutation = [1, 0]
  %all_init = tensor.empty(%n) : tensor<4x?x5xf32>
  %all = linalg.broadcast ins(%turned : tensor<4x?xf32>) outs(%all_init : tensor<4x?x5xf32>) dimensions = [2]
  %weighted = arith.mulf %each, %all : tensor<4x?x5xf32>
  %init = tensor.empty(%n) : !rows
  %start = linalg.fill ins(%zero : f32) outs(%init : !rows) -> !rows
  %y = linalg.reduce { arith.addf } ins(%weighted : tensor<4x?x5xf32>) outs(%start : !rows) dimensions = [0]
  return %y : !rows
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

// Values at places of a row of zeros; a place that is none is an error.
func.func private @scattered(%values: tensor<?x2xf32>, %places: tensor<?x2xi64>) -> !weights {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c4 = arith.constant 4 : i64
  %true = arith.constant true
  %zero = arith.constant 0.0 : f32
  %n = tensor.dim %values, %c0 : tensor<?x2xf32>
  %ends = tensor.splat %c4[%n] : tensor<?x2xi64>
  %isWithin = arith.cmpi slt, %places, %ends : tensor<?x2xi64>
  %truth = tensor.from_elements %true : tensor<i1>
  %all = linalg.reduce { arith.andi } ins(%isWithin : tensor<?x2xi1>) outs(%truth : tensor<i1>) dimensions = [0, 1]
  %holds = tensor.extract %all[] : tensor<i1>
  cf.assert %holds, "an index is out of range"
  %init = tensor.empty(%n) : !weights
  %start = linalg.fill ins(%zero : f32) outs(%init : !weights) -> !weights
  %w = scf.for %t = %c0 to %n step %c1 iter_args(%rows = %start) -> (!weights) {
    %row = scf.for %k = %c0 to %c2 step %c1 iter_args(%acc = %rows) -> (!weights) {
      %place = tensor.extract %places[%t, %k] : tensor<?x2xi64>
      %value = tensor.extract %values[%t, %k] : tensor<?x2xf32>
      %at = arith.index_cast %place : i64 to index
      %next = tensor.insert %value into %acc[%t, %at] : !weights
      scf.yield %next : !weights
    }
    scf.yield %row : !weights
  }
  return %w : !weights
}

// The export of recent transformers: every expert on every token, weights scattered.
// CHECK-LABEL: @all_experts_with_scattered_weights
// CHECK-SAME: %[[X:.*]]: tensor<?x5xf32>, %[[ROUTER:.*]]: tensor<4x5xf32>
// CHECK-NOT: linalg.softmax
// CHECK-NOT: scf.for
// CHECK-NOT: cf.assert
// CHECK: %[[Y:.*]] = heddle.moe <silu> %[[X]], %[[ROUTER]] gates({{.*}}) {normalize = false, top_k = 2 : i64} : tensor<?x5xf32>, tensor<4x5xf32> -> tensor<?x5xf32>
// CHECK-NEXT: return %[[Y]]
func.func @all_experts_with_scattered_weights(%x: !rows, %router: !router, %gate_up: !gate_up, %down: !down) -> !rows {
  %logits = heddle.linear %x, weights(%router : !router) : !rows -> !weights
  %p = call @probabilities(%logits) : (!weights) -> !weights
  %best:2 = call @two_greatest(%p) : (!weights) -> (tensor<?x2xf32>, tensor<?x2xi64>)
  %w = call @scattered(%best#0, %best#1) : (tensor<?x2xf32>, tensor<?x2xi64>) -> !weights
  %both = call @first_product(%x, %gate_up) : (!rows, !gate_up) -> tensor<4x?x6xf32>
  %g0 = arith.constant 0 : index
  %u0 = arith.constant 3 : index
  %gate = call @half(%both, %g0) : (tensor<4x?x6xf32>, index) -> !hidden
  %up = call @half(%both, %u0) : (tensor<4x?x6xf32>, index) -> !hidden
  %hidden = heddle.glu <silu> %gate, %up : !hidden
  %each = call @second_product(%hidden, %down) : (!hidden, !down) -> tensor<4x?x5xf32>
  %y = call @weighted_sum(%each, %w) : (tensor<4x?x5xf32>, !weights) -> !rows
  return %y : !rows
}

// Experts read other rows than the router.
// MISS: no moe: 'heddle.linear' at {{.*}} reads other rows than its experts
// CHECK-LABEL: @routed_by_other_rows
// CHECK-NOT: heddle.moe
// CHECK: linalg.softmax
func.func @routed_by_other_rows(%x: !rows {heddle.dims = ["t", ""]}, %other: !rows {heddle.dims = ["t", ""]}, %router: !router, %gate_up: !gate_up, %down: !down) -> !rows {
  %logits = heddle.linear %other, weights(%router : !router) : !rows -> !weights
  %p = call @probabilities(%logits) : (!weights) -> !weights
  %best:2 = call @two_greatest(%p) : (!weights) -> (tensor<?x2xf32>, tensor<?x2xi64>)
  %w = call @scattered(%best#0, %best#1) : (tensor<?x2xf32>, tensor<?x2xi64>) -> !weights
  %both = call @first_product(%x, %gate_up) : (!rows, !gate_up) -> tensor<4x?x6xf32>
  %g0 = arith.constant 0 : index
  %u0 = arith.constant 3 : index
  %gate = call @half(%both, %g0) : (tensor<4x?x6xf32>, index) -> !hidden
  %up = call @half(%both, %u0) : (tensor<4x?x6xf32>, index) -> !hidden
  %hidden = heddle.glu <silu> %gate, %up : !hidden
  %each = call @second_product(%hidden, %down) : (!hidden, !down) -> tensor<4x?x5xf32>
  %y = call @weighted_sum(%each, %w) : (tensor<4x?x5xf32>, !weights) -> !rows
  return %y : !rows
}

// Divided by their sum, and multiplied: w / sum w * 1.5.
// CHECK-LABEL: @normalised_and_scaled
// CHECK: heddle.moe <silu> %{{.*}}, %{{.*}} routing <scale = 1.500000e+00 : f64> gates({{.*}}) {normalize = true, top_k = 2 : i64}
func.func @normalised_and_scaled(%x: !rows, %router: !router, %gate_up: !gate_up, %down: !down) -> !rows {
  %zero = arith.constant 0.0 : f32
  %scale = arith.constant 1.5 : f32
  %n = call @count(%x) : (!rows) -> index
  %logits = heddle.linear %x, weights(%router : !router) : !rows -> !weights
  %p = call @probabilities(%logits) : (!weights) -> !weights
  %best:2 = call @two_greatest(%p) : (!weights) -> (tensor<?x2xf32>, tensor<?x2xi64>)
  %sum_init = tensor.empty(%n) : tensor<?xf32>
  %sum_start = linalg.fill ins(%zero : f32) outs(%sum_init : tensor<?xf32>) -> tensor<?xf32>
  %sum = linalg.reduce { arith.addf } ins(%best#0 : tensor<?x2xf32>) outs(%sum_start : tensor<?xf32>) dimensions = [1]
  %init = tensor.empty(%n) : tensor<?x2xf32>
  %sums = linalg.broadcast ins(%sum : tensor<?xf32>) outs(%init : tensor<?x2xf32>) dimensions = [1]
  %shares = arith.divf %best#0, %sums : tensor<?x2xf32>
  %scales = tensor.splat %scale[%n] : tensor<?x2xf32>
  %scaled = arith.mulf %shares, %scales : tensor<?x2xf32>
  %w = call @scattered(%scaled, %best#1) : (tensor<?x2xf32>, tensor<?x2xi64>) -> !weights
  %both = call @first_product(%x, %gate_up) : (!rows, !gate_up) -> tensor<4x?x6xf32>
  %g0 = arith.constant 0 : index
  %u0 = arith.constant 3 : index
  %gate = call @half(%both, %g0) : (tensor<4x?x6xf32>, index) -> !hidden
  %up = call @half(%both, %u0) : (tensor<4x?x6xf32>, index) -> !hidden
  %hidden = heddle.glu <silu> %gate, %up : !hidden
  %each = call @second_product(%hidden, %down) : (!hidden, !down) -> tensor<4x?x5xf32>
  %y = call @weighted_sum(%each, %w) : (tensor<4x?x5xf32>, !weights) -> !rows
  return %y : !rows
}

// Squares of the probabilities are chosen alike and weigh otherwise.
// MISS: no moe: its weights are no routing that is known
// CHECK-LABEL: @squared
// CHECK-NOT: heddle.moe
// CHECK: linalg.softmax
func.func @squared(%x: !rows, %router: !router, %gate_up: !gate_up, %down: !down) -> !rows {
  %logits = heddle.linear %x, weights(%router : !router) : !rows -> !weights
  %p = call @probabilities(%logits) : (!weights) -> !weights
  %best:2 = call @two_greatest(%p) : (!weights) -> (tensor<?x2xf32>, tensor<?x2xi64>)
  %square = arith.mulf %best#0, %best#0 : tensor<?x2xf32>
  %w = call @scattered(%square, %best#1) : (tensor<?x2xf32>, tensor<?x2xi64>) -> !weights
  %both = call @first_product(%x, %gate_up) : (!rows, !gate_up) -> tensor<4x?x6xf32>
  %g0 = arith.constant 0 : index
  %u0 = arith.constant 3 : index
  %gate = call @half(%both, %g0) : (tensor<4x?x6xf32>, index) -> !hidden
  %up = call @half(%both, %u0) : (tensor<4x?x6xf32>, index) -> !hidden
  %hidden = heddle.glu <silu> %gate, %up : !hidden
  %each = call @second_product(%hidden, %down) : (!hidden, !down) -> tensor<4x?x5xf32>
  %y = call @weighted_sum(%each, %w) : (tensor<4x?x5xf32>, !weights) -> !rows
  return %y : !rows
}

// DeepSeek V3's form (arXiv:2412.19437) without a sort: sigmoids, two groups of two, of which the one with the greater sum of p +
// correction stays, of it the expert with the greater p + correction, weight 2.5 p.
// CHECK-LABEL: @best_of_the_better_group
// CHECK: heddle.moe <silu> %{{.*}}, %{{.*}} correction(%{{.*}} : tensor<4xf32>) routing <sigmoid = true, numGroups = 2, scale = 2.500000e+00 : f64> gates({{.*}}) {normalize = false, top_k = 1 : i64}
func.func @best_of_the_better_group(%x: !rows, %router: !router, %gate_up: !gate_up, %down: !down) -> !rows {
  %correction = arith.constant dense<[0.3, 0.1, 0.25, 0.2]> : tensor<4xf32>
  %n = call @count(%x) : (!rows) -> index
  %zero = arith.constant 0.0 : f32
  %scale = arith.constant 2.5 : f32
  %init = tensor.empty(%n) : !weights
  %logits = heddle.linear %x, weights(%router : !router) : !rows -> !weights
  %p = call @sigmoids(%logits) : (!weights) -> !weights
  %corrections = linalg.broadcast ins(%correction : tensor<4xf32>) outs(%init : !weights) dimensions = [0]
  %score = arith.addf %p, %corrections : !weights
  %apart = tensor.expand_shape %score [[0], [1, 2]] output_shape [%n, 2, 2] : !weights into tensor<?x2x2xf32>
  %group_init = tensor.empty(%n) : tensor<?x2xf32>
  %group_start = linalg.fill ins(%zero : f32) outs(%group_init : tensor<?x2xf32>) -> tensor<?x2xf32>
  %group = linalg.reduce { arith.addf } ins(%apart : tensor<?x2x2xf32>) outs(%group_start : tensor<?x2xf32>) dimensions = [2]
  %groups_init = tensor.empty(%n) : tensor<?x2x2xf32>
  %groups = linalg.broadcast ins(%group : tensor<?x2xf32>) outs(%groups_init : tensor<?x2x2xf32>) dimensions = [2]
  %of_group = tensor.collapse_shape %groups [[0], [1, 2]] : tensor<?x2x2xf32> into !weights
  %in_group = call @where_greatest(%of_group, %score) : (!weights, !weights) -> !weights
  %chosen = call @where_greatest(%in_group, %p) : (!weights, !weights) -> !weights
  %scales = tensor.splat %scale[%n] : !weights
  %w = arith.mulf %chosen, %scales : !weights
  %both = call @first_product(%x, %gate_up) : (!rows, !gate_up) -> tensor<4x?x6xf32>
  %g0 = arith.constant 0 : index
  %u0 = arith.constant 3 : index
  %gate = call @half(%both, %g0) : (tensor<4x?x6xf32>, index) -> !hidden
  %up = call @half(%both, %u0) : (tensor<4x?x6xf32>, index) -> !hidden
  %hidden = heddle.glu <silu> %gate, %up : !hidden
  %each = call @second_product(%hidden, %down) : (!hidden, !down) -> tensor<4x?x5xf32>
  %y = call @weighted_sum(%each, %w) : (tensor<4x?x5xf32>, !weights) -> !rows
  return %y : !rows
}
func.func private @sigmoids(%logits: !weights) -> !weights {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %logits, %c0 : !weights
  %one = arith.constant 1.0 : f32
  %minus = arith.negf %logits : !weights
  %e = math.exp %minus : !weights
  %ones = tensor.splat %one[%n] : !weights
  %sum = arith.addf %ones, %e : !weights
  %p = arith.divf %ones, %sum : !weights
  return %p : !weights
}
// `value` where `score` is the greatest of its row, 0 elsewhere.
func.func private @where_greatest(%score: !weights, %value: !weights) -> !weights {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %score, %c0 : !weights
  %lowest = arith.constant 0xFF800000 : f32
  %zero = arith.constant 0.0 : f32
  %top_init = tensor.empty(%n) : tensor<?xf32>
  %top_start = linalg.fill ins(%lowest : f32) outs(%top_init : tensor<?xf32>) -> tensor<?xf32>
  %top = linalg.reduce { arith.maximumf } ins(%score : !weights) outs(%top_start : tensor<?xf32>) dimensions = [1]
  %init = tensor.empty(%n) : !weights
  %tops = linalg.broadcast ins(%top : tensor<?xf32>) outs(%init : !weights) dimensions = [1]
  %isTop = arith.cmpf oge, %score, %tops : !weights
  %zeros = tensor.splat %zero[%n] : !weights
  %kept = arith.select %isTop, %value, %zeros : tensor<?x4xi1>, !weights
  return %kept : !weights
}

// Experts above a threshold: one token has more of them than another.
// MISS: no moe: its tokens choose different numbers of experts
// CHECK-LABEL: @above_a_threshold
// CHECK-NOT: heddle.moe
// CHECK: math.exp
func.func @above_a_threshold(%x: !rows, %router: !router, %gate_up: !gate_up, %down: !down) -> !rows {
  %half = arith.constant 0.5 : f32
  %zero = arith.constant 0.0 : f32
  %n = call @count(%x) : (!rows) -> index
  %logits = heddle.linear %x, weights(%router : !router) : !rows -> !weights
  %p = call @sigmoids(%logits) : (!weights) -> !weights
  %halves = tensor.splat %half[%n] : !weights
  %zeros = tensor.splat %zero[%n] : !weights
  %isChosen = arith.cmpf oge, %p, %halves : !weights
  %w = arith.select %isChosen, %p, %zeros : tensor<?x4xi1>, !weights
  %both = call @first_product(%x, %gate_up) : (!rows, !gate_up) -> tensor<4x?x6xf32>
  %g0 = arith.constant 0 : index
  %u0 = arith.constant 3 : index
  %gate = call @half(%both, %g0) : (tensor<4x?x6xf32>, index) -> !hidden
  %up = call @half(%both, %u0) : (tensor<4x?x6xf32>, index) -> !hidden
  %hidden = heddle.glu <silu> %gate, %up : !hidden
  %each = call @second_product(%hidden, %down) : (!hidden, !down) -> tensor<4x?x5xf32>
  %y = call @weighted_sum(%each, %w) : (tensor<4x?x5xf32>, !weights) -> !rows
  return %y : !rows
}

// One expert after the other, each a product of its own, added to what came before; the residual stays outside.
// CHECK-LABEL: @one_by_one
// CHECK-SAME: %[[X:.*]]: tensor<?x5xf32>, %[[ROUTER:.*]]: tensor<4x5xf32>
// CHECK: %[[Y:.*]] = heddle.moe <gelu> %[[X]], %[[ROUTER]] gates({{.*}}) {normalize = false, top_k = 1 : i64}
// CHECK: arith.addf %[[X]], %[[Y]]
func.func @one_by_one(%x: !rows, %router: !router, 
                   %g0: tensor<3x5xf32>, %u0: tensor<3x5xf32>, %d0: tensor<5x3xf32>, %g1: tensor<3x5xf32>, %u1: tensor<3x5xf32>, %d1: tensor<5x3xf32>, %g2: tensor<3x5xf32>, %u2: tensor<3x5xf32>, %d2: tensor<5x3xf32>, %g3: tensor<3x5xf32>, %u3: tensor<3x5xf32>, %d3: tensor<5x3xf32>) -> !rows {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %logits = heddle.linear %x, weights(%router : !router) : !rows -> !weights
  %p = call @probabilities(%logits) : (!weights) -> !weights
  %w = call @where_greatest(%p, %p) : (!weights, !weights) -> !weights
  %a0 = heddle.linear %x, weights(%g0 : tensor<3x5xf32>) : !rows -> tensor<?x3xf32>
  %b0 = heddle.linear %x, weights(%u0 : tensor<3x5xf32>) : !rows -> tensor<?x3xf32>
  %h0 = heddle.glu <gelu> %a0, %b0 : tensor<?x3xf32>
  %o0 = heddle.linear %h0, weights(%d0 : tensor<5x3xf32>) : tensor<?x3xf32> -> !rows
  %y0 = call @weighted(%o0, %w, %c0) : (!rows, !weights, index) -> !rows
  %a1 = heddle.linear %x, weights(%g1 : tensor<3x5xf32>) : !rows -> tensor<?x3xf32>
  %b1 = heddle.linear %x, weights(%u1 : tensor<3x5xf32>) : !rows -> tensor<?x3xf32>
  %h1 = heddle.glu <gelu> %a1, %b1 : tensor<?x3xf32>
  %o1 = heddle.linear %h1, weights(%d1 : tensor<5x3xf32>) : tensor<?x3xf32> -> !rows
  %y1 = call @weighted(%o1, %w, %c1) : (!rows, !weights, index) -> !rows
  %a2 = heddle.linear %x, weights(%g2 : tensor<3x5xf32>) : !rows -> tensor<?x3xf32>
  %b2 = heddle.linear %x, weights(%u2 : tensor<3x5xf32>) : !rows -> tensor<?x3xf32>
  %h2 = heddle.glu <gelu> %a2, %b2 : tensor<?x3xf32>
  %o2 = heddle.linear %h2, weights(%d2 : tensor<5x3xf32>) : tensor<?x3xf32> -> !rows
  %y2 = call @weighted(%o2, %w, %c2) : (!rows, !weights, index) -> !rows
  %a3 = heddle.linear %x, weights(%g3 : tensor<3x5xf32>) : !rows -> tensor<?x3xf32>
  %b3 = heddle.linear %x, weights(%u3 : tensor<3x5xf32>) : !rows -> tensor<?x3xf32>
  %h3 = heddle.glu <gelu> %a3, %b3 : tensor<?x3xf32>
  %o3 = heddle.linear %h3, weights(%d3 : tensor<5x3xf32>) : tensor<?x3xf32> -> !rows
  %y3 = call @weighted(%o3, %w, %c3) : (!rows, !weights, index) -> !rows
  %s1 = arith.addf %y0, %y1 : !rows
  %s2 = arith.addf %s1, %y2 : !rows
  %s3 = arith.addf %s2, %y3 : !rows
  %y = arith.addf %x, %s3 : !rows
  return %y : !rows
}

// The third expert counts twice, the fourth not at all.
// MISS: no moe: an expert of it is missing
// CHECK-LABEL: @one_of_them_twice
// CHECK-NOT: heddle.moe
// CHECK: linalg.softmax
func.func @one_of_them_twice(%x: !rows, %router: !router, 
                   %g0: tensor<3x5xf32>, %u0: tensor<3x5xf32>, %d0: tensor<5x3xf32>, %g1: tensor<3x5xf32>, %u1: tensor<3x5xf32>, %d1: tensor<5x3xf32>, %g2: tensor<3x5xf32>, %u2: tensor<3x5xf32>, %d2: tensor<5x3xf32>, %g3: tensor<3x5xf32>, %u3: tensor<3x5xf32>, %d3: tensor<5x3xf32>) -> !rows {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %logits = heddle.linear %x, weights(%router : !router) : !rows -> !weights
  %p = call @probabilities(%logits) : (!weights) -> !weights
  %w = call @where_greatest(%p, %p) : (!weights, !weights) -> !weights
  %a0 = heddle.linear %x, weights(%g0 : tensor<3x5xf32>) : !rows -> tensor<?x3xf32>
  %b0 = heddle.linear %x, weights(%u0 : tensor<3x5xf32>) : !rows -> tensor<?x3xf32>
  %h0 = heddle.glu <gelu> %a0, %b0 : tensor<?x3xf32>
  %o0 = heddle.linear %h0, weights(%d0 : tensor<5x3xf32>) : tensor<?x3xf32> -> !rows
  %y0 = call @weighted(%o0, %w, %c0) : (!rows, !weights, index) -> !rows
  %a1 = heddle.linear %x, weights(%g1 : tensor<3x5xf32>) : !rows -> tensor<?x3xf32>
  %b1 = heddle.linear %x, weights(%u1 : tensor<3x5xf32>) : !rows -> tensor<?x3xf32>
  %h1 = heddle.glu <gelu> %a1, %b1 : tensor<?x3xf32>
  %o1 = heddle.linear %h1, weights(%d1 : tensor<5x3xf32>) : tensor<?x3xf32> -> !rows
  %y1 = call @weighted(%o1, %w, %c1) : (!rows, !weights, index) -> !rows
  %a2 = heddle.linear %x, weights(%g2 : tensor<3x5xf32>) : !rows -> tensor<?x3xf32>
  %b2 = heddle.linear %x, weights(%u2 : tensor<3x5xf32>) : !rows -> tensor<?x3xf32>
  %h2 = heddle.glu <gelu> %a2, %b2 : tensor<?x3xf32>
  %o2 = heddle.linear %h2, weights(%d2 : tensor<5x3xf32>) : tensor<?x3xf32> -> !rows
  %y2 = call @weighted(%o2, %w, %c2) : (!rows, !weights, index) -> !rows
  %a3 = heddle.linear %x, weights(%g2 : tensor<3x5xf32>) : !rows -> tensor<?x3xf32>
  %b3 = heddle.linear %x, weights(%u2 : tensor<3x5xf32>) : !rows -> tensor<?x3xf32>
  %h3 = heddle.glu <gelu> %a3, %b3 : tensor<?x3xf32>
  %o3 = heddle.linear %h3, weights(%d2 : tensor<5x3xf32>) : tensor<?x3xf32> -> !rows
  %y3 = call @weighted(%o3, %w, %c2) : (!rows, !weights, index) -> !rows
  %s1 = arith.addf %y0, %y1 : !rows
  %s2 = arith.addf %s1, %y2 : !rows
  %y = arith.addf %s2, %y3 : !rows
  return %y : !rows
}

// w[:, e] times y.
func.func private @weighted(%y: !rows, %w: !weights, %e: index) -> !rows {
  %n = call @count(%y) : (!rows) -> index
  %column = tensor.extract_slice %w[0, %e] [%n, 1] [1, 1] : !weights to tensor<?xf32>
  %init = tensor.empty(%n) : !rows
  %all = linalg.broadcast ins(%column : tensor<?xf32>) outs(%init : !rows) dimensions = [1]
  %weighted = arith.mulf %y, %all : !rows
  return %weighted : !rows
}
