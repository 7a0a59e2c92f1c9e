// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Experts with biases whose activation is bounded, as gpt-oss has them, in one expert that all tokens pass: every function is evaluated before
// and after, each spelling is followed by one that looks alike and stays.
// RUN: %heddle-opt %s --inline --symbol-dce --heddle-check-all --heddle-raise-moe --canonicalize -o %t.out
// RUN: FileCheck %s --input-file=%t.out

!rows = tensor<?x5xf32>   // (tokens, width)
!hidden = tensor<?x3xf32> // (tokens, intermediate)

// A sigmoid of each token times its row.
func.func private @weighted(%logit: tensor<?x1xf32>, %each: !rows) -> !rows {
  %one = arith.constant 1.0 : f32
  %c0 = arith.constant 0 : index
  %n = tensor.dim %each, %c0 : !rows
  %minus = arith.negf %logit : tensor<?x1xf32>
  %e = math.exp %minus : tensor<?x1xf32>
  %ones = tensor.splat %one[%n] : tensor<?x1xf32>
  %sum = arith.addf %ones, %e : tensor<?x1xf32>
  %p = arith.divf %ones, %sum : tensor<?x1xf32>
  %column = tensor.collapse_shape %p [[0, 1]] : tensor<?x1xf32> into tensor<?xf32>
  %init = tensor.empty(%n) : !rows
  %all = linalg.broadcast ins(%column : tensor<?xf32>) outs(%init : !rows) dimensions = [1]
  %y = arith.mulf %each, %all : !rows
  return %y : !rows
}

// gate * sigmoid(1.5 gate) * (up + 2) with gate at most 4 and up between `least` and 4.
func.func private @bounded(%gate: !hidden, %up: !hidden, %least: f32) -> !hidden {
  %c0 = arith.constant 0 : index
  %one = arith.constant 1.0 : f32
  %two = arith.constant 2.0 : f32
  %limit = arith.constant 4.0 : f32
  %alpha = arith.constant 1.5 : f32
  %n = tensor.dim %gate, %c0 : !hidden
  %ones = tensor.splat %one[%n] : !hidden
  %twos = tensor.splat %two[%n] : !hidden
  %limits = tensor.splat %limit[%n] : !hidden
  %leasts = tensor.splat %least[%n] : !hidden
  %alphas = tensor.splat %alpha[%n] : !hidden
  %g = arith.minimumf %gate, %limits : !hidden
  %below = arith.minimumf %up, %limits : !hidden
  %u = arith.maximumf %below, %leasts : !hidden
  %steep = arith.mulf %g, %alphas : !hidden
  %minus = arith.negf %steep : !hidden
  %e = math.exp %minus : !hidden
  %sum = arith.addf %ones, %e : !hidden
  %s = arith.divf %ones, %sum : !hidden
  %glu = arith.mulf %g, %s : !hidden
  %more = arith.addf %u, %twos : !hidden
  %y = arith.mulf %more, %glu : !hidden
  return %y : !hidden
}

// CHECK-LABEL: @bounded_gate
// CHECK-SAME: %[[X:.*]]: tensor<?x5xf32>, %[[ROUTER:.*]]: tensor<1x5xf32>, %[[GATE:.*]]: tensor<3x5xf32>, %[[UP:.*]]: tensor<3x5xf32>, %[[DOWN:.*]]: tensor<5x3xf32>
// CHECK-DAG: %[[BG:.*]] = heddle.weight "gate_bias"
// CHECK-DAG: %[[BU:.*]] = heddle.weight "up_bias"
// CHECK-DAG: %[[BD:.*]] = heddle.weight "down_bias"
// CHECK: %[[Y:.*]] = heddle.moe <silu> %[[X]], %[[ROUTER]] routing <sigmoid = true> gating <limit = 4.000000e+00 : f64, alpha = 1.500000e+00 : f64, offset = 2.000000e+00 : f64> gates(%[[GATE]] : {{.*}}) ups(%[[UP]] : {{.*}}) downs(%[[DOWN]] : {{.*}}) gate_biases(%[[BG]] : {{.*}}) up_biases(%[[BU]] : {{.*}}) down_biases(%[[BD]] : {{.*}}) {normalize = false, top_k = 1 : i64}
// CHECK-NEXT: return %[[Y]]
func.func @bounded_gate(%x: !rows, %router: tensor<1x5xf32>, %gate: tensor<3x5xf32>, %up: tensor<3x5xf32>, %down: tensor<5x3xf32>) -> !rows {
  %gate_bias = heddle.weight "gate_bias" <type = "f32", file = 0, offset = 0> : tensor<3xf32>
  %up_bias = heddle.weight "up_bias" <type = "f32", file = 0, offset = 12> : tensor<3xf32>
  %down_bias = heddle.weight "down_bias" <type = "f32", file = 0, offset = 24> : tensor<5xf32>
  %least = arith.constant -4.0 : f32
  %g = heddle.linear %x, weights(%gate : tensor<3x5xf32>) biases(%gate_bias : tensor<3xf32>) : !rows -> !hidden
  %u = heddle.linear %x, weights(%up : tensor<3x5xf32>) biases(%up_bias : tensor<3xf32>) : !rows -> !hidden
  %hidden = call @bounded(%g, %u, %least) : (!hidden, !hidden, f32) -> !hidden
  %each = heddle.linear %hidden, weights(%down : tensor<5x3xf32>) biases(%down_bias : tensor<5xf32>) : !hidden -> !rows
  %logit = heddle.linear %x, weights(%router : tensor<1x5xf32>) : !rows -> tensor<?x1xf32>
  %y = call @weighted(%logit, %each) : (tensor<?x1xf32>, !rows) -> !rows
  return %y : !rows
}

// What multiplies is bounded otherwise from below.
// CHECK-LABEL: @bounded_unevenly
// CHECK-NOT: heddle.moe
// CHECK: return
func.func @bounded_unevenly(%x: !rows, %router: tensor<1x5xf32>, %gate: tensor<3x5xf32>, %up: tensor<3x5xf32>, %down: tensor<5x3xf32>) -> !rows {
  %least = arith.constant -3.0 : f32
  %g = heddle.linear %x, weights(%gate : tensor<3x5xf32>) : !rows -> !hidden
  %u = heddle.linear %x, weights(%up : tensor<3x5xf32>) : !rows -> !hidden
  %hidden = call @bounded(%g, %u, %least) : (!hidden, !hidden, f32) -> !hidden
  %each = heddle.linear %hidden, weights(%down : tensor<5x3xf32>) : !hidden -> !rows
  %logit = heddle.linear %x, weights(%router : tensor<1x5xf32>) : !rows -> tensor<?x1xf32>
  %y = call @weighted(%logit, %each) : (tensor<?x1xf32>, !rows) -> !rows
  return %y : !rows
}
