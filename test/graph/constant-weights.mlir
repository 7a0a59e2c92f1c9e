// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the module holds itself is in no file to pack from: matmuls, convolutions and rows of it are loops, sums with it no biases.
// RUN: %heddle compile %s --stop-after=optimize | FileCheck %s --check-prefix=OPTIMIZE
// RUN: %heddle verify %s | FileCheck %s --check-prefix=VERIFY
// OPTIMIZE-NOT: heddle.embedding
// OPTIMIZE-NOT: heddle.linear
// OPTIMIZE: arith.constant dense<{{.*}}> : tensor<4x3xf32>
// OPTIMIZE-NOT: heddle.embedding
// OPTIMIZE-NOT: heddle.linear
// VERIFY: binary {{.*}}NMSE
#x = affine_map<(n, i, m, c, k) -> (n, c, i + k)>
#w = affine_map<(n, i, m, c, k) -> (m, c, k)>
#y = affine_map<(n, i, m, c, k) -> (n, i, m)>
func.func @scores(%x: tensor<2x4xf32> {heddle.name = "x"}, %line: tensor<1x2x9xf32> {heddle.name = "line"},
                  %rows: tensor<5xi64> {heddle.name = "rows"})
    -> (tensor<2x3xf32> {heddle.name = "y"}, tensor<1x7x3xf32> {heddle.name = "filtered"}, tensor<5x3xf32> {heddle.name = "picked"}) {
  %w = arith.constant dense<[[1.0, -2.0, 0.5], [0.25, 3.0, -1.0], [2.0, 0.0, 1.5], [-0.5, 1.0, 4.0]]> : tensor<4x3xf32>
  %b = arith.constant dense<[0.5, -1.5, 3.0]> : tensor<3xf32>
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<2x3xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<2x3xf32>) -> tensor<2x3xf32>
  %product = linalg.matmul ins(%x, %w : tensor<2x4xf32>, tensor<4x3xf32>) outs(%init : tensor<2x3xf32>) -> tensor<2x3xf32>
  %bs = linalg.broadcast ins(%b : tensor<3xf32>) outs(%empty : tensor<2x3xf32>) dimensions = [0]
  %y = arith.addf %product, %bs : tensor<2x3xf32>

  %filter = arith.constant dense<[[[1.0, -1.0, 0.5], [0.25, 0.0, 2.0]], [[0.5, 0.5, 0.5], [-1.0, 3.0, 1.0]], [[0.0, 2.0, -2.0], [1.0, 1.0, 0.125]]]> : tensor<3x2x3xf32>
  %start = arith.constant dense<0.0> : tensor<1x7x3xf32>
  %filtered = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
      ins(%line, %filter : tensor<1x2x9xf32>, tensor<3x2x3xf32>) outs(%start : tensor<1x7x3xf32>) {
  ^bb0(%a: f32, %f: f32, %o: f32):
    %p = arith.mulf %a, %f : f32
    %s = arith.addf %o, %p : f32
    linalg.yield %s : f32
  } -> tensor<1x7x3xf32>

  %room = tensor.empty() : tensor<5x3xf32>
  %picked = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%rows : tensor<5xi64>) outs(%room : tensor<5x3xf32>) {
  ^bb0(%row: i64, %o: f32):
    %c4 = arith.constant 4 : i64
    %in = arith.remui %row, %c4 : i64
    %at = arith.index_cast %in : i64 to index
    %column = linalg.index 1 : index
    %value = tensor.extract %w[%at, %column] : tensor<4x3xf32>
    linalg.yield %value : f32
  } -> tensor<5x3xf32>
  return %y, %filtered, %picked : tensor<2x3xf32>, tensor<1x7x3xf32>, tensor<5x3xf32>
}
