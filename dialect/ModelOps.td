// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Model ops: what frontends emit.
#ifndef HEDDLE_MODEL_OPS
#define HEDDLE_MODEL_OPS

include "dialect/HeddleAttrs.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/TilingInterface.td"

class Heddle_ModelOp<string mnemonic, list<Trait> traits = []> : Heddle_Op<mnemonic, [Pure, DeclareOpInterfaceMethods<ReifyRankedShapedTypeOpInterface, ["reifyResultShapes"]>] # traits> {
  let hasVerifier = 1;
}

// Slices of the result are computed from slices of the operands (dialect/Tiling.cpp): loops are the result's leading dimensions.
class Heddle_TiledModelOp<string mnemonic, list<Trait> traits = []> : Heddle_ModelOp<mnemonic, [DeclareOpInterfaceMethods<TilingInterface,
    ["getLoopIteratorTypes", "getIterationDomain", "getTiledImplementation", "getResultTilePosition",
     "getIterationDomainTileFromResultTile", "generateResultTileValue"]>] # traits>;

// An optional attribute whose accessor gives null where it is absent.
class Heddle_Nullable<Attr attr> : OptionalAttr<attr> {
  let returnType = attr.returnType;
  let convertFromStorage = "$_self";
}

def Heddle_WeightOp : Heddle_Op<"weight", [Pure]> {
  let summary = "A tensor of the model, where it is stored; or several, where they are packed";
  let description = [{
    Never a constant: its bytes lie in the model's files (`storage`) until pack-weights gives it a place in the weights section
    (`packing`), which packaging fills.

    Constraints:
      * C1: the result is statically shaped.
      * C2: there is a storage or a packing, and not both.
      * C3: the result of packed matrices is their bytes, of packed vectors f32 of their shape; a stored tensor keeps its shape.

    ```mlir
    func.func @norm() -> tensor<576xf32> {
      %w = heddle.weight "model.norm.weight" <type = "f32", file = 0, offset = 4096> : tensor<576xf32>
      return %w : tensor<576xf32>
    }
    #gate = #heddle.source<name = "gate", rows = 32, storage = <type = "q8_0", file = 0, offset = 4096>>
    func.func @gate() -> tensor<2176xi8> {
      %w = heddle.weight "gate" packed <layout = stacked, format = "q8_0", shape = [32, 64], offset = 0, sources = [#gate]> : tensor<2176xi8>
      return %w : tensor<2176xi8>
    }
    ```
  }];
  let arguments = (ins StrAttr:$name, Heddle_Nullable<Heddle_StorageAttr>:$storage, Heddle_Nullable<Heddle_PackingAttr>:$packing);
  let results = (outs AnyStaticShapeTensor:$result); // weight_c1
  let builders = [
    OpBuilder<(ins "::mlir::Type":$type, "::llvm::StringRef":$name, "StorageAttr":$storage),
              "build($_builder, $_state, type, name, storage, PackingAttr());">,
    OpBuilder<(ins "::mlir::Type":$type, "::llvm::StringRef":$name, "PackingAttr":$packing),
              "build($_builder, $_state, type, name, StorageAttr(), packing);">];
  let assemblyFormat = "$name (`packed` $packing^) : ($storage)? attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Heddle_EmbeddingOp : Heddle_TiledModelOp<"embedding"> {
  let summary = "Row lookup";
  let description = [{
    result[..., :] = scale * table[ids[...], :]

    Ids from `vocabulary` on name rows of `given`, which are not scaled: what a model is told otherwise than by tokens, as what it sees of
    an image.

    Constraints:
      * C1: table has rank 2: (vocabulary, width).
      * C2: result has the shape of ids, with width appended.
      * C3: given is (any number, width), of f32.

    Canonical form: a weight is read as it is stored, not widened before.
    Loops for tiling: the dimensions of ids.

    ```mlir
    func.func @tokens(%ids: tensor<1x?xi32>, %table: tensor<256x64xbf16>) -> tensor<1x?x64xf32> {
      %x = heddle.embedding %ids, %table {scale = 8.0} : tensor<1x?xi32>, tensor<256x64xbf16> -> tensor<1x?x64xf32>
      return %x : tensor<1x?x64xf32>
    }
    ```
  }];
  let arguments = (ins TensorOf<[I32]>:$ids, TensorOf<[AnyFloat]>:$table, DefaultValuedAttr<F64Attr, "1.0">:$scale,
                       Optional<TensorOf<[F32]>>:$given);
  let results = (outs TensorOf<[F32]>:$result);
  let builders = [OpBuilder<(ins "mlir::Type":$result, "mlir::Value":$ids, "mlir::Value":$table, "mlir::FloatAttr":$scale), [{
    build($_builder, $_state, result, ids, table, scale, mlir::Value());
  }]>];
  let hasCanonicalizer = 1;
  let assemblyFormat = [{
    $ids `,` $table (`given` `(` $given^ `:` type($given) `)`)? attr-dict `:` type($ids) `,` type($table) `->` type($result)
  }];
}

