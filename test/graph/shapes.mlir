// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Results whose size the data decide; reshapes, slices, padding, gathers; nothing at all.
// RUN: %heddle compile %s -o %t --quiet
// RUN: %python %tools/graph_io.py %t x=I64[2,3]:0,5,0,7,0,9 shape=I64[2]:3,2 rows=I64[3]:1,0,1 | FileCheck %s
// CHECK: nonzero I64[3] 5 7 9
// CHECK-NEXT: reshaped I64[3,2] 0 5 0 7 0 9
// CHECK-NEXT: padded I64[3,5] -1 -1 -1 -1 -1 -1 0 5 0 -1 -1 7 0 9 -1
// CHECK-NEXT: picked I64[3,3] 7 0 9 0 5 0 7 0 9
// CHECK-NEXT: column I64[2] 5 0
// RUN: %python %tools/graph_io.py %t x=I64[2,0]: shape=I64[2]:0,4 rows=I64[0]: | FileCheck %s --check-prefix=EMPTY
// EMPTY: nonzero I64[0]
// EMPTY: reshaped I64[0,4]
// EMPTY: padded I64[3,2] -1 -1 -1 -1 -1 -1
// EMPTY: picked I64[0,0]
// EMPTY: column I64[2] 0 0

func.func @graph(%x: tensor<2x?xi64> {heddle.name = "x"}, %shape: tensor<2xi64> {heddle.name = "shape"}, %rows: tensor<?xi64> {heddle.name = "rows"})
    -> (tensor<?xi64> {heddle.name = "nonzero"}, tensor<?x?xi64> {heddle.name = "reshaped"}, tensor<3x?xi64> {heddle.name = "padded"},
        tensor<?x?xi64> {heddle.name = "picked"}, tensor<2xi64> {heddle.name = "column"}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0 : i64
  %width = tensor.dim %x, %c1 : tensor<2x?xi64>
  %flat = tensor.collapse_shape %x [[0, 1]] : tensor<2x?xi64> into tensor<?xi64>
  %size = tensor.dim %flat, %c0 : tensor<?xi64>
  %room = tensor.empty(%size) : tensor<?xi64>
  %found:2 = scf.for %i = %c0 to %size step %c1 iter_args(%list = %room, %count = %c0) -> (tensor<?xi64>, index) {
    %value = tensor.extract %flat[%i] : tensor<?xi64>
    %isSet = arith.cmpi ne, %value, %zero : i64
    %next:2 = scf.if %isSet -> (tensor<?xi64>, index) {
      %longer = tensor.insert %value into %list[%count] : tensor<?xi64>
      %more = arith.addi %count, %c1 : index
      scf.yield %longer, %more : tensor<?xi64>, index
    } else {
      scf.yield %list, %count : tensor<?xi64>, index
    }
    scf.yield %next#0, %next#1 : tensor<?xi64>, index
  }
  %nonzero = tensor.extract_slice %found#0[0] [%found#1] [1] : tensor<?xi64> to tensor<?xi64>
  %reshaped = tensor.reshape %x(%shape) : (tensor<2x?xi64>, tensor<2xi64>) -> tensor<?x?xi64>
  %minus = arith.constant -1 : i64
  %padded = tensor.pad %x low[1, 1] high[0, 1] {
    ^bb0(%i: index, %j: index):
      tensor.yield %minus : i64
  } : tensor<2x?xi64> to tensor<3x?xi64>
  %count = tensor.dim %rows, %c0 : tensor<?xi64>
  %picked = tensor.generate %count, %width {
    ^bb0(%i: index, %j: index):
      %row = tensor.extract %rows[%i] : tensor<?xi64>
      %at = arith.index_cast %row : i64 to index
      %value = tensor.extract %x[%at, %j] : tensor<2x?xi64>
      tensor.yield %value : i64
  } : tensor<?x?xi64>
  // Column 1, where there is one.
  %hasColumn = arith.cmpi ugt, %width, %c1 : index
  %column = scf.if %hasColumn -> tensor<2xi64> {
    %slice = tensor.extract_slice %x[0, 1] [2, 1] [1, 1] : tensor<2x?xi64> to tensor<2xi64>
    scf.yield %slice : tensor<2xi64>
  } else {
    %none = arith.constant dense<0> : tensor<2xi64>
    scf.yield %none : tensor<2xi64>
  }
  return %nonzero, %reshaped, %padded, %picked, %column : tensor<?xi64>, tensor<?x?xi64>, tensor<3x?xi64>, tensor<?x?xi64>, tensor<2xi64>
}
