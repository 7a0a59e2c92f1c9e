// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attributes: what a mask, a rotary embedding, a stored and a packed weight are.
#ifndef HEDDLE_ATTRS
#define HEDDLE_ATTRS

include "dialect/AttrClasses.td"

def Heddle_ActivationKind : Heddle_Enum<"ActivationKind", [
  I32EnumAttrCase<"Silu", 0, "silu">, I32EnumAttrCase<"Gelu", 1, "gelu">, I32EnumAttrCase<"GeluTanh", 2, "gelu_tanh">,
  I32EnumAttrCase<"Relu", 3, "relu">, I32EnumAttrCase<"QuickGelu", 4, "quick_gelu">, I32EnumAttrCase<"Tanh", 5, "tanh">,
  I32EnumAttrCase<"SquaredRelu", 6, "squared_relu">]>;
def Heddle_ActivationAttr : Heddle_EnumAttr<Heddle_ActivationKind, "activation"> {
  let summary = "The function that `glu` and experts apply";
  let description = [{
    ```mlir
    func.func private @gated() attributes {activation = #heddle.activation<gelu_tanh>}
    ```
  }];
}

def Heddle_LatentForm : Heddle_Enum<"LatentForm", [
  I32EnumAttrCase<"Materialised", 0, "materialised">, I32EnumAttrCase<"Absorbed", 1, "absorbed">,
  I32EnumAttrCase<"Automatic", 2, "automatic">]>;
def Heddle_LatentFormAttr : Heddle_EnumAttr<Heddle_LatentForm, "latent_form"> {
  let summary = "Which body computes latent attention";
  let description = [{
    ```mlir
    func.func private @chosen_for_each_sequence() attributes {form = #heddle.latent_form<automatic>}
    ```
  }];
}

// Block formats are ggml's; the encoding of a weight tensor until pack-weights.
def Heddle_QuantKind : Heddle_Enum<"QuantKind", [
  I32EnumAttrCase<"Q4_0", 0, "q4_0">, I32EnumAttrCase<"Q4_1", 1, "q4_1">, I32EnumAttrCase<"Q5_0", 2, "q5_0">,
  I32EnumAttrCase<"Q5_1", 3, "q5_1">, I32EnumAttrCase<"Q8_0", 4, "q8_0">, I32EnumAttrCase<"Q2_K", 5, "q2_k">,
  I32EnumAttrCase<"Q3_K", 6, "q3_k">, I32EnumAttrCase<"Q4_K", 7, "q4_k">, I32EnumAttrCase<"Q5_K", 8, "q5_k">,
  I32EnumAttrCase<"Q6_K", 9, "q6_k">, I32EnumAttrCase<"IQ4_NL", 10, "iq4_nl">, I32EnumAttrCase<"IQ4_XS", 11, "iq4_xs">,
  I32EnumAttrCase<"MXFP4", 12, "mxfp4">, I32EnumAttrCase<"IQ1_S", 13, "iq1_s">, I32EnumAttrCase<"IQ1_M", 14, "iq1_m">,
  I32EnumAttrCase<"IQ2_XXS", 15, "iq2_xxs">, I32EnumAttrCase<"IQ2_XS", 16, "iq2_xs">, I32EnumAttrCase<"IQ2_S", 17, "iq2_s">,
  I32EnumAttrCase<"IQ3_XXS", 18, "iq3_xxs">, I32EnumAttrCase<"IQ3_S", 19, "iq3_s">, I32EnumAttrCase<"TQ1_0", 20, "tq1_0">,
  I32EnumAttrCase<"TQ2_0", 21, "tq2_0">, I32EnumAttrCase<"E2M1_F16", 22, "e2m1_f16">, I32EnumAttrCase<"Q1_0", 23, "q1_0">]>;
def Heddle_QuantAttr : Heddle_EnumAttr<Heddle_QuantKind, "quant"> {
  let summary = "Block format of a quantised weight: the encoding of its tensor type";
  let description = [{
    ```mlir
    func.func private @weight() -> tensor<64x256xf32, #heddle.quant<q4_k>>
    ```
  }];
}

