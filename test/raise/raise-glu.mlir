// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --heddle-check-all --heddle-raise-glu --canonicalize -o %t.out
// RUN: FileCheck %s --input-file=%t.out

// CHECK-LABEL: @gated_silu
// CHECK: heddle.glu <silu> %{{.*}}, %{{.*}} : tensor<2x8xf32>
// CHECK-NEXT: return
func.func @gated_silu(%gate: tensor<2x8xf32>, %up: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %one = arith.constant dense<1.0> : tensor<2x8xf32>
  %minus = arith.negf %gate : tensor<2x8xf32>
  %e = math.exp %minus : tensor<2x8xf32>
  %d = arith.addf %e, %one : tensor<2x8xf32>
  %sigmoid = arith.divf %one, %d : tensor<2x8xf32>
  %silu = arith.mulf %gate, %sigmoid : tensor<2x8xf32>
  %y = arith.mulf %silu, %up : tensor<2x8xf32>
  return %y : tensor<2x8xf32>
}

// The sigmoid of the other one.
// CHECK-LABEL: @gate_by_the_other_sigmoid
// CHECK-NOT: heddle.glu <silu> %{{.*}}, %{{.*}} :
// CHECK: return
func.func @gate_by_the_other_sigmoid(%gate: tensor<2x8xf32>, %up: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %one = arith.constant dense<1.0> : tensor<2x8xf32>
  %two = arith.constant dense<2.0> : tensor<2x8xf32>
  %minus = arith.negf %gate : tensor<2x8xf32>
  %e = math.exp %minus : tensor<2x8xf32>
  %d = arith.addf %e, %two : tensor<2x8xf32>
  %sigmoid = arith.divf %one, %d : tensor<2x8xf32>
  %y = arith.mulf %sigmoid, %up : tensor<2x8xf32>
  return %y : tensor<2x8xf32>
}

// 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), its cube as a power.
// CHECK-LABEL: @gelu_by_tanh
// CHECK: heddle.glu <gelu_tanh> %{{.*}} : tensor<2x8xf32>
// CHECK-NEXT: return
func.func @gelu_by_tanh(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %half = arith.constant dense<0.5> : tensor<2x8xf32>
  %one = arith.constant dense<1.0> : tensor<2x8xf32>
  %three = arith.constant dense<3.0> : tensor<2x8xf32>
  %a = arith.constant dense<0.044715> : tensor<2x8xf32>
  %b = arith.constant dense<0.797884583> : tensor<2x8xf32>
  %cube = math.powf %x, %three : tensor<2x8xf32>
  %part = arith.mulf %cube, %a : tensor<2x8xf32>
  %sum = arith.addf %x, %part : tensor<2x8xf32>
  %inner = arith.mulf %sum, %b : tensor<2x8xf32>
  %t = math.tanh %inner : tensor<2x8xf32>
  %moved = arith.addf %t, %one : tensor<2x8xf32>
  %halved = arith.mulf %x, %half : tensor<2x8xf32>
  %y = arith.mulf %halved, %moved : tensor<2x8xf32>
  return %y : tensor<2x8xf32>
}

// Another factor of the cube: close, and another function.
// CHECK-LABEL: @gelu_with_another_cube
// CHECK-NOT: heddle.glu
// CHECK: return
func.func @gelu_with_another_cube(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %half = arith.constant dense<0.5> : tensor<2x8xf32>
  %one = arith.constant dense<1.0> : tensor<2x8xf32>
  %three = arith.constant dense<3.0> : tensor<2x8xf32>
  %a = arith.constant dense<0.044> : tensor<2x8xf32>
  %b = arith.constant dense<0.797884583> : tensor<2x8xf32>
  %cube = math.powf %x, %three : tensor<2x8xf32>
  %part = arith.mulf %cube, %a : tensor<2x8xf32>
  %sum = arith.addf %x, %part : tensor<2x8xf32>
  %inner = arith.mulf %sum, %b : tensor<2x8xf32>
  %t = math.tanh %inner : tensor<2x8xf32>
  %moved = arith.addf %t, %one : tensor<2x8xf32>
  %halved = arith.mulf %x, %half : tensor<2x8xf32>
  %y = arith.mulf %halved, %moved : tensor<2x8xf32>
  return %y : tensor<2x8xf32>
}

// CHECK-LABEL: @gelu_by_erf
// CHECK: heddle.glu <gelu> %{{.*}} : tensor<2x8xf32>
// CHECK-NEXT: return
func.func @gelu_by_erf(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %half = arith.constant dense<0.5> : tensor<2x8xf32>
  %one = arith.constant dense<1.0> : tensor<2x8xf32>
  %root = arith.constant dense<1.41421354> : tensor<2x8xf32>
  %inner = arith.divf %x, %root : tensor<2x8xf32>
  %erf = math.erf %inner : tensor<2x8xf32>
  %moved = arith.addf %erf, %one : tensor<2x8xf32>
  %halved = arith.mulf %moved, %half : tensor<2x8xf32>
  %y = arith.mulf %x, %halved : tensor<2x8xf32>
  return %y : tensor<2x8xf32>
}

