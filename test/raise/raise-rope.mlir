// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --inline --symbol-dce --heddle-check-all --heddle-raise-rope --canonicalize -o %t.out
// RUN: FileCheck %s --input-file=%t.out

!heads = tensor<1x2x?x4xf32>
!angles = tensor<1x?x4xf32>
#s = ["", "", "s", ""]

// Angles of positions 0, 1, 2 …, the two frequencies twice.
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

// x cos + rotate_half(x) sin
// CHECK: #[[ROPE:.*]] = #heddle.rope<half, table = 0, attention_factor = 1.000000e+00, inverse_frequency = array<f32: 1.000000e+00, 1.250000e-01>>
// CHECK: #[[BACK:.*]] = #heddle.rope<half, table = {{[0-9]+}}, attention_factor = 1.000000e+00, inverse_frequency = array<f32: -1.000000e+00, -1.250000e-01>>
// CHECK-LABEL: @halves
// CHECK: heddle.rope %{{.*}}, %{{.*}}, #[[ROPE]] : tensor<1x2x?x4xf32>
// CHECK-NEXT: return
func.func @halves(%x: !heads {heddle.dims = #s}) -> !heads {
  %c2 = arith.constant 2 : index
  %n = tensor.dim %x, %c2 : !heads
  %angles = call @angles(%x) : (!heads) -> !angles
  %cos_row = math.cos %angles : !angles
  %sin_row = math.sin %angles : !angles
  %cos = call @per_head(%cos_row) : (!angles) -> !heads
  %sin = call @per_head(%sin_row) : (!angles) -> !heads
  %first = tensor.extract_slice %x[0, 0, 0, 0] [1, 2, %n, 2] [1, 1, 1, 1] : !heads to tensor<1x2x?x2xf32>
  %second = tensor.extract_slice %x[0, 0, 0, 2] [1, 2, %n, 2] [1, 1, 1, 1] : !heads to tensor<1x2x?x2xf32>
  %minus = arith.negf %second : tensor<1x2x?x2xf32>
  %rotated = tensor.concat dim(3) %minus, %first : (tensor<1x2x?x2xf32>, tensor<1x2x?x2xf32>) -> !heads
  %a = arith.mulf %x, %cos : !heads
  %b = arith.mulf %rotated, %sin : !heads
  %y = arith.addf %a, %b : !heads
  return %y : !heads
}

// The first half is negated: the same by negative angles, which its frequencies say.
// CHECK-LABEL: @halves_backwards
// CHECK: heddle.rope %{{.*}}, %{{.*}}, #[[BACK]] : tensor<1x2x?x4xf32>
// CHECK-NEXT: return
func.func @halves_backwards(%x: !heads {heddle.dims = #s}) -> !heads {
  %c2 = arith.constant 2 : index
  %n = tensor.dim %x, %c2 : !heads
  %angles = call @angles(%x) : (!heads) -> !angles
  %cos_row = math.cos %angles : !angles
  %sin_row = math.sin %angles : !angles
  %cos = call @per_head(%cos_row) : (!angles) -> !heads
  %sin = call @per_head(%sin_row) : (!angles) -> !heads
  %first = tensor.extract_slice %x[0, 0, 0, 0] [1, 2, %n, 2] [1, 1, 1, 1] : !heads to tensor<1x2x?x2xf32>
  %second = tensor.extract_slice %x[0, 0, 0, 2] [1, 2, %n, 2] [1, 1, 1, 1] : !heads to tensor<1x2x?x2xf32>
  %minus = arith.negf %first : tensor<1x2x?x2xf32>
  %rotated = tensor.concat dim(3) %second, %minus : (tensor<1x2x?x2xf32>, tensor<1x2x?x2xf32>) -> !heads
  %a = arith.mulf %x, %cos : !heads
  %b = arith.mulf %rotated, %sin : !heads
  %y = arith.addf %a, %b : !heads
  return %y : !heads
}

// The second half is not negated: no rotation.
// CHECK-LABEL: @halves_without_a_sign
// CHECK-NOT: heddle.rope
// CHECK: return
func.func @halves_without_a_sign(%x: !heads {heddle.dims = #s}) -> !heads {
  %c2 = arith.constant 2 : index
  %n = tensor.dim %x, %c2 : !heads
  %angles = call @angles(%x) : (!heads) -> !angles
  %cos_row = math.cos %angles : !angles
  %sin_row = math.sin %angles : !angles
  %cos = call @per_head(%cos_row) : (!angles) -> !heads
  %sin = call @per_head(%sin_row) : (!angles) -> !heads
  %first = tensor.extract_slice %x[0, 0, 0, 0] [1, 2, %n, 2] [1, 1, 1, 1] : !heads to tensor<1x2x?x2xf32>
  %second = tensor.extract_slice %x[0, 0, 0, 2] [1, 2, %n, 2] [1, 1, 1, 1] : !heads to tensor<1x2x?x2xf32>
  %rotated = tensor.concat dim(3) %second, %first : (tensor<1x2x?x2xf32>, tensor<1x2x?x2xf32>) -> !heads
  %a = arith.mulf %x, %cos : !heads
  %b = arith.mulf %rotated, %sin : !heads
  %y = arith.addf %a, %b : !heads
  return %y : !heads
}

// One head is repeated before it is rotated: it is rotated once and repeated after.
// CHECK-LABEL: @head_that_all_share
// CHECK-SAME: %[[X:.*]]: tensor<1x1x?x4xf32>
// CHECK: %[[R:.*]] = heddle.rope %[[X]], %{{.*}}, #[[ROPE]] : tensor<1x1x?x4xf32>
// CHECK: linalg.broadcast ins(%{{.*}} : tensor<1x?x4xf32>) outs({{.*}}) dimensions = [1]
func.func @head_that_all_share(%one: tensor<1x1x?x4xf32> {heddle.dims = #s}) -> !heads {
  %c2 = arith.constant 2 : index
  %n = tensor.dim %one, %c2 : tensor<1x1x?x4xf32>
  %row = tensor.collapse_shape %one [[0], [1, 2], [3]] : tensor<1x1x?x4xf32> into !angles
  %x = call @per_head(%row) : (!angles) -> !heads
  %angles = call @angles(%x) : (!heads) -> !angles
  %cos_row = math.cos %angles : !angles
  %sin_row = math.sin %angles : !angles
  %cos = call @per_head(%cos_row) : (!angles) -> !heads
  %sin = call @per_head(%sin_row) : (!angles) -> !heads
  %first = tensor.extract_slice %x[0, 0, 0, 0] [1, 2, %n, 2] [1, 1, 1, 1] : !heads to tensor<1x2x?x2xf32>
  %second = tensor.extract_slice %x[0, 0, 0, 2] [1, 2, %n, 2] [1, 1, 1, 1] : !heads to tensor<1x2x?x2xf32>
  %minus = arith.negf %second : tensor<1x2x?x2xf32>
  %rotated = tensor.concat dim(3) %minus, %first : (tensor<1x2x?x2xf32>, tensor<1x2x?x2xf32>) -> !heads
  %a = arith.mulf %x, %cos : !heads
  %b = arith.mulf %rotated, %sin : !heads
  %y = arith.addf %a, %b : !heads
  return %y : !heads
}

// x cos + rotate_half(x) sin of any heads
func.func private @rotated(%x: !heads) -> !heads {
  %c2 = arith.constant 2 : index
  %n = tensor.dim %x, %c2 : !heads
  %angles = call @angles(%x) : (!heads) -> !angles
  %cos_row = math.cos %angles : !angles
  %sin_row = math.sin %angles : !angles
  %cos = call @per_head(%cos_row) : (!angles) -> !heads
  %sin = call @per_head(%sin_row) : (!angles) -> !heads
  %first = tensor.extract_slice %x[0, 0, 0, 0] [1, 2, %n, 2] [1, 1, 1, 1] : !heads to tensor<1x2x?x2xf32>
  %second = tensor.extract_slice %x[0, 0, 0, 2] [1, 2, %n, 2] [1, 1, 1, 1] : !heads to tensor<1x2x?x2xf32>
  %minus = arith.negf %second : tensor<1x2x?x2xf32>
  %turned = tensor.concat dim(3) %minus, %first : (tensor<1x2x?x2xf32>, tensor<1x2x?x2xf32>) -> !heads
  %a = arith.mulf %x, %cos : !heads
  %b = arith.mulf %turned, %sin : !heads
  %y = arith.addf %a, %b : !heads
  return %y : !heads
}

// Heads that are clipped: the rotation begins behind that.
// CHECK-LABEL: @clipped_heads
// CHECK: %[[CLIPPED:.*]] = arith.minimumf
// CHECK: heddle.rope %[[CLIPPED]], %{{.*}}, #[[ROPE]] : tensor<1x2x?x4xf32>
func.func @clipped_heads(%x: !heads {heddle.dims = #s}) -> !heads {
  %c2 = arith.constant 2 : index
  %n = tensor.dim %x, %c2 : !heads
  %limit = arith.constant 0.5 : f32
  %limits = tensor.splat %limit[%n] : !heads
  %clipped = arith.minimumf %x, %limits : !heads
  %y = call @rotated(%clipped) : (!heads) -> !heads
  return %y : !heads
}

// Pairs that lie side by side and come out in halves (DeepSeek-V3): rotated where they lie, and put apart after.
// CHECK-LABEL: @pairs_put_apart
// CHECK-SAME: %[[X:.*]]: tensor<1x2x?x4xf32>
// CHECK: %[[R:.*]] = heddle.rope %[[X]], %{{.*}}, #{{.*}} : tensor<1x2x?x4xf32>
// CHECK: %[[PAIRS:.*]] = tensor.expand_shape %[[R]]
// CHECK: linalg.transpose ins(%[[PAIRS]] : tensor<1x2x?x2x2xf32>) {{.*}} permutation = [0, 1, 2, 4, 3]
func.func @pairs_put_apart(%x: !heads {heddle.dims = #s}) -> !heads {
  %c2 = arith.constant 2 : index
  %n = tensor.dim %x, %c2 : !heads
  %pairs = tensor.expand_shape %x [[0], [1], [2], [3, 4]] output_shape [1, 2, %n, 2, 2] : !heads into tensor<1x2x?x2x2xf32>
  %init = tensor.empty(%n) : tensor<1x2x?x2x2xf32>
  %sides = linalg.transpose ins(%pairs : tensor<1x2x?x2x2xf32>) outs(%init : tensor<1x2x?x2x2xf32>) permutation = [0, 1, 2, 4, 3]
  %halves = tensor.collapse_shape %sides [[0], [1], [2], [3, 4]] : tensor<1x2x?x2x2xf32> into !heads
  %y = call @rotated(%halves) : (!heads) -> !heads
  return %y : !heads
}

// %rest, and behind it the halves of x rotated, all joined in one.
func.func private @joined(%rest: tensor<1x2x?x3xf32>, %x: !heads, %sign: f32) -> tensor<1x2x?x7xf32> {
  %c2 = arith.constant 2 : index
  %n = tensor.dim %x, %c2 : !heads
  %angles = call @angles(%x) : (!heads) -> !angles
  %cos_row = math.cos %angles : !angles
  %sin_row = math.sin %angles : !angles
  %all_cos = call @per_head(%cos_row) : (!angles) -> !heads
  %all_sin = call @per_head(%sin_row) : (!angles) -> !heads
  %cos = tensor.extract_slice %all_cos[0, 0, 0, 0] [1, 2, %n, 2] [1, 1, 1, 1] : !heads to tensor<1x2x?x2xf32>
  %sin = tensor.extract_slice %all_sin[0, 0, 0, 0] [1, 2, %n, 2] [1, 1, 1, 1] : !heads to tensor<1x2x?x2xf32>
  %first = tensor.extract_slice %x[0, 0, 0, 0] [1, 2, %n, 2] [1, 1, 1, 1] : !heads to tensor<1x2x?x2xf32>
  %second = tensor.extract_slice %x[0, 0, 0, 2] [1, 2, %n, 2] [1, 1, 1, 1] : !heads to tensor<1x2x?x2xf32>
  %signs = tensor.splat %sign[%n] : tensor<1x2x?x2xf32>
  %a = arith.mulf %first, %cos : tensor<1x2x?x2xf32>
  %b = arith.mulf %second, %sin : tensor<1x2x?x2xf32>
  %one = arith.subf %a, %b : tensor<1x2x?x2xf32>
  %c = arith.mulf %second, %cos : tensor<1x2x?x2xf32>
  %d = arith.mulf %first, %sin : tensor<1x2x?x2xf32>
  %e = arith.mulf %d, %signs : tensor<1x2x?x2xf32>
  %other = arith.addf %c, %e : tensor<1x2x?x2xf32>
  %y = tensor.concat dim(3) %rest, %one, %other : (tensor<1x2x?x3xf32>, tensor<1x2x?x2xf32>, tensor<1x2x?x2xf32>) -> tensor<1x2x?x7xf32>
  return %y : tensor<1x2x?x7xf32>
}

// CHECK-LABEL: @rotated_behind_others
// CHECK-SAME: %[[REST:.*]]: tensor<1x2x?x3xf32> {{.*}}, %[[X:.*]]: tensor<1x2x?x4xf32>
// CHECK: %[[R:.*]] = heddle.rope %[[X]], %{{.*}}, #[[ROPE]] : tensor<1x2x?x4xf32>
// CHECK: tensor.concat dim(3) %[[REST]], %[[R]]
func.func @rotated_behind_others(%rest: tensor<1x2x?x3xf32> {heddle.dims = #s}, %x: !heads {heddle.dims = #s}) -> tensor<1x2x?x7xf32> {
  %plus = arith.constant 1.0 : f32
  %y = call @joined(%rest, %x, %plus) : (tensor<1x2x?x3xf32>, !heads, f32) -> tensor<1x2x?x7xf32>
  return %y : tensor<1x2x?x7xf32>
}

// Both halves are turned the same way: no rotation, and they stay joined in one.
// CHECK-LABEL: @turned_behind_others
// CHECK-NOT: heddle.rope
// CHECK: tensor.concat dim(3) %{{.*}}, %{{.*}}, %{{.*}} :
func.func @turned_behind_others(%rest: tensor<1x2x?x3xf32> {heddle.dims = #s}, %x: !heads {heddle.dims = #s}) -> tensor<1x2x?x7xf32> {
  %minus = arith.constant -1.0 : f32
  %y = call @joined(%rest, %x, %minus) : (tensor<1x2x?x3xf32>, !heads, f32) -> tensor<1x2x?x7xf32>
  return %y : tensor<1x2x?x7xf32>
}
