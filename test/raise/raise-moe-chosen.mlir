// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Experts that are computed for their tokens alone, whose rows are looked up and written back, as transformers' experts are exported one by one:
// every function is evaluated before and after, each spelling is followed by one that looks alike and stays.
// RUN: %heddle-opt %s --inline --symbol-dce --heddle-check-all --heddle-raise-moe --canonicalize -o %t.out 2> %t.err
// RUN: FileCheck %s --input-file=%t.out
// RUN: FileCheck %s --input-file=%t.err --check-prefix=MISS

!rows = tensor<?x5xf32>    // (tokens, width)
!weights = tensor<?x2xf32> // (tokens, experts)
!hidden = tensor<?x3xf32>  // (tokens, intermediate)
!column = tensor<?xf32>
!mask = tensor<?xi1>
!list = tensor<1x?xi64>
!in = tensor<3x5xf32>
!out = tensor<5x3xf32>
!router = tensor<2x5xf32>

func.func private @probabilities(%logits: !weights) -> !weights {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %logits, %c0 : !weights
  %init = tensor.empty(%n) : !weights
  %p = linalg.softmax dimension(1) ins(%logits : !weights) outs(%init : !weights) -> !weights
  return %p : !weights
}
func.func private @column(%p: !weights, %e: index) -> !column {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %p, %c0 : !weights
  %column = tensor.extract_slice %p[0, %e] [%n, 1] [1, 1] : !weights to !column
  return %column : !column
}
// Where the mask is true.
func.func private @list(%mask: !mask) -> !list {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant dense<0> : tensor<i64>
  %n = tensor.dim %mask, %c0 : !mask
  %ones = arith.extui %mask : !mask to tensor<?xi64>
  %sum = linalg.reduce { arith.addi } ins(%ones : tensor<?xi64>) outs(%zero : tensor<i64>) dimensions = [0]
  %total = tensor.extract %sum[] : tensor<i64>
  %count = arith.index_cast %total : i64 to index
  %init = tensor.empty(%count) : !list
  %all:2 = scf.for %t = %c0 to %n step %c1 iter_args(%l = %init, %k = %c0) -> (!list, index) {
    %flag = tensor.extract %mask[%t] : !mask
    %next:2 = scf.if %flag -> (!list, index) {
      %number = arith.index_cast %t : index to i64
      %written = tensor.insert %number into %l[%c0, %k] : !list
      %more = arith.addi %k, %c1 : index
      scf.yield %written, %more : !list, index
    } else {
      scf.yield %l, %k : !list, index
    }
    scf.yield %next#0, %next#1 : !list, index
  }
  return %all#0 : !list
}
func.func private @rows_of(%x: !rows, %list: !list) -> !rows {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = tensor.dim %list, %c1 : !list
  %rows = tensor.generate %n {
  ^bb0(%i: index, %h: index):
    %number = tensor.extract %list[%c0, %i] : !list
    %t = arith.index_cast %number : i64 to index
    %element = tensor.extract %x[%t, %h] : !rows
    tensor.yield %element : f32
  } : !rows
  return %rows : !rows
}
func.func private @weighted(%each: !rows, %p: !column, %list: !list) -> !rows {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = tensor.dim %list, %c1 : !list
  %weights = tensor.generate %n {
  ^bb0(%i: index, %h: index):
    %number = tensor.extract %list[%c0, %i] : !list
    %t = arith.index_cast %number : i64 to index
    %element = tensor.extract %p[%t] : !column
    tensor.yield %element : f32
  } : !rows
  %y = arith.mulf %each, %weights : !rows
  return %y : !rows
}
// Rows written into zeros, to where the list says, counted from the end if `sign` is -1.
func.func private @written(%rows: !rows, %list: !list, %like: !rows, %sign: index) -> !rows {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c5 = arith.constant 5 : index
  %zero = arith.constant 0.0 : f32
  %tokens = tensor.dim %like, %c0 : !rows
  %n = tensor.dim %rows, %c0 : !rows
  %zeros = tensor.splat %zero[%tokens] : !rows
  %y = scf.for %i = %c0 to %n step %c1 iter_args(%a = %zeros) -> (!rows) {
    %row = scf.for %h = %c0 to %c5 step %c1 iter_args(%b = %a) -> (!rows) {
      %number = tensor.extract %list[%c0, %i] : !list
      %t = arith.index_cast %number : i64 to index
      %isBehind = arith.cmpi slt, %sign, %c0 : index
      %last = arith.subi %tokens, %c1 : index
      %turned = arith.subi %last, %t : index
      %place = arith.select %isBehind, %turned, %t : index
      %element = tensor.extract %rows[%i, %h] : !rows
      %next = tensor.insert %element into %b[%place, %h] : !rows
      scf.yield %next : !rows
    }
    scf.yield %row : !rows
  }
  return %y : !rows
}
// CHECK-LABEL: @the_better_of_two
// CHECK-SAME: %[[X:.*]]: tensor<?x5xf32>, %[[ROUTER:.*]]: tensor<2x5xf32>, %[[GATE:.*]]: tensor<3x5xf32>, %[[UP:.*]]: tensor<3x5xf32>, %[[DOWN:.*]]: tensor<5x3xf32>
// CHECK-NOT: scf.for
// CHECK: %[[Y:.*]] = heddle.moe <silu> %[[X]], %[[ROUTER]] gates(%[[GATE]], %[[UP]] : {{.*}}) ups(%[[UP]], %[[GATE]] : {{.*}}) downs(%[[DOWN]], %[[DOWN]] : {{.*}}) {normalize = false, top_k = 1 : i64}
// CHECK-NEXT: return %[[Y]]
func.func @the_better_of_two(%x: !rows, %router: !router, %gate: !in, %up: !in, %down: !out) -> !rows {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %minus = arith.constant -1 : index
  %logits = heddle.linear %x, weights(%router : !router) : !rows -> !weights
  %p = call @probabilities(%logits) : (!weights) -> !weights
  %p0 = call @column(%p, %c0) : (!weights, index) -> !column
  %p1 = call @column(%p, %c1) : (!weights, index) -> !column
  %isFirst = arith.cmpf ogt, %p0, %p1 : !column
  %isSecond = arith.cmpf oge, %p1, %p0 : !column
  %list0 = call @list(%isFirst) : (!mask) -> !list
  %rows0 = call @rows_of(%x, %list0) : (!rows, !list) -> !rows
  %g0 = heddle.linear %rows0, weights(%gate : !in) : !rows -> !hidden
  %u0 = heddle.linear %rows0, weights(%up : !in) : !rows -> !hidden
  %h0 = heddle.glu <silu> %g0, %u0 : !hidden
  %each0 = heddle.linear %h0, weights(%down : !out) : !hidden -> !rows
  %weighed0 = call @weighted(%each0, %p0, %list0) : (!rows, !column, !list) -> !rows
  %y0 = call @written(%weighed0, %list0, %x, %c0) : (!rows, !list, !rows, index) -> !rows
  %list1 = call @list(%isSecond) : (!mask) -> !list
  %rows1 = call @rows_of(%x, %list1) : (!rows, !list) -> !rows
  %g1 = heddle.linear %rows1, weights(%up : !in) : !rows -> !hidden
  %u1 = heddle.linear %rows1, weights(%gate : !in) : !rows -> !hidden
  %h1 = heddle.glu <silu> %g1, %u1 : !hidden
  %each1 = heddle.linear %h1, weights(%down : !out) : !hidden -> !rows
  %weighed1 = call @weighted(%each1, %p1, %list1) : (!rows, !column, !list) -> !rows
  %y1 = call @written(%weighed1, %list1, %x, %c0) : (!rows, !list, !rows, index) -> !rows
  %y = arith.addf %y0, %y1 : !rows
  return %y : !rows
}

