// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loops that are shared among threads, whichever of them is cut, against the interpreter and over thread counts.
// RUN: %heddle verify %s | FileCheck %s
// CHECK: binary NMSE
// RUN: %heddle compile %s --emit=llvm -o %t.ll && FileCheck %s --input-file=%t.ll --check-prefix=CODE
// CODE-COUNT-8: define {{.*}}void @heddle_loop_
// CODE-NOT: define {{.*}}void @heddle_loop_

#same = affine_map<(i, j) -> (i, j)>
#turned = affine_map<(i, j) -> (j, i)>
#row = affine_map<(i, j) -> (i)>
func.func @graph(%x: tensor<130x257xf32> {heddle.name = "x"}, %thin: tensor<1x2x70000xf32> {heddle.name = "thin"},
                 %half: tensor<257x260xf16> {heddle.name = "half"}, %i: tensor<260x260xi32> {heddle.name = "i"},
                 %j: tensor<260x260xi32> {heddle.name = "j"}, %small: tensor<7x9xf32> {heddle.name = "small"})
    -> (tensor<130x257xf32> {heddle.name = "chain"}, tensor<1x2x70000xf32> {heddle.name = "long"}, tensor<260x257xf16> {heddle.name = "halves"},
        tensor<260x260xi32> {heddle.name = "quotient"}, tensor<257xf32> {heddle.name = "columns"}, tensor<130xf32> {heddle.name = "rows"},
        tensor<130x257xf32> {heddle.name = "mirrored"}, tensor<130x257xf32> {heddle.name = "steps"}, tensor<7x9xf32> {heddle.name = "few"}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %c256 = arith.constant 256 : index
  %e = math.tanh %x : tensor<130x257xf32>
  %chain = arith.mulf %e, %x : tensor<130x257xf32>

  // The outermost loop runs once, the next one twice.
  %l = math.exp %thin : tensor<1x2x70000xf32>
  %long = arith.subf %l, %thin : tensor<1x2x70000xf32>

  // 16 bits, turned.
  %half_room = tensor.empty() : tensor<260x257xf16>
  %halves = linalg.generic {indexing_maps = [#turned, #same], iterator_types = ["parallel", "parallel"]}
      ins(%half : tensor<257x260xf16>) outs(%half_room : tensor<260x257xf16>) {
  ^bb0(%in: f16, %out: f16):
    %a = math.tanh %in : f16
    linalg.yield %a : f16
  } -> tensor<260x257xf16>

  // Divisions by what only the run knows.
  %ones = arith.constant dense<1> : tensor<260x260xi32>
  %odd = arith.ori %j, %ones : tensor<260x260xi32>
  %q = arith.divsi %i, %odd : tensor<260x260xi32>
  %quotient = arith.addi %q, %i : tensor<260x260xi32>

  // Sums: down the columns, which are cut, and along rows.
  %column_start = arith.constant dense<0.0> : tensor<257xf32>
  %row_start = arith.constant dense<0.0> : tensor<130xf32>
  %columns = linalg.generic {indexing_maps = [#same, affine_map<(i, j) -> (j)>], iterator_types = ["reduction", "parallel"]}
      ins(%x : tensor<130x257xf32>) outs(%column_start : tensor<257xf32>) {
  ^bb0(%in: f32, %sum: f32):
    %a = math.exp %in : f32
    %b = arith.addf %sum, %a : f32
    linalg.yield %b : f32
  } -> tensor<257xf32>
  %rows = linalg.generic {indexing_maps = [#same, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<130x257xf32>) outs(%row_start : tensor<130xf32>) {
  ^bb0(%in: f32, %sum: f32):
    %a = math.exp %in : f32
    %b = arith.addf %sum, %a : f32
    linalg.yield %b : f32
  } -> tensor<130xf32>

  // Reads that follow an index of their own.
  %room = tensor.empty() : tensor<130x257xf32>
  %mirrored = linalg.generic {indexing_maps = [#same], iterator_types = ["parallel", "parallel"]} outs(%room : tensor<130x257xf32>) {
  ^bb0(%out: f32):
    %r = linalg.index 0 : index
    %c = linalg.index 1 : index
    %from = arith.subi %c256, %c : index
    %a = tensor.extract %x[%r, %from] : tensor<130x257xf32>
    %b = math.tanh %a : f32
    linalg.yield %b : f32
  } -> tensor<130x257xf32>

  // Shared anew in every step of a loop.
  %steps = scf.for %k = %c0 to %c3 step %c1 iter_args(%y = %x) -> tensor<130x257xf32> {
    %a = math.tanh %y : tensor<130x257xf32>
    %b = arith.addf %a, %x : tensor<130x257xf32>
    scf.yield %b : tensor<130x257xf32>
  }

  // Too little work: one thread.
  %few = math.exp %small : tensor<7x9xf32>
  return %chain, %long, %halves, %quotient, %columns, %rows, %mirrored, %steps, %few : tensor<130x257xf32>, tensor<1x2x70000xf32>,
    tensor<260x257xf16>, tensor<260x260xi32>, tensor<257xf32>, tensor<130xf32>, tensor<130x257xf32>, tensor<130x257xf32>, tensor<7x9xf32>
}