def Heddle_MaskAttr : Heddle_Attr<"Mask", "mask"> {
  let summary = "Which keys a query sees, where that follows from positions alone";
  let description = [{
    Key j is visible to query i if j <= i (causal; keys and queries counted from the start of the sequence), with a
    window i - window < j, and with `ahead` j < i + ahead. `#heddle.mask<full>` lets every query see every key of its sequence. A causal
    mask has no `ahead`. With `chunk`, which only a causal mask has, and no window beside it, keys are those of the query's chunk:
    j / chunk = i / chunk, in whole numbers (Llama 4). With `given`, which only a causal mask has, rows that a session is given and that stand side by
    side, as those of an image, see each other in both directions: j is also visible to i, whatever the window, where both are of one such run (Gemma 3), or of
    a prompt that sees itself whole (PaliGemma).

    ```mlir
    func.func private @sliding_window() attributes {mask = #heddle.mask<causal, window = 4096>}
    func.func private @on_both_sides() attributes {mask = #heddle.mask<full, window = 257, ahead = 257>}
    func.func private @from_the_chunk_on() attributes {mask = #heddle.mask<causal, chunk = 8192>}
    func.func private @within_images() attributes {mask = #heddle.mask<causal, window = 1024, given>}
    ```
  }];
  let parameters = (ins "bool":$causal, "int64_t":$window, DefaultValuedParameter<"int64_t", "0">:$ahead,
                        DefaultValuedParameter<"int64_t", "0">:$chunk, DefaultValuedParameter<"bool", "false">:$given);
  let builders = [AttrBuilder<(ins "bool":$causal, "int64_t":$window, CArg<"int64_t", "0">:$ahead, CArg<"int64_t", "0">:$chunk,
                                   CArg<"bool", "false">:$given), [{
    return $_get($_ctxt, causal, window, ahead, chunk, given);
  }]>];
  let extraClassDeclaration = [{
    // Tokens that the newest sees at most, itself included; 0: all.
    int64_t getReach() const { return getChunk() ? getChunk() : getWindow(); }
  }];
  let skipDefaultBuilders = 1;
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def Heddle_RopeAttr : Heddle_Attr<"Rope", "rope"> {
  let summary = "Rotary position embedding (Su et al. 2021, arXiv:2104.09864), scaling applied to the frequencies";
  let description = [{
    The first `2 * size(inverse_frequency)` values of a head are rotated, in pairs (i, i + half) or, `interleaved`,
    (2i, 2i + 1), by the angle position * inverse_frequency[i]; cos and sin are multiplied by `attention_factor`.
    `table` numbers the model's distinct rotary embeddings: kernels read cos and sin from a table of the session.
    With `growth` and `floor` both are also multiplied by 1 + growth * log(1 + floor((position + 1) / floor)), which grows with the
    context as Scalable-Softmax does (arXiv:2501.19399); with frequencies of 0 nothing else happens to queries (Llama 4).

    ```mlir
    #rope = #heddle.rope<interleaved, table = 0, attention_factor = 1.0, inverse_frequency = array<f32: 1.0, 0.1>>
    func.func private @two_pairs() attributes {rope = #rope}
    #growing = #heddle.rope<half, table = 1, attention_factor = 1.0, growth = 0.1, floor = 8192, inverse_frequency = array<f32: 0.0, 0.0>>
    func.func private @larger_at_long_distances() attributes {rope = #growing}
    ```
  }];
  let parameters = (ins "bool":$interleaved, "int64_t":$table, "::mlir::FloatAttr":$attentionFactor,
                        "::mlir::DenseF32ArrayAttr":$inverseFrequency, OptionalParameter<"::mlir::FloatAttr">:$growth,
                        DefaultValuedParameter<"int64_t", "0">:$floor);
  let builders = [AttrBuilder<(ins "bool":$interleaved, "int64_t":$table, "::mlir::FloatAttr":$attentionFactor,
                                   "::mlir::DenseF32ArrayAttr":$inverseFrequency, CArg<"::mlir::FloatAttr", "{}">:$growth,
                                   CArg<"int64_t", "0">:$floor), [{
    return $_get($_ctxt, interleaved, table, attentionFactor, inverseFrequency, growth, floor);
  }]>];
  let skipDefaultBuilders = 1;
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    int64_t getRotaryDim() const { return 2 * getInverseFrequency().size(); }
    // What cos and sin of a position are multiplied by.
    double getFactorAt(int64_t position) const;
  }];
}

