// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A product, a softmax and a loop that two others read.
module attributes {heddle.files = ["weights.bin"]} {
  func.func @graph(%x: tensor<?x32xf32> {heddle.name = "x", heddle.dims = ["n", ""]})
      -> (tensor<?x64xf32> {heddle.name = "probabilities"}, tensor<?x32xf32> {heddle.name = "z"}) {
    %c0 = arith.constant 0 : index
    %n = tensor.dim %x, %c0 : tensor<?x32xf32>
    %zero = arith.constant 0.0 : f32
    %w = heddle.weight "w" <type = "f32", file = 0, offset = 0> : tensor<32x64xf32>
    %e = math.exp %x : tensor<?x32xf32> loc("nodes/exp")
    %init = tensor.empty(%n) : tensor<?x64xf32>
    %start = linalg.fill ins(%zero : f32) outs(%init : tensor<?x64xf32>) -> tensor<?x64xf32>
    %y = linalg.matmul ins(%e, %w : tensor<?x32xf32>, tensor<32x64xf32>) outs(%start : tensor<?x64xf32>) -> tensor<?x64xf32> loc("nodes/product")
    %p = linalg.softmax dimension(1) ins(%y : tensor<?x64xf32>) outs(%init : tensor<?x64xf32>) -> tensor<?x64xf32> loc("nodes/softmax")
    %s = arith.mulf %e, %x : tensor<?x32xf32> loc("nodes/mul")
    %z = arith.addf %s, %x : tensor<?x32xf32> loc("nodes/add")
    return %p, %z : tensor<?x64xf32>, tensor<?x32xf32>
  }
}
