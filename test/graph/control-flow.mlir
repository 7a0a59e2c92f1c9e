// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Branches, counted loops, loops that end when they like, buffers that swap places and that grow.
// RUN: %heddle compile %s -o %t --quiet
// RUN: %python %tools/graph_io.py %t x=F32[2]:1,2 flip=BOOL[]:1 n=I64[]:3 | FileCheck %s
// CHECK: branch F32[2] -1 -2
// CHECK-NEXT: first F32[2] 2 4
// CHECK-NEXT: second F32[2] 4 8
// CHECK-NEXT: grown F32[8] 1 2 1 2 1 2 1 2
// CHECK-NEXT: halved F32[2] 0.5 1
// CHECK-NEXT: same F32[2] 1 2
// RUN: %python %tools/graph_io.py %t x=F32[0]: flip=BOOL[]:0 n=I64[]:0 | FileCheck %s --check-prefix=EMPTY
// EMPTY: branch F32[0]
// EMPTY: grown F32[0]

#same = affine_map<(d0) -> (d0)>
func.func @graph(%x: tensor<?xf32> {heddle.name = "x", heddle.dims = ["n"]}, %flip: tensor<i1> {heddle.name = "flip"},
                 %n: tensor<i64> {heddle.name = "n"})
    -> (tensor<?xf32> {heddle.name = "branch"}, tensor<?xf32> {heddle.name = "first"}, tensor<?xf32> {heddle.name = "second"},
        tensor<?xf32> {heddle.name = "grown"}, tensor<?xf32> {heddle.name = "halved"}, tensor<?xf32> {heddle.name = "same"})
    {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %half = arith.constant 0.5 : f32
  %one = arith.constant 1.0 : f32
  %isFlipped = tensor.extract %flip[] : tensor<i1>
  %branch = scf.if %isFlipped -> tensor<?xf32> {
    %minus = arith.negf %x : tensor<?xf32>
    scf.yield %minus : tensor<?xf32>
  } else {
    scf.yield %x : tensor<?xf32>
  }
  // (a, b) becomes (b, 2 a): after three rounds (2 x, 4 x) of (x, x).
  %swapped:2 = scf.for %i = %c0 to %c3 step %c1 iter_args(%a = %x, %b = %x) -> (tensor<?xf32>, tensor<?xf32>) {
    %twice = arith.addf %a, %a : tensor<?xf32>
    scf.yield %b, %twice : tensor<?xf32>, tensor<?xf32>
  }
  %count = tensor.extract %n[] : tensor<i64>
  %steps = arith.index_cast %count : i64 to index
  %grown = scf.for %i = %c0 to %steps step %c1 iter_args(%all = %x) -> (tensor<?xf32>) {
    %longer = func.call @append(%all, %x) : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
    scf.yield %longer : tensor<?xf32>
  }
  %fourth = arith.constant dense<4.0> : tensor<1xf32>
  // Halved until the sum of squares is at most 2.
  %halved = scf.while (%v = %x) : (tensor<?xf32>) -> tensor<?xf32> {
    %zero = arith.constant dense<0.0> : tensor<f32>
    %sum = linalg.generic {indexing_maps = [#same, affine_map<(d0) -> ()>], iterator_types = ["reduction"]}
        ins(%v : tensor<?xf32>) outs(%zero : tensor<f32>) {
      ^bb0(%e: f32, %s: f32):
        %square = arith.mulf %e, %e : f32
        %t = arith.addf %s, %square : f32
        linalg.yield %t : f32
    } -> tensor<f32>
    %total = tensor.extract %sum[] : tensor<f32>
    %limit = arith.constant 2.0 : f32
    %again = arith.cmpf ogt, %total, %limit : f32
    scf.condition(%again) %v : tensor<?xf32>
  } do {
  ^bb0(%v: tensor<?xf32>):
    %d = tensor.dim %v, %c0 : tensor<?xf32>
    %halves = tensor.splat %half[%d] : tensor<?xf32>
    %h = arith.mulf %v, %halves : tensor<?xf32>
    scf.yield %h : tensor<?xf32>
  }
  return %branch, %swapped#0, %swapped#1, %grown, %halved, %x
    : tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>, tensor<?xf32>
}

func.func private @append(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {
  %joined = tensor.concat dim(0) %a, %b : (tensor<?xf32>, tensor<?xf32>) -> tensor<?xf32>
  return %joined : tensor<?xf32>
}
