// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernel ops of attention and of the cache that it reads, in destination-passing style as the others (KernelOps.td).

#ifndef HEDDLE_ATTENTION_KERNEL_OPS
#define HEDDLE_ATTENTION_KERNEL_OPS

include "dialect/KernelOps.td"

def Heddle_OnlineAttentionOp : Heddle_KernelOp<"online_attention", [AttrSizedOperandSegments]> {
  let summary = "Attention over the cache, block by block, with running row maximum and row sum";
  let description = [{
    Tiled attention (Dao et al. 2022, arXiv:2205.14135): for each KV block of `block_kv` keys that the mask lets any row of the
    tile see, m' = max(m, rowmax(s)), l' = l exp(m - m') + rowsum(exp(s - m')), o' = o exp(m - m') + exp(s - m') v. The
    query heads that share a KV head are rows of one tile, so one load of a KV block serves the group (`share_kv`).

    With `split_kv` the keys are attended to in splits [i split_kv, (i + 1) split_kv) by themselves, and what `combine_splits`
    needs of each is left: o' unscaled, m' in units of log 2 (kernels of any device: of 1), l'. Splits that a row sees nothing of are left as they are or
    neutral (m' = -1e38, l' = 0, o' = 0); sinks are the merge's.

    `positions` is a table of what scores get for the distance between query and key, as `position_bias` has it: slopes, or buckets with
    `starts` and `rows`. It is added in the tile, behind the softcap.

    With a second destination the op is not tiled, so that what tiling gains can be measured: the scores of all keys are stored
    there before the softmax, and read back for it and for the weighted sum. What is left in it is of no use.

    Constraints:
      * C1: query is (rows, num_heads * head_dim), head_dim being the cache's; so is, without `split_kv`, the first destination.
      * C2: num_heads is a multiple of the cache's num_kv_heads.
      * C3: block_kv is a multiple or a divisor of the cache's page of 64 tokens.
      * C4: with `split_kv`, a positive number, destinations are f32 outputs (max_rows, splits * num_heads * head_dim), row
        maxima and row sums (max_rows, splits * num_heads), and there are no sinks.
      * C5: scores are f32 (rows, num_heads * keys), keys being a multiple of 64 that no sequence exceeds.
      * C6: positions are f32 slopes (num_heads), or a table (num_buckets, num_heads) of f32, f16 or bf16 with starts and rows as in
        `position_bias` (C2, C3), starts from -8192 to 8192.

    ```mlir
    func.func @step(%q: tensor<?x48xf32>, %cache: !heddle.kv_cache<2 x 2 x 8 x bf16>, %out: tensor<?x48xf32>) -> tensor<?x48xf32> {
      %layer = arith.constant 1 : index
      %o = heddle.online_attention <causal> ins(%q, %cache[%layer] : tensor<?x48xf32>, <2 x 2 x 8 x bf16>) outs(%out : tensor<?x48xf32>)
        {num_heads = 6, scale = 0.35, softcap = 0.0, block_kv = 64, share_kv = true} -> tensor<?x48xf32>
      return %o : tensor<?x48xf32>
    }
    ```
  }];
  let arguments = (ins Heddle_Buffer:$query, Heddle_KvCacheType:$cache, Index:$layer, Optional<Heddle_Buffer>:$positions,
                       Optional<Heddle_Buffer>:$sinks, Variadic<Heddle_Buffer>:$inits, I64Attr:$num_heads, Heddle_MaskAttr:$mask,
                       F64Attr:$scale, F64Attr:$softcap, I64Attr:$block_kv, BoolAttr:$share_kv, OptionalAttr<I64Attr>:$split_kv,
                       OptionalAttr<DenseI64ArrayAttr>:$starts, OptionalAttr<DenseI64ArrayAttr>:$rows);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let assemblyFormat = [{
    $mask `ins` `(` $query `,` $cache `[` $layer `]` (`positions` $positions^)? (`sinks` $sinks^)? `:` type($query) `,` type($cache)
    (`positions` type($positions)^)? (`,` type($sinks)^)? `)` `outs` `(` $inits `:` type($inits) `)` attr-dict (`->` type($results)^)?
  }];
  let extraClassDeclaration = dpsMethods # [{
    bool storesScores() { return getInits().size() == 2; }
  }];
  let hasVerifier = 1;
}