def Heddle_LinearOp : Heddle_TiledModelOp<"linear", [AttrSizedOperandSegments]> {
  let summary = "x W^T + b, of one or several weights that share their input";
  let description = [{
    result[..., n] = sum_k input[..., k] * W[n, k] + b[n], where W stacks all weights along out_features and b all biases.

    Constraints:
      * C1: weights have rank 2, (out_features, in_features), and in_features is the input's last dimension.
      * C2: result's last dimension is the sum of out_features; its others are the input's.
      * C3: there is no bias, or one per weight, (out_features).

    Canonical form: no biases where all are zero, no weight without rows beside others, weights as they are stored,
    not widened before.
    Loops for tiling: all dimensions of the result but the last.

    ```mlir
    func.func @query_and_key(%x: tensor<?x64xf32>, %wq: tensor<64x64xbf16>, %wk: tensor<32x64xbf16>) -> tensor<?x96xf32> {
      %qk = heddle.linear %x, weights(%wq, %wk : tensor<64x64xbf16>, tensor<32x64xbf16>) : tensor<?x64xf32> -> tensor<?x96xf32>
      return %qk : tensor<?x96xf32>
    }
    ```
  }];
  let arguments = (ins TensorOf<[F32]>:$input, Variadic<TensorOf<[AnyFloat]>>:$weights, Variadic<TensorOf<[AnyFloat]>>:$biases);
  let results = (outs TensorOf<[F32]>:$result);
  let hasCanonicalizer = 1;
  let assemblyFormat = [{
    $input `,` `weights` `(` $weights `:` type($weights) `)` (`biases` `(` $biases^ `:` type($biases) `)`)? attr-dict
    `:` type($input) `->` type($result)
  }];
}

def Heddle_IntegerLinearOp : Heddle_ModelOp<"integer_linear"> {
  let summary = "(x - zero) W^T of bytes, as exact 32-bit integers (MatMulInteger of ONNX)";
  let description = [{
    result[..., n] = sum_k (input[..., k] - zero) * W[n, k], modulo 2^32. Bytes of the input and the zero are signed, or with `is_unsigned` not.
    W is what codes of 8 bits less their zero points stand for: whole numbers of at most 255 in magnitude.

    Constraints:
      * C1: the weight has rank 2, (out_features, in_features), and in_features is the input's last dimension.
      * C2: the result has the input's shape with out_features as last dimension.
      * C3: the zero is a scalar.

    ```mlir
    func.func @asymmetric(%x: tensor<?x64xi8>, %z: tensor<i8>, %w: tensor<32x64xf32>) -> tensor<?x32xi32> {
      %y = heddle.integer_linear unsigned %x zero(%z : tensor<i8>), %w : tensor<?x64xi8>, tensor<32x64xf32> -> tensor<?x32xi32>
      return %y : tensor<?x32xi32>
    }
    ```
  }];
  let arguments = (ins TensorOf<[I8]>:$input, Optional<TensorOf<[I8]>>:$zero, TensorOf<[F32]>:$weight, UnitAttr:$is_unsigned);
  let results = (outs TensorOf<[I32]>:$result);
  let assemblyFormat = [{
    (`unsigned` $is_unsigned^)? $input (`zero` `(` $zero^ `:` type($zero) `)`)? `,` $weight attr-dict `:` type($input) `,` type($weight) `->` type($result)
  }];
}

