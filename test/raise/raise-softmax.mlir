// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --heddle-check-all --heddle-raise-softmax --canonicalize -o %t.out 2> %t.remarks
// RUN: FileCheck %s --input-file=%t.remarks --check-prefix=REMARK
// RUN: FileCheck %s --input-file=%t.out

// CHECK-LABEL: @max_exp_sum_division
// CHECK-NOT: math.exp
// CHECK: linalg.softmax dimension(1)
func.func @max_exp_sum_division(%x: tensor<3x?xf32>) -> tensor<3x?xf32> {
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c1 : tensor<3x?xf32>
  %zero = arith.constant dense<0.0> : tensor<3xf32>
  %lowest = arith.constant dense<0xFF800000> : tensor<3xf32>
  %init = tensor.empty(%n) : tensor<3x?xf32>
  %top = linalg.reduce { arith.maximumf } ins(%x : tensor<3x?xf32>) outs(%lowest : tensor<3xf32>) dimensions = [1]
  %tops = linalg.broadcast ins(%top : tensor<3xf32>) outs(%init : tensor<3x?xf32>) dimensions = [1]
  %shifted = arith.subf %x, %tops : tensor<3x?xf32>
  %e = math.exp %shifted : tensor<3x?xf32>
  %sum = linalg.reduce { arith.addf } ins(%e : tensor<3x?xf32>) outs(%zero : tensor<3xf32>) dimensions = [1]
  %sums = linalg.broadcast ins(%sum : tensor<3xf32>) outs(%init : tensor<3x?xf32>) dimensions = [1]
  %p = arith.divf %e, %sums : tensor<3x?xf32>
  return %p : tensor<3x?xf32>
}

// The sum is over exponentials of something else.
// REMARK: remark: exponentials and their sum are no softmax, and what they weigh no attention: their sum is of others than those that it divides
// CHECK-LABEL: @divided_by_another_sum
// CHECK-NOT: linalg.softmax
// CHECK: return
func.func @divided_by_another_sum(%x: tensor<3x?xf32> {heddle.dims = ["", "n"]}, %y: tensor<3x?xf32> {heddle.dims = ["", "n"]}) -> tensor<3x?xf32> {
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c1 : tensor<3x?xf32>
  %zero = arith.constant dense<0.0> : tensor<3xf32>
  %init = tensor.empty(%n) : tensor<3x?xf32>
  %e = math.exp %x : tensor<3x?xf32>
  %f = math.exp %y : tensor<3x?xf32>
  %sum = linalg.reduce { arith.addf } ins(%f : tensor<3x?xf32>) outs(%zero : tensor<3xf32>) dimensions = [1]
  %sums = linalg.broadcast ins(%sum : tensor<3xf32>) outs(%init : tensor<3x?xf32>) dimensions = [1]
  %p = arith.divf %e, %sums : tensor<3x?xf32>
  return %p : tensor<3x?xf32>
}

// CHECK-LABEL: @exp_of_log_softmax
// CHECK-NOT: math.exp
// CHECK: linalg.softmax dimension(1)
func.func @exp_of_log_softmax(%x: tensor<3x?xf32>) -> tensor<3x?xf32> {
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c1 : tensor<3x?xf32>
  %zero = arith.constant dense<0.0> : tensor<3xf32>
  %lowest = arith.constant dense<0xFF800000> : tensor<3xf32>
  %init = tensor.empty(%n) : tensor<3x?xf32>
  %top = linalg.reduce { arith.maximumf } ins(%x : tensor<3x?xf32>) outs(%lowest : tensor<3xf32>) dimensions = [1]
  %tops = linalg.broadcast ins(%top : tensor<3xf32>) outs(%init : tensor<3x?xf32>) dimensions = [1]
  %shifted = arith.subf %x, %tops : tensor<3x?xf32>
  %e = math.exp %shifted : tensor<3x?xf32>
  %sum = linalg.reduce { arith.addf } ins(%e : tensor<3x?xf32>) outs(%zero : tensor<3xf32>) dimensions = [1]
  %log = math.log %sum : tensor<3xf32>
  %logs = linalg.broadcast ins(%log : tensor<3xf32>) outs(%init : tensor<3x?xf32>) dimensions = [1]
  %l = arith.subf %shifted, %logs : tensor<3x?xf32>
  %p = math.exp %l : tensor<3x?xf32>
  return %p : tensor<3x?xf32>
}


