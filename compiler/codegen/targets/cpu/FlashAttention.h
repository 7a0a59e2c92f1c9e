// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Flash attention over tensors, the CPU body of `flash_attention` and `ragged_attention`: the tiles of AttentionTile.h walk over keys and
// values whose sizes and strides are known when they run, those of graphs and those of a ragged batch without a cache.
#ifndef HEDDLE_COMPILER_CODEGEN_TARGETS_CPU_FLASHATTENTION_H
#define HEDDLE_COMPILER_CODEGEN_TARGETS_CPU_FLASHATTENTION_H

#include "compiler/codegen/kernel/KernelSignatures.h"
#include "compiler/codegen/kernel/KernelTarget.h"
#include "compiler/codegen/targets/cpu/OnlineAttention.h"

namespace heddle {

// Adds to `module` the function `name`, called with a FlashAttentionCall, which computes its thread's share. Query i stands at key
// position keys - queries + i; a row that sees no key is zeros. Nothing is read behind the last key, nothing written between the rows of
// `out`. A row's bits depend on neither the threads nor the other rows.
mlir::func::FuncOp buildFlashAttention(mlir::ModuleOp module, llvm::StringRef name, const AttentionSpec &spec,
                                       const CpuTarget &target);
// The same for each sequence of a RaggedAttentionCall by itself: a row's bits do not depend on the other sequences either.
mlir::func::FuncOp buildRaggedAttention(mlir::ModuleOp module, llvm::StringRef name, const AttentionSpec &spec,
                                        const CpuTarget &target);

// What `Op` asks for, as `write` writes it.
template <typename Op> class TiledAttentionEmitter : public KernelEmitterOf<Op> {
public:
  TiledAttentionEmitter(const CpuTarget &target, decltype(buildFlashAttention) *write) : target(target), write(write) {}

protected:
  mlir::FailureOr<std::string> nameOf(Op op) const override { return signatureOf(op); }
  mlir::FailureOr<Kernels> build(Op op, ScheduleAttr schedule, llvm::StringRef name,
                                 KernelModule &module) const override {
    AttentionSpec spec = specOf(op);
    applySchedule(spec, schedule);
    return oneKernel(module.once(name, [&] { return write(module.code, name, spec, target); }));
  }

private:
  const CpuTarget &target;
  decltype(buildFlashAttention) *write;
};

} // namespace heddle

#endif
