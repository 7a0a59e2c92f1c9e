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
  }];
  let parameters = (ins "int64_t":$numLayers, "int64_t":$numKvHeads, "int64_t":$headDim, "::mlir::Type":$elementType);
  let assemblyFormat = "`<` $numLayers `x` $numKvHeads `x` $headDim `x` $elementType `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    // Bytes of a layer's K (or V) in a page, and of a whole page.
    int64_t getPlaneBytes() const;
    int64_t getPageBytes() const { return 2 * getNumLayers() * getPlaneBytes(); }
  }];
}

#endif
