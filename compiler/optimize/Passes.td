// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Passes of the optimize stage: fewer, cheaper model ops, and a cache.
#ifndef HEDDLE_OPTIMIZE_PASSES
#define HEDDLE_OPTIMIZE_PASSES

include "compiler/contract/StagePass.td"
include "mlir/Pass/PassBase.td"

def ChannelsLast : StagePass<"heddle-channels-last", "::mlir::ModuleOp", "Raise"> {
  let summary = "Keep the channels of images last, from one convolution of a graph to the next";
  let description = [{
    Before: behind a convolution, a product of rows of channels, a transpose that puts channels before places, as files have them, and before the
    next one a transpose that puts them back.

    After: the first transpose stands behind the elementwise ops, paddings, slices, concatenations, reductions and loops that read it, which
    work on the tensor that it turned and write their results in the same order; where it meets its inverse, both are gone. What has an order of
    its own (a reshape that joins channels and places, a norm) reads the transpose.

    Must hold before: nothing; values that no convolution makes keep their order. Example: test/optimize/channels-last.mlir.

    ```mlir
    func.func @graph(%rows: tensor<1x6x8xf32>) -> tensor<1x6x16xf32> {
      %w = heddle.weight "w" <type = "f32", file = 0, offset = 0> : tensor<16x8xf32>
      %y = heddle.linear %rows, weights(%w : tensor<16x8xf32>) : tensor<1x6x8xf32> -> tensor<1x6x16xf32>
      %room = tensor.empty() : tensor<1x16x6xf32>
      %planes = linalg.transpose ins(%y : tensor<1x6x16xf32>) outs(%room : tensor<1x16x6xf32>) permutation = [0, 2, 1]
      %wave = math.sin %planes : tensor<1x16x6xf32>
      %back = tensor.empty() : tensor<1x6x16xf32>
      %next = linalg.transpose ins(%wave : tensor<1x16x6xf32>) outs(%back : tensor<1x6x16xf32>) permutation = [0, 2, 1]
      return %next : tensor<1x6x16xf32>
    }
    // becomes
    %y = heddle.linear %rows, …
    %wave = math.sin %y : tensor<1x6x16xf32>
    return %wave : tensor<1x6x16xf32>
    ```
  }];
  let dependentDialects = ["::heddle::HeddleDialect", "::mlir::tensor::TensorDialect", "::mlir::linalg::LinalgDialect",
                           "::mlir::arith::ArithDialect"];
}

