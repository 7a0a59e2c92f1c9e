// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: split-file %s %t
// RUN: %heddle-opt %t/causal.mlir --heddle-form-forward --canonicalize --cse | FileCheck %s --check-prefix=CAUSAL
// RUN: %heddle-opt %t/full.mlir --heddle-form-forward | FileCheck %s --check-prefix=FULL
// RUN: %heddle-opt %t/skipped.mlir --heddle-form-forward 2>&1 | FileCheck %s --check-prefix=SKIPPED
// RUN: %heddle-opt %t/within.mlir --heddle-form-forward 2>&1 | FileCheck %s --check-prefix=WITHIN
// RUN: %heddle-opt %t/positions.mlir --heddle-form-forward --canonicalize --cse | FileCheck %s --check-prefix=POSITIONS
// RUN: sed 's/step = arith.constant 1/step = arith.constant 2/' %t/positions.mlir | %heddle-opt --heddle-form-forward 2>&1 | FileCheck %s --check-prefix=EVEN
// RUN: sed 's/heddle.linear %z/heddle.linear %y/' %t/positions.mlir | %heddle-opt --heddle-form-forward 2>&1 | FileCheck %s --check-prefix=BARE
// RUN: %heddle-opt %t/joined.mlir --heddle-form-forward --canonicalize --cse | FileCheck %s --check-prefix=JOINED

// Weights become arguments of the layer, the batch is open, positions are an argument.
// CAUSAL-LABEL: func.func private @layer_0(
// CAUSAL-SAME: %[[X:.*]]: tensor<?x?x4xf32>, %[[AT:.*]]: tensor<?x?xi32>, %[[W:.*]]: tensor<4xf32>) -> tensor<?x?x4xf32>
// CAUSAL: %[[N:.*]] = heddle.rms_norm %[[X]], %[[W]]
// CAUSAL: heddle.attention {{.*}} <causal>
// CAUSAL: arith.addf %[[X]], %{{.*}} : tensor<?x?x4xf32>
// CAUSAL-LABEL: func.func @forward(
// CAUSAL-SAME: %[[IDS:.*]]: tensor<?x?xi32>, %[[AT:.*]]: tensor<?x?xi32>) -> tensor<?x?x6xf32>
// CAUSAL: %[[X:.*]] = heddle.embedding %[[IDS]]
// CAUSAL: call @layer_0(%[[X]], %[[AT]], %{{.*}})
// CAUSAL-NOT: @graph
//--- causal.mlir
func.func @graph(%ids: tensor<1x?xi64> {heddle.name = "input_ids"}) -> (tensor<1x?x6xf32> {heddle.name = "logits"}) {
  %c1 = arith.constant 1 : index
  %n = tensor.dim %ids, %c1 : tensor<1x?xi64>
  %narrow = arith.trunci %ids : tensor<1x?xi64> to tensor<1x?xi32>
  %table = heddle.weight "t" <type = "f32", file = 0, offset = 0> : tensor<6x4xf32>
  %w = heddle.weight "w" <type = "f32", file = 0, offset = 96> {heddle.content = dense<1.0> : tensor<4xf32>} : tensor<4xf32>
  %x = heddle.embedding %narrow, %table : tensor<1x?xi32>, tensor<6x4xf32> -> tensor<1x?x4xf32>
  %a = heddle.rms_norm %x, %w {eps = 1.0e-6 : f64} : tensor<1x?x4xf32>, tensor<4xf32>
  %e = tensor.expand_shape %a [[0], [1], [2, 3]] output_shape [1, %n, 1, 4] : tensor<1x?x4xf32> into tensor<1x?x1x4xf32>
  %h_init = tensor.empty(%n) : tensor<1x1x?x4xf32>
  %h = linalg.transpose ins(%e : tensor<1x?x1x4xf32>) outs(%h_init : tensor<1x1x?x4xf32>) permutation = [0, 2, 1, 3]
  %o = heddle.attention %h, %h, %h <causal> {scale = 0.5 : f64} : tensor<1x1x?x4xf32>, tensor<1x1x?x4xf32>, tensor<1x1x?x4xf32> -> tensor<1x1x?x4xf32>
  %t_init = tensor.empty(%n) : tensor<1x?x1x4xf32>
  %t = linalg.transpose ins(%o : tensor<1x1x?x4xf32>) outs(%t_init : tensor<1x?x1x4xf32>) permutation = [0, 2, 1, 3]
  %r = tensor.collapse_shape %t [[0], [1], [2, 3]] : tensor<1x?x1x4xf32> into tensor<1x?x4xf32>
  %y = arith.addf %r, %x : tensor<1x?x4xf32>
  %z = heddle.rms_norm %y, %w {eps = 1.0e-6 : f64} : tensor<1x?x4xf32>, tensor<4xf32>
  %logits = heddle.linear %z, weights(%table : tensor<6x4xf32>) : tensor<1x?x4xf32> -> tensor<1x?x6xf32>
  return %logits : tensor<1x?x6xf32>
}

