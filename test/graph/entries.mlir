// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One file, two entries: @encoder gives the memory of a sequence, @decode attends to it from a query. Each agrees with the
// reference interpreter; what both store is there once, and so is the kernel that both launch; the binary runs the one that is named, and says which there are.
// RUN: rm -rf %t && mkdir %t && cp %s %t/pair.mlir && %python -c "import array, sys; array.array('f', [(i * 7 % 23 - 11) / 8 for i in range(256)]).tofile(open(sys.argv[1], 'wb'))" %t/w.bin
// RUN: %heddle verify %t/pair.mlir | FileCheck %s --check-prefix=VERIFY
// RUN: %heddle verify %t/pair.mlir --entry=decode --seed=3 | FileCheck %s --check-prefix=VERIFY
// VERIFY: binary NMSE
// RUN: not %heddle verify %t/pair.mlir --entry=main 2>&1 | FileCheck %s --check-prefix=NO-ENTRY
// NO-ENTRY: heddle: error: {{.*}}--entry: the model has no entry 'main'
// RUN: %heddle compile %t/pair.mlir -o %t/pair --quiet --report=%t/report.json
// RUN: %t/pair --info | FileCheck %s --check-prefix=INFO
// INFO: weights 1024 bytes
// INFO: entry encoder
// INFO-NEXT: input x F32
// INFO-NEXT: output memory F32
// INFO-NEXT: entry decode
// INFO-NEXT: input q F32
// INFO: output y F32
// INFO: kernel matmul_{{.*}}, 2 calls)
// INFO: kernel flash_attention_h1_kv1_d16_{{.*}}, 1 calls)
// RUN: %heddle inspect %t/pair --json | FileCheck %s --check-prefix=INSPECT
// INSPECT: "entries":
// INSPECT: "name": "encoder"
// INSPECT: "name": "decode"
// RUN: %heddle compile %t/pair.mlir -o %t/pair.ll --emit=llvm && FileCheck %s --check-prefix=ONCE --input-file=%t/pair.ll
// ONCE-COUNT-1: define {{.*}}@matmul_f32_n16_k16(
// ONCE-NOT: define {{.*}}@matmul_f32_n16_k16(
// RUN: FileCheck %s --check-prefix=REPORT --input-file=%t/report.json
// REPORT: "name": "encoder"
// REPORT: "name": "decode"
// RUN: %python %tools/graph_io.py %t/pair x=F32[2,16]:0 | FileCheck %s --check-prefix=FIRST
// FIRST: memory F32[2,16] 0 0
// RUN: %python %tools/graph_io.py %t/pair q=F32[1,16]:1 memory=F32[3,16]:0.5 --entry decode | FileCheck %s --check-prefix=SECOND
// SECOND: y F32[1,16] 0.5 0.5
// Without --entry each runs that has its inputs, @decode on what @encoder gave where that is not given.
// RUN: %python %tools/graph_io.py %t/pair x=F32[2,16]:0 q=F32[1,16]:1 | FileCheck %s --check-prefix=BOTH
// BOTH: memory F32[2,16] 0 0
// BOTH: y F32[1,16] 0 0
// RUN: %python %tools/graph_io.py %t/pair q=F32[1,16]:1 memory=F32[3,16]:0.5 | FileCheck %s --check-prefix=LATTER
// LATTER-NOT: memory
// LATTER: y F32[1,16] 0.5 0.5
// RUN: not %python %tools/graph_io.py %t/pair q=F32[1,16]:1 2>&1 | FileCheck %s --check-prefix=LACKS
// LACKS: no tensor 'memory', which goes with 'q'
// RUN: not %python %tools/graph_io.py %t/pair x=F32[2,16]:0 memory=F32[3,16]:0.5 2>&1 | FileCheck %s --check-prefix=CLASH
// CLASH: tensor 'memory' is computed from others that are there: expected one
// RUN: %t/pair --bench --entry=decode --dims past=5 --rounds 1 --json | FileCheck %s --check-prefix=BENCH
// BENCH: "seconds"
// RUN: %python %tools/expect_refusal.py %t/out "--entry: 'main' is no entry of this model .encoder, decode." %t/pair --bench --entry=main
// RUN: %t/pair --help | FileCheck %s --check-prefix=HELP
// HELP: --entry NAME
// HELP: Inputs of encoder:
// HELP: Outputs of decode:

module attributes {heddle.files = ["w.bin"]} {
  func.func @encoder(%x: tensor<?x16xf32> {heddle.name = "x", heddle.dims = ["sequence", ""]})
      -> (tensor<?x16xf32> {heddle.name = "memory"}) {
    %wk = heddle.weight "k" <type = "f32", file = 0, offset = 0> : tensor<16x16xf32>
    %k = heddle.linear %x, weights(%wk : tensor<16x16xf32>) : tensor<?x16xf32> -> tensor<?x16xf32>
    return %k : tensor<?x16xf32>
  }
  func.func @decode(%q: tensor<?x16xf32> {heddle.name = "q", heddle.dims = ["rows", ""]},
                    %k: tensor<?x16xf32> {heddle.name = "memory", heddle.dims = ["past", ""]})
      -> (tensor<?x16xf32> {heddle.name = "y"}) {
    %c0 = arith.constant 0 : index
    %n = tensor.dim %q, %c0 : tensor<?x16xf32>
    %m = tensor.dim %k, %c0 : tensor<?x16xf32>
    %wk = heddle.weight "k" <type = "f32", file = 0, offset = 0> : tensor<16x16xf32>
    %r = heddle.linear %q, weights(%wk : tensor<16x16xf32>) : tensor<?x16xf32> -> tensor<?x16xf32>
    %q4 = tensor.expand_shape %r [[0, 1, 2], [3]] output_shape [1, 1, %n, 16] : tensor<?x16xf32> into tensor<1x1x?x16xf32>
    %k4 = tensor.expand_shape %k [[0, 1, 2], [3]] output_shape [1, 1, %m, 16] : tensor<?x16xf32> into tensor<1x1x?x16xf32>
    %a = heddle.attention %q4, %k4, %k4 <full> {scale = 0.25} : tensor<1x1x?x16xf32>, tensor<1x1x?x16xf32>, tensor<1x1x?x16xf32> -> tensor<1x1x?x16xf32>
    %y = tensor.collapse_shape %a [[0, 1, 2], [3]] : tensor<1x1x?x16xf32> into tensor<?x16xf32>
    return %y : tensor<?x16xf32>
  }
}
