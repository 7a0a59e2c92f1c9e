// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every element type, stored and computed: 16-bit floats round once per op, unsigned integers keep their name.
// RUN: %heddle compile %s -o %t --quiet
// RUN: %python %tools/graph_io.py %t a=F32[3]:1,2,-3 b=F16[3]:1,2,3 c=BF16[3]:1,2,3 d=F64[2]:1,2 e=I8[2]:100,-7 f=I16[2]:300,-2 g=I32[2]:7,-7 h=I64[2]:9,-9 i=U8[2]:250,3 j=BOOL[4]:0,1,0,7 k=U64[1]:18446744073709551615 | FileCheck %s
// CHECK: a F32[3] 0.7616 0.964 -0.9951
// CHECK: b F16[3] 2.719 7.391 20.08
// CHECK: c BF16[3] 1.336 2.672 4
// CHECK: d F64[2] 2 5
// CHECK: e I8[2] -56 -14
// CHECK: f I16[2] 600 -4
// CHECK: g I32[2] 2 -2
// CHECK: h I64[2] 0 0
// CHECK: i U8[2] 83 1
// CHECK: j BOOL[4] 1 0 1 0
// CHECK: k U64[1] 9223372036854775807

func.func @graph(%a: tensor<?xf32> {heddle.name = "a"}, %b: tensor<?xf16> {heddle.name = "b"}, %c: tensor<?xbf16> {heddle.name = "c"},
                 %d: tensor<2xf64> {heddle.name = "d"}, %e: tensor<2xi8> {heddle.name = "e"}, %f: tensor<2xi16> {heddle.name = "f"},
                 %g: tensor<2xi32> {heddle.name = "g"}, %h: tensor<2xi64> {heddle.name = "h"},
                 %i: tensor<?xi8> {heddle.name = "i", heddle.unsigned}, %j: tensor<?xi1> {heddle.name = "j"},
                 %k: tensor<1xi64> {heddle.name = "k", heddle.unsigned})
    -> (tensor<?xf32> {heddle.name = "a"}, tensor<?xf16> {heddle.name = "b"}, tensor<?xbf16> {heddle.name = "c"},
        tensor<2xf64> {heddle.name = "d"}, tensor<2xi8> {heddle.name = "e"}, tensor<2xi16> {heddle.name = "f"},
        tensor<2xi32> {heddle.name = "g"}, tensor<2xi64> {heddle.name = "h"}, tensor<?xi8> {heddle.name = "i", heddle.unsigned},
        tensor<?xi1> {heddle.name = "j"}, tensor<1xi64> {heddle.name = "k", heddle.unsigned}) {
  %a1 = math.tanh %a : tensor<?xf32>
  %b1 = math.exp %b : tensor<?xf16>
  %third = arith.constant 1.335 : bf16
  %zero = arith.constant 0 : index
  %n = tensor.dim %c, %zero : tensor<?xbf16>
  %thirds = tensor.splat %third[%n] : tensor<?xbf16>
  %c1 = arith.mulf %c, %thirds : tensor<?xbf16>
  %d1 = arith.mulf %d, %d : tensor<2xf64>
  %one = arith.constant dense<1.0> : tensor<2xf64>
  %d2 = arith.addf %d1, %one : tensor<2xf64>
  %e1 = arith.addi %e, %e : tensor<2xi8>
  %f1 = arith.addi %f, %f : tensor<2xi16>
  %three = arith.constant dense<3> : tensor<2xi32>
  %g1 = arith.divsi %g, %three : tensor<2xi32>
  %none = arith.subi %h, %h : tensor<2xi64>
  %h1 = arith.divsi %h, %none : tensor<2xi64>
  %m = tensor.dim %i, %zero : tensor<?xi8>
  %eight = arith.constant 3 : i8
  %threes = tensor.splat %eight[%m] : tensor<?xi8>
  %i1 = arith.divui %i, %threes : tensor<?xi8>
  %true = arith.constant true
  %p = tensor.dim %j, %zero : tensor<?xi1>
  %trues = tensor.splat %true[%p] : tensor<?xi1>
  %j1 = arith.xori %j, %trues : tensor<?xi1>
  %bit = arith.constant dense<1> : tensor<1xi64>
  %k1 = arith.shrui %k, %bit : tensor<1xi64>
  return %a1, %b1, %c1, %d2, %e1, %f1, %g1, %h1, %i1, %j1, %k1
    : tensor<?xf32>, tensor<?xf16>, tensor<?xbf16>, tensor<2xf64>, tensor<2xi8>, tensor<2xi16>, tensor<2xi32>, tensor<2xi64>, tensor<?xi8>,
      tensor<?xi1>, tensor<1xi64>
}