def Heddle_FlashAttentionOp : Heddle_KernelOp<"flash_attention", [AttrSizedOperandSegments]> {
  let summary = "Attention over tensors, block by block, with running row maximum and row sum";
  let description = [{
    What `attention` computes, in tiles as `online_attention` (Dao et al. 2022, arXiv:2205.14135), of keys and values that are
    tensors: destination[h] = softmax(cap(scale * query[h] @ key[h / group]^T) + bias) @ value[h / group], over the keys that the
    mask lets through; a query that sees no key gives zeros. Query i stands at key position (keys - queries + i).

    Operands may lie in another order than (batch, heads, sequence, head_dim): axis a of the query is dimension
    `query_axes[a]` of its operand, and so on. A transpose beside attention is then no copy. As buffers they may have any
    strides but for the last dimension, whose elements lie side by side.

    Constraints:
      * C1: query, key, value and the one destination have rank 4; axes are an order of 0, 1, 2 and 3 that ends with 3.
      * C2: heads and head dims are static, num_heads a positive multiple of num_kv_heads, head dims 1 to 1024.
      * C3: query and key have the same batch and head_dim; key and value the same batch, heads and sequence.
      * C4: the destination is (batch, num_heads, queries, head_dim of value), of the query's type; key and value have one type.
      * C5: bias is f32, each of its dimensions that of (batch, num_heads, queries, keys) or 1, at run time where it is dynamic.
      * C6: sinks are f32 (num_heads).
      * C7: the last stride of a buffer is 1, also of the bias.

    ```mlir
    func.func @heads_side_by_side(%q: tensor<1x?x6x8xf32>, %k: tensor<1x2x?x8xf32>, %mask: tensor<1x1x1x?xf32>,
                                  %out: tensor<1x?x6x8xf32>) -> tensor<1x?x6x8xf32> {
      %o = heddle.flash_attention <full> ins(%q, %k, %k bias %mask
          : tensor<1x?x6x8xf32>, tensor<1x2x?x8xf32>, tensor<1x2x?x8xf32> bias tensor<1x1x1x?xf32>)
        outs(%out : tensor<1x?x6x8xf32>) {scale = 0.35, query_axes = array<i64: 0, 2, 1, 3>, out_axes = array<i64: 0, 2, 1, 3>}
        -> tensor<1x?x6x8xf32>
      return %o : tensor<1x?x6x8xf32>
    }
    ```
  }];
  let arguments = (ins Heddle_Buffer:$query, Heddle_Buffer:$key, Heddle_Buffer:$value, Optional<Heddle_Buffer>:$bias,
                       Optional<Heddle_Buffer>:$sinks, Variadic<Heddle_Buffer>:$inits, Heddle_MaskAttr:$mask, F64Attr:$scale,
                       DefaultValuedAttr<F64Attr, "0.0">:$softcap,
                       DefaultValuedAttr<DenseI64ArrayAttr, "{0, 1, 2, 3}">:$query_axes,
                       DefaultValuedAttr<DenseI64ArrayAttr, "{0, 1, 2, 3}">:$key_axes,
                       DefaultValuedAttr<DenseI64ArrayAttr, "{0, 1, 2, 3}">:$value_axes,
                       DefaultValuedAttr<DenseI64ArrayAttr, "{0, 1, 2, 3}">:$out_axes);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let assemblyFormat = [{
    $mask `ins` `(` $query `,` $key `,` $value (`bias` $bias^)? (`sinks` $sinks^)? `:` type($query) `,` type($key) `,` type($value)
    (`bias` type($bias)^)? (`sinks` type($sinks)^)? `)` `outs` `(` $inits `:` type($inits) `)` attr-dict (`->` type($results)^)?
  }];
  let extraClassDeclaration = dpsMethods # [{
    static constexpr int64_t maxHeadDim = 1024;
    // Sizes as (batch, heads, sequence, head_dim).
    ::llvm::SmallVector<int64_t, 4> getQueryShape();
    ::llvm::SmallVector<int64_t, 4> getKeyShape();
    ::llvm::SmallVector<int64_t, 4> getValueShape();
    ::llvm::SmallVector<int64_t, 4> getOutShape();
    // Whether the elements of the last dimension lie side by side: of a tensor, and of a buffer whose type says so.
    static bool hasUnitStride(::mlir::Value operand);
  }];
  let hasVerifier = 1;
}