def Heddle_RmsNormOp : Heddle_TiledModelOp<"rms_norm", [AllTypesMatch<["input", "result"]>]> {
  let summary = "Root mean square normalisation over the last dimension (Zhang and Sennrich 2019, arXiv:1910.07467)";
  let description = [{
    result = input / sqrt(mean(input^2) + eps) * (weight + weight_offset)

    Constraints:
      * C1: weight is (width), width being the input's last dimension; of an input (batch, heads, sequence, width) it may be
        (heads * width), the weight of one head behind that of the other.
      * C2: eps is not negative.

    Canonical form: the weight is read as it is stored, not widened before.
    Loops for tiling: all dimensions but the last.

    ```mlir
    func.func @gemma_norm(%x: tensor<?x64xf32>, %w: tensor<64xf32>) -> tensor<?x64xf32> {
      %y = heddle.rms_norm %x, %w {eps = 1.0e-6, weight_offset = 1.0} : tensor<?x64xf32>, tensor<64xf32>
      return %y : tensor<?x64xf32>
    }
    ```
  }];
  let arguments = (ins TensorOf<[F32]>:$input, TensorOf<[AnyFloat]>:$weight, F64Attr:$eps,
                       DefaultValuedAttr<F64Attr, "0.0">:$weight_offset);
  let results = (outs TensorOf<[F32]>:$result);
  let hasCanonicalizer = 1;
  let assemblyFormat = "$input `,` $weight attr-dict `:` type($input) `,` type($weight)";
}

def Heddle_LayerNormOp : Heddle_TiledModelOp<"layer_norm", [AllTypesMatch<["input", "result"]>]> {
  let summary = "Layer normalisation over the last dimension (Ba et al. 2016, arXiv:1607.06450)";
  let description = [{
    result = (input - mean(input)) / sqrt(var(input) + eps) * weight + bias

    Constraints:
      * C1: weight and bias are (width), width being the input's last dimension; of an input (batch, heads, sequence, width) both may be
        (heads * width), those of one head behind those of the other.
      * C2: eps is not negative.

    Canonical form: no bias where it is zero; weight and bias as they are stored, not widened before.
    Loops for tiling: all dimensions but the last.

    ```mlir
    func.func @gpt2_norm(%x: tensor<?x64xf32>, %w: tensor<64xf32>, %b: tensor<64xf32>) -> tensor<?x64xf32> {
      %y = heddle.layer_norm %x, %w, %b {eps = 1.0e-5} : tensor<?x64xf32>, tensor<64xf32>, tensor<64xf32>
      return %y : tensor<?x64xf32>
    }
    ```
  }];
  let arguments = (ins TensorOf<[F32]>:$input, TensorOf<[AnyFloat]>:$weight, Optional<TensorOf<[AnyFloat]>>:$bias, F64Attr:$eps);
  let results = (outs TensorOf<[F32]>:$result);
  let hasCanonicalizer = 1;
  let assemblyFormat = "$input `,` $weight (`,` $bias^)? attr-dict `:` type($input) `,` type($weight) (`,` type($bias)^)?";
}

