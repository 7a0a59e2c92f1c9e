// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rotations of heads that come in groups, as Falcon has them: queries beside their key, which is repeated for them before it is rotated. Every
// function is evaluated before and after.
// RUN: %heddle-opt %s --inline --symbol-dce --heddle-check-all --heddle-raise-rope --canonicalize -o %t.out
// RUN: FileCheck %s --input-file=%t.out

!heads = tensor<1x4x?x4xf32>
!groups = tensor<1x?x2x3x4xf32> // (batch, sequence, groups, two queries and a key, head_dim)
!angles = tensor<1x?x4xf32>
#s = ["", "s", "", "", ""]

func.func private @angles(%x: !heads) -> !angles {
  %frequencies = arith.constant dense<[1.0, 0.125, 1.0, 0.125]> : tensor<4xf32>
  %c2 = arith.constant 2 : index
  %n = tensor.dim %x, %c2 : !heads
  %init = tensor.empty(%n) : !angles
  %angles = linalg.generic {indexing_maps = [affine_map<(b, s, d) -> (d)>, affine_map<(b, s, d) -> (b, s, d)>],
                            iterator_types = ["parallel", "parallel", "parallel"]} ins(%frequencies : tensor<4xf32>) outs(%init : !angles) {
  ^bb0(%in: f32, %out: f32):
    %s = linalg.index 1 : index
    %wide = arith.index_cast %s : index to i64
    %position = arith.sitofp %wide : i64 to f32
    %angle = arith.mulf %position, %in : f32
    linalg.yield %angle : f32
  } -> !angles
  return %angles : !angles
}
func.func private @per_head(%x: !angles) -> !heads {
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c1 : !angles
  %init = tensor.empty(%n) : !heads
  %all = linalg.broadcast ins(%x : !angles) outs(%init : !heads) dimensions = [1]
  return %all : !heads
}
func.func private @rotated(%flat: tensor<1x?x4x4xf32>) -> !heads {
  %c1 = arith.constant 1 : index
  %n = tensor.dim %flat, %c1 : tensor<1x?x4x4xf32>
  %init = tensor.empty(%n) : !heads
  %x = linalg.transpose ins(%flat : tensor<1x?x4x4xf32>) outs(%init : !heads) permutation = [0, 2, 1, 3]
  %angles = call @angles(%x) : (!heads) -> !angles
  %cos_row = math.cos %angles : !angles
  %sin_row = math.sin %angles : !angles
  %cos = call @per_head(%cos_row) : (!angles) -> !heads
  %sin = call @per_head(%sin_row) : (!angles) -> !heads
  %first = tensor.extract_slice %x[0, 0, 0, 0] [1, 4, %n, 2] [1, 1, 1, 1] : !heads to tensor<1x4x?x2xf32>
  %second = tensor.extract_slice %x[0, 0, 0, 2] [1, 4, %n, 2] [1, 1, 1, 1] : !heads to tensor<1x4x?x2xf32>
  %minus = arith.negf %second : tensor<1x4x?x2xf32>
  %turned = tensor.concat dim(3) %minus, %first : (tensor<1x4x?x2xf32>, tensor<1x4x?x2xf32>) -> !heads
  %a = arith.mulf %x, %cos : !heads
  %b = arith.mulf %turned, %sin : !heads
  %y = arith.addf %a, %b : !heads
  return %y : !heads
}

// CHECK-LABEL: @queries_of_each_group
// CHECK: heddle.rope %{{.*}}, %{{.*}}, #{{.*}} : tensor<1x4x?x4xf32>
// CHECK-NOT: math.cos
// CHECK: return
func.func @queries_of_each_group(%x: !groups {heddle.dims = #s}) -> !heads {
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c1 : !groups
  %queries = tensor.extract_slice %x[0, 0, 0, 0, 0] [1, %n, 2, 2, 4] [1, 1, 1, 1, 1] : !groups to tensor<1x?x2x2x4xf32>
  %flat = tensor.collapse_shape %queries [[0], [1], [2, 3], [4]] : tensor<1x?x2x2x4xf32> into tensor<1x?x4x4xf32>
  %y = call @rotated(%flat) : (tensor<1x?x4x4xf32>) -> !heads
  return %y : !heads
}

// Two keys are rotated, not four.
// CHECK-LABEL: @key_repeated_for_its_group
// CHECK: heddle.rope %{{.*}}, %{{.*}}, #{{.*}} : tensor<1x2x?x4xf32>
// CHECK-NOT: math.cos
// CHECK: linalg.broadcast
func.func @key_repeated_for_its_group(%x: !groups {heddle.dims = #s}) -> !heads {
  %c1 = arith.constant 1 : index
  %n = tensor.dim %x, %c1 : !groups
  %keys = tensor.extract_slice %x[0, 0, 0, 2, 0] [1, %n, 2, 1, 4] [1, 1, 1, 1, 1] : !groups to tensor<1x?x2x4xf32>
  %init = tensor.empty(%n) : tensor<1x?x2x2x4xf32>
  %twice = linalg.broadcast ins(%keys : tensor<1x?x2x4xf32>) outs(%init : tensor<1x?x2x2x4xf32>) dimensions = [3]
  %flat = tensor.collapse_shape %twice [[0], [1], [2, 3], [4]] : tensor<1x?x2x2x4xf32> into tensor<1x?x4x4xf32>
  %y = call @rotated(%flat) : (tensor<1x?x4x4xf32>) -> !heads
  return %y : !heads
}