def Heddle_RaggedAttentionOp : Heddle_KernelOp<"ragged_attention", [AttrSizedOperandSegments]> {
  let summary = "Attention within each sequence of a ragged batch";
  let description = [{
    What `attention` with `sequences` computes, in tiles as `flash_attention`: row r of query, key, value and destination is token r of
    the batch, with its heads side by side. Row s of `sequences` is the first row of a sequence and how many it has; their rows follow
    each other. A query sees what the mask lets through of its own sequence, and with `globals` the keys of its global tokens, those whose
    number is not 0. With `of_globals` none but rows of global tokens are computed; the others stay what the destination holds.

    Constraints:
      * C1: query is (rows, num_heads * head_dim), key (rows, num_kv_heads * head_dim), value (rows, num_kv_heads * value_dim) and the
        one destination (rows, num_heads * value_dim), all f32.
      * C2: num_heads is a positive multiple of num_kv_heads, head_dim and value_dim are 1 to 1024.
      * C3: sequences is i32 (count, 2).
      * C4: sinks is f32 (num_heads).
      * C5: positions, with starts and rows, are as in `online_attention` (C6), or f32 (rows, 2 * num_heads * num_buckets), what each token
        gives as `attention` has it (C7).
      * C6: globals is i32 (rows); `of_globals` needs it.

    ```mlir
    func.func @encode(%q: tensor<?x48xf32>, %k: tensor<?x16xf32>, %v: tensor<?x16xf32>, %sequences: tensor<?x2xi32>,
                      %out: tensor<?x48xf32>) -> tensor<?x48xf32> {
      %o = heddle.ragged_attention <full> ins(%q, %k, %v, %sequences
          : tensor<?x48xf32>, tensor<?x16xf32>, tensor<?x16xf32>, tensor<?x2xi32>)
        outs(%out : tensor<?x48xf32>) {num_heads = 6, num_kv_heads = 2, scale = 0.35} -> tensor<?x48xf32>
      return %o : tensor<?x48xf32>
    }
    ```
  }];
  let arguments = (ins Heddle_Buffer:$query, Heddle_Buffer:$key, Heddle_Buffer:$value, Heddle_Buffer:$sequences,
                       Optional<Heddle_Buffer>:$positions, Optional<Heddle_Buffer>:$sinks, Optional<Heddle_Buffer>:$globals,
                       Variadic<Heddle_Buffer>:$inits, I64Attr:$num_heads, I64Attr:$num_kv_heads, Heddle_MaskAttr:$mask,
                       F64Attr:$scale, DefaultValuedAttr<F64Attr, "0.0">:$softcap, OptionalAttr<DenseI64ArrayAttr>:$starts,
                       OptionalAttr<DenseI64ArrayAttr>:$rows, UnitAttr:$of_globals);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let assemblyFormat = [{
    $mask `ins` `(` $query `,` $key `,` $value `,` $sequences (`positions` $positions^)? (`sinks` $sinks^)? (`globals` $globals^)? `:`
    type($query) `,` type($key) `,` type($value) `,` type($sequences) (`positions` type($positions)^)? (`sinks` type($sinks)^)?
    (`globals` type($globals)^)? `)` `outs` `(` $inits `:` type($inits) `)` attr-dict (`->` type($results)^)?
  }];
  let extraClassDeclaration = dpsMethods # [{
    int64_t getHeadDim();
    int64_t getValueDim();
  }];
  let hasVerifier = 1;
}