def Heddle_RopeOp : Heddle_TiledModelOp<"rope", [AllTypesMatch<["input", "result"]>]> {
  let summary = "Rotary position embedding";
  let description = [{
    For each pair (a, b) of the rotated dimensions and angle t = positions[batch, sequence] * inverse_frequency[i]:
    (a, b) becomes (a cos t - b sin t, b cos t + a sin t), cos and sin times the attention factor. From schedule on,
    cos and sin come from `table` (context, rotary_dim): rotary_dim / 2 cosines, then as many sines, of each position.
    The rotated dimensions begin at `offset`; the others pass.

    Constraints:
      * C1: input has rank 4: (batch, heads, sequence, head_dim); positions (batch, sequence).
      * C2: offset is not negative and offset + rotary_dim not greater than head_dim.

    Folds to its input where no angle is other than 0 (positions or all frequencies are constant zeros), attention_factor is 1, nothing
    grows and there is no table. Loops for tiling: batch, heads and sequence.

    ```mlir
    #rope = #heddle.rope<half, table = 0, attention_factor = 1.0, inverse_frequency = array<f32: 1.0, 0.1>>
    func.func @last_four_of_six(%q: tensor<1x2x?x6xf32>, %positions: tensor<1x?xi32>) -> tensor<1x2x?x6xf32> {
      %rotated = heddle.rope %q, %positions, #rope {offset = 2} : tensor<1x2x?x6xf32>, tensor<1x?xi32>
      return %rotated : tensor<1x2x?x6xf32>
    }
    ```
  }];
  let arguments = (ins 4DTensorOf<[F32]>:$input, 2DTensorOf<[I32]>:$positions, Optional<2DTensorOf<[F32]>>:$table, Heddle_RopeAttr:$rope,
                       DefaultValuedAttr<I64Attr, "0">:$offset);
  let results = (outs 4DTensorOf<[F32]>:$result);
  let hasFolder = 1;
  let assemblyFormat = "$input `,` $positions (`table` `(` $table^ `:` type($table) `)`) : (`,`)? $rope attr-dict `:` type($input) `,` type($positions)";
}

def Heddle_PositionBiasOp : Heddle_ModelOp<"position_bias"> {
  let summary = "What scores get for the distance between query and key: slopes (ALiBi, arXiv:2108.12409), buckets (T5, arXiv:1910.10683)";
  let description = [{
    With distance = keys - queries + i - j, as attention counts positions: without buckets
    result[0, h, i, j] = -table[h] * distance; with them result[0, h, i, j] = table[rows[k], h], k being the number of `starts` that
    are not greater than the distance. T5's logarithmic buckets are runs of distances like any other; the result is an operand
    of `attention` and made where scores are, never stored.

    Constraints:
      * C1: table is (num_heads), or (num_buckets, num_heads) with `starts` and `rows`.
      * C2: starts ascend, and there is one row more than starts.
      * C3: rows are rows of the table.
      * C4: result is (1, num_heads, queries, keys).

    Canonical form: neighbouring runs of distances have different rows.

    Example: distances below 1 read row 0, 1 and 2 read row 1, greater ones row 2.
    ```mlir
    func.func @three_buckets(%table: tensor<3x4xf32>, %n: index, %m: index) -> tensor<1x4x?x?xf32> {
      %bias = heddle.position_bias %table[%n, %m] {starts = array<i64: 1, 3>, rows = array<i64: 0, 1, 2>}
        : tensor<3x4xf32> -> tensor<1x4x?x?xf32>
      return %bias : tensor<1x4x?x?xf32>
    }
    ```
  }];
  let arguments = (ins TensorOf<[AnyFloat]>:$table, Index:$queries, Index:$keys,
                       OptionalAttr<DenseI64ArrayAttr>:$starts, OptionalAttr<DenseI64ArrayAttr>:$rows);
  let results = (outs 4DTensorOf<[F32]>:$result);
  let hasCanonicalizer = 1;
  let assemblyFormat = "$table `[` $queries `,` $keys `]` attr-dict `:` type($table) `->` type($result)";
}

