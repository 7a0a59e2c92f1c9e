// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: %heddle-opt %s --heddle-decompose-tensor-ops --split-input-file | FileCheck %s

// CHECK-LABEL: @softmax_by_parts
// CHECK-NOT: linalg.softmax
// CHECK: arith.maxnumf
// CHECK: math.exp
// CHECK: arith.divf
func.func @softmax_by_parts(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %room = tensor.empty() : tensor<4x8xf32>
  %y = linalg.softmax dimension(1) ins(%x : tensor<4x8xf32>) outs(%room : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// What the input says less of its sizes than the output is as the output.
// CHECK-LABEL: @softmax_of_unknown_columns
// CHECK: tensor.cast %{{.*}} : tensor<?x?xf32> to tensor<?x8xf32>
// CHECK-NOT: linalg.softmax
// CHECK: arith.divf
func.func @softmax_of_unknown_columns(%x: tensor<?x?xf32>, %n: index) -> tensor<?x8xf32> {
  %room = tensor.empty(%n) : tensor<?x8xf32>
  %y = linalg.softmax dimension(1) ins(%x : tensor<?x?xf32>) outs(%room : tensor<?x8xf32>) -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}

// -----

// CHECK-LABEL: @concat_is_inserts
// CHECK-NOT: tensor.concat
// CHECK-COUNT-2: tensor.insert_slice
func.func @concat_is_inserts(%x: tensor<2x3xf32>, %y: tensor<4x3xf32>) -> tensor<6x3xf32> {
  %z = tensor.concat dim(0) %x, %y : (tensor<2x3xf32>, tensor<4x3xf32>) -> tensor<6x3xf32>
  return %z : tensor<6x3xf32>
}

// -----

#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (k, n)>
#c = affine_map<(m, n, k) -> (m, n)>

// CHECK-LABEL: @sum_of_halves_in_f32
// CHECK: linalg.contract {{.*}} ins({{.*}} : tensor<2x9xf32>, tensor<9x3xf32>) outs({{.*}} : tensor<2x3xf32>)
// CHECK: arith.truncf {{.*}} : tensor<2x3xf32> to tensor<2x3xf16>
func.func @sum_of_halves_in_f32(%x: tensor<2x9xf16>, %y: tensor<9x3xf16>, %init: tensor<2x3xf16>) -> tensor<2x3xf16> {
  %z = linalg.contract indexing_maps = [#a, #b, #c] ins(%x, %y : tensor<2x9xf16>, tensor<9x3xf16>) outs(%init : tensor<2x3xf16>) -> tensor<2x3xf16>
  return %z : tensor<2x3xf16>
}

// -----

// CHECK-LABEL: @named_product_of_halves
// CHECK: linalg.contract {{.*}} outs({{.*}} : tensor<2x3xf32>)
func.func @named_product_of_halves(%x: tensor<2x9xbf16>, %y: tensor<9x3xbf16>, %init: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %z = linalg.matmul ins(%x, %y : tensor<2x9xbf16>, tensor<9x3xbf16>) outs(%init : tensor<2x3xf32>) -> tensor<2x3xf32>
  return %z : tensor<2x3xf32>
}

// -----

// CHECK-LABEL: @wide_products_kept
// CHECK-NOT: ext
// CHECK: linalg.matmul ins({{.*}} : tensor<2x9xf64>, tensor<9x3xf64>)
// CHECK: linalg.matmul ins({{.*}} : tensor<2x9xi8>, tensor<9x3xi8>)
func.func @wide_products_kept(%x: tensor<2x9xf64>, %y: tensor<9x3xf64>, %init: tensor<2x3xf64>, %p: tensor<2x9xi8>, %q: tensor<9x3xi8>,
                              %sum: tensor<2x3xi32>) -> (tensor<2x3xf64>, tensor<2x3xi32>) {
  %z = linalg.matmul ins(%x, %y : tensor<2x9xf64>, tensor<9x3xf64>) outs(%init : tensor<2x3xf64>) -> tensor<2x3xf64>
  %r = linalg.matmul ins(%p, %q : tensor<2x9xi8>, tensor<9x3xi8>) outs(%sum : tensor<2x3xi32>) -> tensor<2x3xi32>
  return %z, %r : tensor<2x3xf64>, tensor<2x3xi32>
}

// -----

// Nine operands are left to bufferization, which copies each to its place.
// CHECK-LABEL: @many_operands_stay
// CHECK-NOT: tensor.insert_slice
// CHECK: tensor.concat
func.func @many_operands_stay(%x: tensor<2xf32>) -> tensor<18xf32> {
  %z = tensor.concat dim(0) %x, %x, %x, %x, %x, %x, %x, %x, %x
    : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<18xf32>
  return %z : tensor<18xf32>
}

// -----

// Products of a layer write where they stand side by side, in the order in which they are computed.
// CHECK-LABEL: @products_in_place
// CHECK-NOT: tensor.concat
// CHECK: %[[ROOM:.*]] = tensor.empty({{.*}}) : tensor<?x48xf32>
// CHECK: %[[LATER:.*]] = tensor.extract_slice %[[ROOM]][0, 16]
// CHECK: heddle.packed_matmul {{.*}} outs(%[[LATER]] : tensor<?x32xf32>)
// CHECK: %[[NEXT:.*]] = tensor.insert_slice {{.*}} into %[[ROOM]][0, 16]
// CHECK: %[[FIRST:.*]] = tensor.extract_slice %[[NEXT]][0, 0]
// CHECK: heddle.packed_matmul {{.*}} outs(%[[FIRST]] : tensor<?x16xf32>)
// CHECK: tensor.insert_slice {{.*}} into %[[NEXT]][0, 0]
func.func private @products_in_place(%x: tensor<?x32xf32>, %w: tensor<2048xi8>, %v: tensor<4096xi8>) -> tensor<?x48xf32> {
  %c0 = arith.constant 0 : index
  %rows = tensor.dim %x, %c0 : tensor<?x32xf32>
  %narrow = tensor.empty(%rows) : tensor<?x16xf32>
  %wide = tensor.empty(%rows) : tensor<?x32xf32>
  %b = heddle.packed_matmul ins(%x, %v : tensor<?x32xf32>, tensor<4096xi8>) outs(%wide : tensor<?x32xf32>) {format = "f32", k = 32, n = 32} -> tensor<?x32xf32>
  %a = heddle.packed_matmul ins(%x, %w : tensor<?x32xf32>, tensor<2048xi8>) outs(%narrow : tensor<?x16xf32>) {format = "f32", k = 32, n = 16} -> tensor<?x16xf32>
  %z = tensor.concat dim(1) %a, %b : (tensor<?x16xf32>, tensor<?x32xf32>) -> tensor<?x48xf32>
  return %z : tensor<?x48xf32>
}

// What else a layer puts side by side is a view of the kernel that reads it.
// CHECK-LABEL: @other_rows_kept
// CHECK: tensor.concat
func.func private @other_rows_kept(%x: tensor<?x32xf32>) -> tensor<?x64xf32> {
  %z = tensor.concat dim(1) %x, %x : (tensor<?x32xf32>, tensor<?x32xf32>) -> tensor<?x64xf32>
  return %z : tensor<?x64xf32>
}