def FlattenBatch : StagePass<"heddle-flatten-batch", "::mlir::ModuleOp", "Raise"> {
  let summary = "Turn a forward pass over (batch, sequence) into an entry over rows of a ragged batch: a step, or an encode";
  let description = [{
    Before: @forward(ids, positions, ...) of (batch, sequence), attention over the keys and values of the same call. The masks decide
    what becomes of it. Where all attention is causal, @step(ids, positions, output_rows, cache) of (rows), where rows are the new tokens of a ragged batch of sequences:
    every attention appends its keys and values to the cache and reads all of them from there, and logits are computed for
    output_rows only; the head's input is the second result, the last hidden state of all rows. Layer functions take the cache and their layer's index.
    A layer function may give the keys and values (batch, heads, sequence, head_dim) that it attends to behind its result, and another take them
    behind its positions: it reads those of the earlier layer's index and appends none (test/optimize/flatten-batch-shared.mlir).
    If any layer has a sliding window, the module tells all of them in `heddle.kv_windows`: the runtime recycles what fell out.

    Where no attention is causal, a token needs all of its sequence, and there is nothing to keep:
    @encode(ids, positions, output_rows, sequences, ...) of (rows), the rows of whole sequences, whose attention takes (count, 2)
    `sequences`, first row and number of rows of each; layer functions take them as well. output_rows are the sequences' first rows: a
    slice of first tokens becomes these, one of the tokens of another place those behind them. Its attribute `heddle.outputs` says of each result what its rows belong to, which its type says
    before, and keeps the names that results of @forward have as `heddle.name`.

    So has @forward_encoder without a @forward, whatever its masks are: a decoder that embeds texts attends causally, and nothing of a text is
    computed twice (test/optimize/flatten-batch-causal.mlir).

    An encoder-decoder has both. @forward_encoder, which becomes @encode, gives, behind the last hidden state, keys and values (batch, heads,
    sequence, head_dim) for each layer of the decoder; @forward takes them behind the positions and hands each pair to its layer. They become a
    cache of sources: @encode takes it behind `sequences` and appends each pair once it is there, @step and its layers take it behind what they
    have of their own, and attention to it reads all of a source.

    Must hold before: batch and sequence are the two leading dimensions of activations, attention is causal everywhere or nowhere in
    @forward. For a step, layers are functions that @forward calls, and each has at most one attention, and one to a source. Examples:
    test/optimize/flatten-batch.mlir, test/optimize/flatten-batch-encode.mlir, test/optimize/flatten-batch-source.mlir,
    test/optimize/flatten-batch-causal.mlir.

    ```mlir
    func.func private @layer(%x: tensor<?x?x8xf32>, %positions: tensor<?x?xi32>, %w: tensor<8x8xf32>)
        -> tensor<?x?x8xf32> {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %b = tensor.dim %x, %c0 : tensor<?x?x8xf32>
      %n = tensor.dim %x, %c1 : tensor<?x?x8xf32>
      %q = heddle.linear %x, weights(%w : tensor<8x8xf32>) : tensor<?x?x8xf32> -> tensor<?x?x8xf32>
      %split = tensor.expand_shape %q [[0], [1], [2, 3]] output_shape [%b, %n, 1, 8] : tensor<?x?x8xf32> into tensor<?x?x1x8xf32>
      %init = tensor.empty(%b, %n) : tensor<?x1x?x8xf32>
      %h = linalg.transpose ins(%split : tensor<?x?x1x8xf32>) outs(%init : tensor<?x1x?x8xf32>) permutation = [0, 2, 1, 3]
      %o = heddle.attention %h, %h, %h <causal> {scale = 0.5}
        : tensor<?x1x?x8xf32>, tensor<?x1x?x8xf32>, tensor<?x1x?x8xf32> -> tensor<?x1x?x8xf32>
      %room = tensor.empty(%b, %n) : tensor<?x?x1x8xf32>
      %back = linalg.transpose ins(%o : tensor<?x1x?x8xf32>) outs(%room : tensor<?x?x1x8xf32>) permutation = [0, 2, 1, 3]
      %y = tensor.collapse_shape %back [[0], [1], [2, 3]] : tensor<?x?x1x8xf32> into tensor<?x?x8xf32>
      return %y : tensor<?x?x8xf32>
    }
    func.func @forward(%ids: tensor<?x?xi32>, %positions: tensor<?x?xi32>) -> tensor<?x?x16xf32> {
      %table = heddle.weight "table" <type = "f32", file = 0, offset = 0> : tensor<16x8xf32>
      %w = heddle.weight "w" <type = "f32", file = 0, offset = 512> : tensor<8x8xf32>
      %x = heddle.embedding %ids, %table : tensor<?x?xi32>, tensor<16x8xf32> -> tensor<?x?x8xf32>
      %y = call @layer(%x, %positions, %w) : (tensor<?x?x8xf32>, tensor<?x?xi32>, tensor<8x8xf32>) -> tensor<?x?x8xf32>
      %logits = heddle.linear %y, weights(%table : tensor<16x8xf32>) : tensor<?x?x8xf32> -> tensor<?x?x16xf32>
      return %logits : tensor<?x?x16xf32>
    }
    // becomes, with element-type=bf16
    func.func private @layer(%x: tensor<?x8xf32>, %at: tensor<?xi32>, %cache: !heddle.kv_cache<1 x 1 x 8 x bf16>, %layer: index, …
    heddle.kv_append %cache[%layer], %k, %v : <1 x 1 x 8 x bf16>, tensor<?x8xf32>, tensor<?x8xf32>
    %keys, %values = heddle.kv_view %cache[%layer] : <1 x 1 x 8 x bf16> -> tensor<1x1x?x8xbf16>, tensor<1x1x?x8xbf16>
    %o = heddle.attention %q, %keys, %values <causal> … : tensor<1x1x?x8xf32>, tensor<1x1x?x8xbf16>, tensor<1x1x?x8xbf16> -> …
    func.func @step(%ids: tensor<?xi32>, %positions: tensor<?xi32>, %output_rows: tensor<?xi32>, %kv: …) -> (tensor<?x16xf32>, …
    %y = call @layer(%x, …
    %selected = heddle.embedding %output_rows, %y : …
    %logits = heddle.linear %selected, weights(…
    return %logits, %y : …
    ```
  }];
  let options = [Option<"elementType", "element-type", "std::string", "\"f32\"", "Element type of the cache: f32, bf16, f16 or q8_0">];
  let dependentDialects = ["::heddle::HeddleDialect", "::mlir::tensor::TensorDialect", "::mlir::linalg::LinalgDialect"];
}