def Heddle_AttentionOp : Heddle_ModelOp<"attention", [AttrSizedOperandSegments]> {
  let summary = "Scaled dot-product attention with grouped KV heads (arXiv:1706.03762, arXiv:2305.13245)";
  let description = [{
    result[h] = softmax(cap(scale * query[h] @ key[h / group]^T) + bias) @ value[h / group], over the keys that the mask
    lets through, where group = num_heads / num_kv_heads and cap(s) = softcap * tanh(s / softcap), or s without softcap.
    A row that sees no key, or only keys whose bias is minus infinity, is 0.
    Query i stands at key position (keys - queries + i). `sinks` adds one learned logit per head to the softmax's sum.
    The bias is an operand, or, with `positions`, what `position_bias` makes of this table for the distance between query and key: where
    rows are those of a ragged batch, or keys a view of the cache, no tensor has the shape of the scores. Or `positions` is what each token
    gives instead of a table (DeBERTa, arXiv:2006.03654): of its two halves u and w, (num_heads, num_buckets) each, query i and key j get
    u[i, h, rows[k]] + w[j, h, rows[k]], k being the number of `starts` that are not greater than i - j.

    With `sequences` the rows are those of a ragged batch: row s of it is the first row of a sequence and how many it has, and a
    query sees keys of its own sequence alone, at the positions that they have there.

    With `globals` a token whose number is not 0 is global: each query of its sequence sees its key, whatever the mask says, and its own
    result is that of global_query, global_key and global_value, of which it sees all (Longformer, arXiv:2004.05150).

    Constraints:
      * C1: query, key and value have rank 4: (batch, heads, sequence, head_dim).
      * C2: num_heads is a multiple of num_kv_heads.
      * C3: query and key have the same head_dim; key and value the same batch, heads and sequence.
      * C4: result is (batch, num_heads, queries, head_dim of value).
      * C5: sinks is (num_heads).
      * C6: sequences is (count, 2); batch is then 1, there are as many queries as keys, and there is no bias.
      * C7: positions, with starts and rows, is a table as `position_bias` has it (C1 to C3), or, where its first dimension is dynamic, of
        tokens: (batch, sequence, 2 * num_heads * num_buckets), with `sequences` (rows, 2 * num_heads * num_buckets), and there are as many
        queries as keys. It excludes a bias.
      * C8: globals is (rows) with `sequences` and else (batch, sequence); there are as many queries as keys, neither bias, positions nor
        sinks, and global_operands are three of the types of query, key and value.

    Canonical form: no bias where it, or the table of its `position_bias`, is zero.

    ```mlir
    func.func @three_query_heads_share_a_key(%q: tensor<1x6x?x8xf32>, %k: tensor<1x2x?x8xf32>, %v: tensor<1x2x?x8xf32>)
        -> tensor<1x6x?x8xf32> {
      %o = heddle.attention %q, %k, %v <causal, window = 128> {scale = 0.35, softcap = 50.0}
        : tensor<1x6x?x8xf32>, tensor<1x2x?x8xf32>, tensor<1x2x?x8xf32> -> tensor<1x6x?x8xf32>
      return %o : tensor<1x6x?x8xf32>
    }
    ```
  }];
  let arguments = (ins 4DTensorOf<[AnyFloat]>:$query, 4DTensorOf<[AnyFloat]>:$key, 4DTensorOf<[AnyFloat]>:$value,
                       Optional<4DTensorOf<[AnyFloat]>>:$bias, Optional<TensorOf<[AnyFloat]>>:$positions,
                       Optional<1DTensorOf<[AnyFloat]>>:$sinks, Optional<2DTensorOf<[I32]>>:$sequences,
                       Optional<TensorOf<[I32]>>:$globals, Variadic<4DTensorOf<[AnyFloat]>>:$global_operands,
                       Heddle_MaskAttr:$mask, F64Attr:$scale, DefaultValuedAttr<F64Attr, "0.0">:$softcap,
                       OptionalAttr<DenseI64ArrayAttr>:$starts, OptionalAttr<DenseI64ArrayAttr>:$rows);
  let results = (outs 4DTensorOf<[AnyFloat]>:$result);
  let hasCanonicalizer = 1;
  let assemblyFormat = [{
    $query `,` $key `,` $value (`bias` `(` $bias^ `:` type($bias) `)`)? (`positions` `(` $positions^ `:` type($positions) `)`)?
    (`sinks` `(` $sinks^ `:` type($sinks) `)`)? (`sequences` `(` $sequences^ `:` type($sequences) `)`)?
    (`globals` `(` $globals^ `,` $global_operands `:` type($globals) `,` type($global_operands) `)`)? $mask
    attr-dict `:` type($query) `,` type($key) `,` type($value) `->` type($result)
  }];
  let extraClassDeclaration = [{
    int64_t getNumHeads() { return getQuery().getType().getDimSize(1); }
    int64_t getNumKvHeads() { return getKey().getType().getDimSize(1); }
    int64_t getHeadDim() { return getQuery().getType().getDimSize(3); }
  }];
}