// The greatest score is added to the logarithm again.
// CHECK-LABEL: @less_log_sum_exp
// CHECK-NOT: math.exp
// CHECK: linalg.softmax dimension(1)
func.func @less_log_sum_exp(%x: tensor<3x?xf32>) -> tensor<3x?xf32> {
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c1 : tensor<3x?xf32>
  %zero = arith.constant dense<0.0> : tensor<3xf32>
  %lowest = arith.constant dense<0xFF800000> : tensor<3xf32>
  %init = tensor.empty(%n) : tensor<3x?xf32>
  %top = linalg.reduce { arith.maximumf } ins(%x : tensor<3x?xf32>) outs(%lowest : tensor<3xf32>) dimensions = [1]
  %tops = linalg.broadcast ins(%top : tensor<3xf32>) outs(%init : tensor<3x?xf32>) dimensions = [1]
  %shifted = arith.subf %x, %tops : tensor<3x?xf32>
  %e = math.exp %shifted : tensor<3x?xf32>
  %sum = linalg.reduce { arith.addf } ins(%e : tensor<3x?xf32>) outs(%zero : tensor<3xf32>) dimensions = [1]
  %log = math.log %sum : tensor<3xf32>
  %lse = arith.addf %log, %top : tensor<3xf32>
  %lses = linalg.broadcast ins(%lse : tensor<3xf32>) outs(%init : tensor<3x?xf32>) dimensions = [1]
  %l = arith.subf %x, %lses : tensor<3x?xf32>
  %p = math.exp %l : tensor<3x?xf32>
  return %p : tensor<3x?xf32>
}


// The scores are scaled behind the shift, which is before the softmax.
// CHECK-LABEL: @scale_after_max
// CHECK-NOT: math.exp
// CHECK: arith.mulf %{{.*}}, %{{.*}} : tensor<3x?xf32>
// CHECK: linalg.softmax dimension(1)
func.func @scale_after_max(%x: tensor<3x?xf32>) -> tensor<3x?xf32> {
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c1 : tensor<3x?xf32>
  %zero = arith.constant dense<0.0> : tensor<3xf32>
  %lowest = arith.constant dense<0xFF800000> : tensor<3xf32>
  %init = tensor.empty(%n) : tensor<3x?xf32>
  %top = linalg.reduce { arith.maximumf } ins(%x : tensor<3x?xf32>) outs(%lowest : tensor<3xf32>) dimensions = [1]
  %tops = linalg.broadcast ins(%top : tensor<3xf32>) outs(%init : tensor<3x?xf32>) dimensions = [1]
  %shifted = arith.subf %x, %tops : tensor<3x?xf32>
  %eighth = arith.constant 0.125 : f32
  %eighths = linalg.fill ins(%eighth : f32) outs(%init : tensor<3x?xf32>) -> tensor<3x?xf32>
  %scaled = arith.mulf %shifted, %eighths : tensor<3x?xf32>
  %e = math.exp %scaled : tensor<3x?xf32>
  %sum = linalg.reduce { arith.addf } ins(%e : tensor<3x?xf32>) outs(%zero : tensor<3xf32>) dimensions = [1]
  %sums = linalg.broadcast ins(%sum : tensor<3xf32>) outs(%init : tensor<3x?xf32>) dimensions = [1]
  %p = arith.divf %e, %sums : tensor<3x?xf32>
  return %p : tensor<3x?xf32>
}


// 2^(x log2(e)) is e^x.
// CHECK-LABEL: @powers_of_two
// CHECK-NOT: math.exp
// CHECK: linalg.softmax dimension(1)
func.func @powers_of_two(%x: tensor<3x?xf32>) -> tensor<3x?xf32> {
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c1 : tensor<3x?xf32>
  %zero = arith.constant dense<0.0> : tensor<3xf32>
  %lowest = arith.constant dense<0xFF800000> : tensor<3xf32>
  %init = tensor.empty(%n) : tensor<3x?xf32>
  %top = linalg.reduce { arith.maximumf } ins(%x : tensor<3x?xf32>) outs(%lowest : tensor<3xf32>) dimensions = [1]
  %tops = linalg.broadcast ins(%top : tensor<3xf32>) outs(%init : tensor<3x?xf32>) dimensions = [1]
  %log2e = arith.constant 1.44269502 : f32
  %factor = linalg.fill ins(%log2e : f32) outs(%init : tensor<3x?xf32>) -> tensor<3x?xf32>
  %scaled = arith.mulf %x, %factor : tensor<3x?xf32>
  %e = math.exp2 %scaled : tensor<3x?xf32>
  %sum = linalg.reduce { arith.addf } ins(%e : tensor<3x?xf32>) outs(%zero : tensor<3xf32>) dimensions = [1]
  %sums = linalg.broadcast ins(%sum : tensor<3xf32>) outs(%init : tensor<3x?xf32>) dimensions = [1]
  %p = arith.divf %e, %sums : tensor<3x?xf32>
  return %p : tensor<3x?xf32>
}


