// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Experts that are places of a list of those which have tokens, as loops over such a list are exported. A graph in which an expert has none does
// not run to its end, so that random inputs tell nothing: test/raise/decoders.test compares what becomes of them.
// RUN: sed 's/EXPERTS/2/g' %s > %t.two.mlir && sed 's/EXPERTS/3/g' %s > %t.three.mlir
// RUN: %heddle-opt %t.two.mlir --inline --symbol-dce --heddle-raise-moe --canonicalize | FileCheck %s
// RUN: %heddle-opt %t.three.mlir --inline --symbol-dce --heddle-raise-moe --canonicalize -o %t.out 2> %t.err
// RUN: FileCheck %s --input-file=%t.out --check-prefix=THREE
// RUN: FileCheck %s --input-file=%t.err --check-prefix=MISS

!rows = tensor<?x5xf32>    // (tokens, width)
!weights = tensor<?x2xf32> // (tokens, experts)
!hidden = tensor<?x3xf32>  // (tokens, intermediate)
!mask = tensor<?xi1>
!list = tensor<1x?xi64>

#x = affine_map<(t, o, h) -> (t, h)>
#w = affine_map<(t, o, h) -> (o, h)>
#y = affine_map<(t, o, h) -> (t, o)>

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
// Rows written into zeros, to where the list says.
func.func private @written(%rows: !rows, %list: !list, %like: !rows) -> !rows {
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
      %element = tensor.extract %rows[%i, %h] : !rows
      %next = tensor.insert %element into %b[%t, %h] : !rows
      scf.yield %next : !rows
    }
    scf.yield %row : !rows
  }
  return %y : !rows
}

