// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Types.
#ifndef HEDDLE_TYPES
#define HEDDLE_TYPES

include "dialect/HeddleDialect.td"
include "mlir/IR/AttrTypeBase.td"

def Heddle_KvCacheType : TypeDef<Heddle_Dialect, "KvCache"> {
  let mnemonic = "kv_cache";
  let summary = "Keys and values of one sequence set, for every layer, in pages of 64 tokens";
  let description = [{
    `!heddle.kv_cache<30 x 3 x 64 x bf16>`: layers, num_kv_heads, head_dim, element type. In a page, a layer's K is
    (num_kv_heads, 64, head_dim) row-major and its V follows it likewise.

    `!heddle.kv_cache<30 x 1 x 576 x bf16, latent = 512>`: a layer has one plane, (64, head_dim), whose rows are a latent of
    512 values and the shared rotary key behind it (`heddle.latent_attention`).

    `!heddle.kv_cache<16 x 8 x 64 x i8>`: blocks of 32 columns of a head, each of which has an f16 scale and signed codes (q8_0 of GGUF); head_dim is a
    multiple of 32. Readers see f32, codes times scales.

    `!heddle.kv_cache<3 x 1 x 512 x bf16 begin = 786432>`: of a model whose layers differ in num_kv_heads or head_dim, those of one shape. They begin at
    this byte of a page, behind the layers of other shapes, which are caches of their own.

    `!heddle.kv_cache<6 x 8 x 64 x f32 cross>`: of an encoder-decoder, what the layers of the decoder read of a source: its entry @encode appends all
    tokens of a source at once, its entry @step only reads them.

    `!heddle.kv_cache<10 x 1 x 4096 x f32 state>`: of layers that keep a state instead of tokens, or beside them: in a page, what its last token left, head_dim numbers
    of each layer. The first token of a page reads that of the page before it.

    ```mlir
    func.func private @of_thirty_layers(!heddle.kv_cache<30 x 3 x 64 x bf16>)
    func.func private @of_latents(!heddle.kv_cache<27 x 1 x 576 x bf16, latent = 512>)
    func.func private @of_blocks(!heddle.kv_cache<16 x 8 x 64 x i8>)
    func.func private @of_other_layers(!heddle.kv_cache<3 x 1 x 512 x bf16 begin = 786432>)
    func.func private @of_sources(!heddle.kv_cache<6 x 8 x 64 x f32 cross>)
    func.func private @of_states(!heddle.kv_cache<10 x 1 x 4096 x f32 state>)
    ```
  }];
  let parameters = (ins "int64_t":$numLayers, "int64_t":$numKvHeads, "int64_t":$headDim, "::mlir::Type":$elementType,
                        DefaultValuedParameter<"int64_t", "0">:$latent, DefaultValuedParameter<"bool", "false">:$cross,
                        DefaultValuedParameter<"int64_t", "0">:$begin, DefaultValuedParameter<"bool", "false">:$state);
  let assemblyFormat = "`<` $numLayers `x` $numKvHeads `x` $headDim `x` $elementType `` custom<Cross>($cross) `` custom<State>($state) (`begin` `=` $begin^)? (`,` `latent` `=` $latent^)? `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    bool isLatent() const { return getLatent() != 0; }
    bool isState() const { return getState(); }
    // Columns of a head that share a scale; 0 where numbers are stored as they are.
    int64_t getBlockColumns() const { return getElementType().isInteger(8) ? 32 : 0; }
    // f32, bf16, f16 or q8_0
    ::llvm::StringRef getStorageName() const;
    // Of the numbers that readers see.
    ::mlir::Type getValueType() const;
    // Values of a token and head that kv_append takes as key and as value: those of a latent cache share a row.
    int64_t getKeyDim() const { return isLatent() ? getLatent() : getHeadDim(); }
    int64_t getValueDim() const { return isState() ? 0 : isLatent() ? getHeadDim() - getLatent() : getHeadDim(); }
    // Bytes of a layer's plane (K or V, the latent rows, or the state) in a page, and where the last layer ends.
    int64_t getPlaneBytes() const;
    int64_t getLayerBytes() const { return (isLatent() || isState() ? 1 : 2) * getPlaneBytes(); }
    int64_t getEndBytes() const { return getBegin() + getNumLayers() * getLayerBytes(); }
    // Byte of a page at which a layer begins.
    int64_t getLayerBegin(int64_t layer) const { return getBegin() + layer * getLayerBytes(); }
  }];
}

#endif
