// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rotations by numbers that are looked up in a stored table of sines and cosines, as GPT-J's exports have them. test/raise/decoders.test compares
// what becomes of such a table with the numbers of its file.
// RUN: %heddle-opt %s --heddle-raise-rope --canonicalize -o %t.out
// RUN: FileCheck %s --input-file=%t.out

!heads = tensor<1x2x?x4xf32>
!table = tensor<8x4xf32>
#s = ["", "", "s", ""]

// CHECK: #[[ROPE:.*]] = #heddle.rope<half, table = 0, attention_factor = 1.000000e+00, inverse_frequency = array<f32: 1.000000e+00, 1.250000e-01>>
// CHECK-LABEL: @looked_up
// CHECK-NOT: heddle.embedding
// CHECK: heddle.rope %{{.*}}, %{{.*}}, #[[ROPE]] : tensor<1x2x?x4xf32>
// CHECK-NEXT: return
func.func @looked_up(%x: !heads {heddle.dims = #s}) -> !heads {
  %c2 = arith.constant 2 : index
  %n = tensor.dim %x, %c2 : !heads
  %table = heddle.weight "sines" <type = "f32", file = 0, offset = 0> {heddle.cosines = array<i1: false, false, true, true>, heddle.frequencies = array<f64: 1.0, 0.125, 1.0, 0.125>} : !table
  %ids_init = tensor.empty(%n) : tensor<1x?xi32>
  %ids = linalg.generic {indexing_maps = [affine_map<(b, s) -> (b, s)>], iterator_types = ["parallel", "parallel"]} outs(%ids_init : tensor<1x?xi32>) {
  ^bb0(%out: i32):
    %s = linalg.index 1 : index
    %position = arith.index_cast %s : index to i32
    linalg.yield %position : i32
  } -> tensor<1x?xi32>
  %rows = heddle.embedding %ids, %table : tensor<1x?xi32>, !table -> tensor<1x?x4xf32>
  %sines = tensor.extract_slice %rows[0, 0, 0] [1, %n, 2] [1, 1, 1] : tensor<1x?x4xf32> to tensor<1x?x2xf32>
  %cosines = tensor.extract_slice %rows[0, 0, 2] [1, %n, 2] [1, 1, 1] : tensor<1x?x4xf32> to tensor<1x?x2xf32>
  %sin_row = tensor.concat dim(2) %sines, %sines : (tensor<1x?x2xf32>, tensor<1x?x2xf32>) -> tensor<1x?x4xf32>
  %cos_row = tensor.concat dim(2) %cosines, %cosines : (tensor<1x?x2xf32>, tensor<1x?x2xf32>) -> tensor<1x?x4xf32>
  %init = tensor.empty(%n) : !heads
  %sin = linalg.broadcast ins(%sin_row : tensor<1x?x4xf32>) outs(%init : !heads) dimensions = [1]
  %cos = linalg.broadcast ins(%cos_row : tensor<1x?x4xf32>) outs(%init : !heads) dimensions = [1]
  %first = tensor.extract_slice %x[0, 0, 0, 0] [1, 2, %n, 2] [1, 1, 1, 1] : !heads to tensor<1x2x?x2xf32>
  %second = tensor.extract_slice %x[0, 0, 0, 2] [1, 2, %n, 2] [1, 1, 1, 1] : !heads to tensor<1x2x?x2xf32>
  %minus = arith.negf %second : tensor<1x2x?x2xf32>
  %rotated = tensor.concat dim(3) %minus, %first : (tensor<1x2x?x2xf32>, tensor<1x2x?x2xf32>) -> !heads
  %a = arith.mulf %x, %cos : !heads
  %b = arith.mulf %rotated, %sin : !heads
  %y = arith.addf %a, %b : !heads
  return %y : !heads
}

// A cosine of another angle than its sine: no rotation.
// CHECK-LABEL: @cosines_of_other_angles
// CHECK-NOT: heddle.rope
// CHECK: return
func.func @cosines_of_other_angles(%x: !heads {heddle.dims = #s}) -> !heads {
  %c2 = arith.constant 2 : index
  %n = tensor.dim %x, %c2 : !heads
  %table = heddle.weight "sines" <type = "f32", file = 0, offset = 0> {heddle.cosines = array<i1: false, false, true, true>, heddle.frequencies = array<f64: 1.0, 0.125, 1.0, 0.25>} : !table
  %ids_init = tensor.empty(%n) : tensor<1x?xi32>
  %ids = linalg.generic {indexing_maps = [affine_map<(b, s) -> (b, s)>], iterator_types = ["parallel", "parallel"]} outs(%ids_init : tensor<1x?xi32>) {
  ^bb0(%out: i32):
    %s = linalg.index 1 : index
    %position = arith.index_cast %s : index to i32
    linalg.yield %position : i32
  } -> tensor<1x?xi32>
  %rows = heddle.embedding %ids, %table : tensor<1x?xi32>, !table -> tensor<1x?x4xf32>
  %sines = tensor.extract_slice %rows[0, 0, 0] [1, %n, 2] [1, 1, 1] : tensor<1x?x4xf32> to tensor<1x?x2xf32>
  %cosines = tensor.extract_slice %rows[0, 0, 2] [1, %n, 2] [1, 1, 1] : tensor<1x?x4xf32> to tensor<1x?x2xf32>
  %sin_row = tensor.concat dim(2) %sines, %sines : (tensor<1x?x2xf32>, tensor<1x?x2xf32>) -> tensor<1x?x4xf32>
  %cos_row = tensor.concat dim(2) %cosines, %cosines : (tensor<1x?x2xf32>, tensor<1x?x2xf32>) -> tensor<1x?x4xf32>
  %init = tensor.empty(%n) : !heads
  %sin = linalg.broadcast ins(%sin_row : tensor<1x?x4xf32>) outs(%init : !heads) dimensions = [1]
  %cos = linalg.broadcast ins(%cos_row : tensor<1x?x4xf32>) outs(%init : !heads) dimensions = [1]
  %first = tensor.extract_slice %x[0, 0, 0, 0] [1, 2, %n, 2] [1, 1, 1, 1] : !heads to tensor<1x2x?x2xf32>
  %second = tensor.extract_slice %x[0, 0, 0, 2] [1, 2, %n, 2] [1, 1, 1, 1] : !heads to tensor<1x2x?x2xf32>
  %minus = arith.negf %second : tensor<1x2x?x2xf32>
  %rotated = tensor.concat dim(3) %minus, %first : (tensor<1x2x?x2xf32>, tensor<1x2x?x2xf32>) -> !heads
  %a = arith.mulf %x, %cos : !heads
  %b = arith.mulf %rotated, %sin : !heads
  %y = arith.addf %a, %b : !heads
  return %y : !heads
}