def AbsorbMlaWeights : StagePass<"heddle-absorb-mla-weights", "::mlir::ModuleOp", "Raise"> {
  let summary = "Cache the latent that keys and values are made of, and choose where their up-projections are applied";
  let description = [{
    softmax(q (U c)^T + r) (V c) with U and V independent of position needs only c in the cache, and r's shared key. Found by
    shape: `attention` whose keys and values are heads of products, without bias, of one value c that a product of low rank
    made (perhaps normalised), the key perhaps joined with a head that all share, becomes `latent_attention` where this
    caches fewer values; so does an SVD-compressed projection, whose rank and dimensions are free. What is not rewritten gets a
    remark with the op that is in the way: a rotation behind the product, a bias, a full-rank input.

    Then each `latent_attention`, whoever wrote it, gets the body that `form` names. `absorbed` folds U into the query's and V
    into the result's side: attention over c itself, as with one KV head. `materialised` rebuilds keys and values. `automatic`
    has both and takes, for each sequence of a step, the one with fewer products: materialised from R / (D + R / keys) queries
    on, R = rank (nope + v), D = 2 rank - nope - v; 171 for DeepSeek's dimensions and long contexts.

    U and V stay as they are stored: nothing is quantised again. U is not folded into the query's projection ahead of time: that
    would move rank * q_in numbers per head instead of nope * (q_in + rank), more for every published model (512 * 1536 against
    128 * 2048), and leave none for the materialised body. Examples: test/optimize/absorb-mla-weights.mlir.

    ```mlir
    func.func @low_rank_keys(%q: tensor<1x2x6x5xf32>, %x: tensor<1x6x16xf32>, %down: tensor<7x16xf32>, %u: tensor<10x7xf32>,
                             %w: tensor<6x7xf32>) -> tensor<1x2x6x3xf32> {
      %c = heddle.linear %x, weights(%down : tensor<7x16xf32>) : tensor<1x6x16xf32> -> tensor<1x6x7xf32>
      %k = heddle.linear %c, weights(%u : tensor<10x7xf32>) : tensor<1x6x7xf32> -> tensor<1x6x10xf32>
      %k_split = tensor.expand_shape %k [[0], [1], [2, 3]] output_shape [1, 6, 2, 5] : tensor<1x6x10xf32> into tensor<1x6x2x5xf32>
      %k_init = tensor.empty() : tensor<1x2x6x5xf32>
      %k_heads = linalg.transpose ins(%k_split : tensor<1x6x2x5xf32>) outs(%k_init : tensor<1x2x6x5xf32>) permutation = [0, 2, 1, 3]
      %v = heddle.linear %c, weights(%w : tensor<6x7xf32>) : tensor<1x6x7xf32> -> tensor<1x6x6xf32>
      %v_split = tensor.expand_shape %v [[0], [1], [2, 3]] output_shape [1, 6, 2, 3] : tensor<1x6x6xf32> into tensor<1x6x2x3xf32>
      %v_init = tensor.empty() : tensor<1x2x6x3xf32>
      %v_heads = linalg.transpose ins(%v_split : tensor<1x6x2x3xf32>) outs(%v_init : tensor<1x2x6x3xf32>) permutation = [0, 2, 1, 3]
      %o = heddle.attention %q, %k_heads, %v_heads <causal> {scale = 0.5}
        : tensor<1x2x6x5xf32>, tensor<1x2x6x5xf32>, tensor<1x2x6x3xf32> -> tensor<1x2x6x3xf32>
      return %o : tensor<1x2x6x3xf32>
    }
    // becomes
    %c = heddle.linear %x, weights(%down : …
    %u0 = tensor.extract_slice %u[0, 0] [5, 7] [1, 1] : tensor<10x7xf32> to tensor<5x7xf32>
    %u1 = tensor.extract_slice %u[5, 0] [5, 7] [1, 1] : tensor<10x7xf32> to tensor<5x7xf32>
    %w0 = tensor.extract_slice %w[0, 0] [3, 7] [1, 1] : tensor<6x7xf32> to tensor<3x7xf32>
    %w1 = tensor.extract_slice %w[3, 0] [3, 7] [1, 1] : tensor<6x7xf32> to tensor<3x7xf32>
    %o = heddle.latent_attention %q, %c_head key_ups(%u0, %u1 : …) value_ups(%w0, %w1 : …) <causal> {form = #heddle.latent_form<automatic>, …
    ```
  }];
  let options = [Option<"form", "form", "std::string", "\"automatic\"", "Which body computes it: automatic, absorbed or materialised">,
                 Option<"keepsGraphs", "keep-graphs", "bool", "false", "Leave graph entries as they are: they have no cache to make smaller">];
  let dependentDialects = ["::heddle::HeddleDialect", "::mlir::tensor::TensorDialect", "::mlir::linalg::LinalgDialect"];
}