// Every token sees every other: there is no next one to generate.
// FULL: func.func @graph
// FULL-NOT: @forward
//--- full.mlir
func.func @graph(%ids: tensor<1x?xi64>) -> tensor<1x?x6xf32> {
  %c1 = arith.constant 1 : index
  %n = tensor.dim %ids, %c1 : tensor<1x?xi64>
  %narrow = arith.trunci %ids : tensor<1x?xi64> to tensor<1x?xi32>
  %table = heddle.weight "t" <type = "f32", file = 0, offset = 0> : tensor<6x4xf32>
  %x = heddle.embedding %narrow, %table : tensor<1x?xi32>, tensor<6x4xf32> -> tensor<1x?x4xf32>
  %e = tensor.expand_shape %x [[0], [1], [2, 3]] output_shape [1, %n, 1, 4] : tensor<1x?x4xf32> into tensor<1x?x1x4xf32>
  %h_init = tensor.empty(%n) : tensor<1x1x?x4xf32>
  %h = linalg.transpose ins(%e : tensor<1x?x1x4xf32>) outs(%h_init : tensor<1x1x?x4xf32>) permutation = [0, 2, 1, 3]
  %o = heddle.attention %h, %h, %h <full> {scale = 0.5 : f64} : tensor<1x1x?x4xf32>, tensor<1x1x?x4xf32>, tensor<1x1x?x4xf32> -> tensor<1x1x?x4xf32>
  %t_init = tensor.empty(%n) : tensor<1x?x1x4xf32>
  %t = linalg.transpose ins(%o : tensor<1x1x?x4xf32>) outs(%t_init : tensor<1x?x1x4xf32>) permutation = [0, 2, 1, 3]
  %r = tensor.collapse_shape %t [[0], [1], [2, 3]] : tensor<1x?x1x4xf32> into tensor<1x?x4xf32>
  %y = arith.addf %r, %x : tensor<1x?x4xf32>
  %logits = heddle.linear %y, weights(%table : tensor<6x4xf32>) : tensor<1x?x4xf32> -> tensor<1x?x6xf32>
  return %logits : tensor<1x?x6xf32>
}

// Something besides the layer reads whole sequences: a step over new tokens alone could not compute it.
// SKIPPED: remark: no generate: 'linalg.{{[a-z]+}}' at {{.*}} is no part of a decoder's step
// SKIPPED: func.func @graph
// SKIPPED-NOT: @forward
//--- skipped.mlir
func.func @graph(%ids: tensor<1x?xi64>) -> tensor<1x?x6xf32> {
  %c1 = arith.constant 1 : index
  %n = tensor.dim %ids, %c1 : tensor<1x?xi64>
  %zero = arith.constant 0.0 : f32
  %narrow = arith.trunci %ids : tensor<1x?xi64> to tensor<1x?xi32>
  %table = heddle.weight "t" <type = "f32", file = 0, offset = 0> : tensor<6x4xf32>
  %x = heddle.embedding %narrow, %table : tensor<1x?xi32>, tensor<6x4xf32> -> tensor<1x?x4xf32>
  %e = tensor.expand_shape %x [[0], [1], [2, 3]] output_shape [1, %n, 1, 4] : tensor<1x?x4xf32> into tensor<1x?x1x4xf32>
  %h_init = tensor.empty(%n) : tensor<1x1x?x4xf32>
  %h = linalg.transpose ins(%e : tensor<1x?x1x4xf32>) outs(%h_init : tensor<1x1x?x4xf32>) permutation = [0, 2, 1, 3]
  %o = heddle.attention %h, %h, %h <causal> {scale = 0.5 : f64} : tensor<1x1x?x4xf32>, tensor<1x1x?x4xf32>, tensor<1x1x?x4xf32> -> tensor<1x1x?x4xf32>
  %t_init = tensor.empty(%n) : tensor<1x?x1x4xf32>
  %t = linalg.transpose ins(%o : tensor<1x1x?x4xf32>) outs(%t_init : tensor<1x?x1x4xf32>) permutation = [0, 2, 1, 3]
  %r = tensor.collapse_shape %t [[0], [1], [2, 3]] : tensor<1x?x1x4xf32> into tensor<1x?x4xf32>
  %start = tensor.empty() : tensor<1x4xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%start : tensor<1x4xf32>) -> tensor<1x4xf32>
  %all = linalg.reduce { arith.addf } ins(%r : tensor<1x?x4xf32>) outs(%zeros : tensor<1x4xf32>) dimensions = [1]
  %rows_init = tensor.empty(%n) : tensor<1x?x4xf32>
  %rows = linalg.broadcast ins(%all : tensor<1x4xf32>) outs(%rows_init : tensor<1x?x4xf32>) dimensions = [1]
  %y = arith.addf %r, %rows : tensor<1x?x4xf32>
  %w = heddle.weight "w" <type = "f32", file = 0, offset = 96> {heddle.content = dense<1.0> : tensor<4xf32>} : tensor<4xf32>
  %z = heddle.rms_norm %y, %w {eps = 1.0e-6 : f64} : tensor<1x?x4xf32>, tensor<4xf32>
  %logits = heddle.linear %z, weights(%table : tensor<6x4xf32>) : tensor<1x?x4xf32> -> tensor<1x?x6xf32>
  return %logits : tensor<1x?x6xf32>
}

