// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Softmax as exporters write it out: each becomes one op, and the binary agrees with the interpreter's evaluation of what is written here.
// RUN: %heddle compile %s -o %t.mlir --emit=mlir --stop-after=raise --quiet && FileCheck %s --input-file=%t.mlir --check-prefix=RAISED
// Those of the same scores are the same op then; the other one is of scaled scores.
// RAISED-NOT: math.exp
// RAISED-COUNT-2: linalg.softmax
// RAISED-NOT: {{math.exp|linalg.softmax}}
// RUN: %heddle verify %s | FileCheck %s
// CHECK: binary NMSE

func.func @graph(%x: tensor<6x9xf32> {heddle.name = "x"})
    -> (tensor<6x9xf32> {heddle.name = "plain"}, tensor<6x9xf32> {heddle.name = "of_log"},
        tensor<6x9xf32> {heddle.name = "less_log"}, tensor<6x9xf32> {heddle.name = "scaled"},
        tensor<6x9xf32> {heddle.name = "twos"}, tensor<6x9xf32> {heddle.name = "reciprocal"}) {
  %zero = arith.constant dense<0.0> : tensor<6xf32>
  %lowest = arith.constant dense<0xFF800000> : tensor<6xf32>
  %init = tensor.empty() : tensor<6x9xf32>
  %top = linalg.reduce { arith.maximumf } ins(%x : tensor<6x9xf32>) outs(%lowest : tensor<6xf32>) dimensions = [1]
  %tops = linalg.broadcast ins(%top : tensor<6xf32>) outs(%init : tensor<6x9xf32>) dimensions = [1]
  %shifted = arith.subf %x, %tops : tensor<6x9xf32>
  %e = math.exp %shifted : tensor<6x9xf32>

  // exp(x - max) / sum
  %plain_sum = linalg.reduce { arith.addf } ins(%e : tensor<6x9xf32>) outs(%zero : tensor<6xf32>) dimensions = [1]
  %plain_sums = linalg.broadcast ins(%plain_sum : tensor<6xf32>) outs(%init : tensor<6x9xf32>) dimensions = [1]
  %plain = arith.divf %e, %plain_sums : tensor<6x9xf32>

  // exp of log-softmax
  %of_log_sum = linalg.reduce { arith.addf } ins(%e : tensor<6x9xf32>) outs(%zero : tensor<6xf32>) dimensions = [1]
  %log = math.log %of_log_sum : tensor<6xf32>
  %logs = linalg.broadcast ins(%log : tensor<6xf32>) outs(%init : tensor<6x9xf32>) dimensions = [1]
  %less = arith.subf %shifted, %logs : tensor<6x9xf32>
  %of_log = math.exp %less : tensor<6x9xf32>

  // exp(x - log-sum-exp)
  %lse = arith.addf %log, %top : tensor<6xf32>
  %lses = linalg.broadcast ins(%lse : tensor<6xf32>) outs(%init : tensor<6x9xf32>) dimensions = [1]
  %lesser = arith.subf %x, %lses : tensor<6x9xf32>
  %less_log = math.exp %lesser : tensor<6x9xf32>

  // The scale after the maximum was taken off.
  %eighth = arith.constant dense<0.125> : tensor<6x9xf32>
  %small = arith.mulf %shifted, %eighth : tensor<6x9xf32>
  %se = math.exp %small : tensor<6x9xf32>
  %scaled_sum = linalg.reduce { arith.addf } ins(%se : tensor<6x9xf32>) outs(%zero : tensor<6xf32>) dimensions = [1]
  %scaled_sums = linalg.broadcast ins(%scaled_sum : tensor<6xf32>) outs(%init : tensor<6x9xf32>) dimensions = [1]
  %scaled = arith.divf %se, %scaled_sums : tensor<6x9xf32>

  // Powers of two, without a maximum.
  %log2e = arith.constant dense<1.44269502> : tensor<6x9xf32>
  %by_log2e = arith.mulf %x, %log2e : tensor<6x9xf32>
  %te = math.exp2 %by_log2e : tensor<6x9xf32>
  %twos_sum = linalg.reduce { arith.addf } ins(%te : tensor<6x9xf32>) outs(%zero : tensor<6xf32>) dimensions = [1]
  %twos_sums = linalg.broadcast ins(%twos_sum : tensor<6xf32>) outs(%init : tensor<6x9xf32>) dimensions = [1]
  %twos = arith.divf %te, %twos_sums : tensor<6x9xf32>

  // A product with 1 / sum.
  %re_sum = linalg.reduce { arith.addf } ins(%e : tensor<6x9xf32>) outs(%zero : tensor<6xf32>) dimensions = [1]
  %one = arith.constant dense<1.0> : tensor<6xf32>
  %inverse = arith.divf %one, %re_sum : tensor<6xf32>
  %inverses = linalg.broadcast ins(%inverse : tensor<6xf32>) outs(%init : tensor<6x9xf32>) dimensions = [1]
  %reciprocal = arith.mulf %e, %inverses : tensor<6x9xf32>

  return %plain, %of_log, %less_log, %scaled, %twos, %reciprocal : tensor<6x9xf32>, tensor<6x9xf32>, tensor<6x9xf32>, tensor<6x9xf32>, tensor<6x9xf32>, tensor<6x9xf32>
}