def Heddle_RoutingAttr : Heddle_Attr<"Routing", "routing"> {
  let summary = "How experts are scored, grouped and filled (`heddle.moe`)";
  let description = [{
    `sigmoid`: scores are sigmoids of the router's logits instead of their softmax. The top_groups best of num_groups
    groups of experts take part. Weights are multiplied by `scale`. Of a sequence an expert computes the first `capacity` tokens that choose it
    (Switch Transformers, arXiv:2101.03961), and of others nothing; 0: all. With `scalesInput` an expert's weight multiplies what it
    reads instead of what it gives (Llama 4).
    With `jitter` (SparseMixer, arXiv:2409.12136) an expert's weight is its softmax among the experts that were not chosen before it and whose
    logit l is so near to its own, m, that (m - l) / max(|l|, m) is at most 2 jitter.

    Constraints:
      * C1: 1 <= topGroups <= numGroups; scale is finite; capacity and jitter are not negative.
      * C2: jitter excludes sigmoids and groups.

    ```mlir
    func.func private @deepseek_v3() attributes {routing = #heddle.routing<sigmoid = true, numGroups = 8, topGroups = 4, scale = 2.5>}
    ```
  }];
  let parameters = (ins DefaultValuedParameter<"bool", "false">:$sigmoid, DefaultValuedParameter<"int64_t", "1">:$numGroups,
                        DefaultValuedParameter<"int64_t", "1">:$topGroups, OptionalParameter<"::mlir::FloatAttr">:$scale,
                        DefaultValuedParameter<"int64_t", "0">:$capacity, OptionalParameter<"::mlir::FloatAttr">:$jitter,
                        DefaultValuedParameter<"bool", "false">:$scalesInput);
  let builders = [AttrBuilder<(ins "bool":$sigmoid, "int64_t":$numGroups, "int64_t":$topGroups, "::mlir::FloatAttr":$scale,
                                   "int64_t":$capacity, "::mlir::FloatAttr":$jitter, CArg<"bool", "false">:$scalesInput), [{
    return $_get($_ctxt, sigmoid, numGroups, topGroups, scale, capacity, jitter, scalesInput);
  }]>];
  let skipDefaultBuilders = 1;
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    double getScaleValue() const { return getScale() ? getScale().getValueAsDouble() : 1.0; }
  }];
}

