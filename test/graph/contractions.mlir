// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Products with a stored weight, softmax, a convolution, sums of 16-bit floats.
// RUN: rm -rf %t && mkdir %t && cp %s %t/model.mlir
// RUN: %python -c "import array; array.array('f', [9, 1, 2, 3, 4]).tofile(open(r'%t/w.bin', 'wb'))"
// RUN: %heddle compile %t/model.mlir -o %t/model --quiet
// RUN: %python %tools/graph_io.py %t/model x=F32[3,2]:1,0,0,1,1,1 image=F32[1,1,4]:1,2,3,4 ones=F16[4096,1]:1 | FileCheck %s
// RUN: %t/model --check | FileCheck %s --check-prefix=HASHES
// RUN: %heddle compile %t/model.mlir -o %t/side --quiet --sidecar
// RUN: %python %tools/graph_io.py %t/side x=F32[3,2]:1,0,0,1,1,1 image=F32[1,1,4]:1,2,3,4 ones=F16[4096,1]:1 | FileCheck %s
// CHECK: product F32[3,2] 1 2 3 4 4 6
// CHECK-NEXT: shares F32[3,2] 0.2689 0.7311 0.2689 0.7311 0.1192 0.8808
// CHECK-NEXT: filtered F32[1,1,3] -1 -1 -1
// CHECK-NEXT: count F16[1,1] 4096
// HASHES: weights: all hashes match

module attributes {heddle.files = ["w.bin"]} {
  func.func @graph(%x: tensor<?x2xf32> {heddle.name = "x", heddle.dims = ["rows", ""]}, %image: tensor<1x1x?xf32> {heddle.name = "image"},
                   %ones: tensor<?x1xf16> {heddle.name = "ones"})
      -> (tensor<?x2xf32> {heddle.name = "product"}, tensor<?x2xf32> {heddle.name = "shares"}, tensor<1x1x?xf32> {heddle.name = "filtered"},
          tensor<1x1xf16> {heddle.name = "count"}) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %zero = arith.constant 0.0 : f32
    %rows = tensor.dim %x, %c0 : tensor<?x2xf32>
    %w = heddle.weight "w" <type = "f32", file = 0, offset = 4> : tensor<2x2xf32>
    %room = tensor.empty(%rows) : tensor<?x2xf32>
    %zeros = linalg.fill ins(%zero : f32) outs(%room : tensor<?x2xf32>) -> tensor<?x2xf32>
    %product = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>]
      ins(%x, %w : tensor<?x2xf32>, tensor<2x2xf32>) outs(%zeros : tensor<?x2xf32>) -> tensor<?x2xf32>
    %shares = linalg.softmax dimension(1) ins(%product : tensor<?x2xf32>) outs(%room : tensor<?x2xf32>) -> tensor<?x2xf32>
    %filter = arith.constant dense<[[[1.0, -1.0]]]> : tensor<1x1x2xf32>
    %length = tensor.dim %image, %c2 : tensor<1x1x?xf32>
    %out = arith.subi %length, %c1 : index
    %line = tensor.empty(%out) : tensor<1x1x?xf32>
    %line0 = linalg.fill ins(%zero : f32) outs(%line : tensor<1x1x?xf32>) -> tensor<1x1x?xf32>
    %filtered = linalg.conv_1d_ncw_fcw {dilations = dense<1> : tensor<1xi64>, strides = dense<1> : tensor<1xi64>}
      ins(%image, %filter : tensor<1x1x?xf32>, tensor<1x1x2xf32>) outs(%line0 : tensor<1x1x?xf32>) -> tensor<1x1x?xf32>
    %none = arith.constant dense<0.0> : tensor<1x1xf16>
    %count = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (k, m)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>]
      ins(%ones, %ones : tensor<?x1xf16>, tensor<?x1xf16>) outs(%none : tensor<1x1xf16>) -> tensor<1x1xf16>
    return %product, %shares, %filtered, %count : tensor<?x2xf32>, tensor<?x2xf32>, tensor<1x1x?xf32>, tensor<1x1xf16>
  }
}
