// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Flash attention over tensors, the CPU body of `flash_attention`: the tiles of AttentionTile.h walk over keys and values whose
// sizes and strides are known when they run, those of graphs.
#ifndef HEDDLE_COMPILER_CODEGEN_TARGETS_CPU_FLASHATTENTION_H
#define HEDDLE_COMPILER_CODEGEN_TARGETS_CPU_FLASHATTENTION_H

#include "compiler/codegen/targets/cpu/OnlineAttention.h"

namespace heddle {

// Adds to `module` the function `name`, called with a FlashAttentionCall, which computes its thread's share. Query i stands at key
// position keys - queries + i; a row that sees no key is zeros. Nothing is read behind the last key, nothing written between the rows of
// `out`. A row's bits depend on neither the threads nor the other rows.
mlir::func::FuncOp buildFlashAttention(mlir::ModuleOp module, llvm::StringRef name, const AttentionSpec &spec,
                                       const CpuTarget &target);

} // namespace heddle

#endif