def Heddle_CombineSplitsOp : Heddle_KernelOp<"combine_splits", [AttrSizedOperandSegments]> {
  let summary = "Merges what attention to the splits of the keys left (Dao et al. 2023, Flash-Decoding)";
  let description = [{
    m = max over splits m_i, and the sink in the unit of these, log 2 (kernels of any device: 1, and e for 2 below);
    destination = sum 2^(m_i - m) o_i / (sum 2^(m_i - m) l_i + 2^(sink - m)), splits ascending: those that the row sees a key
    of under the mask, with the row's place in the cache.

    Constraints:
      * C1: the one destination is (rows, num_heads * head_dim), head_dim being the cache's.
      * C2: outputs are (max_rows, splits * num_heads * head_dim), maxima and sums (max_rows, splits * num_heads), all f32.
      * C3: split_kv is positive.

    ```mlir
    func.func @two_splits(%o: tensor<16x96xf32>, %m: tensor<16x12xf32>, %l: tensor<16x12xf32>, %cache: !heddle.kv_cache<2 x 2 x 8 x bf16>,
                          %out: tensor<?x48xf32>) -> tensor<?x48xf32> {
      %y = heddle.combine_splits <causal> ins(%o, %m, %l, %cache
          : tensor<16x96xf32>, tensor<16x12xf32>, tensor<16x12xf32>, <2 x 2 x 8 x bf16>)
        outs(%out : tensor<?x48xf32>) {num_heads = 6, split_kv = 512} -> tensor<?x48xf32>
      return %y : tensor<?x48xf32>
    }
    ```
  }];
  let arguments = (ins Heddle_Buffer:$outputs, Heddle_Buffer:$maxima, Heddle_Buffer:$sums, Heddle_KvCacheType:$cache,
                       Optional<Heddle_Buffer>:$sinks, Variadic<Heddle_Buffer>:$inits, I64Attr:$num_heads,
                       Heddle_MaskAttr:$mask, I64Attr:$split_kv);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let assemblyFormat = [{
    $mask `ins` `(` $outputs `,` $maxima `,` $sums `,` $cache (`sinks` $sinks^)? `:` type($outputs) `,` type($maxima) `,`
    type($sums) `,` type($cache) (`,` type($sinks)^)? `)` `outs` `(` $inits `:` type($inits) `)` attr-dict (`->` type($results)^)?
  }];
  let hasVerifier = 1;
}

def Heddle_PreferSplitsOp : Heddle_Op<"prefer_splits", [MemoryEffects<[MemRead]>]> {
  let summary = "Whether a step has too little attention for its threads unless the keys are split";
  let description = [{
    True if the step has at most max_rows rows, its longest sequence more than split_kv tokens, and its sequences times
    `items`, what threads divide of one without splits, are fewer than items_per_thread for each of several threads, on a device fewer than
    items_per_thread. Both answers lead to the same bits; where there are no threads (the interpreter), the last condition holds.

    Constraints:
      * C1: items, max_rows, split_kv and items_per_thread are positive.

    Folds to false where rows is a constant above max_rows.

    ```mlir
    func.func @few_rows(%cache: !heddle.kv_cache<2 x 2 x 8 x bf16>, %rows: index) -> i1 {
      %few = heddle.prefer_splits %cache, %rows {items = 2, max_rows = 16, split_kv = 512, items_per_thread = 4} : <2 x 2 x 8 x bf16>
      return %few : i1
    }
    ```
  }];
  let arguments = (ins Heddle_KvCacheType:$cache, Index:$rows, I64Attr:$items, I64Attr:$max_rows, I64Attr:$split_kv,
                       DefaultValuedAttr<I64Attr, "1">:$items_per_thread);
  let results = (outs I1:$result);
  let hasFolder = 1;
  let assemblyFormat = "$cache `,` $rows attr-dict `:` type($cache)";
  let hasVerifier = 1;
}

