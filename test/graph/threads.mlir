// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A product that is shared among threads has the same bits whatever their number.
// RUN: %heddle compile %s -o %t --quiet
// RUN: %python %tools/graph_io.py %t --threads 1 > %t.1
// RUN: %python %tools/graph_io.py %t --threads 2 > %t.2 && cmp %t.1 %t.2
// RUN: %python %tools/graph_io.py %t --threads 3 > %t.3 && cmp %t.1 %t.3
// RUN: FileCheck %s < %t.1
// CHECK: corner F32[]
// CHECK-NEXT: checksum I32[]

#row = affine_map<(m, n, k) -> (m, k)>
#column = affine_map<(m, n, k) -> (k, n)>
#out = affine_map<(m, n, k) -> (m, n)>
func.func @graph() -> (tensor<f32> {heddle.name = "corner"}, tensor<i32> {heddle.name = "checksum"}) {
  %c130 = arith.constant 130 : index
  %c98 = arith.constant 98 : index
  %a = tensor.generate {
  ^bb0(%i: index, %j: index):
    %x = func.call @value(%i, %j) : (index, index) -> f32
    tensor.yield %x : f32
  } : tensor<131x260xf32>
  %b = tensor.generate {
  ^bb0(%i: index, %j: index):
    %x = func.call @value(%j, %i) : (index, index) -> f32
    tensor.yield %x : f32
  } : tensor<260x99xf32>
  %zeros = arith.constant dense<0.0> : tensor<131x99xf32>
  %product = linalg.contract indexing_maps = [#row, #column, #out]
    ins(%a, %b : tensor<131x260xf32>, tensor<260x99xf32>) outs(%zeros : tensor<131x99xf32>) -> tensor<131x99xf32>
  %bits = arith.bitcast %product : tensor<131x99xf32> to tensor<131x99xi32>
  %none = arith.constant dense<0> : tensor<i32>
  %sum = linalg.reduce { arith.addi } ins(%bits : tensor<131x99xi32>) outs(%none : tensor<i32>) dimensions = [0, 1]
  %last = tensor.extract %product[%c130, %c98] : tensor<131x99xf32>
  %corner = tensor.from_elements %last : tensor<f32>
  return %corner, %sum : tensor<f32>, tensor<i32>
}

func.func private @value(%i: index, %j: index) -> f32 {
  %c7 = arith.constant 7 : index
  %scaled = arith.muli %i, %c7 : index
  %k = arith.addi %scaled, %j : index
  %int = arith.index_cast %k : index to i32
  %x = arith.sitofp %int : i32 to f32
  %y = math.sin %x : f32
  return %y : f32
}
