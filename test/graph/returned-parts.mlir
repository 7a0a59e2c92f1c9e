// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A part of a computed tensor, of sizes that only the run knows, is returned, carried by a loop and given by a branch: its rows do not lie one behind
// the other, and what reads it as a whole tensor reads a copy.
// RUN: %heddle compile %s -o %t --quiet
// RUN: %python %tools/graph_io.py %t x=F32[2,3,2]:0,-1,2,-3,4,-5,6,-7,8,-9,10,-11 | FileCheck %s
// CHECK-DAG: returned F32[2,2,2] 0 1 2 3 6 7 8 9
// CHECK-DAG: carried F32[2,2,2] 0 4 8 12 24 28 32 36
// CHECK-DAG: given F32[2,2,2] 0 1 2 3 6 7 8 9
// RUN: %heddle verify %s | FileCheck %s --check-prefix=VERIFY
// VERIFY: binary NMSE

func.func @graph(%x: tensor<?x?x2xf32> {heddle.name = "x"})
    -> (tensor<?x?x2xf32> {heddle.name = "returned"}, tensor<?x?x2xf32> {heddle.name = "carried"}, tensor<?x?x2xf32> {heddle.name = "given"}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %batch = tensor.dim %x, %c0 : tensor<?x?x2xf32>
  %all = tensor.dim %x, %c1 : tensor<?x?x2xf32>
  %some = arith.minsi %all, %c2 : index
  %y = math.absf %x : tensor<?x?x2xf32>
  %part = tensor.extract_slice %y[0, 0, 0] [%batch, %some, 2] [1, 1, 1] : tensor<?x?x2xf32> to tensor<?x?x2xf32>
  %carried = scf.for %i = %c0 to %c2 step %c1 iter_args(%old = %part) -> (tensor<?x?x2xf32>) {
    %twice = arith.addf %old, %old : tensor<?x?x2xf32>
    scf.yield %twice : tensor<?x?x2xf32>
  }
  %isLong = arith.cmpi sgt, %all, %c2 : index
  %given = scf.if %isLong -> tensor<?x?x2xf32> {
    scf.yield %part : tensor<?x?x2xf32>
  } else {
    %zeros = arith.subf %part, %part : tensor<?x?x2xf32>
    scf.yield %zeros : tensor<?x?x2xf32>
  }
  return %part, %carried, %given : tensor<?x?x2xf32>, tensor<?x?x2xf32>, tensor<?x?x2xf32>
}
