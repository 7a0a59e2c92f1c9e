// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Activations whose numbers a graph of 16-bit floats had rounded: the formula replaces them, so that results differ by that rounding and the checks
// of passes, whose limits are narrower, are left out.
// RUN: %heddle-opt %s --heddle-raise-glu --canonicalize | FileCheck %s

// 0.044715 and sqrt(2 / pi) as f16.
// CHECK-LABEL: @gelu_of_16_bits
// CHECK: heddle.glu <gelu_tanh> %{{.*}} : tensor<2x8xf32>
// CHECK-NEXT: return
func.func @gelu_of_16_bits(%x: tensor<2x8xf32>) -> tensor<2x8xf32> attributes {heddle.widened = f16} {
  %half = arith.constant dense<0.5> : tensor<2x8xf32>
  %one = arith.constant dense<1.0> : tensor<2x8xf32>
  %three = arith.constant dense<3.0> : tensor<2x8xf32>
  %a = arith.constant dense<0.044708251953125> : tensor<2x8xf32>
  %b = arith.constant dense<0.7978515625> : tensor<2x8xf32>
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

// The numbers of f16 in a graph of bf16: another function.
// CHECK-LABEL: @numbers_of_another_type
// CHECK-NOT: heddle.glu
// CHECK: return
func.func @numbers_of_another_type(%x: tensor<2x8xf32>) -> tensor<2x8xf32> attributes {heddle.widened = bf16} {
  %half = arith.constant dense<0.5> : tensor<2x8xf32>
  %one = arith.constant dense<1.0> : tensor<2x8xf32>
  %three = arith.constant dense<3.0> : tensor<2x8xf32>
  %a = arith.constant dense<0.044708251953125> : tensor<2x8xf32>
  %b = arith.constant dense<0.7978515625> : tensor<2x8xf32>
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

// 1.702 as f16; a graph of f32 that holds this number means it.
// CHECK-LABEL: @quick_gelu_of_16_bits
// CHECK: heddle.glu <quick_gelu> %{{.*}} : tensor<2x8xf32>
// CHECK-NEXT: return
func.func @quick_gelu_of_16_bits(%x: tensor<2x8xf32>) -> tensor<2x8xf32> attributes {heddle.widened = f16} {
  %factor = arith.constant dense<-1.7021484375> : tensor<2x8xf32>
  %one = arith.constant dense<1.0> : tensor<2x8xf32>
  %inner = arith.mulf %x, %factor : tensor<2x8xf32>
  %e = math.exp %inner : tensor<2x8xf32>
  %d = arith.addf %e, %one : tensor<2x8xf32>
  %y = arith.divf %x, %d : tensor<2x8xf32>
  return %y : tensor<2x8xf32>
}
// CHECK-LABEL: @such_a_number_in_f32
// CHECK-NOT: heddle.glu
// CHECK: return
func.func @such_a_number_in_f32(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %factor = arith.constant dense<-1.7021484375> : tensor<2x8xf32>
  %one = arith.constant dense<1.0> : tensor<2x8xf32>
  %inner = arith.mulf %x, %factor : tensor<2x8xf32>
  %e = math.exp %inner : tensor<2x8xf32>
  %d = arith.addf %e, %one : tensor<2x8xf32>
  %y = arith.divf %x, %d : tensor<2x8xf32>
  return %y : tensor<2x8xf32>
}
