// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Attention written out in linalg goes through the same raise stage as an ONNX file's: stored matrices are packed, the softmax is tiled.
// RUN: rm -rf %t && mkdir %t && cp %s %t/model.mlir
// RUN: %python -c "import array, math; array.array('f', [math.sin(i * i) / 4 for i in range(1024)]).tofile(open(r'%t/w.bin', 'wb'))"
// RUN: %heddle compile %t/model.mlir --stop-after=raise -o %t/raised.mlir --quiet && FileCheck %s --check-prefix=RAISED < %t/raised.mlir
// RUN: %heddle-opt %t/model.mlir --heddle-raise | FileCheck %s --check-prefix=RAISED
// RUN: %heddle compile %t/model.mlir -o %t/model --quiet --report=%t/report.json && FileCheck %s --check-prefix=REPORT < %t/report.json
// RUN: %t/model --profile --dims s=40 --rounds 2 --json | FileCheck %s --check-prefix=PROFILE
// RUN: %t/model --profile --dims s=40 --rounds 2 | FileCheck %s --check-prefix=TABLE
// RUN: %heddle verify %t/model.mlir | FileCheck %s --check-prefix=VERIFY
// RAISED-COUNT-3: heddle.linear
// RAISED-NOT: linalg.softmax
// RAISED: heddle.attention {{.*}} <full> {scale = 0.353553
// RAISED: heddle.linear
// RAISED-NOT: {{linalg.matmul|linalg.batch_matmul|heddle.linear}}
// REPORT: "launches"
// REPORT: "kernel": "packed_matmul"
// REPORT: "kernel": "attention"
// REPORT: "kernel": "packed_matmul"
// Of 40 rows: 2 * 40 * (48 + 16) * 16 operations of matrices; 2 heads, 40 x 40 scores of 8 products each, and as many sums.
// PROFILE: "peak_bytes": {{[0-9]+}},"peaks":{"f32":{{.*}}"profile":{"seconds":{{.*}}"classes":[{"name":"matmul",
// PROFILE-SAME: "launches":2,"bytes":{{[1-9][0-9]*}},"flops":81920,
// PROFILE-SAME: {"name":"attention",{{[^}]*}}"launches":1,{{[^}]*}}"flops":102400,
// PROFILE-SAME: {"name":"loops",
// PROFILE-SAME: "kernels":[{"name":"matmul_
// TABLE: best of 2 runs
// TABLE: run: {{.*}} ms: kernels {{.*}} %, waiting for other threads 0.0 %, outside
// TABLE: {{[0-9.]+}} %  matmul
// VERIFY: raise {{.*}}NMSE
// VERIFY: binary {{.*}}NMSE

