// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Embedding lookup from the packed layout, so that a tied head and the embedding share one copy.
#ifndef HEDDLE_COMPILER_CODEGEN_TARGETS_CPU_DEQUANTIZE_H
#define HEDDLE_COMPILER_CODEGEN_TARGETS_CPU_DEQUANTIZE_H

#include "compiler/codegen/kernel/KernelSpecs.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace heddle {

// Adds to `module` the function `name`, called with an EmbeddingCall.
mlir::func::FuncOp buildEmbedding(mlir::ModuleOp module, llvm::StringRef name, const EmbeddingSpec &spec);

} // namespace heddle

#endif