// Of two experts those that have a token.
func.func private @experts(%first: !mask, %second: !mask) -> !list {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %false = arith.constant dense<false> : tensor<i1>
  %zero = arith.constant dense<0> : tensor<i64>
  %any0 = linalg.reduce { arith.ori } ins(%first : !mask) outs(%false : tensor<i1>) dimensions = [0]
  %any1 = linalg.reduce { arith.ori } ins(%second : !mask) outs(%false : tensor<i1>) dimensions = [0]
  %a = tensor.extract %any0[] : tensor<i1>
  %b = tensor.extract %any1[] : tensor<i1>
  %mask = tensor.from_elements %a, %b : tensor<2xi1>
  %ones = arith.extui %mask : tensor<2xi1> to tensor<2xi64>
  %sum = linalg.reduce { arith.addi } ins(%ones : tensor<2xi64>) outs(%zero : tensor<i64>) dimensions = [0]
  %total = tensor.extract %sum[] : tensor<i64>
  %count = arith.index_cast %total : i64 to index
  %init = tensor.empty(%count) : !list
  %all:2 = scf.for %e = %c0 to %c2 step %c1 iter_args(%l = %init, %k = %c0) -> (!list, index) {
    %flag = tensor.extract %mask[%e] : tensor<2xi1>
    %next:2 = scf.if %flag -> (!list, index) {
      %number = arith.index_cast %e : index to i64
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
// rows times matrix `number` of `matrices`
func.func private @first_product(%rows: !rows, %matrices: tensor<EXPERTSx3x5xf32>, %number: index) -> !hidden {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %n = tensor.dim %rows, %c0 : !rows
  %matrix = tensor.generate {
  ^bb0(%o: index, %h: index):
    %element = tensor.extract %matrices[%number, %o, %h] : tensor<EXPERTSx3x5xf32>
    tensor.yield %element : f32
  } : tensor<3x5xf32>
  %start = tensor.splat %zero[%n] : !hidden
  %y = linalg.contract indexing_maps = [#x, #w, #y] ins(%rows, %matrix : !rows, tensor<3x5xf32>) outs(%start : !hidden) -> !hidden
  return %y : !hidden
}
func.func private @second_product(%rows: !hidden, %matrices: tensor<EXPERTSx5x3xf32>, %number: index) -> !rows {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %n = tensor.dim %rows, %c0 : !hidden
  %matrix = tensor.generate {
  ^bb0(%o: index, %h: index):
    %element = tensor.extract %matrices[%number, %o, %h] : tensor<EXPERTSx5x3xf32>
    tensor.yield %element : f32
  } : tensor<5x3xf32>
  %start = tensor.splat %zero[%n] : !rows
  %y = linalg.contract indexing_maps = [#x, #w, #y] ins(%rows, %matrix : !hidden, tensor<5x3xf32>) outs(%start : !rows) -> !rows
  return %y : !rows
}
func.func private @row(%masks: tensor<2x?xi1>, %number: index) -> !mask {
  %c1 = arith.constant 1 : index
  %tokens = tensor.dim %masks, %c1 : tensor<2x?xi1>
  %init = tensor.empty(%tokens) : !mask
  %mask = linalg.generic {indexing_maps = [affine_map<(t) -> (t)>], iterator_types = ["parallel"]} outs(%init : !mask) {
  ^bb0(%out: i1):
    %t = linalg.index 0 : index
    %flag = tensor.extract %masks[%number, %t] : tensor<2x?xi1>
    linalg.yield %flag : i1
  } -> !mask
  return %mask : !mask
}
// The number that the list says at `place`.
func.func private @number(%experts: !list, %place: index) -> index {
  %c0 = arith.constant 0 : index
  %said = tensor.extract %experts[%c0, %place] : !list
  %number = arith.index_cast %said : i64 to index
  return %number : index
}
func.func private @weighted(%each: !rows, %p: !weights, %list: !list, %number: index) -> !rows {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = tensor.dim %list, %c1 : !list
  %weights = tensor.generate %n {
  ^bb0(%i: index, %w: index):
    %row = tensor.extract %list[%c0, %i] : !list
    %t = arith.index_cast %row : i64 to index
    %element = tensor.extract %p[%t, %number] : !weights
    tensor.yield %element : f32
  } : !rows
  %weighed = arith.mulf %each, %weights : !rows
  return %weighed : !rows
}

// Of three experts two with tokens may be any: their numbers are known to the run alone.
// MISS: no moe: its matrices are those of other experts than its tokens
// CHECK-LABEL: @places_of_a_list
// CHECK-SAME: %[[X:.*]]: tensor<?x5xf32>, %[[ROUTER:.*]]: tensor<2x5xf32>
// CHECK-NOT: scf.for
// CHECK: heddle.moe <silu> %[[X]], %[[ROUTER]] gates({{.*}}) {normalize = false, top_k = 1 : i64}
// CHECK-NEXT: return
// THREE-LABEL: @places_of_a_list
// THREE-NOT: heddle.moe
// THREE: scf.for
func.func @places_of_a_list(%x: !rows, %router: tensor<2x5xf32>, %gates: tensor<EXPERTSx3x5xf32>, %ups: tensor<EXPERTSx3x5xf32>, %downs: tensor<EXPERTSx5x3xf32>) -> !rows {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %logits = heddle.linear %x, weights(%router : tensor<2x5xf32>) : !rows -> !weights
  %n = tensor.dim %x, %c0 : !rows
  %init = tensor.empty(%n) : !weights
  %p = linalg.softmax dimension(1) ins(%logits : !weights) outs(%init : !weights) -> !weights
  %p0 = tensor.extract_slice %p[0, 0] [%n, 1] [1, 1] : !weights to tensor<?xf32>
  %p1 = tensor.extract_slice %p[0, 1] [%n, 1] [1, 1] : !weights to tensor<?xf32>
  %isFirst = arith.cmpf ogt, %p0, %p1 : tensor<?xf32>
  %isSecond = arith.cmpf oge, %p1, %p0 : tensor<?xf32>
  %experts = call @experts(%isFirst, %isSecond) : (!mask, !mask) -> !list
  %row0 = tensor.expand_shape %isFirst [[0, 1]] output_shape [1, %n] : !mask into tensor<1x?xi1>
  %row1 = tensor.expand_shape %isSecond [[0, 1]] output_shape [1, %n] : !mask into tensor<1x?xi1>
  %masks = tensor.concat dim(0) %row0, %row1 : (tensor<1x?xi1>, tensor<1x?xi1>) -> tensor<2x?xi1>
  %number0 = call @number(%experts, %c0) : (!list, index) -> index
  %mask0 = call @row(%masks, %number0) : (tensor<2x?xi1>, index) -> !mask
  %list0 = call @list(%mask0) : (!mask) -> !list
  %rows0 = call @rows_of(%x, %list0) : (!rows, !list) -> !rows
  %gate0 = call @first_product(%rows0, %gates, %number0) : (!rows, tensor<EXPERTSx3x5xf32>, index) -> !hidden
  %up0 = call @first_product(%rows0, %ups, %number0) : (!rows, tensor<EXPERTSx3x5xf32>, index) -> !hidden
  %h0 = heddle.glu <silu> %gate0, %up0 : !hidden
  %each0 = call @second_product(%h0, %downs, %number0) : (!hidden, tensor<EXPERTSx5x3xf32>, index) -> !rows
  %weighed0 = call @weighted(%each0, %p, %list0, %number0) : (!rows, !weights, !list, index) -> !rows
  %y0 = call @written(%weighed0, %list0, %x) : (!rows, !list, !rows) -> !rows
  %number1 = call @number(%experts, %c1) : (!list, index) -> index
  %mask1 = call @row(%masks, %number1) : (tensor<2x?xi1>, index) -> !mask
  %list1 = call @list(%mask1) : (!mask) -> !list
  %rows1 = call @rows_of(%x, %list1) : (!rows, !list) -> !rows
  %gate1 = call @first_product(%rows1, %gates, %number1) : (!rows, tensor<EXPERTSx3x5xf32>, index) -> !hidden
  %up1 = call @first_product(%rows1, %ups, %number1) : (!rows, tensor<EXPERTSx3x5xf32>, index) -> !hidden
  %h1 = heddle.glu <silu> %gate1, %up1 : !hidden
  %each1 = call @second_product(%h1, %downs, %number1) : (!hidden, tensor<EXPERTSx5x3xf32>, index) -> !rows
  %weighed1 = call @weighted(%each1, %p, %list1, %number1) : (!rows, !weights, !list, index) -> !rows
  %y1 = call @written(%weighed1, %list1, %x) : (!rows, !list, !rows) -> !rows
  %y = arith.addf %y0, %y1 : !rows
  return %y : !rows
}