def Heddle_OnlineLatentAttentionOp : Heddle_KernelOp<"online_latent_attention", [AttrSizedOperandSegments]> {
  let summary = "Latent attention over the cache, block by block, in one of two bodies";
  let description = [{
    What `latent_attention` computes, over the rows [latent | rotary key] of the cache. Materialised: for each KV head and
    block of keys, keys and values are rebuilt and met by all queries of the sequence. Absorbed: queries are folded,
    [q_nope @ key_up | q_rope], attend with one KV head of head_dim rank + rope whose value is the first rank columns of its
    key, and the result is projected by value_up. `automatic` takes the cheaper one for each sequence: materialised where
    queries * (rebuild + keys * latent) > keys * rebuild, with rebuild = rank * (nope + value) and latent = 2 * rank - nope
    - value, unless the step asks for one form.

    key_ups and value_ups are one matrix per KV head up to lower-to-kernels, then one packed tensor: each head packed for
    itself, one after the other. key_folds are the transposed key_ups, packed likewise, where the absorbed body may run.
    The second destination is scratch. With `split_kv`, folded queries attend to splits of so many keys, which threads divide
    (Flash-Decoding), and a third destination holds what they saw of each, outputs, maxima and sums, until it is merged in
    ascending order.

    Constraints:
      * C1: query is (rows, num_heads * (nope + rope)), the destinations (rows, num_heads * value) and (rows, the scratch
        of the dimensions).
      * C2: the cache is latent and num_heads a multiple of num_kv_heads.
      * C3: key_ups and value_ups are num_kv_heads matrices or one packed tensor; key_ups may be left out where key_folds are there.
      * C4: split_kv is positive, is not of the materialised body, and comes with f32 (max_rows, splits * num_heads * (latent + 2)).

    ```mlir
    func.func @step(%q: tensor<?x18xf32>, %cache: !heddle.kv_cache<2 x 1 x 11 x bf16, latent = 7>, %u: tensor<5x7xf32>,
                    %w: tensor<3x7xf32>, %out: tensor<?x6xf32>, %scratch: tensor<?x64xf32>) -> tensor<?x6xf32> {
      %layer = arith.constant 1 : index
      %o, %used = heddle.online_latent_attention <materialised> <causal>
        ins(%q, %cache[%layer] : tensor<?x18xf32>, <2 x 1 x 11 x bf16, latent = 7>)
        key_ups(%u, %u : tensor<5x7xf32>, tensor<5x7xf32>) value_ups(%w, %w : tensor<3x7xf32>, tensor<3x7xf32>)
        outs(%out, %scratch : tensor<?x6xf32>, tensor<?x64xf32>)
        {num_heads = 2, num_kv_heads = 2, nope = 5, value = 3, scale = 0.33} -> tensor<?x6xf32>, tensor<?x64xf32>
      return %o : tensor<?x6xf32>
    }
    ```
  }];
  let arguments = (ins Heddle_Buffer:$query, Heddle_KvCacheType:$cache, Index:$layer, Variadic<Heddle_Buffer>:$key_ups,
                       Variadic<Heddle_Buffer>:$value_ups, Optional<Heddle_Buffer>:$key_folds, Variadic<Heddle_Buffer>:$inits,
                       I64Attr:$num_heads, I64Attr:$num_kv_heads, I64Attr:$nope, I64Attr:$value, Heddle_MaskAttr:$mask,
                       F64Attr:$scale, Heddle_LatentFormAttr:$form, OptionalAttr<StrAttr>:$key_format,
                       OptionalAttr<StrAttr>:$fold_format, OptionalAttr<StrAttr>:$value_format, OptionalAttr<I64Attr>:$split_kv);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let assemblyFormat = [{
    $form $mask `ins` `(` $query `,` $cache `[` $layer `]` `:` type($query) `,` type($cache) `)`
    (`key_ups` `(` $key_ups^ `:` type($key_ups) `)`)? `value_ups` `(` $value_ups `:` type($value_ups) `)`
    (`key_folds` `(` $key_folds^ `:` type($key_folds) `)`)? `outs` `(` $inits `:` type($inits) `)` attr-dict (`->` type($results)^)?
  }];
  let extraClassDeclaration = dpsMethods # [{
    LatentDims getDims();
  }];
  let hasVerifier = 1;
}

