// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attributes: what a mask, a rotary embedding, a stored weight and a schedule are.
#ifndef HEDDLE_ATTRS
#define HEDDLE_ATTRS

include "dialect/HeddleDialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

class Heddle_Attr<string name, string mnemonic_> : AttrDef<Heddle_Dialect, name> { let mnemonic = mnemonic_; }

class Heddle_Enum<string name, list<I32EnumAttrCase> cases> : I32EnumAttr<name, "", cases> {
  let cppNamespace = "::heddle";
  let genSpecializedAttr = 0;
}
class Heddle_EnumAttr<EnumAttrInfo info, string mnemonic_> : EnumAttr<Heddle_Dialect, info, mnemonic_> {
  let assemblyFormat = "`<` $value `>`";
}

def Heddle_ActivationKind : Heddle_Enum<"ActivationKind", [
  I32EnumAttrCase<"Silu", 0, "silu">, I32EnumAttrCase<"Gelu", 1, "gelu">, I32EnumAttrCase<"GeluTanh", 2, "gelu_tanh">,
  I32EnumAttrCase<"Relu", 3, "relu">, I32EnumAttrCase<"QuickGelu", 4, "quick_gelu">, I32EnumAttrCase<"Tanh", 5, "tanh">]>;
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
  I32EnumAttrCase<"MXFP4", 12, "mxfp4">]>;
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
    Key j is visible to query i if j <= i (causal; keys and queries counted from the start of the sequence) and, with a
    window, i - window < j. `#heddle.mask<full>` lets every query see every key of its sequence.

    ```mlir
    func.func private @sliding_window() attributes {mask = #heddle.mask<causal, window = 4096>}
    ```
  }];
  let parameters = (ins "bool":$causal, "int64_t":$window);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def Heddle_RopeAttr : Heddle_Attr<"Rope", "rope"> {
  let summary = "Rotary position embedding (Su et al. 2021, arXiv:2104.09864), scaling applied to the frequencies";
  let description = [{
    The first `2 * size(inverse_frequency)` values of a head are rotated, in pairs (i, i + half) or, `interleaved`,
    (2i, 2i + 1), by the angle position * inverse_frequency[i]; cos and sin are multiplied by `attention_factor`.
    `table` numbers the model's distinct rotary embeddings: kernels read cos and sin from a table of the session.

    ```mlir
    #rope = #heddle.rope<interleaved, table = 0, attention_factor = 1.0, inverse_frequency = array<f32: 1.0, 0.1>>
    func.func private @two_pairs() attributes {rope = #rope}
    ```
  }];
  let parameters = (ins "bool":$interleaved, "int64_t":$table, "::mlir::FloatAttr":$attentionFactor,
                        "::mlir::DenseF32ArrayAttr":$inverseFrequency);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    int64_t getRotaryDim() const { return 2 * getInverseFrequency().size(); }
  }];
}

def Heddle_RoutingAttr : Heddle_Attr<"Routing", "routing"> {
  let summary = "How experts are scored and grouped (`heddle.moe`)";
  let description = [{
    `sigmoid`: scores are sigmoids of the router's logits instead of their softmax. The top_groups best of num_groups
    groups of experts take part. Weights are multiplied by `scale`.

    ```mlir
    func.func private @deepseek_v3() attributes {routing = #heddle.routing<sigmoid = true, numGroups = 8, topGroups = 4, scale = 2.5>}
    ```
  }];
  let parameters = (ins DefaultValuedParameter<"bool", "false">:$sigmoid, DefaultValuedParameter<"int64_t", "1">:$numGroups,
                        DefaultValuedParameter<"int64_t", "1">:$topGroups, OptionalParameter<"::mlir::FloatAttr">:$scale);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    double getScaleValue() const { return getScale() ? getScale().getValueAsDouble() : 1.0; }
  }];
}

def Heddle_StorageAttr : Heddle_Attr<"Storage", "storage"> {
  let summary = "Where a weight lies in the model's files";
  let description = [{
    `type` is the stored type, `file` an index into the model's files, `offset` in bytes. `transposed`: stored as
    (in_features, out_features). `stride`: values from one stored row to the next, of a matrix whose stored rows are parts of
    others (only in types without blocks); 0 where they follow each other. Weights stay in the file until pack-weights streams them.

    ```mlir
    func.func private @conv1d() attributes {storage = #heddle.storage<type = "f32", file = 0, offset = 4096, transposed = true>}
    ```
  }];
  let parameters = (ins "::mlir::StringAttr":$type, "int64_t":$file, "int64_t":$offset, DefaultValuedParameter<"bool", "false">:$transposed,
                        DefaultValuedParameter<"int64_t", "0">:$stride);
  let builders = [AttrBuilder<(ins "::mlir::StringAttr":$type, "int64_t":$file, "int64_t":$offset, CArg<"bool", "false">:$transposed), [{
    return $_get($_ctxt, type, file, offset, transposed, /*stride=*/0);
  }]>];
  let extraClassDeclaration = [{
    // The same bytes as the transpose of what they are here.
    StorageAttr getTurned() const { return get(getContext(), getType(), getFile(), getOffset(), !getTransposed(), getStride()); }
  }];
  let genVerifyDecl = 1;
  let assemblyFormat = "`<` struct(params) `>`";
}

#endif