def Heddle_LatentAttentionOp : Heddle_ModelOp<"latent_attention", [AttrSizedOperandSegments]> {
  let summary = "Multi-head latent attention: keys and values rebuilt from a low-rank latent (DeepSeek-V2, arXiv:2405.04434)";
  let description = [{
    With g = h / group, group = num_heads / num_kv_heads, and query[h] = [q_nope | q_rope], nope and rope values long:
    result[h] = softmax(scale * (q_nope @ (latent @ key_ups[g]^T)^T + q_rope @ key_rope^T)) @ (latent @ value_ups[g]^T),
    over the keys that the mask lets through; query i stands at key position (keys - queries + i). key_ups and value_ups hold
    one matrix per KV head and depend on no position, so both forms of the body compute this: `materialised` rebuilds keys
    and values, `absorbed` moves them to the query's and the result's side, q_nope @ key_ups[g] against latent itself, and
    `automatic` takes, for each sequence, the cheaper one (heddle-absorb-mla-weights). What is kept per token is
    [latent | key_rope].

    Constraints:
      * C1: query, latent and key_rope have rank 4; latent is (batch, 1, keys, kv_lora_rank), key_rope (batch, 1, keys,
        qk_rope_head_dim).
      * C2: there are as many key_ups as value_ups, num_kv_heads, at least one, and num_heads is a multiple of it.
      * C3: each of key_ups is (qk_nope_head_dim, kv_lora_rank), and query's last dimension is qk_nope_head_dim +
        qk_rope_head_dim (0 without key_rope).
      * C4: each of value_ups is (v_head_dim, kv_lora_rank); the result is (batch, num_heads, queries, v_head_dim).
      * C5: batch and keys of latent are those of key_rope.

    ```mlir
    func.func @two_heads(%q: tensor<1x2x?x9xf32>, %latent: tensor<1x1x?x7xf32>, %rope: tensor<1x1x?x4xf32>,
                         %u: tensor<5x7xf32>, %w: tensor<3x7xf32>) -> tensor<1x2x?x3xf32> {
      %o = heddle.latent_attention %q, %latent rope(%rope : tensor<1x1x?x4xf32>)
        key_ups(%u, %u : tensor<5x7xf32>, tensor<5x7xf32>) value_ups(%w, %w : tensor<3x7xf32>, tensor<3x7xf32>) <causal>
        {scale = 0.33, form = #heddle.latent_form<automatic>} : tensor<1x2x?x9xf32>, tensor<1x1x?x7xf32> -> tensor<1x2x?x3xf32>
      return %o : tensor<1x2x?x3xf32>
    }
    ```
  }];
  let arguments = (ins 4DTensorOf<[AnyFloat]>:$query, 4DTensorOf<[AnyFloat]>:$latent, Optional<4DTensorOf<[AnyFloat]>>:$key_rope,
                       Variadic<2DTensorOf<[AnyFloat]>>:$key_ups, Variadic<2DTensorOf<[AnyFloat]>>:$value_ups,
                       Heddle_MaskAttr:$mask, F64Attr:$scale,
                       DefaultValuedAttr<Heddle_LatentFormAttr, "LatentForm::Materialised">:$form);
  let results = (outs 4DTensorOf<[AnyFloat]>:$result);
  let assemblyFormat = [{
    $query `,` $latent (`rope` `(` $key_rope^ `:` type($key_rope) `)`)? `key_ups` `(` $key_ups `:` type($key_ups) `)`
    `value_ups` `(` $value_ups `:` type($value_ups) `)` $mask attr-dict `:` type($query) `,` type($latent) `->` type($result)
  }];
  let extraClassDeclaration = [{
    LatentDims getDims();
  }];
}