// CHECK-LABEL: @softcap
// CHECK: heddle.softcap %{{.*}} {cap = 3.000000e+01 : f64}
// CHECK-NEXT: return
func.func @softcap(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %cap = arith.constant dense<30.0> : tensor<2x8xf32>
  %inner = arith.divf %x, %cap : tensor<2x8xf32>
  %t = math.tanh %inner : tensor<2x8xf32>
  %y = arith.mulf %t, %cap : tensor<2x8xf32>
  return %y : tensor<2x8xf32>
}

// Gate and up are the halves of one product.
// CHECK-LABEL: @halves_of_one_product
// CHECK-DAG: %[[GATE:.*]] = tensor.extract_slice %{{.*}}[0, 0] [2, 4] [1, 1]
// CHECK-DAG: %[[UP:.*]] = tensor.extract_slice %{{.*}}[0, 4] [2, 4] [1, 1]
// CHECK: heddle.glu <silu> %[[GATE]], %[[UP]] : tensor<2x4xf32>
func.func @halves_of_one_product(%both: tensor<2x8xf32>) -> tensor<2x4xf32> {
  %gate = tensor.extract_slice %both[0, 0] [2, 4] [1, 1] : tensor<2x8xf32> to tensor<2x4xf32>
  %up = tensor.extract_slice %both[0, 4] [2, 4] [1, 1] : tensor<2x8xf32> to tensor<2x4xf32>
  %one = arith.constant dense<1.0> : tensor<2x4xf32>
  %minus = arith.negf %gate : tensor<2x4xf32>
  %e = math.exp %minus : tensor<2x4xf32>
  %d = arith.addf %e, %one : tensor<2x4xf32>
  %sigmoid = arith.divf %one, %d : tensor<2x4xf32>
  %silu = arith.mulf %gate, %sigmoid : tensor<2x4xf32>
  %y = arith.mulf %silu, %up : tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// One gate for all columns of a row.
// CHECK-LABEL: @one_gate_for_a_row
// CHECK-NOT: heddle.glu
// CHECK: math.exp
func.func @one_gate_for_a_row(%gate: tensor<2xf32>, %up: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %init = tensor.empty() : tensor<2x4xf32>
  %gates = linalg.broadcast ins(%gate : tensor<2xf32>) outs(%init : tensor<2x4xf32>) dimensions = [1]
  %one = arith.constant dense<1.0> : tensor<2x4xf32>
  %minus = arith.negf %gates : tensor<2x4xf32>
  %e = math.exp %minus : tensor<2x4xf32>
  %d = arith.addf %e, %one : tensor<2x4xf32>
  %sigmoid = arith.divf %one, %d : tensor<2x4xf32>
  %silu = arith.mulf %gates, %sigmoid : tensor<2x4xf32>
  %y = arith.mulf %silu, %up : tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}

// Rows of all sequences in one dimension, gate and up each collapsed before: what is collapsed is gated.
// CHECK-LABEL: @collapsed_rows
// CHECK-DAG: %[[GATE:.*]] = tensor.collapse_shape %arg0
// CHECK-DAG: %[[UP:.*]] = tensor.collapse_shape %arg1
// CHECK: heddle.glu <silu> %[[GATE]], %[[UP]] : tensor<?x4xf32>
func.func @collapsed_rows(%g: tensor<?x?x4xf32> {heddle.dims = ["b", "s", ""]}, %u: tensor<?x?x4xf32> {heddle.dims = ["b", "s", ""]}) -> tensor<?x4xf32> {
  %gate = tensor.collapse_shape %g [[0, 1], [2]] : tensor<?x?x4xf32> into tensor<?x4xf32>
  %up = tensor.collapse_shape %u [[0, 1], [2]] : tensor<?x?x4xf32> into tensor<?x4xf32>
  %c0 = arith.constant 0 : index
  %n = tensor.dim %gate, %c0 : tensor<?x4xf32>
  %number = arith.constant 1.0 : f32
  %one = tensor.splat %number[%n] : tensor<?x4xf32>
  %minus = arith.negf %gate : tensor<?x4xf32>
  %e = math.exp %minus : tensor<?x4xf32>
  %d = arith.addf %e, %one : tensor<?x4xf32>
  %sigmoid = arith.divf %one, %d : tensor<?x4xf32>
  %silu = arith.mulf %gate, %sigmoid : tensor<?x4xf32>
  %y = arith.mulf %silu, %up : tensor<?x4xf32>
  return %y : tensor<?x4xf32>
}
