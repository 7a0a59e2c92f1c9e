// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: split-file %s %t
// RUN: %heddle-opt %t/decoder.mlir --heddle-bind-decoder-inputs | FileCheck %s --check-prefix=DECODER
// RUN: %heddle-opt %t/graph.mlir --heddle-bind-decoder-inputs | FileCheck %s --check-prefix=GRAPH
// RUN: %heddle-opt %t/bits.mlir --heddle-bind-decoder-inputs | FileCheck %s --check-prefix=BITS

// Weights keep their 16 bits; constants, values and loops have 32, and no cast between them is left. What constants were rounded to is kept.
// DECODER: func.func @graph({{.*}}) -> (tensor<1x?x4xf32> {heddle.name = "logits"}) attributes {heddle.widened = bf16}
// DECODER-DAG: %[[EPS:.*]] = arith.constant 9.53674316E-7 : f32
// DECODER-DAG: heddle.weight "t" {{.*}} : tensor<6x4xbf16>
// DECODER-DAG: arith.extf %{{.*}} : tensor<6x4xbf16> to tensor<6x4xf32>
// DECODER: %[[X:.*]] = linalg.generic
// DECODER: tensor.extract %{{.*}} : tensor<6x4xf32>
// DECODER-NOT: arith.extf
// DECODER-NOT: arith.truncf
// DECODER: linalg.generic {{.*}} ins(%[[X]] : tensor<1x?x4xf32>)
// DECODER: ^bb0(%[[IN:.*]]: f32, %{{.*}}: f32):
// DECODER-NEXT: arith.addf %[[IN]], %[[EPS]] : f32
// DECODER: return %{{.*}} : tensor<1x?x4xf32>
//--- decoder.mlir
#id = affine_map<(b, s, d) -> (b, s, d)>
#ids = affine_map<(b, s, d) -> (b, s)>
func.func @graph(%ids: tensor<1x?xi32> {heddle.name = "input_ids"}) -> (tensor<1x?x4xbf16> {heddle.name = "logits"}) {
  %c1 = arith.constant 1 : index
  %eps = arith.constant 9.536743e-07 : bf16
  %n = tensor.dim %ids, %c1 : tensor<1x?xi32>
  %table = heddle.weight "t" <type = "bf16", file = 0, offset = 0> : tensor<6x4xbf16>
  %room = tensor.empty(%n) : tensor<1x?x4xbf16>
  %x = linalg.generic {indexing_maps = [#ids, #id], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%ids : tensor<1x?xi32>) outs(%room : tensor<1x?x4xbf16>) {
  ^bb0(%at: i32, %out: bf16):
    %row = arith.index_cast %at : i32 to index
    %d = linalg.index 2 : index
    %e = tensor.extract %table[%row, %d] : tensor<6x4xbf16>
    linalg.yield %e : bf16
  } -> tensor<1x?x4xbf16>
  %wide = arith.extf %x : tensor<1x?x4xbf16> to tensor<1x?x4xf32>
  %narrow = arith.truncf %wide : tensor<1x?x4xf32> to tensor<1x?x4xbf16>
  %init = tensor.empty(%n) : tensor<1x?x4xbf16>
  %y = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%narrow : tensor<1x?x4xbf16>) outs(%init : tensor<1x?x4xbf16>) {
  ^bb0(%in: bf16, %out: bf16):
    %moved = arith.addf %in, %eps : bf16
    linalg.yield %moved : bf16
  } -> tensor<1x?x4xbf16>
  return %y : tensor<1x?x4xbf16>
}

// What is no decoder is rounded as its graph says.
// GRAPH: arith.addf %{{.*}} : tensor<1x?x4xf16>
//--- graph.mlir
func.func @graph(%x: tensor<1x?x4xf16> {heddle.name = "x"}) -> (tensor<1x?x4xf16> {heddle.name = "logits"}) {
  %y = arith.addf %x, %x : tensor<1x?x4xf16>
  return %y : tensor<1x?x4xf16>
}

// The bits of a number are those of its type.
// BITS: arith.bitcast %{{.*}} : tensor<1x?x4xf16> to tensor<1x?x4xi16>
//--- bits.mlir
#id = affine_map<(b, s, d) -> (b, s, d)>
#ids = affine_map<(b, s, d) -> (b, s)>
func.func @graph(%ids: tensor<1x?xi32> {heddle.name = "input_ids"}) -> (tensor<1x?x4xf16> {heddle.name = "logits"}) {
  %table = heddle.weight "t" <type = "f16", file = 0, offset = 0> : tensor<6x4xf16>
  %c1 = arith.constant 1 : index
  %n = tensor.dim %ids, %c1 : tensor<1x?xi32>
  %room = tensor.empty(%n) : tensor<1x?x4xf16>
  %x = linalg.generic {indexing_maps = [#ids, #id], iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%ids : tensor<1x?xi32>) outs(%room : tensor<1x?x4xf16>) {
  ^bb0(%at: i32, %out: f16):
    %row = arith.index_cast %at : i32 to index
    %d = linalg.index 2 : index
    %e = tensor.extract %table[%row, %d] : tensor<6x4xf16>
    linalg.yield %e : f16
  } -> tensor<1x?x4xf16>
  %bits = arith.bitcast %x : tensor<1x?x4xf16> to tensor<1x?x4xi16>
  %y = arith.bitcast %bits : tensor<1x?x4xi16> to tensor<1x?x4xf16>
  return %y : tensor<1x?x4xf16>
}