def Heddle_GluOp : Heddle_TiledModelOp<"glu", [SameOperandsAndResultType]> {
  let summary = "Activation, gated where there is an `up` operand (Shazeer 2020, arXiv:2002.05202)";
  let description = [{
    result = activation(gate) * up, or activation(gate).

    Canonical form: no `up` of ones; relu of relu is one. Loops for tiling: all dimensions.

    ```mlir
    func.func @swiglu(%gate: tensor<?x96xf32>, %up: tensor<?x96xf32>) -> tensor<?x96xf32> {
      %y = heddle.glu <silu> %gate, %up : tensor<?x96xf32>
      return %y : tensor<?x96xf32>
    }
    ```
  }];
  let arguments = (ins TensorOf<[F32]>:$gate, Optional<TensorOf<[F32]>>:$up, Heddle_ActivationAttr:$activation);
  let results = (outs TensorOf<[F32]>:$result);
  let hasCanonicalizer = 1;
  let hasFolder = 1;
  let assemblyFormat = "$activation $gate (`,` $up^)? attr-dict `:` type($gate)";
  let hasVerifier = 0;
}

def Heddle_SoftcapOp : Heddle_TiledModelOp<"softcap", [SameOperandsAndResultType]> {
  let summary = "cap * tanh(input / cap), as Gemma 2 bounds its logits (arXiv:2408.00118)";
  let description = [{
    Constraints:
      * C1: cap is positive.

    Loops for tiling: all dimensions.

    ```mlir
    func.func @logits(%x: tensor<?x256xf32>) -> tensor<?x256xf32> {
      %y = heddle.softcap %x {cap = 30.0} : tensor<?x256xf32>
      return %y : tensor<?x256xf32>
    }
    ```
  }];
  let arguments = (ins TensorOf<[F32]>:$input, F64Attr:$cap);
  let results = (outs TensorOf<[F32]>:$result);
  let assemblyFormat = "$input attr-dict `:` type($input)";
}

