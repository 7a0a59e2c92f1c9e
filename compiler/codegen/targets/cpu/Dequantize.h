// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Embedding lookup from the packed layout, so that a tied head and the embedding share one copy.
#ifndef HEDDLE_COMPILER_CODEGEN_TARGETS_CPU_DEQUANTIZE_H
#define HEDDLE_COMPILER_CODEGEN_TARGETS_CPU_DEQUANTIZE_H

#include "compiler/codegen/Target.h"
#include "compiler/weights/PackedLayout.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace heddle {

struct EmbeddingSpec {
  PackedLayout layout;
  int64_t k = 0;   // hidden_size
  float scale = 1; // every value is multiplied by it, in f32
};

// Adds to `module`
//   void name(const int32_t *ids,      // (rowEnd): each a row of W, not checked
//             const uint8_t *weights,  // W packed, 64-byte aligned
//             float *out,              // (rowEnd, K), row stride outStride elements
//             int64_t rowBegin, int64_t rowEnd, int64_t outStride)
// which writes out[r] = scale * W[ids[r]] for rowBegin <= r < rowEnd.
mlir::func::FuncOp buildEmbedding(mlir::ModuleOp module, llvm::StringRef name, const EmbeddingSpec &spec);

} // namespace heddle

#endif