// The power of one positive number is an exponential.
// CHECK-LABEL: @powers_of_ten
// CHECK-NOT: math.{{exp|powf}}
// CHECK: linalg.softmax dimension(1)
func.func @powers_of_ten(%x: tensor<3x?xf32>) -> tensor<3x?xf32> {
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c1 : tensor<3x?xf32>
  %zero = arith.constant dense<0.0> : tensor<3xf32>
  %lowest = arith.constant dense<0xFF800000> : tensor<3xf32>
  %init = tensor.empty(%n) : tensor<3x?xf32>
  %top = linalg.reduce { arith.maximumf } ins(%x : tensor<3x?xf32>) outs(%lowest : tensor<3xf32>) dimensions = [1]
  %tops = linalg.broadcast ins(%top : tensor<3xf32>) outs(%init : tensor<3x?xf32>) dimensions = [1]
  %shifted = arith.subf %x, %tops : tensor<3x?xf32>
  %tens = arith.constant 10.0 : f32
  %base = linalg.fill ins(%tens : f32) outs(%init : tensor<3x?xf32>) -> tensor<3x?xf32>
  %e = math.powf %base, %shifted : tensor<3x?xf32>
  %sum = linalg.reduce { arith.addf } ins(%e : tensor<3x?xf32>) outs(%zero : tensor<3xf32>) dimensions = [1]
  %sums = linalg.broadcast ins(%sum : tensor<3xf32>) outs(%init : tensor<3x?xf32>) dimensions = [1]
  %p = arith.divf %e, %sums : tensor<3x?xf32>
  return %p : tensor<3x?xf32>
}


// The scores are divided behind the shift.
// CHECK-LABEL: @divided_after_max
// CHECK-NOT: math.{{exp|powf}}
// CHECK: linalg.softmax dimension(1)
func.func @divided_after_max(%x: tensor<3x?xf32>) -> tensor<3x?xf32> {
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c1 : tensor<3x?xf32>
  %zero = arith.constant dense<0.0> : tensor<3xf32>
  %lowest = arith.constant dense<0xFF800000> : tensor<3xf32>
  %init = tensor.empty(%n) : tensor<3x?xf32>
  %top = linalg.reduce { arith.maximumf } ins(%x : tensor<3x?xf32>) outs(%lowest : tensor<3xf32>) dimensions = [1]
  %tops = linalg.broadcast ins(%top : tensor<3xf32>) outs(%init : tensor<3x?xf32>) dimensions = [1]
  %shifted = arith.subf %x, %tops : tensor<3x?xf32>
  %eight = arith.constant 8.0 : f32
  %eights = linalg.fill ins(%eight : f32) outs(%init : tensor<3x?xf32>) -> tensor<3x?xf32>
  %scaled = arith.divf %shifted, %eights : tensor<3x?xf32>
  %e = math.exp %scaled : tensor<3x?xf32>
  %sum = linalg.reduce { arith.addf } ins(%e : tensor<3x?xf32>) outs(%zero : tensor<3xf32>) dimensions = [1]
  %sums = linalg.broadcast ins(%sum : tensor<3xf32>) outs(%init : tensor<3x?xf32>) dimensions = [1]
  %p = arith.divf %e, %sums : tensor<3x?xf32>
  return %p : tensor<3x?xf32>
}