def Heddle_GatingAttr : Heddle_Attr<"Gating", "gating"> {
  let summary = "How a gated activation is bounded (`heddle.moe`)";
  let description = [{
    activation(alpha g) / alpha * (u + offset), g = min(gate, limit) and u = max(min(up, limit), -limit); without it
    activation(gate) * up.

    Constraints:
      * C1: limit and alpha are positive, offset is finite.

    ```mlir
    func.func private @gpt_oss() attributes {gating = #heddle.gating<limit = 7.0, alpha = 1.702, offset = 1.0>}
    ```
  }];
  let parameters = (ins "::mlir::FloatAttr":$limit, "::mlir::FloatAttr":$alpha, "::mlir::FloatAttr":$offset);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Heddle_StorageAttr : Heddle_Attr<"Storage", "storage"> {
  let summary = "Where a weight lies in the model's files";
  let description = [{
    `type` is the stored type, `file` an index into the model's files, `offset` in bytes. `transposed`: stored as
    (in_features, out_features). `stride`: values from one stored row to the next, of a matrix whose stored rows are parts of
    others (only in types without blocks); 0 where they follow each other. Weights stay in the file until pack-weights streams them.

    `fileType`: the type in the file of a matrix that is quantised, or narrowed, while it is packed; its numbers are those that `type` has
    for them. Blocks of `type` lie along the stored rows, or, `acrossRows`, along the stored columns.

    `taps`: a stored row is that of a convolution's kernel, (in_channels, taps), and the matrix's is (taps, in_channels): element
    t * in_channels + c of a row is the stored row's element c * taps + t. 0 where both are the same.

    Constraints:
      * C1: `stride` and `taps` are not negative.
      * C2: `fileType` is another type than `type`; `acrossRows` is of a matrix that has one.
      * C3: with `taps` rows follow each other as the file has them (not `transposed`, no `stride`).

    ```mlir
    func.func private @conv2d() attributes {storage = #heddle.storage<type = "f32", file = 0, offset = 4096, taps = 9>}
    func.func private @conv1d() attributes {storage = #heddle.storage<type = "f32", file = 0, offset = 4096, transposed = true>}
    func.func private @quantized() attributes {storage = #heddle.storage<type = "q4_0", file = 0, offset = 4096, fileType = "bf16">}
    ```
  }];
  let parameters = (ins "::mlir::StringAttr":$type, "int64_t":$file, "int64_t":$offset, DefaultValuedParameter<"bool", "false">:$transposed,
                        DefaultValuedParameter<"int64_t", "0">:$stride, OptionalParameter<"::mlir::StringAttr">:$fileType,
                        DefaultValuedParameter<"bool", "false">:$acrossRows, DefaultValuedParameter<"int64_t", "0">:$taps);
  let builders = [AttrBuilder<(ins "::mlir::StringAttr":$type, "int64_t":$file, "int64_t":$offset, CArg<"bool", "false">:$transposed,
                                   CArg<"int64_t", "0">:$stride), [{
    return $_get($_ctxt, type, file, offset, transposed, stride, ::mlir::StringAttr(), /*acrossRows=*/false, /*taps=*/0);
  }]>];
  let extraClassDeclaration = [{
    // The same bytes as the transpose of what they are here.
    StorageAttr getTurned() const { return getPart(getOffset(), !getTransposed(), getStride()); }
    // Other bytes of the same file, stored in the same way.
    StorageAttr getPart(int64_t offset, bool transposed, int64_t stride) const {
      return get(getContext(), getType(), getFile(), offset, transposed, stride, getFileType(), getAcrossRows(), getTaps());
    }
    // The same bytes as kernels of `taps` elements whose channels come last.
    StorageAttr withTaps(int64_t taps) const {
      return get(getContext(), getType(), getFile(), getOffset(), getTransposed(), getStride(), getFileType(), getAcrossRows(), taps);
    }
    // Where element `column` of a row of `columns` lies in the stored row.
    int64_t storedColumn(int64_t column, int64_t columns) const {
      return getTaps() ? column % (columns / getTaps()) * getTaps() + column / (columns / getTaps()) : column;
    }
    // The type that the bytes in the file have.
    ::llvm::StringRef getTypeInFile() const { return (getFileType() ? getFileType() : getType()).getValue(); }
  }];
  let genVerifyDecl = 1;
  let assemblyFormat = "`<` struct(params) `>`";
}

def Heddle_PackingLayout : Heddle_Enum<"PackingLayout", [
  I32EnumAttrCase<"Stored", 0, "stored">, I32EnumAttrCase<"Vector", 1, "vector">, I32EnumAttrCase<"Stacked", 2, "stacked">,
  I32EnumAttrCase<"Interleaved", 3, "interleaved">]>;
def Heddle_PackingLayoutAttr : Heddle_EnumAttr<Heddle_PackingLayout, "packing_layout"> {
  let summary = "How tensors of the model lie in one tensor of the weights section";
  let description = [{
    * `stored`: one tensor, as the file has it.
    * `vector`: vectors as f32, one after the other.
    * `stacked`: matrices stacked along out_features, in panels of 16 rows (`compiler/weights/README.md`).
    * `interleaved`: each run of so many matrices, all of one shape, as panels in turn: panel p of a run of S is panel p / S of its
      matrix p % S. With S = 1 each matrix is packed for itself.

    ```mlir
    func.func private @gates_and_ups() attributes {layout = #heddle.packing_layout<interleaved>}
    ```
  }];
}

def Heddle_SourceAttr : Heddle_Attr<"Source", "source"> {
  let summary = "One tensor of the model that a packed one holds";
  let description = [{
    `rows`: those of the packed matrix that it gives (of a vector or a stored tensor: its elements). `storage`: the tensor in the
    model's files, as the model has it; where a packing is `transposed`, its transpose is what is packed.

    Constraints:
      * C1: `rows` is positive, or 0 for an empty tensor; the packing says which.

    ```mlir
    #query = #heddle.source<name = "q_proj", rows = 64, storage = <type = "bf16", file = 0, offset = 128>>
    func.func private @stacked() attributes {source = #query}
    ```
  }];
  let parameters = (ins StringRefParameter<>:$name, "int64_t":$rows, "::heddle::StorageAttr":$storage);
  let genVerifyDecl = 1;
  let assemblyFormat = "`<` struct(params) `>`";
}

def Heddle_PackingAttr : Heddle_Attr<"Packing", "packing"> {
  let summary = "A place in the weights section, what lies there and where that comes from";
  let description = [{
    The one description of a packed weight: `pack-weights` writes it; packaging, the emitters, the reports and the interpreter
    read it.

    `layout` says how the sources lie together (`#heddle.packing_layout`), `format` how a number is stored: the type of `stacked` and
    `interleaved` matrices, f32 for a `vector`, the type in the file for what is `stored`. Matrices of another type than the
    format are stored as f32, the format then. `shape` is (n, k) of the matrices together, (n) of the vectors together, that of the tensor if it is `stored`.
    `offset` counts bytes from the beginning of the section. `group`: matrices whose panels lie in turn. `transposed`:
    of each source the transpose is packed. `manyRows`: only a body for many rows of activations reads it, so a generated token does not.

    Constraints:
      * C1: format is one that `layout` holds: f32, f16, bf16, a block format, or codes4, codes8 or bytes of u8 and i8 for matrices, f32 for vectors, and that of the
        source for what is stored; matrices of another type than the format are packed as f32.
      * C2: shape is (n, k) for matrices and (n) for vectors, of positive sizes; sizes of a stored tensor are not negative.
      * C3: there are sources, and their rows add up to n; a stored tensor is one source of all its elements.
      * C4: `group` is of interleaved matrices alone: it is positive, divides their number, and their rows are equal.
      * C5: offset is a multiple of 64 and not negative.
      * C6: only matrices are `transposed`, in formats without blocks; the source of a stored tensor has no stride, taps or fileType.

    ```mlir
    #query = #heddle.source<name = "q", rows = 64, storage = <type = "bf16", file = 0, offset = 128>>
    #key = #heddle.source<name = "k", rows = 32, storage = <type = "bf16", file = 0, offset = 8320>>
    #packing = #heddle.packing<layout = stacked, format = "bf16", shape = [96, 64], offset = 256, sources = [#query, #key]>
    func.func private @query_and_key() attributes {packing = #packing}
    ```
  }];
  let parameters = (ins EnumParameter<Heddle_PackingLayout>:$layout, StringRefParameter<>:$format,
                        OptionalArrayRefParameter<"int64_t">:$shape, "int64_t":$offset,
                        ArrayRefParameter<"::heddle::SourceAttr">:$sources, DefaultValuedParameter<"int64_t", "0">:$group,
                        DefaultValuedParameter<"bool", "false">:$transposed, DefaultValuedParameter<"bool", "false">:$manyRows);
  let extraClassDeclaration = [{
    bool isMatrix() const { return getLayout() == PackingLayout::Stacked || getLayout() == PackingLayout::Interleaved; }
    // Where `source` lies as what is packed: turned, if its transpose is.
    StorageAttr storageOf(SourceAttr source) const {
      return getTransposed() ? source.getStorage().getTurned() : source.getStorage();
    }
    // What the weights table, --info and the report call it: the format of matrices, the layout of anything else.
    ::llvm::StringRef getTableFormat() const { return isMatrix() ? getFormat() : stringifyPackingLayout(getLayout()); }
  }];
  let genVerifyDecl = 1;
  let assemblyFormat = [{
    `<` struct($layout, $format, custom<Shape>($shape), $offset, custom<Sources>($sources), $group, $transposed, $manyRows) `>`
  }];
}

#endif
