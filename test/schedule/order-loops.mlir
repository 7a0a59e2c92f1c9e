// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --heddle-order-loops --split-input-file | FileCheck %s

#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (k, n)>
#c = affine_map<(m, n, k) -> (m, n)>

// The innermost loop walks rows of the second operand and of the output, not the sum.
// CHECK-DAG: #[[A:.*]] = affine_map<(d0, d1, d2) -> (d0, d1)>
// CHECK-DAG: #[[B:.*]] = affine_map<(d0, d1, d2) -> (d1, d2)>
// CHECK-DAG: #[[C:.*]] = affine_map<(d0, d1, d2) -> (d0, d2)>
// CHECK-LABEL: @columns_innermost
// CHECK: linalg.generic {indexing_maps = [#[[A]], #[[B]], #[[C]]], iterator_types = ["parallel", "reduction", "parallel"]}
func.func @columns_innermost(%x: tensor<2x3xf64>, %y: tensor<3x4xf64>, %init: tensor<2x4xf64>) -> tensor<2x4xf64> {
  %z = linalg.generic {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %y : tensor<2x3xf64>, tensor<3x4xf64>) outs(%init : tensor<2x4xf64>) {
  ^bb0(%p: f64, %q: f64, %o: f64):
    %t = arith.mulf %p, %q : f64
    %s = arith.addf %o, %t : f64
    linalg.yield %s : f64
  } -> tensor<2x4xf64>
  return %z : tensor<2x4xf64>
}

// -----

#same = affine_map<(i, j) -> (i, j)>

// CHECK: #[[SAME:.*]] = affine_map<(d0, d1) -> (d0, d1)>
// CHECK-LABEL: @ordered_already
// CHECK: linalg.generic {indexing_maps = [#[[SAME]], #[[SAME]]], iterator_types = ["parallel", "parallel"]}
func.func @ordered_already(%x: tensor<2x3xf32>, %room: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %z = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<2x3xf32>) outs(%room : tensor<2x3xf32>) {
  ^bb0(%p: f32, %o: f32):
    %t = arith.negf %p : f32
    linalg.yield %t : f32
  } -> tensor<2x3xf32>
  return %z : tensor<2x3xf32>
}