// GPT-NeoX: one product gives heads of 12 columns, query, key and value of each side by side.
// WITHIN: remark: no generate: 'heddle.attention' at {{.*}} takes its query, key or value out of heads in which others lie beside it
// WITHIN: func.func @graph
// WITHIN-NOT: @forward
//--- within.mlir
func.func @graph(%ids: tensor<1x?xi64> {heddle.name = "input_ids"}) -> (tensor<1x?x6xf32> {heddle.name = "logits"}) {
  %c1 = arith.constant 1 : index
  %n = tensor.dim %ids, %c1 : tensor<1x?xi64>
  %narrow = arith.trunci %ids : tensor<1x?xi64> to tensor<1x?xi32>
  %table = heddle.weight "t" <type = "f32", file = 0, offset = 0> : tensor<6x4xf32>
  %w = heddle.weight "w" <type = "f32", file = 0, offset = 96> {heddle.content = dense<1.0> : tensor<4xf32>} : tensor<4xf32>
  %x = heddle.embedding %narrow, %table : tensor<1x?xi32>, tensor<6x4xf32> -> tensor<1x?x4xf32>
  %a = heddle.rms_norm %x, %w {eps = 1.0e-6 : f64} : tensor<1x?x4xf32>, tensor<4xf32>
  %qkv_w = heddle.weight "qkv" <type = "f32", file = 0, offset = 112> : tensor<12x4xf32>
  %qkv = heddle.linear %a, weights(%qkv_w : tensor<12x4xf32>) : tensor<1x?x4xf32> -> tensor<1x?x12xf32>
  %e = tensor.expand_shape %qkv [[0], [1], [2, 3]] output_shape [1, %n, 1, 12] : tensor<1x?x12xf32> into tensor<1x?x1x12xf32>
  %h_init = tensor.empty(%n) : tensor<1x1x?x12xf32>
  %h = linalg.transpose ins(%e : tensor<1x?x1x12xf32>) outs(%h_init : tensor<1x1x?x12xf32>) permutation = [0, 2, 1, 3]
  %q = tensor.extract_slice %h[0, 0, 0, 0] [1, 1, %n, 4] [1, 1, 1, 1] : tensor<1x1x?x12xf32> to tensor<1x1x?x4xf32>
  %k = tensor.extract_slice %h[0, 0, 0, 4] [1, 1, %n, 4] [1, 1, 1, 1] : tensor<1x1x?x12xf32> to tensor<1x1x?x4xf32>
  %v = tensor.extract_slice %h[0, 0, 0, 8] [1, 1, %n, 4] [1, 1, 1, 1] : tensor<1x1x?x12xf32> to tensor<1x1x?x4xf32>
  %o = heddle.attention %q, %k, %v <causal> {scale = 0.5 : f64} : tensor<1x1x?x4xf32>, tensor<1x1x?x4xf32>, tensor<1x1x?x4xf32> -> tensor<1x1x?x4xf32>
  %t_init = tensor.empty(%n) : tensor<1x?x1x4xf32>
  %t = linalg.transpose ins(%o : tensor<1x1x?x4xf32>) outs(%t_init : tensor<1x?x1x4xf32>) permutation = [0, 2, 1, 3]
  %r = tensor.collapse_shape %t [[0], [1], [2, 3]] : tensor<1x?x1x4xf32> into tensor<1x?x4xf32>
  %y = arith.addf %r, %x : tensor<1x?x4xf32>
  %z = heddle.rms_norm %y, %w {eps = 1.0e-6 : f64} : tensor<1x?x4xf32>, tensor<4xf32>
  %logits = heddle.linear %z, weights(%table : tensor<6x4xf32>) : tensor<1x?x4xf32> -> tensor<1x?x6xf32>
  return %logits : tensor<1x?x6xf32>
}

