// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Quantised weights that stay codes: their scales and zeros are named, not computed with.
#ifndef HEDDLE_FRONTENDS_ONNX_IMPORT_STOREDCODES_H
#define HEDDLE_FRONTENDS_ONNX_IMPORT_STOREDCODES_H

#include "frontends/onnx/import/GraphBuilder.h"

#include "dialect/Codes.h"

namespace heddle {

// The weight that `x` is, if it lies in the file as it is: not computed, transposed or small enough to be constants.
WeightOp storedWeight(const GraphValue &x);
// Puts `scales` and `zeros` into `codes`: one number for all, or where they lie; either may be missing. False if they are computed, or have no
// place in the file.
bool addNumbers(GraphBuilder &g, Codes &codes, const GraphValue &scales, const GraphValue &zeros);
// The weight (rows, columns) of f32 that `codes` at `storage` stand for.
mlir::Value numbersAt(GraphBuilder &g, WeightOp weight, llvm::StringRef name, StorageAttr storage, const Codes &codes,
                      int64_t rows, int64_t columns);
// x (…, K) @ W^T with a stored W (N, K).
GraphValue linear(GraphBuilder &g, const GraphValue &x, mlir::Value weights);

} // namespace heddle

#endif
