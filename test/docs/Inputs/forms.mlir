// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An attention by its parts, as compiler/verify/README.md's commands take it.
#q = affine_map<(b, h, i, j, d) -> (b, h, i, d)>
#k = affine_map<(b, h, i, j, d) -> (b, h, j, d)>
#s = affine_map<(b, h, i, j, d) -> (b, h, i, j)>
#p = affine_map<(b, h, i, d, j) -> (b, h, i, j)>
#v = affine_map<(b, h, i, d, j) -> (b, h, j, d)>
#o = affine_map<(b, h, i, d, j) -> (b, h, i, d)>
func.func @masked_by_a_constant(%q: tensor<1x2x3x8xf32>, %k: tensor<1x2x3x8xf32>, %v: tensor<1x2x3x8xf32>) -> tensor<1x2x3x8xf32> {
  %zero = arith.constant dense<0.0> : tensor<1x2x3x3xf32>
  %quarter = arith.constant dense<0.25> : tensor<1x2x3x3xf32>
  %triangle = arith.constant dense<[[0.0, -3.0e38, -3.0e38], [0.0, 0.0, -3.0e38], [0.0, 0.0, 0.0]]> : tensor<3x3xf32>
  %init = tensor.empty() : tensor<1x2x3x3xf32>
  %s = linalg.contract indexing_maps = [#q, #k, #s] ins(%q, %k : tensor<1x2x3x8xf32>, tensor<1x2x3x8xf32>)
    outs(%zero : tensor<1x2x3x3xf32>) -> tensor<1x2x3x3xf32>
  %scaled = arith.mulf %s, %quarter : tensor<1x2x3x3xf32>
  %mask = linalg.broadcast ins(%triangle : tensor<3x3xf32>) outs(%init : tensor<1x2x3x3xf32>) dimensions = [0, 1]
  %masked = arith.addf %scaled, %mask : tensor<1x2x3x3xf32>
  %p = linalg.softmax dimension(3) ins(%masked : tensor<1x2x3x3xf32>) outs(%init : tensor<1x2x3x3xf32>) -> tensor<1x2x3x3xf32>
  %start = arith.constant dense<0.0> : tensor<1x2x3x8xf32>
  %o = linalg.contract indexing_maps = [#p, #v, #o] ins(%p, %v : tensor<1x2x3x3xf32>, tensor<1x2x3x8xf32>)
    outs(%start : tensor<1x2x3x8xf32>) -> tensor<1x2x3x8xf32>
  return %o : tensor<1x2x3x8xf32>
}
