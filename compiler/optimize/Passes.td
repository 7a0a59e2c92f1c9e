// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Passes of the optimize stage: fewer, cheaper model ops, and a cache.
#ifndef HEDDLE_OPTIMIZE_PASSES
#define HEDDLE_OPTIMIZE_PASSES

include "mlir/Pass/PassBase.td"

def MaterializeKvCache : Pass<"heddle-materialize-kv-cache", "::mlir::ModuleOp"> {
  let summary = "Turn a forward pass over whole sequences into a step over new tokens";
  let description = [{
    Before: @forward(ids, positions) of (batch, sequence), attention over the keys and values of the same call. After:
    @step(ids, positions, output_rows, cache) of (rows), where rows are the new tokens of a ragged batch of sequences:
    every attention appends its keys and values to the cache and reads all of them from there, and logits are computed for
    output_rows only; the head's input is the second result, the last hidden state of all rows. Layer functions take the cache and their layer's index.
    If any layer has a sliding window, the module tells all of them in `heddle.kv_windows`: the runtime recycles what fell out.

    Must hold before: batch and sequence are the two leading dimensions of activations, layers are functions that @forward
    calls, and each layer has at most one causal attention. Example: test/optimize/materialize-kv-cache.mlir.

    ```mlir
    %o = heddle.attention %q, %k, %v #heddle.mask<causal> : tensor<?x4x?x16xf32>, tensor<?x2x?x16xf32>, …
    // becomes
    heddle.kv_append %cache[%layer], %k_rows, %v_rows
    %keys, %values = heddle.kv_view %cache[%layer]
    %o = heddle.attention %q, %keys, %values #heddle.mask<causal> : tensor<1x4x?x16xf32>, tensor<1x2x?x16xbf16>, …
    ```
  }];
  let options = [Option<"elementType", "element-type", "std::string", "\"f32\"", "Element type of the cache: f32, bf16 or f16">];
  let dependentDialects = ["::heddle::HeddleDialect", "::mlir::tensor::TensorDialect", "::mlir::linalg::LinalgDialect"];
}

def AbsorbMlaWeights : Pass<"heddle-absorb-mla-weights", "::mlir::ModuleOp"> {
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
    %k = heddle.linear %c, weights(%u : tensor<32x8xf32>) …   // and heads of it
    %v = heddle.linear %c, weights(%w : tensor<32x8xf32>) …
    %o = heddle.attention %q, %k_heads, %v_heads …
    // becomes
    %o = heddle.latent_attention %q, %c_head key_ups(%u0, %u1 : …) value_ups(%w0, %w1 : …) …
    ```
  }];
  let options = [Option<"form", "form", "std::string", "\"automatic\"", "Which body computes it: automatic, absorbed or materialised">];
  let dependentDialects = ["::heddle::HeddleDialect", "::mlir::tensor::TensorDialect", "::mlir::linalg::LinalgDialect"];
}

def ShareKvHeads : Pass<"heddle-share-kv-heads", "::mlir::ModuleOp"> {
  let summary = "Let query heads read their group's KV head instead of a repeated copy";
  let description = [{
    Finds keys and values whose heads are repeated before attention (a broadcast of (batch, kv_heads, group, sequence, head_dim)
    collapsed to (batch, heads, sequence, head_dim)) and gives attention the unrepeated ones: its head counts say the group.
    After: no attention operand is such a broadcast. A repetition in another order (heads interleaved) is left alone.
    Example: test/optimize/share-kv-heads.mlir.
  }];
  let dependentDialects = ["::heddle::HeddleDialect"];
}

def FuseProjections : Pass<"heddle-fuse-projections", "::mlir::ModuleOp"> {
  let summary = "Compute projections of the same input by one product";
  let description = [{
    `linear` ops of one input, in one block, with weights of one stored type (query, key and value; gate and up) become one
    with all their weights, and slices of its result. Before fusing, all must have a bias or none. Afterwards each input of a
    layer is read by one product per stored type. Example: test/optimize/fuse-projections.mlir.

    ```mlir
    %q = heddle.linear %x, weights(%wq : tensor<64x64xf32>) …
    %k = heddle.linear %x, weights(%wk : tensor<32x64xf32>) …
    // becomes
    %qk = heddle.linear %x, weights(%wq, %wk : tensor<64x64xf32>, tensor<32x64xf32>) : tensor<?x64xf32> -> tensor<?x96xf32>
    %q = tensor.extract_slice %qk[0, 0] [%rows, 64] [1, 1] : …
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
  }];
}

#endif