// What is taken off is the greatest score, or 0 where that is not finite: either cancels.
// CHECK-LABEL: @less_guarded_log_sum_exp
// CHECK-NOT: math.{{exp|powf}}
// CHECK: linalg.softmax dimension(1)
func.func @less_guarded_log_sum_exp(%x: tensor<3x?xf32>) -> tensor<3x?xf32> {
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c1 : tensor<3x?xf32>
  %zero = arith.constant dense<0.0> : tensor<3xf32>
  %lowest = arith.constant dense<0xFF800000> : tensor<3xf32>
  %init = tensor.empty(%n) : tensor<3x?xf32>
  %top = linalg.reduce { arith.maximumf } ins(%x : tensor<3x?xf32>) outs(%lowest : tensor<3xf32>) dimensions = [1]
  %none = arith.constant dense<0.0> : tensor<3xf32>
  %infinity = arith.constant dense<0x7F800000> : tensor<3xf32>
  %magnitude = math.absf %top : tensor<3xf32>
  %isFinite = arith.cmpf olt, %magnitude, %infinity : tensor<3xf32>
  %shift = arith.select %isFinite, %top, %none : tensor<3xi1>, tensor<3xf32>
  %shifts = linalg.broadcast ins(%shift : tensor<3xf32>) outs(%init : tensor<3x?xf32>) dimensions = [1]
  %shifted = arith.subf %x, %shifts : tensor<3x?xf32>
  %e = math.exp %shifted : tensor<3x?xf32>
  %sum = linalg.reduce { arith.addf } ins(%e : tensor<3x?xf32>) outs(%zero : tensor<3xf32>) dimensions = [1]
  %log = math.log %sum : tensor<3xf32>
  %lse = arith.addf %log, %shift : tensor<3xf32>
  %lses = linalg.broadcast ins(%lse : tensor<3xf32>) outs(%init : tensor<3x?xf32>) dimensions = [1]
  %l = arith.subf %x, %lses : tensor<3x?xf32>
  %p = math.exp %l : tensor<3x?xf32>
  return %p : tensor<3x?xf32>
}


// e^a / e^b is e^(a - b).
// CHECK-LABEL: @quotient_of_exponentials
// CHECK-NOT: math.{{exp|powf}}
// CHECK: linalg.softmax dimension(1)
func.func @quotient_of_exponentials(%x: tensor<3x?xf32>) -> tensor<3x?xf32> {
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c1 : tensor<3x?xf32>
  %zero = arith.constant dense<0.0> : tensor<3xf32>
  %lowest = arith.constant dense<0xFF800000> : tensor<3xf32>
  %init = tensor.empty(%n) : tensor<3x?xf32>
  %top = linalg.reduce { arith.maximumf } ins(%x : tensor<3x?xf32>) outs(%lowest : tensor<3xf32>) dimensions = [1]
  %tops = linalg.broadcast ins(%top : tensor<3xf32>) outs(%init : tensor<3x?xf32>) dimensions = [1]
  %wholes = math.exp %x : tensor<3x?xf32>
  %greatest = math.exp %tops : tensor<3x?xf32>
  %e = arith.divf %wholes, %greatest : tensor<3x?xf32>
  %sum = linalg.reduce { arith.addf } ins(%e : tensor<3x?xf32>) outs(%zero : tensor<3xf32>) dimensions = [1]
  %sums = linalg.broadcast ins(%sum : tensor<3xf32>) outs(%init : tensor<3x?xf32>) dimensions = [1]
  %p = arith.divf %e, %sums : tensor<3x?xf32>
  return %p : tensor<3x?xf32>
}


// An exponential is its own magnitude.
// CHECK-LABEL: @sum_of_magnitudes
// CHECK-NOT: math.{{exp|powf}}
// CHECK: linalg.softmax dimension(1)
func.func @sum_of_magnitudes(%x: tensor<3x?xf32>) -> tensor<3x?xf32> {
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c1 : tensor<3x?xf32>
  %zero = arith.constant dense<0.0> : tensor<3xf32>
  %lowest = arith.constant dense<0xFF800000> : tensor<3xf32>
  %init = tensor.empty(%n) : tensor<3x?xf32>
  %top = linalg.reduce { arith.maximumf } ins(%x : tensor<3x?xf32>) outs(%lowest : tensor<3xf32>) dimensions = [1]
  %tops = linalg.broadcast ins(%top : tensor<3xf32>) outs(%init : tensor<3x?xf32>) dimensions = [1]
  %shifted = arith.subf %x, %tops : tensor<3x?xf32>
  %e = math.exp %shifted : tensor<3x?xf32>
  %magnitudes = math.absf %e : tensor<3x?xf32>
  %sum = linalg.reduce { arith.addf } ins(%magnitudes : tensor<3x?xf32>) outs(%zero : tensor<3xf32>) dimensions = [1]
  %sums = linalg.broadcast ins(%sum : tensor<3xf32>) outs(%init : tensor<3x?xf32>) dimensions = [1]
  %p = arith.divf %e, %sums : tensor<3x?xf32>
  return %p : tensor<3x?xf32>
}


