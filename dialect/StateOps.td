// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// State ops: what a token leaves to those behind it has one size, however many there were. Model ops, and the kernels that they become.
#ifndef HEDDLE_STATE_OPS
#define HEDDLE_STATE_OPS

include "dialect/HeddleAttrs.td"
include "dialect/HeddleTypes.td"
include "dialect/KernelOps.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Heddle_StateOp<string mnemonic> : Heddle_Op<mnemonic,
    [AttrSizedOperandSegments, DeclareOpInterfaceMethods<ReifyRankedShapedTypeOpInterface, ["reifyResultShapes"]>,
     DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let hasVerifier = 1;
}

def Heddle_CausalConvOp : Heddle_StateOp<"causal_conv"> {
  let summary = "Depthwise convolution over the last tokens of a sequence (Mamba, arXiv:2312.00752; LFM2, arXiv:2511.23404)";
  let description = [{
    result[b, t, c] = activation(sum over j < width of weight[c * width + j] * input[b, t - (width - 1) + j, c] + bias[c]), where tokens
    before the first are zeros.

    With `cache` the rows are those of a ragged batch, and the width - 1 tokens before them the layer's state, from number `offset` of it on: (width - 1, channels),
    the oldest first.

    Constraints:
      * C1: input and result are (batch, sequence, channels), with `cache` (rows, channels).
      * C2: weight is (channels * width), bias (channels), width is 2 to 64, and an activation is silu.
      * C3: the cache is of states that have room for this one behind `offset`; it is there with a layer, and a layer with it.

    ```mlir
    func.func @of_three_tokens(%x: tensor<1x?x64xf32>, %w: tensor<192xbf16>) -> tensor<1x?x64xf32> {
      %y = heddle.causal_conv %x, %w {activation = #heddle.activation<silu>} : tensor<1x?x64xf32>, tensor<192xbf16> -> tensor<1x?x64xf32>
      return %y : tensor<1x?x64xf32>
    }
    ```
  }];
  let arguments = (ins TensorOf<[F32]>:$input, 1DTensorOf<[AnyFloat]>:$weight, Optional<1DTensorOf<[AnyFloat]>>:$bias,
                       Optional<Heddle_KvCacheType>:$cache, Optional<Index>:$layer, DefaultValuedAttr<I64Attr, "0">:$offset,
                       OptionalAttr<Heddle_ActivationAttr>:$activation);
  let results = (outs TensorOf<[F32]>:$result);
  let assemblyFormat = [{
    $input `,` $weight (`bias` `(` $bias^ `:` type($bias) `)`)? (`state` `(` $cache^ `[` $layer `]` `:` type($cache) `)`)? attr-dict
    `:` type($input) `,` type($weight) `->` type($result)
  }];
  let extraClassDeclaration = [{
    // f32 numbers of a layer's state.
    int64_t getStateSize();
    int64_t getChannels() { return getInput().getType().getShape().back(); }
    int64_t getWidth() { return getWeight().getType().getDimSize(0) / getChannels(); }
  }];
}

