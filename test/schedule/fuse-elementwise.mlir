// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --heddle-fuse-elementwise --canonicalize --split-input-file 2> %t.err | FileCheck %s
// RUN: FileCheck %s --input-file=%t.err --check-prefix=REMARK

// CHECK-LABEL: @chain_is_one_loop
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<?x4xf32>
// CHECK: %[[ROOM:.*]] = tensor.empty
// CHECK: linalg.generic {{.*}} ins(%[[X]] : tensor<?x4xf32>) outs(%[[ROOM]] : tensor<?x4xf32>)
// CHECK: math.tanh
// CHECK: arith.mulf
// CHECK: arith.negf
// CHECK-NOT: linalg.generic
func.func @chain_is_one_loop(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %a = math.tanh %x : tensor<?x4xf32>
  %b = arith.mulf %a, %x : tensor<?x4xf32>
  %c = arith.negf %b : tensor<?x4xf32>
  return %c : tensor<?x4xf32>
}

// -----

// An operand is never written: the result gets its own place, whose size comes from the argument.
// CHECK-LABEL: @own_place
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<?xf32>
// CHECK: %[[N:.*]] = tensor.dim %[[X]]
// CHECK: %[[A:.*]] = tensor.empty(%[[N]])
// CHECK: outs(%[[A]]
// CHECK: %[[B:.*]] = tensor.empty(%[[N]])
// CHECK: outs(%[[B]]
func.func @own_place(%x: tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>) {
  %a = math.exp %x : tensor<?xf32>
  %b = arith.addf %a, %x : tensor<?xf32>
  return %a, %b : tensor<?xf32>, tensor<?xf32>
}

// -----

#row = affine_map<(i, j) -> (i)>
#same = affine_map<(i, j) -> (i, j)>

// What costs much is computed once per row, not once per element.
// CHECK-LABEL: @costly_row_kept_apart
// CHECK: math.exp
// CHECK: linalg.yield
// CHECK: linalg.generic
func.func @costly_row_kept_apart(%x: tensor<8xf32>, %y: tensor<8x9xf32>) -> tensor<8x9xf32> {
  %e = math.exp %x : tensor<8xf32>
  %room = tensor.empty() : tensor<8x9xf32>
  %z = linalg.generic {indexing_maps = [#row, #same, #same], iterator_types = ["parallel", "parallel"]}
      ins(%e, %y : tensor<8xf32>, tensor<8x9xf32>) outs(%room : tensor<8x9xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %p = arith.mulf %a, %b : f32
    linalg.yield %p : f32
  } -> tensor<8x9xf32>
  return %z : tensor<8x9xf32>
}

// -----

#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (k, n)>
#c = affine_map<(m, n, k) -> (m, n)>

// CHECK-LABEL: @product_kept_whole
// CHECK: arith.negf
// CHECK: linalg.yield
// CHECK: linalg.generic {{.*}}"reduction"
// CHECK-NEXT: ^bb0
// CHECK-NEXT: arith.mulf
// CHECK-NEXT: arith.addf
func.func @product_kept_whole(%x: tensor<2x3xf32>, %y: tensor<3x4xf32>, %init: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %n = arith.negf %x : tensor<2x3xf32>
  %z = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%n, %y : tensor<2x3xf32>, tensor<3x4xf32>) outs(%init : tensor<2x4xf32>) {
  ^bb0(%p: f32, %q: f32, %o: f32):
    %t = arith.mulf %p, %q : f32
    %s = arith.addf %o, %t : f32
    linalg.yield %s : f32
  } -> tensor<2x4xf32>
  return %z : tensor<2x4xf32>
}

// -----

// What is one value everywhere is a number in the loops that read it; a loop that two others read stays, with a remark.
// CHECK-LABEL: @zeros_are_numbers
// CHECK: linalg.generic
// CHECK-SAME: ins(%{{[a-z0-9]+}} : tensor<4xf32>)
// CHECK: arith.maximumf
// REMARK: not fused into the loop that reads it: its result is read in several places
func.func @zeros_are_numbers(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %zero = arith.constant 0.0 : f32
  %room = tensor.empty() : tensor<4xf32>
  %zeros = linalg.generic {indexing_maps = [affine_map<(i) -> ()>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%zero : f32) outs(%room : tensor<4xf32>) {
  ^bb0(%a: f32, %o: f32):
    linalg.yield %a : f32
  } -> tensor<4xf32>
  %e = arith.maximumf %x, %zeros : tensor<4xf32>
  %b = arith.mulf %e, %zeros : tensor<4xf32>
  %c = arith.addf %e, %x : tensor<4xf32>
  return %b, %c : tensor<4xf32>, tensor<4xf32>
}