def ShareKvHeads : StagePass<"heddle-share-kv-heads", "::mlir::ModuleOp", "Raise"> {
  let summary = "Let query heads read their group's KV head instead of a repeated copy";
  let description = [{
    Finds keys and values whose heads are repeated before attention (a broadcast of (batch, kv_heads, group, sequence, head_dim)
    collapsed to (batch, heads, sequence, head_dim)) and gives attention the unrepeated ones: its head counts say the group.
    After: no attention operand is such a broadcast. A repetition in another order (heads interleaved) is left alone.
    Example: test/optimize/share-kv-heads.mlir.

    ```mlir
    func.func @repeated(%q: tensor<1x6x3x8xf32>, %k: tensor<1x2x5x8xf32>) -> tensor<1x6x3x8xf32> {
      %init = tensor.empty() : tensor<1x2x3x5x8xf32>
      %group = linalg.broadcast ins(%k : tensor<1x2x5x8xf32>) outs(%init : tensor<1x2x3x5x8xf32>) dimensions = [2]
      %heads = tensor.collapse_shape %group [[0], [1, 2], [3], [4]] : tensor<1x2x3x5x8xf32> into tensor<1x6x5x8xf32>
      %o = heddle.attention %q, %heads, %heads <full> {scale = 0.5}
        : tensor<1x6x3x8xf32>, tensor<1x6x5x8xf32>, tensor<1x6x5x8xf32> -> tensor<1x6x3x8xf32>
      return %o : tensor<1x6x3x8xf32>
    }
    // becomes
    %o = heddle.attention %q, %k, %k <full> {…} : tensor<1x6x3x8xf32>, tensor<1x2x5x8xf32>, tensor<1x2x5x8xf32> -> tensor<1x6x3x8xf32>
    ```
  }];
  let dependentDialects = ["::heddle::HeddleDialect"];
}