def Heddle_LinearAttentionOp : Heddle_StateOp<"linear_attention"> {
  let summary = "Attention whose keys and values are summed up in one matrix (arXiv:2006.16236), with decay, which keys' columns may have each (arXiv:2312.06635, arXiv:2510.26692), and delta rule (arXiv:2412.06464)";
  let description = [{
    Of each sequence and head h of the value, with key head g = h / (num_heads / num_key_heads), tokens in their order, S (key dim, value dim) from zeros on:
    S = exp(decay[h]) S, or row i of it times exp(decay[h, i]), then S += key[g] (x) value[h], or, with `beta`, S += beta[h] key[g] (x) (value[h] - S^T key[g]); result[h] = scale S^T query[g].

    With `cache` the rows are those of a ragged batch, and S before them is in the layer's state, from number `offset` of it on: (num_heads, key dim, value dim).

    Constraints:
      * C1: query and key are (batch, sequence, num_key_heads * key dim), value and result (batch, sequence, num_heads * value dim), beta
        (batch, sequence, num_heads), decay as beta or (batch, sequence, num_heads * key dim); with `cache` rows take the place of batch and sequence.
      * C2: num_heads is a positive multiple of num_key_heads, and heads are 1 to 1024 wide.
      * C3: as causal_conv's.

    ```mlir
    func.func @gated_delta(%q: tensor<1x?x32xf32>, %v: tensor<1x?x96xf32>, %g: tensor<1x?x4xf32>) -> tensor<1x?x96xf32> {
      %y = heddle.linear_attention %q, %q, %v decay(%g : tensor<1x?x4xf32>) beta(%g : tensor<1x?x4xf32>)
        {num_heads = 4, num_key_heads = 2, scale = 0.25} : tensor<1x?x32xf32>, tensor<1x?x32xf32>, tensor<1x?x96xf32> -> tensor<1x?x96xf32>
      return %y : tensor<1x?x96xf32>
    }
    func.func @decaying_columns(%q: tensor<1x?x64xf32>, %g: tensor<1x?x64xf32>) -> tensor<1x?x64xf32> {
      %y = heddle.linear_attention %q, %q, %q decay(%g : tensor<1x?x64xf32>) {num_heads = 4, num_key_heads = 4}
        : tensor<1x?x64xf32>, tensor<1x?x64xf32>, tensor<1x?x64xf32> -> tensor<1x?x64xf32>
      return %y : tensor<1x?x64xf32>
    }
    ```
  }];
  let arguments = (ins TensorOf<[F32]>:$query, TensorOf<[F32]>:$key, TensorOf<[F32]>:$value, Optional<TensorOf<[F32]>>:$decay,
                       Optional<TensorOf<[F32]>>:$beta, Optional<Heddle_KvCacheType>:$cache, Optional<Index>:$layer,
                       I64Attr:$num_heads, I64Attr:$num_key_heads, DefaultValuedAttr<F64Attr, "1.0">:$scale,
                       DefaultValuedAttr<I64Attr, "0">:$offset);
  let results = (outs TensorOf<[F32]>:$result);
  let assemblyFormat = [{
    $query `,` $key `,` $value (`decay` `(` $decay^ `:` type($decay) `)`)? (`beta` `(` $beta^ `:` type($beta) `)`)?
    (`state` `(` $cache^ `[` $layer `]` `:` type($cache) `)`)? attr-dict `:` type($query) `,` type($key) `,` type($value) `->` type($result)
  }];
  let extraClassDeclaration = [{
    // f32 numbers of a layer's state.
    int64_t getStateSize();
    int64_t getKeyDim() { return getKey().getType().getShape().back() / int64_t(getNumKeyHeads()); }
    int64_t getValueDim() { return getValue().getType().getShape().back() / int64_t(getNumHeads()); }
    // Whether each column of a key has a decay of its own.
    bool decaysByKey();
  }];
}

class Heddle_StateKernelOp<string mnemonic> : Heddle_KernelOp<mnemonic, [AttrSizedOperandSegments]> {
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let hasVerifier = 1;
}

def Heddle_RaggedConvOp : Heddle_StateKernelOp<"ragged_conv"> {
  let summary = "causal_conv of the rows of a ragged batch, behind the states of their sequences";
  let description = [{
    Reads and writes the layer's state as `causal_conv` has it, of each sequence of the step.

    Constraints:
      * C1: input and the one destination are f32 (rows, channels), weight f32 (channels * width), bias f32 (channels), width is 2 to
        64, and an activation is silu.
      * C2: the cache is of states that have room for this one behind `offset`.

    ```mlir
    func.func @step(%x: tensor<?x64xf32>, %w: tensor<192xf32>, %cache: !heddle.kv_cache<2 x 1 x 128 x f32 state>, %layer: index,
                    %out: tensor<?x64xf32>) -> tensor<?x64xf32> {
      %y = heddle.ragged_conv ins(%x, %w : tensor<?x64xf32>, tensor<192xf32>) state(%cache[%layer] : <2 x 1 x 128 x f32 state>)
        outs(%out : tensor<?x64xf32>) -> tensor<?x64xf32>
      return %y : tensor<?x64xf32>
    }
    ```
  }];
  let arguments = (ins Heddle_Buffer:$input, Heddle_Buffer:$weight, Optional<Heddle_Buffer>:$bias, Heddle_KvCacheType:$cache, Index:$layer,
                       Variadic<Heddle_Buffer>:$inits, DefaultValuedAttr<I64Attr, "0">:$offset,
                       OptionalAttr<Heddle_ActivationAttr>:$activation);
  let assemblyFormat = [{
    `ins` `(` $input `,` $weight (`bias` $bias^)? `:` type($input) `,` type($weight) (`bias` type($bias)^)? `)`
    `state` `(` $cache `[` $layer `]` `:` type($cache) `)` `outs` `(` $inits `:` type($inits) `)` attr-dict (`->` type($results)^)?
  }];
  let extraClassDeclaration = dpsMethods # [{
    // f32 numbers of a layer's state.
    int64_t getStateSize();
    int64_t getChannels() { return ::llvm::cast<::mlir::ShapedType>(getInput().getType()).getDimSize(1); }
    int64_t getWidth() { return ::llvm::cast<::mlir::ShapedType>(getWeight().getType()).getDimSize(0) / getChannels(); }
  }];
}