// The sum of exponentials less their greatest is at least 1, and no smaller number is greater.
// CHECK-LABEL: @divided_by_a_floored_sum
// CHECK-NOT: arith.maximumf
// CHECK: linalg.softmax dimension(1)
func.func @divided_by_a_floored_sum(%x: tensor<3x?xf32>) -> tensor<3x?xf32> {
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c1 : tensor<3x?xf32>
  %zero = arith.constant dense<0.0> : tensor<3xf32>
  %lowest = arith.constant dense<0xFF800000> : tensor<3xf32>
  %init = tensor.empty(%n) : tensor<3x?xf32>
  %top = linalg.reduce { arith.maximumf } ins(%x : tensor<3x?xf32>) outs(%lowest : tensor<3xf32>) dimensions = [1]
  %tops = linalg.broadcast ins(%top : tensor<3xf32>) outs(%init : tensor<3x?xf32>) dimensions = [1]
  %shifted = arith.subf %x, %tops : tensor<3x?xf32>
  %e = math.exp %shifted : tensor<3x?xf32>
  %sum = linalg.reduce { arith.addf } ins(%e : tensor<3x?xf32>) outs(%zero : tensor<3xf32>) dimensions = [1]
  %least = arith.constant dense<1.0e-6> : tensor<3xf32>
  %guarded = arith.maximumf %sum, %least : tensor<3xf32>
  %sums = linalg.broadcast ins(%guarded : tensor<3xf32>) outs(%init : tensor<3x?xf32>) dimensions = [1]
  %p = arith.divf %e, %sums : tensor<3x?xf32>
  return %p : tensor<3x?xf32>
}


// The divisor is not the sum alone: that may be less than the floor.
// REMARK: remark: exponentials and their sum are no softmax, and what they weigh no attention: they are divided by the function 'max'
// CHECK-LABEL: @divided_by_a_guarded_sum
// CHECK-NOT: linalg.softmax
// CHECK: return
func.func @divided_by_a_guarded_sum(%x: tensor<3x?xf32>) -> tensor<3x?xf32> {
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c1 : tensor<3x?xf32>
  %zero = arith.constant dense<0.0> : tensor<3xf32>
  %lowest = arith.constant dense<0xFF800000> : tensor<3xf32>
  %init = tensor.empty(%n) : tensor<3x?xf32>
  %top = linalg.reduce { arith.maximumf } ins(%x : tensor<3x?xf32>) outs(%lowest : tensor<3xf32>) dimensions = [1]
  %tops = linalg.broadcast ins(%top : tensor<3xf32>) outs(%init : tensor<3x?xf32>) dimensions = [1]
  %shifted = arith.subf %x, %tops : tensor<3x?xf32>
  %e = math.exp %shifted : tensor<3x?xf32>
  %sum = linalg.reduce { arith.addf } ins(%e : tensor<3x?xf32>) outs(%zero : tensor<3xf32>) dimensions = [1]
  %least = arith.constant dense<2.0> : tensor<3xf32>
  %guarded = arith.maximumf %sum, %least : tensor<3xf32>
  %sums = linalg.broadcast ins(%guarded : tensor<3xf32>) outs(%init : tensor<3x?xf32>) dimensions = [1]
  %p = arith.divf %e, %sums : tensor<3x?xf32>
  return %p : tensor<3x?xf32>
}


// No remark says that nothing reads the sum.
// REMARK: remark: exponentials and their sum are no softmax, and what they weigh no attention: no division of them by their sum is found; 'arith.mulf'
// CHECK-LABEL: @multiplied_by_their_sum
// CHECK-NOT: linalg.softmax
// CHECK: return
func.func @multiplied_by_their_sum(%x: tensor<3x?xf32>) -> tensor<3x?xf32> {
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c1 : tensor<3x?xf32>
  %zero = arith.constant dense<0.0> : tensor<3xf32>
  %lowest = arith.constant dense<0xFF800000> : tensor<3xf32>
  %init = tensor.empty(%n) : tensor<3x?xf32>
  %top = linalg.reduce { arith.maximumf } ins(%x : tensor<3x?xf32>) outs(%lowest : tensor<3xf32>) dimensions = [1]
  %tops = linalg.broadcast ins(%top : tensor<3xf32>) outs(%init : tensor<3x?xf32>) dimensions = [1]
  %shifted = arith.subf %x, %tops : tensor<3x?xf32>
  %e = math.exp %shifted : tensor<3x?xf32>
  %sum = linalg.reduce { arith.addf } ins(%e : tensor<3x?xf32>) outs(%zero : tensor<3xf32>) dimensions = [1]
  %sums = linalg.broadcast ins(%sum : tensor<3xf32>) outs(%init : tensor<3x?xf32>) dimensions = [1]
  %p = arith.mulf %e, %sums : tensor<3x?xf32>
  return %p : tensor<3x?xf32>
}