def Heddle_MoeOp : Heddle_TiledModelOp<"moe", [AttrSizedOperandSegments]> {
  let summary = "Mixture of gated feed-forward experts with top-k routing (Jiang et al. 2024, arXiv:2401.04088)";
  let description = [{
    p = softmax(input @ router^T + router_bias), or sigmoid, where router_input takes the place of input if it is there; for the top_k experts of a
    token with the greatest p_e + correction_e (ties: the lower index), optionally divided by the sum of their p and multiplied by `routing`'s
    scale and by the expert's own of `scales`:
    result = sum_e p_e * down_e(activation(gate_e(input)) * up_e(input)), where gate_e, up_e and down_e add their biases, and `gating`
    bounds the gated activation; with `routing`'s scalesInput p_e multiplies input there and nothing else. Without `ups` the rows of gate_e are in turn those of a gate and those of an up projection, or, where it has as
    many rows as down_e has columns, nothing multiplies the activation: down_e(activation(gate_e(input))).
    With groups (DeepSeek-V3, arXiv:2412.19437) experts are cut into num_groups runs, of which the top_groups with the greatest
    score stay: the greatest p of the group, or, with `correction`, the sum of its two greatest p + correction. Experts of
    the others are not chosen.
    With a capacity, a token that `capacity` tokens before it in its sequence share an expert with gets nothing of that expert. A sequence is the last
    but one dimension; where rows are those of a ragged batch, the step's or encode's that computes them.

    Constraints:
      * C1: router is (num_experts, width of what it reads); there are num_experts gates, ups and downs.
      * C2: gate and up are (intermediate, width), down is (width, intermediate); without ups the gate is (2 * intermediate, width), or
        (intermediate, width) without gating.
      * C3: 1 <= top_k <= num_experts.
      * C4: correction is (num_experts).
      * C5: num_experts is a multiple of num_groups, the top_groups hold at least top_k experts, and with `correction` a group
        at least two; `jitter` excludes a correction.
      * C6: router_bias is (num_experts).
      * C7: gate_biases, up_biases and down_biases are none, or one for each gate, up or down, as long as it has rows.
      * C8: router_input has the type of input but for the last dimension.
      * C9: scales is (num_experts).

    Canonical form: a single expert, chosen by softmax, not scaled and without a capacity, with gates and ups of their own and without gating, is `linear` and
    `glu`; weights are read as they are stored, not
    widened before. Loops for tiling: all dimensions but the last, and but that of a sequence where there is a capacity.

    ```mlir
    func.func @better_of_two(%x: tensor<?x8xf32>, %router: tensor<2x8xf32>, %up: tensor<3x8xf32>, %down: tensor<8x3xf32>)
        -> tensor<?x8xf32> {
      %y = heddle.moe <silu> %x, %router gates(%up, %up : tensor<3x8xf32>, tensor<3x8xf32>)
        ups(%up, %up : tensor<3x8xf32>, tensor<3x8xf32>) downs(%down, %down : tensor<8x3xf32>, tensor<8x3xf32>)
        {top_k = 1, normalize = true} : tensor<?x8xf32>, tensor<2x8xf32> -> tensor<?x8xf32>
      return %y : tensor<?x8xf32>
    }
    ```
  }];
  let arguments = (ins TensorOf<[F32]>:$input, 2DTensorOf<[AnyFloat]>:$router, Optional<TensorOf<[F32]>>:$router_input,
                       Optional<1DTensorOf<[AnyFloat]>>:$router_bias, Optional<1DTensorOf<[AnyFloat]>>:$correction,
                       Optional<1DTensorOf<[AnyFloat]>>:$scales, Variadic<2DTensorOf<[AnyFloat]>>:$gates,
                       Variadic<2DTensorOf<[AnyFloat]>>:$ups, Variadic<2DTensorOf<[AnyFloat]>>:$downs,
                       Variadic<1DTensorOf<[AnyFloat]>>:$gate_biases, Variadic<1DTensorOf<[AnyFloat]>>:$up_biases,
                       Variadic<1DTensorOf<[AnyFloat]>>:$down_biases, I64Attr:$top_k, BoolAttr:$normalize,
                       OptionalAttr<Heddle_RoutingAttr>:$routing, OptionalAttr<Heddle_GatingAttr>:$gating,
                       Heddle_ActivationAttr:$activation);
  let results = (outs TensorOf<[F32]>:$result);
  let hasCanonicalizer = 1;
  let extraClassDeclaration = [{
    // Whether nothing multiplies an expert's activation; else, without ups, the rows of its gate alternate.
    bool isUngated();
    bool alternates() { return getUps().empty() && !isUngated(); }
    // Tokens of a sequence that an expert computes; 0: all.
    int64_t getCapacity() { return getRouting() ? getRouting()->getCapacity() : 0; }
    // What the router multiplies.
    ::mlir::Value getRoutedRows() { return getRouterInput() ? getRouterInput() : getInput(); }
  }];
  let assemblyFormat = [{
    $activation $input `,` $router (`router_input` `(` $router_input^ `:` type($router_input) `)`)?
    (`router_bias` `(` $router_bias^ `:` type($router_bias) `)`)? (`correction` `(` $correction^ `:` type($correction) `)`)?
    (`scales` `(` $scales^ `:` type($scales) `)`)? (`routing` $routing^)? (`gating` $gating^)?
    `gates` `(` $gates `:` type($gates) `)` (`ups` `(` $ups^ `:` type($ups) `)`)? `downs` `(` $downs `:` type($downs) `)`
    (`gate_biases` `(` $gate_biases^ `:` type($gate_biases) `)`)? (`up_biases` `(` $up_biases^ `:` type($up_biases) `)`)?
    (`down_biases` `(` $down_biases^ `:` type($down_biases) `)`)? attr-dict `:` type($input) `,` type($router) `->` type($result)
  }];
}

#endif
