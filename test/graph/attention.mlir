// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Attention of graphs: the kernel through views, masks and types, and the loops that stand in for it, against the interpreter and over
// thread counts.
// RUN: %heddle verify %s | FileCheck %s
// CHECK: import reference, 11 inputs
// CHECK: binary NMSE
// RUN: %heddle verify %s --flash-tile=off | FileCheck %s

// No transpose becomes a copy, and every attention but that of f64 a kernel.
// RUN: %heddle compile %s -o %t.mlir --emit=mlir --stop-after=schedule --quiet && FileCheck %s --check-prefix=SCHEDULED < %t.mlir
// SCHEDULED-COUNT-7: heddle.flash_attention
// SCHEDULED-NOT: heddle.flash_attention

func.func @graph(%x: tensor<?x?x48xf32> {heddle.name = "x", heddle.dims = ["b", "n", ""]},
                 %memory: tensor<?x?x48xf32> {heddle.name = "memory", heddle.dims = ["b", "m", ""]},
                 %mask: tensor<?x1x1x?xf32> {heddle.name = "mask", heddle.dims = ["b", "", "", "m"]},
                 %packed: tensor<2x?x3x4x16xf32> {heddle.name = "packed", heddle.dims = ["", "n", "", "", ""]},
                 %turned: tensor<1x2x8x?xf32> {heddle.name = "turned", heddle.dims = ["", "", "", "m"]},
                 %sinks: tensor<2xf32> {heddle.name = "sinks"},
                 %halves: tensor<1x2x70x20xf16> {heddle.name = "halves"},
                 %brains: tensor<1x2x9x20xbf16> {heddle.name = "brains"},
                 %doubles: tensor<1x2x9x5xf64> {heddle.name = "doubles"},
                 %wide: tensor<1x2x9x16xf32> {heddle.name = "wide"},
                 %table: tensor<3x2xf32> {heddle.name = "table"})
    -> (tensor<?x?x48xf32> {heddle.name = "cross"}, tensor<2x?x64xf32> {heddle.name = "self"}, tensor<1x2x?x8xf32> {heddle.name = "copied"},
        tensor<1x2x70x20xf16> {heddle.name = "of_halves"}, tensor<1x2x9x20xbf16> {heddle.name = "of_brains"},
        tensor<1x2x9x5xf64> {heddle.name = "of_doubles"}, tensor<1x2x9x8xf32> {heddle.name = "every_other"},
        tensor<1x2x9x16xf32> {heddle.name = "bucketed"}) attributes {heddle.task = "graph"} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %c9 = arith.constant 9 : index
  %b = tensor.dim %x, %c0 : tensor<?x?x48xf32>
  %n = tensor.dim %x, %c1 : tensor<?x?x48xf32>
  %m = tensor.dim %memory, %c1 : tensor<?x?x48xf32>

  // Cross-attention of 6 heads that share 2, with a padding mask.
  %xs = tensor.expand_shape %x [[0], [1], [2, 3]] output_shape [%b, %n, 6, 8] : tensor<?x?x48xf32> into tensor<?x?x6x8xf32>
  %eq = tensor.empty(%b, %n) : tensor<?x6x?x8xf32>
  %q = linalg.transpose ins(%xs : tensor<?x?x6x8xf32>) outs(%eq : tensor<?x6x?x8xf32>) permutation = [0, 2, 1, 3]
  %bm = tensor.dim %memory, %c0 : tensor<?x?x48xf32>
  %keys = tensor.extract_slice %memory[0, 0, 0] [%bm, %m, 16] [1, 1, 1] : tensor<?x?x48xf32> to tensor<?x?x16xf32>
  %values = tensor.extract_slice %memory[0, 0, 32] [%bm, %m, 16] [1, 1, 1] : tensor<?x?x48xf32> to tensor<?x?x16xf32>
  %ks = tensor.expand_shape %keys [[0], [1], [2, 3]] output_shape [%bm, %m, 2, 8] : tensor<?x?x16xf32> into tensor<?x?x2x8xf32>
  %vs = tensor.expand_shape %values [[0], [1], [2, 3]] output_shape [%bm, %m, 2, 8] : tensor<?x?x16xf32> into tensor<?x?x2x8xf32>
  %ek = tensor.empty(%bm, %m) : tensor<?x2x?x8xf32>
  %k = linalg.transpose ins(%ks : tensor<?x?x2x8xf32>) outs(%ek : tensor<?x2x?x8xf32>) permutation = [0, 2, 1, 3]
  %v = linalg.transpose ins(%vs : tensor<?x?x2x8xf32>) outs(%ek : tensor<?x2x?x8xf32>) permutation = [0, 2, 1, 3]
  %o = heddle.attention %q, %k, %v bias(%mask : tensor<?x1x1x?xf32>) <full> {scale = 0.35}
    : tensor<?x6x?x8xf32>, tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32> -> tensor<?x6x?x8xf32>
  %eo = tensor.empty(%b, %n) : tensor<?x?x6x8xf32>
  %t = linalg.transpose ins(%o : tensor<?x6x?x8xf32>) outs(%eo : tensor<?x?x6x8xf32>) permutation = [0, 2, 1, 3]
  %cross = tensor.collapse_shape %t [[0], [1], [2, 3]] : tensor<?x?x6x8xf32> into tensor<?x?x48xf32>

  // Self-attention to parts of one projection, causal, in a window.
  %np = tensor.dim %packed, %c1 : tensor<2x?x3x4x16xf32>
  %ep = tensor.empty(%np) : tensor<3x2x4x?x16xf32>
  %tp = linalg.transpose ins(%packed : tensor<2x?x3x4x16xf32>) outs(%ep : tensor<3x2x4x?x16xf32>) permutation = [2, 0, 3, 1, 4]
  %pq = tensor.extract_slice %tp[0, 0, 0, 0, 0] [1, 2, 4, %np, 16] [1, 1, 1, 1, 1] : tensor<3x2x4x?x16xf32> to tensor<2x4x?x16xf32>
  %pk = tensor.extract_slice %tp[1, 0, 0, 0, 0] [1, 2, 4, %np, 16] [1, 1, 1, 1, 1] : tensor<3x2x4x?x16xf32> to tensor<2x4x?x16xf32>
  %pv = tensor.extract_slice %tp[2, 0, 0, 0, 0] [1, 2, 4, %np, 16] [1, 1, 1, 1, 1] : tensor<3x2x4x?x16xf32> to tensor<2x4x?x16xf32>
  %po = heddle.attention %pq, %pk, %pv <causal, window = 11> {scale = 0.25, softcap = 3.0}
    : tensor<2x4x?x16xf32>, tensor<2x4x?x16xf32>, tensor<2x4x?x16xf32> -> tensor<2x4x?x16xf32>
  %epo = tensor.empty(%np) : tensor<2x?x4x16xf32>
  %pt = linalg.transpose ins(%po : tensor<2x4x?x16xf32>) outs(%epo : tensor<2x?x4x16xf32>) permutation = [0, 2, 1, 3]
  %self = tensor.collapse_shape %pt [[0], [1], [2, 3]] : tensor<2x?x4x16xf32> into tensor<2x?x64xf32>

  // Keys whose head_dim is not the innermost; sinks.
  %mt = tensor.dim %turned, %c3 : tensor<1x2x8x?xf32>
  %et = tensor.empty(%mt) : tensor<1x2x?x8xf32>
  %tt = linalg.transpose ins(%turned : tensor<1x2x8x?xf32>) outs(%et : tensor<1x2x?x8xf32>) permutation = [0, 1, 3, 2]
  %copied = heddle.attention %tt, %tt, %tt sinks(%sinks : tensor<2xf32>) <full> {scale = 0.5}
    : tensor<1x2x?x8xf32>, tensor<1x2x?x8xf32>, tensor<1x2x?x8xf32> -> tensor<1x2x?x8xf32>

  %of_halves = heddle.attention %halves, %halves, %halves <causal> {scale = 0.2}
    : tensor<1x2x70x20xf16>, tensor<1x2x70x20xf16>, tensor<1x2x70x20xf16> -> tensor<1x2x70x20xf16>
  %of_brains = heddle.attention %brains, %brains, %brains <causal> {scale = 0.2}
    : tensor<1x2x9x20xbf16>, tensor<1x2x9x20xbf16>, tensor<1x2x9x20xbf16> -> tensor<1x2x9x20xbf16>
  %of_doubles = heddle.attention %doubles, %doubles, %doubles <causal, window = 4> {scale = 0.4, softcap = 2.0}
    : tensor<1x2x9x5xf64>, tensor<1x2x9x5xf64>, tensor<1x2x9x5xf64> -> tensor<1x2x9x5xf64>

  // Rows whose elements lie apart.
  %apart = tensor.extract_slice %wide[0, 0, 0, 0] [1, 2, 9, 8] [1, 1, 1, 2] : tensor<1x2x9x16xf32> to tensor<1x2x9x8xf32>
  %every_other = heddle.attention %apart, %apart, %apart <full> {scale = 0.4}
    : tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32>, tensor<1x2x9x8xf32> -> tensor<1x2x9x8xf32>
  %bias = heddle.position_bias %table[%c9, %c9] {starts = array<i64: -2, 1>, rows = array<i64: 2, 0, 1>} : tensor<3x2xf32> -> tensor<1x2x?x?xf32>
  %bucketed = heddle.attention %wide, %wide, %wide bias(%bias : tensor<1x2x?x?xf32>) <full> {scale = 0.3}
    : tensor<1x2x9x16xf32>, tensor<1x2x9x16xf32>, tensor<1x2x9x16xf32> -> tensor<1x2x9x16xf32>
  return %cross, %self, %copied, %of_halves, %of_brains, %of_doubles, %every_other, %bucketed : tensor<?x?x48xf32>, tensor<2x?x64xf32>,
    tensor<1x2x?x8xf32>, tensor<1x2x70x20xf16>, tensor<1x2x9x20xbf16>, tensor<1x2x9x5xf64>, tensor<1x2x9x8xf32>, tensor<1x2x9x16xf32>
}