// Positions of one sequence, which are those of each.
// POSITIONS-LABEL: func.func @forward(
// POSITIONS-SAME: %[[IDS:.*]]: tensor<?x?xi32>, %[[AT:.*]]: tensor<?x?xi32>)
// POSITIONS-DAG: %[[X:.*]] = heddle.embedding %[[IDS]], {{.*}} -> tensor<?x?x4xf32>
// POSITIONS-DAG: %[[P:.*]] = heddle.embedding %[[AT]], {{.*}} -> tensor<?x?x4xf32>
// POSITIONS: arith.addf %[[X]], %[[P]] : tensor<?x?x4xf32>
// Every second row is no position.
// EVEN: remark: no generate: 'heddle.embedding' at {{.*}} looks up ids that are not (batch, sequence)
// EVEN: func.func @graph
// BARE: remark: no generate: its logits are a product with the last layer's sum, which no norm precedes
// BARE: func.func @graph
//--- positions.mlir
func.func @graph(%ids: tensor<?x?xi64> {heddle.name = "input_ids"}) -> (tensor<?x?x6xf32> {heddle.name = "logits"}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %step = arith.constant 1 : index
  %b = tensor.dim %ids, %c0 : tensor<?x?xi64>
  %n = tensor.dim %ids, %c1 : tensor<?x?xi64>
  %narrow = arith.trunci %ids : tensor<?x?xi64> to tensor<?x?xi32>
  %table = heddle.weight "t" <type = "f32", file = 0, offset = 0> : tensor<6x4xf32>
  %places = heddle.weight "p" <type = "f32", file = 0, offset = 96> : tensor<8x4xf32>
  %tokens = heddle.embedding %narrow, %table : tensor<?x?xi32>, tensor<6x4xf32> -> tensor<?x?x4xf32>
  %range_init = tensor.empty(%n) : tensor<?xi32>
  %range = linalg.generic {indexing_maps = [affine_map<(s) -> (s)>], iterator_types = ["parallel"]} outs(%range_init : tensor<?xi32>) {
  ^bb0(%out: i32):
    %s = linalg.index 0 : index
    %row = arith.muli %s, %step : index
    %position = arith.index_cast %row : index to i32
    linalg.yield %position : i32
  } -> tensor<?xi32>
  %rows = heddle.embedding %range, %places : tensor<?xi32>, tensor<8x4xf32> -> tensor<?x4xf32>
  %all_init = tensor.empty(%b, %n) : tensor<?x?x4xf32>
  %all = linalg.broadcast ins(%rows : tensor<?x4xf32>) outs(%all_init : tensor<?x?x4xf32>) dimensions = [0]
  %x = arith.addf %tokens, %all : tensor<?x?x4xf32>
  %e = tensor.expand_shape %x [[0], [1], [2, 3]] output_shape [%b, %n, 1, 4] : tensor<?x?x4xf32> into tensor<?x?x1x4xf32>
  %h_init = tensor.empty(%b, %n) : tensor<?x1x?x4xf32>
  %h = linalg.transpose ins(%e : tensor<?x?x1x4xf32>) outs(%h_init : tensor<?x1x?x4xf32>) permutation = [0, 2, 1, 3]
  %o = heddle.attention %h, %h, %h <causal> {scale = 0.5 : f64} : tensor<?x1x?x4xf32>, tensor<?x1x?x4xf32>, tensor<?x1x?x4xf32> -> tensor<?x1x?x4xf32>
  %t_init = tensor.empty(%b, %n) : tensor<?x?x1x4xf32>
  %t = linalg.transpose ins(%o : tensor<?x1x?x4xf32>) outs(%t_init : tensor<?x?x1x4xf32>) permutation = [0, 2, 1, 3]
  %r = tensor.collapse_shape %t [[0], [1], [2, 3]] : tensor<?x?x1x4xf32> into tensor<?x?x4xf32>
  %y = arith.addf %r, %x : tensor<?x?x4xf32>
  %w = heddle.weight "w" <type = "f32", file = 0, offset = 224> {heddle.content = dense<1.0> : tensor<4xf32>} : tensor<4xf32>
  %z = heddle.rms_norm %y, %w {eps = 1.0e-6 : f64} : tensor<?x?x4xf32>, tensor<4xf32>
  %logits = heddle.linear %z, weights(%table : tensor<6x4xf32>) : tensor<?x?x4xf32> -> tensor<?x?x6xf32>
  return %logits : tensor<?x?x6xf32>
}