module attributes {heddle.files = ["w.bin"]} {
  func.func @block(%x: tensor<1x?x16xf32> {heddle.name = "x", heddle.dims = ["", "s", ""]}) -> (tensor<1x?x16xf32> {heddle.name = "y"}) {
    %c1 = arith.constant 1 : index
    %zero = arith.constant 0.0 : f32
    %s = tensor.dim %x, %c1 : tensor<1x?x16xf32>
    %wq = heddle.weight "wq" <type = "f32", file = 0, offset = 0> : tensor<16x16xf32>
    %wk = heddle.weight "wk" <type = "f32", file = 0, offset = 1024> : tensor<16x16xf32>
    %wv = heddle.weight "wv" <type = "f32", file = 0, offset = 2048> : tensor<16x16xf32>
    %wo = heddle.weight "wo" <type = "f32", file = 0, offset = 3072> : tensor<16x16xf32>
    %rows = tensor.collapse_shape %x [[0, 1], [2]] : tensor<1x?x16xf32> into tensor<?x16xf32>
    %e = tensor.empty(%s) : tensor<?x16xf32>
    %z = linalg.fill ins(%zero : f32) outs(%e : tensor<?x16xf32>) -> tensor<?x16xf32>
    %q = linalg.matmul ins(%rows, %wq : tensor<?x16xf32>, tensor<16x16xf32>) outs(%z : tensor<?x16xf32>) -> tensor<?x16xf32>
    %k = linalg.matmul ins(%rows, %wk : tensor<?x16xf32>, tensor<16x16xf32>) outs(%z : tensor<?x16xf32>) -> tensor<?x16xf32>
    %v = linalg.matmul ins(%rows, %wv : tensor<?x16xf32>, tensor<16x16xf32>) outs(%z : tensor<?x16xf32>) -> tensor<?x16xf32>
    %q4 = tensor.expand_shape %q [[0], [1, 2]] output_shape [%s, 2, 8] : tensor<?x16xf32> into tensor<?x2x8xf32>
    %k4 = tensor.expand_shape %k [[0], [1, 2]] output_shape [%s, 2, 8] : tensor<?x16xf32> into tensor<?x2x8xf32>
    %v4 = tensor.expand_shape %v [[0], [1, 2]] output_shape [%s, 2, 8] : tensor<?x16xf32> into tensor<?x2x8xf32>
    %eh = tensor.empty(%s) : tensor<2x?x8xf32>
    %et = tensor.empty(%s) : tensor<2x8x?xf32>
    %qh = linalg.transpose ins(%q4 : tensor<?x2x8xf32>) outs(%eh : tensor<2x?x8xf32>) permutation = [1, 0, 2]
    %kh = linalg.transpose ins(%k4 : tensor<?x2x8xf32>) outs(%et : tensor<2x8x?xf32>) permutation = [1, 2, 0]
    %vh = linalg.transpose ins(%v4 : tensor<?x2x8xf32>) outs(%eh : tensor<2x?x8xf32>) permutation = [1, 0, 2]
    %es = tensor.empty(%s, %s) : tensor<2x?x?xf32>
    %zs = linalg.fill ins(%zero : f32) outs(%es : tensor<2x?x?xf32>) -> tensor<2x?x?xf32>
    %scores = linalg.batch_matmul ins(%qh, %kh : tensor<2x?x8xf32>, tensor<2x8x?xf32>) outs(%zs : tensor<2x?x?xf32>) -> tensor<2x?x?xf32>
    %scale = arith.constant 0.35355339 : f32
    %scales = linalg.fill ins(%scale : f32) outs(%es : tensor<2x?x?xf32>) -> tensor<2x?x?xf32>
    %scaled = linalg.mul ins(%scores, %scales : tensor<2x?x?xf32>, tensor<2x?x?xf32>) outs(%es : tensor<2x?x?xf32>) -> tensor<2x?x?xf32>
    %p = linalg.softmax dimension(2) ins(%scaled : tensor<2x?x?xf32>) outs(%es : tensor<2x?x?xf32>) -> tensor<2x?x?xf32>
    %zo = linalg.fill ins(%zero : f32) outs(%eh : tensor<2x?x8xf32>) -> tensor<2x?x8xf32>
    %o = linalg.batch_matmul ins(%p, %vh : tensor<2x?x?xf32>, tensor<2x?x8xf32>) outs(%zo : tensor<2x?x8xf32>) -> tensor<2x?x8xf32>
    %er = tensor.empty(%s) : tensor<?x2x8xf32>
    %ot = linalg.transpose ins(%o : tensor<2x?x8xf32>) outs(%er : tensor<?x2x8xf32>) permutation = [1, 0, 2]
    %or = tensor.collapse_shape %ot [[0], [1, 2]] : tensor<?x2x8xf32> into tensor<?x16xf32>
    %y = linalg.matmul ins(%or, %wo : tensor<?x16xf32>, tensor<16x16xf32>) outs(%z : tensor<?x16xf32>) -> tensor<?x16xf32>
    %y3 = tensor.expand_shape %y [[0, 1], [2]] output_shape [1, %s, 16] : tensor<?x16xf32> into tensor<1x?x16xf32>
    return %y3 : tensor<1x?x16xf32>
  }
}
