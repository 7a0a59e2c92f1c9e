// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What graphs of images compute with tokens, in MLIR. All tensors are (batch, tokens, width); but for the batch, sizes are known.
#ifndef HEDDLE_FRONTENDS_IMPORT_TOKENOPS_H
#define HEDDLE_FRONTENDS_IMPORT_TOKENOPS_H

#include "frontends/families/ModelBuilder.h"

#include "mlir/IR/Builders.h"

namespace heddle {

// Pixels (batch, channels, size, size) as rows of patches, each (channels, patch, patch); what the image lacks of the last ones is zeros.
mlir::Value patchesOf(mlir::OpBuilder &b, mlir::Location loc, mlir::Value pixels, int64_t patch);
// `tokens` of x, zeros for -1, `group` of them side by side as one.
mlir::Value tokensOf(mlir::OpBuilder &b, mlir::Location loc, mlir::Value x, llvm::ArrayRef<int32_t> tokens,
                     int64_t group);
// (batch, width)
mlir::Value meanOfTokens(mlir::OpBuilder &b, mlir::Location loc, mlir::Value x);
// x plus a stored table (tokens, width).
mlir::Value tableAdded(mlir::OpBuilder &b, mlir::Location loc, mlir::Value x, mlir::Value table);

struct QueryKeyValue {
  mlir::Value q, k, v;
};
// Attention within runs of terms.tokens tokens, `table` being what terms.table names.
mlir::Value attentionWithin(mlir::OpBuilder &b, mlir::Location loc, const QueryKeyValue &rows, int64_t heads,
                            mlir::Value table, const WindowTerms &terms);

} // namespace heddle

#endif
