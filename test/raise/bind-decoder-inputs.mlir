// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: split-file %s %t
// RUN: %heddle-opt %t/decoder.mlir --heddle-bind-decoder-inputs | FileCheck %s --check-prefix=DECODER
// RUN: %heddle-opt %t/cache.mlir --heddle-bind-decoder-inputs | FileCheck %s --check-prefix=CACHE
// RUN: %heddle-opt %t/cache.mlir --heddle-form-forward 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: %heddle-opt %t/decoder.mlir --heddle-form-forward 2>&1 | FileCheck %s --check-prefix=UNBOUND

// DECODER: func.func @graph(%[[IDS:.*]]: tensor<1x?xi64> {heddle.name = "input_ids"}) -> (tensor<1x?x4xf32>
// DECODER-DAG: linalg.index 1
// DECODER-DAG: arith.constant 1 : i64
// DECODER: %[[SUM:.*]] = arith.addi
// DECODER: arith.addi %[[IDS]], %[[SUM]]
// UNBOUND: remark: no generate: its inputs beside input_ids are not bound
//--- decoder.mlir
func.func @graph(%mask: tensor<?x?xi64> {heddle.name = "attention_mask"}, %ids: tensor<1x?xi64> {heddle.name = "input_ids"},
                 %positions: tensor<1x?xi64> {heddle.name = "position_ids"}) -> (tensor<1x?x4xf32> {heddle.name = "logits"}) {
  %seen = tensor.cast %mask : tensor<?x?xi64> to tensor<1x?xi64>
  %sum = arith.addi %seen, %positions : tensor<1x?xi64>
  %all = arith.addi %ids, %sum : tensor<1x?xi64>
  %table = heddle.weight "t" <type = "f32", file = 0, offset = 0> : tensor<6x4xf32>
  %narrow = arith.trunci %all : tensor<1x?xi64> to tensor<1x?xi32>
  %x = heddle.embedding %narrow, %table : tensor<1x?xi32>, tensor<6x4xf32> -> tensor<1x?x4xf32>
  return %x : tensor<1x?x4xf32>
}

// A graph with other inputs stays one.
// CACHE: %{{.*}}: tensor<1x?x4xf32> {heddle.name = "past_key_values.0.key"}
// REMARK: remark: no generate: its input 'past_key_values.0.key' is none of input_ids, attention_mask and position_ids
//--- cache.mlir
func.func @graph(%ids: tensor<1x?xi64> {heddle.name = "input_ids"}, %past: tensor<1x?x4xf32> {heddle.name = "past_key_values.0.key"})
    -> (tensor<1x?x4xf32> {heddle.name = "logits"}) {
  return %past : tensor<1x?x4xf32>
}