def FuseProjections : StagePass<"heddle-fuse-projections", "::mlir::ModuleOp", "Raise"> {
  let summary = "Compute projections of the same input by one product";
  let description = [{
    `linear` ops of one input, in one block, with weights of one stored type (query, key and value; gate and up) become one
    with all their weights, and slices of its result. Before fusing, all must have a bias or none. What follows a `kv_append` is not fused with
    what comes before it: the room of what was appended is free by then. Afterwards each input of a
    layer is read by one product per stored type. Results of @encode, each of which has a place of its own, stay apart. Example: test/optimize/fuse-projections.mlir.

    ```mlir
    func.func @query_and_key(%x: tensor<?x64xf32>, %wq: tensor<64x64xf32>, %wk: tensor<32x64xf32>) -> (tensor<?x64xf32>, tensor<?x32xf32>) {
      %q = heddle.linear %x, weights(%wq : tensor<64x64xf32>) : tensor<?x64xf32> -> tensor<?x64xf32>
      %k = heddle.linear %x, weights(%wk : tensor<32x64xf32>) : tensor<?x64xf32> -> tensor<?x32xf32>
      return %q, %k : tensor<?x64xf32>, tensor<?x32xf32>
    }
    // becomes
    %qk = heddle.linear %x, weights(%wq, %wk : tensor<64x64xf32>, tensor<32x64xf32>) : tensor<?x64xf32> -> tensor<?x96xf32>
    %rows = tensor.dim %qk, …
    %q = tensor.extract_slice %qk[0, 0] [%rows, 64] [1, 1] : tensor<?x96xf32> to tensor<?x64xf32>
    %k = tensor.extract_slice %qk[0, 64] [%rows, 32] [1, 1] : tensor<?x96xf32> to tensor<?x32xf32>
    ```
  }];
  let dependentDialects = ["::heddle::HeddleDialect", "::mlir::tensor::TensorDialect"];
}

def ShareLayers : Pass<"heddle-share-layers", "::mlir::ModuleOp"> {
  let summary = "Keep one function for equal layers";
  let description = [{
    Private functions (layers, kernels) with equal types, attributes and bodies become one; whoever called the others calls it. Layers that differ in structure,
    quantisation, window or rotary table stay apart. Compile time and code size do not grow with depth from here on.
    Example: test/optimize/share-layers.mlir.

    ```mlir
    func.func private @layer_0(%x: tensor<?x64xf32>, %w: tensor<64x64xf32>) -> tensor<?x64xf32> {
      %y = heddle.linear %x, weights(%w : tensor<64x64xf32>) : tensor<?x64xf32> -> tensor<?x64xf32>
      return %y : tensor<?x64xf32>
    }
    func.func private @layer_1(%x: tensor<?x64xf32>, %w: tensor<64x64xf32>) -> tensor<?x64xf32> {
      %y = heddle.linear %x, weights(%w : tensor<64x64xf32>) : tensor<?x64xf32> -> tensor<?x64xf32>
      return %y : tensor<?x64xf32>
    }
    func.func @forward(%x: tensor<?x64xf32>, %w0: tensor<64x64xf32>, %w1: tensor<64x64xf32>) -> tensor<?x64xf32> {
      %y = call @layer_0(%x, %w0) : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32>
      %z = call @layer_1(%y, %w1) : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32>
      return %z : tensor<?x64xf32>
    }
    // becomes
    func.func private @layer_0(…
    func.func @forward(%x: tensor<?x64xf32>, %w0: tensor<64x64xf32>, %w1: tensor<64x64xf32>) -> tensor<?x64xf32> {
    %y = call @layer_0(%x, %w0) : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32>
    %z = call @layer_0(%y, %w1) : (tensor<?x64xf32>, tensor<64x64xf32>) -> tensor<?x64xf32>
    ```
  }];
}

#endif