// Positions of all sequences in one dimension, in a table whose first two rows are of no position (XGLM).
// JOINED-LABEL: func.func @forward(
// JOINED-SAME: %{{.*}}: tensor<?x?xi32>, %[[AT:.*]]: tensor<?x?xi32>)
// JOINED-DAG: %[[ROWS:.*]] = heddle.weight "p{{.*}}" <type = "f32", file = 0, offset = 128> : tensor<6x4xf32>
// JOINED: heddle.embedding %[[AT]], %[[ROWS]] : tensor<?x?xi32>, tensor<6x4xf32> -> tensor<?x?x4xf32>
//--- joined.mlir
func.func @graph(%ids: tensor<?x?xi64> {heddle.name = "input_ids"}) -> (tensor<?x?x6xf32> {heddle.name = "logits"}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %b = tensor.dim %ids, %c0 : tensor<?x?xi64>
  %n = tensor.dim %ids, %c1 : tensor<?x?xi64>
  %narrow = arith.trunci %ids : tensor<?x?xi64> to tensor<?x?xi32>
  %table = heddle.weight "t" <type = "f32", file = 0, offset = 0> : tensor<6x4xf32>
  %places = heddle.weight "p" <type = "f32", file = 0, offset = 96> : tensor<8x4xf32>
  %tokens = heddle.embedding %narrow, %table : tensor<?x?xi32>, tensor<6x4xf32> -> tensor<?x?x4xf32>
  %bn = arith.muli %b, %n : index
  %range_init = tensor.empty(%bn) : tensor<?xi32>
  %range = linalg.generic {indexing_maps = [affine_map<(s) -> (s)>], iterator_types = ["parallel"]} outs(%range_init : tensor<?xi32>) {
  ^bb0(%out: i32):
    %two = arith.constant 2 : index
    %s = linalg.index 0 : index
    %quotient = arith.floordivsi %s, %n : index
    %before = arith.muli %quotient, %n : index
    %place = arith.subi %s, %before : index
    %row = arith.addi %place, %two : index
    %position = arith.index_cast %row : index to i32
    linalg.yield %position : i32
  } -> tensor<?xi32>
  %rows = heddle.embedding %range, %places : tensor<?xi32>, tensor<8x4xf32> -> tensor<?x4xf32>
  %all = tensor.expand_shape %rows [[0, 1], [2]] output_shape [%b, %n, 4] : tensor<?x4xf32> into tensor<?x?x4xf32>
  %x = arith.addf %tokens, %all : tensor<?x?x4xf32>
  %e = tensor.expand_shape %x [[0], [1], [2, 3]] output_shape [%b, %n, 1, 4] : tensor<?x?x4xf32> into tensor<?x?x1x4xf32>
  %h_init = tensor.empty(%b, %n) : tensor<?x1x?x4xf32>
  %h = linalg.transpose ins(%e : tensor<?x?x1x4xf32>) outs(%h_init : tensor<?x1x?x4xf32>) permutation = [0, 2, 1, 3]
  %o = heddle.attention %h, %h, %h <causal> {scale = 0.5 : f64} : tensor<?x1x?x4xf32>, tensor<?x1x?x4xf32>, tensor<?x1x?x4xf32> -> tensor<?x1x?x4xf32>
  %t_init = tensor.empty(%b, %n) : tensor<?x?x1x4xf32>
  %t = linalg.transpose ins(%o : tensor<?x1x?x4xf32>) outs(%t_init : tensor<?x?x1x4xf32>) permutation = [0, 2, 1, 3]
  %r = tensor.collapse_shape %t [[0], [1], [2, 3]] : tensor<?x?x1x4xf32> into tensor<?x?x4xf32>
  %y = arith.addf %r, %x : tensor<?x?x4xf32>
  %w = heddle.weight "w" <type = "f32", file = 0, offset = 224> {heddle.content = dense<1.0> : tensor<4xf32>} : tensor<4xf32>
  %z = heddle.rms_norm %y, %w {eps = 1.0e-6 : f64} : tensor<?x?x4xf32>, tensor<4xf32>
  %logits = heddle.linear %z, weights(%table : tensor<6x4xf32>) : tensor<?x?x4xf32> -> tensor<?x?x6xf32>
  return %logits : tensor<?x?x6xf32>
}