def Heddle_RaggedLinearAttentionOp : Heddle_StateKernelOp<"ragged_linear_attention"> {
  let summary = "linear_attention of the rows of a ragged batch, behind the states of their sequences";
  let description = [{
    Reads and writes the layer's state as `linear_attention` has it, of each sequence of the step.

    Constraints:
      * C1: query and key are f32 (rows, num_key_heads * key dim), value and the one destination (rows, num_heads * value dim), beta (rows,
        num_heads), decay as beta or (rows, num_heads * key dim), num_heads is a positive multiple of num_key_heads, and heads are 1 to 1024 wide.
      * C2: as ragged_conv's.

    ```mlir
    func.func @step(%q: tensor<?x32xf32>, %v: tensor<?x96xf32>, %g: tensor<?x4xf32>, %cache: !heddle.kv_cache<2 x 1 x 1536 x f32 state>,
                    %layer: index, %out: tensor<?x96xf32>) -> tensor<?x96xf32> {
      %y = heddle.ragged_linear_attention ins(%q, %q, %v decay %g : tensor<?x32xf32>, tensor<?x32xf32>, tensor<?x96xf32> decay tensor<?x4xf32>)
        state(%cache[%layer] : <2 x 1 x 1536 x f32 state>) outs(%out : tensor<?x96xf32>)
        {num_heads = 4, num_key_heads = 2} -> tensor<?x96xf32>
      return %y : tensor<?x96xf32>
    }
    ```
  }];
  let arguments = (ins Heddle_Buffer:$query, Heddle_Buffer:$key, Heddle_Buffer:$value, Optional<Heddle_Buffer>:$decay, Optional<Heddle_Buffer>:$beta,
                       Heddle_KvCacheType:$cache, Index:$layer, Variadic<Heddle_Buffer>:$inits, I64Attr:$num_heads, I64Attr:$num_key_heads,
                       DefaultValuedAttr<F64Attr, "1.0">:$scale, DefaultValuedAttr<I64Attr, "0">:$offset);
  let assemblyFormat = [{
    `ins` `(` $query `,` $key `,` $value (`decay` $decay^)? (`beta` $beta^)? `:` type($query) `,` type($key) `,` type($value)
    (`decay` type($decay)^)? (`beta` type($beta)^)? `)` `state` `(` $cache `[` $layer `]` `:` type($cache) `)`
    `outs` `(` $inits `:` type($inits) `)` attr-dict (`->` type($results)^)?
  }];
  let extraClassDeclaration = dpsMethods # [{
    // f32 numbers of a layer's state.
    int64_t getStateSize();
    int64_t getKeyDim() { return ::llvm::cast<::mlir::ShapedType>(getKey().getType()).getDimSize(1) / int64_t(getNumKeyHeads()); }
    int64_t getValueDim() { return ::llvm::cast<::mlir::ShapedType>(getValue().getType()).getDimSize(1) / int64_t(getNumHeads()); }
    // Whether each column of a key has a decay of its own.
    bool decaysByKey();
  }];
}

#endif