def Heddle_RotateAppendOp : Heddle_KernelOp<"rotate_append", [AttrSizedOperandSegments]> {
  let summary = "Queries and keys of a step rotated, the keys and values stored behind those that the cache holds";
  let description = [{
    A row has the num_heads queries, num_kv_heads keys and as many values of a token, side by side, as one product makes them. The first
    destination becomes the queries, rotated as `rope` does it; the cache gets the rotated keys and the values, as `kv_append` stores them. With
    `query_norm` and `key_norm` each head of queries and of keys is normalised before, as `rms_norm` does it, by `heads_eps` and `heads_weight_offset`.

    The rows are those of the input, or, with weights, of the product that `packed_matmul` makes of the input and them: the rotation is then what ends the
    product. A second destination is room for that product, a third for what it prepares of its rows; what is left in them is of no use.

    Constraints:
      * C1: rows of heads are f32 (rows, (num_heads + 2 num_kv_heads) * head_dim), the first destination f32 (rows, num_heads * head_dim), heads being the cache's.
      * C2: positions are i32 (rows), the table f32 (context, rotary_dim).
      * C3: offset is not negative and offset + rotary_dim not greater than head_dim.
      * C4: the cache holds numbers of keys and values, no latents and no codes.
      * C5: both norms are f32 (head_dim) and come with `heads_eps` and `heads_weight_offset`.
      * C6: weights come with k, `format` and a second destination f32 of rows of heads; the input is (rows, k), f32 or bf16. Bias, norm and a third destination
        need weights, and are as in `packed_matmul` (C3, C7, C8).

    ```mlir
    #rope = #heddle.rope<half, table = 0, attention_factor = 1.0, inverse_frequency = array<f32: 1.0, 0.1>>
    func.func @two_heads_on_one(%x: tensor<?x16xf32>, %p: tensor<?xi32>, %cache: !heddle.kv_cache<2 x 1 x 4 x bf16>, %out: tensor<?x8xf32>) -> tensor<?x8xf32> {
      %layer = arith.constant 1 : index
      %table = heddle.rope_table 0 : tensor<?x4xf32>
      %q = heddle.rotate_append #rope ins(%x, %p, %table, %cache[%layer] : tensor<?x16xf32>, tensor<?xi32>, tensor<?x4xf32>, <2 x 1 x 4 x bf16>)
        outs(%out : tensor<?x8xf32>) {num_heads = 2 : i64} -> tensor<?x8xf32>
      return %q : tensor<?x8xf32>
    }
    func.func @of_a_product(%x: tensor<?x64xf32>, %w: tensor<1024xi8>, %p: tensor<?xi32>, %cache: !heddle.kv_cache<2 x 1 x 4 x bf16>, %out: tensor<?x8xf32>, %room: tensor<?x16xf32>) -> tensor<?x8xf32> {
      %layer = arith.constant 1 : index
      %table = heddle.rope_table 0 : tensor<?x4xf32>
      %q, %rows = heddle.rotate_append #rope ins(%x, %p, %table, %cache[%layer] weights %w
          : tensor<?x64xf32>, tensor<?xi32>, tensor<?x4xf32>, <2 x 1 x 4 x bf16> weights tensor<1024xi8>)
        outs(%out, %room : tensor<?x8xf32>, tensor<?x16xf32>) {num_heads = 2 : i64, k = 64 : i64, format = "q8_0"} -> tensor<?x8xf32>, tensor<?x16xf32>
      return %q : tensor<?x8xf32>
    }
    ```
  }];
  let arguments = (ins Heddle_Buffer:$input, Heddle_Buffer:$positions, Heddle_Buffer:$table, Heddle_KvCacheType:$cache, Index:$layer,
                       Optional<Heddle_Buffer>:$query_norm, Optional<Heddle_Buffer>:$key_norm, Optional<Heddle_Buffer>:$weights,
                       Optional<Heddle_Buffer>:$bias, Optional<Heddle_Buffer>:$norm, Variadic<Heddle_Buffer>:$inits, Heddle_RopeAttr:$rope,
                       I64Attr:$num_heads, DefaultValuedAttr<I64Attr, "0">:$offset, OptionalAttr<F64Attr>:$heads_eps,
                       OptionalAttr<F64Attr>:$heads_weight_offset, OptionalAttr<I64Attr>:$k, OptionalAttr<StrAttr>:$format, OptionalAttr<F64Attr>:$eps,
                       OptionalAttr<F64Attr>:$weight_offset);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let assemblyFormat = [{
    $rope `ins` `(` $input `,` $positions `,` $table `,` $cache `[` $layer `]` (`norms` $query_norm^ `,` $key_norm)? (`weights` $weights^)? (`bias` $bias^)?
    (`norm` $norm^)? `:` type($input) `,` type($positions) `,` type($table) `,` type($cache) (`norms` type($query_norm)^ `,` type($key_norm))?
    (`weights` type($weights)^)? (`bias` type($bias)^)? (`norm` type($norm)^)? `)` `outs` `(` $inits `:` type($inits) `)` attr-dict (`->` type($results)^)?
  }];
  let extraClassDeclaration = dpsMethods # [{
    ::llvm::StringRef getArithmetic();
    // Columns of a row of heads.
    int64_t getWidth();
    // Where the product and its prepared rows go; null: there are none.
    ::mlir::Value getProductRoom() { return getInits().size() > 1 ? getInits()[1] : ::mlir::Value(); }
    ::mlir::Value getRoom() { return getInits().size() > 2 ? getInits()[2] : ::mlir::Value(); }
  }];
  let hasVerifier = 1;
}

#endif
