// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The heddle dialect: its ops, types and attributes. The reference is generated from the .td files beside this header.
#ifndef HEDDLE_DIALECT_HEDDLEDIALECT_H
#define HEDDLE_DIALECT_HEDDLEDIALECT_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/DestinationStyleOpInterface.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Interfaces/TilingInterface.h"

#include "dialect/HeddleDialect.h.inc"
#include "dialect/HeddleEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialect/HeddleAttrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "dialect/HeddleTypes.h.inc"

#include "dialect/HeddleInterfaces.h.inc"

#include <algorithm>

namespace heddle {

// What latent attention is built from.
struct LatentDims {
  int64_t numHeads = 0, numKvHeads = 0;
  int64_t rank = 0;           // kv_lora_rank: of the latent
  int64_t nope = 0, rope = 0; // qk_nope_head_dim, qk_rope_head_dim
  int64_t value = 0;          // v_head_dim

  int64_t queryDim() const { return nope + rope; }
  // What the cache holds of a token, and what an absorbed query head is as wide as.
  int64_t cachedDim() const { return rank + rope; }
  // Products, per head, of rebuilding a token's key and value or of folding a query's and a result's side; and how many
  // more a query needs for each key where it meets the latent instead of the rebuilt key and value.
  int64_t rebuildCost() const { return rank * (nope + value); }
  int64_t latentCost() const { return 2 * rank - nope - value; }
  // The most heads that share a load of the cached rows, where folded queries meet them.
  static constexpr int64_t headsOfItem = 16;
  // "automatic: 24 + 8 values cached per token; …", with the formula of the threshold and its value for long contexts.
  std::string describe(LatentForm form) const;
  // Floats that hold a row and head while blocks of keys go by: maximum and sum, then the output, each in whole cache lines.
  int64_t stateFloats() const { return 16 + (value + 15) / 16 * 16; }
  // Floats per row that the bodies work in, per head: a folded query and what it attends to, or a state.
  int64_t scratchDim() const { return numHeads * std::max(cachedDim() + rank, stateFloats()); }
};

} // namespace heddle

#define GET_OP_CLASSES
#include "dialect/HeddleOps.h.inc"

namespace heddle {

// moe_c5, route_experts_c4: groups divide the experts and hold enough of them.
llvm::LogicalResult verifyRouting(mlir::Operation *op, RoutingAttr routing, bool hasCorrection, int64_t numExperts,
                                  int64_t topK);

// position_bias_c1 to c3, attention_c7, online_attention_c6, ragged_attention_c5: whether `table` holds what scores get for a distance.
llvm::LogicalResult verifyPositions(mlir::Operation *op, mlir::ShapedType table,
                                    std::optional<llvm::ArrayRef<int64_t>> starts,
                                    std::optional<llvm::ArrayRef<int64_t>> rows);

// Whether a format of packed matrices is one of blocks or of codes.
bool isQuantizedFormat(llvm::StringRef format);
// packing_c1, packing_c4, packing_c6; pack_c3: whether `count` sources may lie as the rest says.
llvm::LogicalResult verifyPackingLayout(llvm::function_ref<mlir::InFlightDiagnostic()> emitError, PackingLayout layout,
                                        llvm::StringRef format, int64_t group, bool transposed, int64_t count);

// Bufferization of kernel and cache ops: destinations are written in place.
void registerBufferizationModels(mlir::DialectRegistry &registry);

} // namespace heddle

#endif
