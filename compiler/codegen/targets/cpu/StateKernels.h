// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels of what a token leaves to those behind it. A state lies in the page of the last token that left it: each thread takes its own part of
// it from the page of the token before a sequence's first row, goes on row by row, and leaves it in the page of the last. So the bits of a row do
// not depend on how its sequence is cut into steps, nor on the threads.
#ifndef HEDDLE_COMPILER_CODEGEN_TARGETS_CPU_STATEKERNELS_H
#define HEDDLE_COMPILER_CODEGEN_TARGETS_CPU_STATEKERNELS_H

#include "compiler/codegen/kernel/KernelCalls.h"
#include "compiler/codegen/kernel/KernelSpecs.h"
#include "compiler/codegen/kernel/SequenceAccess.h"

namespace heddle {

// Of one sequence: where its state is read and written. A first token's is zeros, of which nothing is read.
struct StatePlaces {
  StatePlaces(RawBuilder &b, const SequenceValues &sequence, mlir::Value offset);

  mlir::Value from, to; // in pages
  mlir::Value isFresh;  // whether the state before the first row is zeros
};

// Parts [begin, end) of `count` that are a thread's.
std::pair<mlir::Value, mlir::Value> shareOf(RawBuilder &b, int64_t count, mlir::Value thread, mlir::Value numThreads);

// Each a function of a ConvCall, and of a LinearAttentionCall.
mlir::func::FuncOp buildRaggedConv(mlir::ModuleOp module, llvm::StringRef name, const ConvSpec &spec,
                                   const CpuTarget &target);
mlir::func::FuncOp buildRaggedLinearAttention(mlir::ModuleOp module, llvm::StringRef name,
                                              const LinearAttentionSpec &spec, const CpuTarget &target);

// The body of the latter where values have one column and keys are few vectors wide.
bool isNarrowLinearAttention(const LinearAttentionSpec &spec);
void emitNarrowLinearAttention(RawBuilder &b, const LinearAttentionSpec &spec, const LinearAttentionCall &call,
                               const CpuTarget &target);

} // namespace heddle

#endif
