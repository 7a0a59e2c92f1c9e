// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Flash attention over the paged cache, the CPU body of `online_attention`: tiles of query rows walk over the 64-token
// pages of their sequence with a running maximum and sum. ATTENTION.md has the reasons.
#ifndef HEDDLE_COMPILER_CODEGEN_TARGETS_CPU_ONLINEATTENTION_H
#define HEDDLE_COMPILER_CODEGEN_TARGETS_CPU_ONLINEATTENTION_H

#include "compiler/codegen/kernel/KernelSpecs.h"
#include "compiler/codegen/kernel/RawBuilder.h"
#include "compiler/codegen/machine/Target.h"

namespace heddle {

// A function called with an AttentionCall, in the form that the spec asks for.
// Every thread needs stack for a tile, or for a run of heads: about 260 KB at head_dim 128, 1 MB at 1024.
mlir::func::FuncOp buildAttention(mlir::ModuleOp module, llvm::StringRef name, const AttentionSpec &spec,
                                  const CpuTarget &target);

// Steps of few rows divide the keys among threads as well: called with an AttentionSplitCall, what a row saw of each split of
// spec.splitKv keys is kept.
mlir::func::FuncOp buildAttentionSplit(mlir::ModuleOp module, llvm::StringRef name, const AttentionSpec &spec,
                                       const CpuTarget &target);

// After a barrier. Together the two leave the bits that buildAttention's kernel leaves.
// Called with a CombineSplitsCall.
mlir::func::FuncOp buildCombineSplits(mlir::ModuleOp module, llvm::StringRef name, const AttentionSpec &spec,
                                      const CpuTarget &target);

} // namespace heddle

#endif
