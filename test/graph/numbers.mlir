// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kinds of numbers, multiply-adds of 16-bit floats, exponentials at their ends.
// RUN: %heddle compile %s -o %t --quiet
// RUN: %python %tools/graph_io.py %t x=F32[7]:0,1e-40,1.5,-inf,nan,100,-200 h=BF16[2]:1.5,-3 | FileCheck %s
// CHECK: infinite BOOL[7] 0 0 0 1 0 0 0
// CHECK-NEXT: normal BOOL[7] 0 0 1 0 0 1 1
// CHECK-NEXT: power F32[7] 1 1 4.482 0 nan inf 0
// CHECK-NEXT: sum BF16[2] 3.75 6

func.func @graph(%x: tensor<?xf32> {heddle.name = "x"}, %h: tensor<?xbf16> {heddle.name = "h"})
    -> (tensor<?xi1> {heddle.name = "infinite"}, tensor<?xi1> {heddle.name = "normal"}, tensor<?xf32> {heddle.name = "power"},
        tensor<?xbf16> {heddle.name = "sum"}) {
  %infinite = math.isinf %x : tensor<?xf32>
  %normal = math.isnormal %x : tensor<?xf32>
  %power = math.exp %x : tensor<?xf32>
  %sum = math.fma %h, %h, %h : tensor<?xbf16>
  return %infinite, %normal, %power, %sum : tensor<?xi1>, tensor<?xi1>, tensor<?xf32>, tensor<?xbf16>
}