// The second expert has room for one of its tokens.
// CHECK-LABEL: @only_the_first_tokens
// CHECK-NOT: heddle.moe
// CHECK: scf.for
func.func @only_the_first_tokens(%x: !rows, %router: !router, %gate: !in, %up: !in, %down: !out) -> !rows {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %minus = arith.constant -1 : index
  %logits = heddle.linear %x, weights(%router : !router) : !rows -> !weights
  %p = call @probabilities(%logits) : (!weights) -> !weights
  %p0 = call @column(%p, %c0) : (!weights, index) -> !column
  %p1 = call @column(%p, %c1) : (!weights, index) -> !column
  %isFirst = arith.cmpf ogt, %p0, %p1 : !column
  %isSecond = arith.cmpf oge, %p1, %p0 : !column
  %list0 = call @list(%isFirst) : (!mask) -> !list
  %rows0 = call @rows_of(%x, %list0) : (!rows, !list) -> !rows
  %g0 = heddle.linear %rows0, weights(%gate : !in) : !rows -> !hidden
  %u0 = heddle.linear %rows0, weights(%up : !in) : !rows -> !hidden
  %h0 = heddle.glu <silu> %g0, %u0 : !hidden
  %each0 = heddle.linear %h0, weights(%down : !out) : !hidden -> !rows
  %weighed0 = call @weighted(%each0, %p0, %list0) : (!rows, !column, !list) -> !rows
  %y0 = call @written(%weighed0, %list0, %x, %c0) : (!rows, !list, !rows, index) -> !rows
  %all1 = call @list(%isSecond) : (!mask) -> !list
  %count1 = tensor.dim %all1, %c1 : !list
  %most = arith.minsi %count1, %c1 : index
  %list1 = tensor.extract_slice %all1[0, 0] [1, %most] [1, 1] : !list to !list
  %rows1 = call @rows_of(%x, %list1) : (!rows, !list) -> !rows
  %g1 = heddle.linear %rows1, weights(%up : !in) : !rows -> !hidden
  %u1 = heddle.linear %rows1, weights(%gate : !in) : !rows -> !hidden
  %h1 = heddle.glu <silu> %g1, %u1 : !hidden
  %each1 = heddle.linear %h1, weights(%down : !out) : !hidden -> !rows
  %weighed1 = call @weighted(%each1, %p1, %list1) : (!rows, !column, !list) -> !rows
  %y1 = call @written(%weighed1, %list1, %x, %c0) : (!rows, !list, !rows, index) -> !rows
  %y = arith.addf %y0, %y1 : !rows
  return %y : !rows
}

