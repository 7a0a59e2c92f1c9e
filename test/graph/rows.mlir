// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rows that several ops walk, of sizes that fill no vector: softmax, a norm, sums and maxima over any axis, what is computed with them.
// The compiled graph agrees with the reference interpreter, and the number of threads changes no bit.
// RUN: %heddle verify %s
// RUN: %heddle compile %s -o %t --quiet
// RUN: %python %tools/graph_io.py %t --threads 1 > %t.1
// RUN: %python %tools/graph_io.py %t --threads 2 > %t.2 && cmp %t.1 %t.2
// RUN: %python %tools/graph_io.py %t --threads 3 > %t.3 && cmp %t.1 %t.3
// RUN: FileCheck %s < %t.1
// CHECK: softmax F32[
// CHECK-NEXT: norm F32[

#all = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
#column = affine_map<(i, j) -> (j)>
func.func @graph() -> (tensor<197x197xf32> {heddle.name = "softmax"}, tensor<197x197xf32> {heddle.name = "norm"},
                       tensor<197xf32> {heddle.name = "columns"}, tensor<197xf32> {heddle.name = "top"}, tensor<197xi32> {heddle.name = "counts"},
                       tensor<197x197xi1> {heddle.name = "positive"}, tensor<197x197xf32> {heddle.name = "turned"}, tensor<f64> {heddle.name = "all"})
    attributes {heddle.task = "graph"} {
  %zero = arith.constant 0.0 : f32
  %low = arith.constant 0xFF800000 : f32
  %none = arith.constant 0 : i32
  %width = arith.constant 197.0 : f32
  %x = tensor.generate {
  ^bb0(%i: index, %j: index):
    %c7 = arith.constant 7 : index
    %scaled = arith.muli %i, %c7 : index
    %k = arith.addi %scaled, %j : index
    %int = arith.index_cast %k : index to i32
    %real = arith.sitofp %int : i32 to f32
    %y = math.sin %real : f32
    tensor.yield %y : f32
  } : tensor<197x197xf32>
  %room = tensor.empty() : tensor<197x197xf32>
  %softmax = linalg.softmax dimension(1) ins(%x : tensor<197x197xf32>) outs(%room : tensor<197x197xf32>) -> tensor<197x197xf32>

  %line = tensor.empty() : tensor<197xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%line : tensor<197xf32>) -> tensor<197xf32>
  %sums = linalg.reduce { arith.addf } ins(%x : tensor<197x197xf32>) outs(%zeros : tensor<197xf32>) dimensions = [1]
  %centered = linalg.generic {indexing_maps = [#all, #row, #all], iterator_types = ["parallel", "parallel"]}
      ins(%x, %sums : tensor<197x197xf32>, tensor<197xf32>) outs(%room : tensor<197x197xf32>) {
    ^bb0(%a: f32, %sum: f32, %o: f32):
      %mean = arith.divf %sum, %width : f32
      %t = arith.subf %a, %mean : f32
      linalg.yield %t : f32
  } -> tensor<197x197xf32>
  %squares = arith.mulf %centered, %centered : tensor<197x197xf32>
  %variances = linalg.reduce { arith.addf } ins(%squares : tensor<197x197xf32>) outs(%zeros : tensor<197xf32>) dimensions = [1]
  %norm = linalg.generic {indexing_maps = [#all, #row, #column, #all], iterator_types = ["parallel", "parallel"]}
      ins(%centered, %variances, %sums : tensor<197x197xf32>, tensor<197xf32>, tensor<197xf32>) outs(%room : tensor<197x197xf32>) {
    ^bb0(%a: f32, %variance: f32, %beside: f32, %o: f32):
      %r = math.rsqrt %variance : f32
      %y = arith.mulf %a, %r : f32
      %z = arith.addf %y, %beside : f32
      linalg.yield %z : f32
  } -> tensor<197x197xf32>
  %columns = linalg.reduce { arith.addf } ins(%norm : tensor<197x197xf32>) outs(%zeros : tensor<197xf32>) dimensions = [0]
  %lows = linalg.fill ins(%low : f32) outs(%line : tensor<197xf32>) -> tensor<197xf32>
  %top = linalg.reduce { arith.maximumf } ins(%norm : tensor<197x197xf32>) outs(%lows : tensor<197xf32>) dimensions = [1]

  %flags = tensor.empty() : tensor<197x197xi1>
  %positive = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%norm : tensor<197x197xf32>) outs(%flags : tensor<197x197xi1>) {
    ^bb0(%a: f32, %o: i1):
      %p = arith.cmpf ogt, %a, %zero : f32
      linalg.yield %p : i1
  } -> tensor<197x197xi1>
  %integers = tensor.empty() : tensor<197xi32>
  %nothing = linalg.fill ins(%none : i32) outs(%integers : tensor<197xi32>) -> tensor<197xi32>
  %counts = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]}
      ins(%positive : tensor<197x197xi1>) outs(%nothing : tensor<197xi32>) {
    ^bb0(%p: i1, %o: i32):
      %one = arith.extui %p : i1 to i32
      %c = arith.addi %o, %one : i32
      linalg.yield %c : i32
  } -> tensor<197xi32>
  %turned = linalg.generic {indexing_maps = [affine_map<(i, j) -> (j, i)>, #all, #all], iterator_types = ["parallel", "parallel"]}
      ins(%norm, %x : tensor<197x197xf32>, tensor<197x197xf32>) outs(%room : tensor<197x197xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %e = math.erf %a : f32
      %t = arith.mulf %e, %b : f32
      linalg.yield %t : f32
  } -> tensor<197x197xf32>
  %wide = arith.extf %turned : tensor<197x197xf32> to tensor<197x197xf64>
  %start = arith.constant dense<0.0> : tensor<f64>
  %all = linalg.reduce { arith.addf } ins(%wide : tensor<197x197xf64>) outs(%start : tensor<f64>) dimensions = [0, 1]
  return %softmax, %norm, %columns, %top, %counts, %positive, %turned, %all
    : tensor<197x197xf32>, tensor<197x197xf32>, tensor<197xf32>, tensor<197xf32>, tensor<197xi32>, tensor<197x197xi1>, tensor<197x197xf32>, tensor<f64>
}