// What the second expert gives is that of another token.
// CHECK-LABEL: @written_to_other_tokens
// CHECK-NOT: heddle.moe
// CHECK: scf.for
func.func @written_to_other_tokens(%x: !rows, %router: !router, %gate: !in, %up: !in, %down: !out) -> !rows {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %minus = arith.constant -1 : index
  %logits = heddle.linear %x, weights(%router : !router) : !rows -> !weights
  %p = call @probabilities(%logits) : (!weights) -> !weights
  %p0 = call @column(%p, %c0) : (!weights, index) -> !column
  %p1 = call @column(%p, %c1) : (!weights, index) -> !column
  %isFirst = arith.cmpf ogt, %p0, %p1 : !column
  %isSecond = arith.cmpf oge, %p1, %p0 : !column
  %list0 = call @list(%isFirst) : (!mask) -> !list
  %rows0 = call @rows_of(%x, %list0) : (!rows, !list) -> !rows
  %g0 = heddle.linear %rows0, weights(%gate : !in) : !rows -> !hidden
  %u0 = heddle.linear %rows0, weights(%up : !in) : !rows -> !hidden
  %h0 = heddle.glu <silu> %g0, %u0 : !hidden
  %each0 = heddle.linear %h0, weights(%down : !out) : !hidden -> !rows
  %weighed0 = call @weighted(%each0, %p0, %list0) : (!rows, !column, !list) -> !rows
  %y0 = call @written(%weighed0, %list0, %x, %c0) : (!rows, !list, !rows, index) -> !rows
  %list1 = call @list(%isSecond) : (!mask) -> !list
  %rows1 = call @rows_of(%x, %list1) : (!rows, !list) -> !rows
  %g1 = heddle.linear %rows1, weights(%up : !in) : !rows -> !hidden
  %u1 = heddle.linear %rows1, weights(%gate : !in) : !rows -> !hidden
  %h1 = heddle.glu <silu> %g1, %u1 : !hidden
  %each1 = heddle.linear %h1, weights(%down : !out) : !hidden -> !rows
  %weighed1 = call @weighted(%each1, %p1, %list1) : (!rows, !column, !list) -> !rows
  %y1 = call @written(%weighed1, %list1, %x, %minus) : (!rows, !list, !rows, index) -> !rows
  %y = arith.addf %y0, %y1 : !rows
  return %y : !rows
}

// The first expert's weight is that of the second.
// MISS: no moe: its weights are no routing that is known
// CHECK-LABEL: @weighed_by_the_other
// CHECK-NOT: heddle.moe
// CHECK: scf.for
func.func @weighed_by_the_other(%x: !rows, %router: !router, %gate: !in, %up: !in, %down: !out) -> !rows {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %minus = arith.constant -1 : index
  %logits = heddle.linear %x, weights(%router : !router) : !rows -> !weights
  %p = call @probabilities(%logits) : (!weights) -> !weights
  %p0 = call @column(%p, %c0) : (!weights, index) -> !column
  %p1 = call @column(%p, %c1) : (!weights, index) -> !column
  %isFirst = arith.cmpf ogt, %p0, %p1 : !column
  %isSecond = arith.cmpf oge, %p1, %p0 : !column
  %list0 = call @list(%isFirst) : (!mask) -> !list
  %rows0 = call @rows_of(%x, %list0) : (!rows, !list) -> !rows
  %g0 = heddle.linear %rows0, weights(%gate : !in) : !rows -> !hidden
  %u0 = heddle.linear %rows0, weights(%up : !in) : !rows -> !hidden
  %h0 = heddle.glu <silu> %g0, %u0 : !hidden
  %each0 = heddle.linear %h0, weights(%down : !out) : !hidden -> !rows
  %weighed0 = call @weighted(%each0, %p1, %list0) : (!rows, !column, !list) -> !rows
  %y0 = call @written(%weighed0, %list0, %x, %c0) : (!rows, !list, !rows, index) -> !rows
  %list1 = call @list(%isSecond) : (!mask) -> !list
  %rows1 = call @rows_of(%x, %list1) : (!rows, !list) -> !rows
  %g1 = heddle.linear %rows1, weights(%up : !in) : !rows -> !hidden
  %u1 = heddle.linear %rows1, weights(%gate : !in) : !rows -> !hidden
  %h1 = heddle.glu <silu> %g1, %u1 : !hidden
  %each1 = heddle.linear %h1, weights(%down : !out) : !hidden -> !rows
  %weighed1 = call @weighted(%each1, %p1, %list1) : (!rows, !column, !list) -> !rows
  %y1 = call @written(%weighed1, %list1, %x, %c0) : (!rows, !list, !rows, index) -> !rows
  %y = arith.addf %y0, %y1 : !rows
  return %y : !rows
}
