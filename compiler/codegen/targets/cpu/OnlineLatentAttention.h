// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Multi-head latent attention over the paged cache, the CPU bodies of `online_latent_attention`. LATENT.md has the reasons.
#ifndef HEDDLE_COMPILER_CODEGEN_TARGETS_CPU_ONLINELATENTATTENTION_H
#define HEDDLE_COMPILER_CODEGEN_TARGETS_CPU_ONLINELATENTATTENTION_H

#include "compiler/codegen/targets/cpu/OnlineAttention.h"
#include "dialect/ScheduleAttrs.h"

namespace heddle {

struct LatentAttentionSpec {
  LatentDims dims;
  LatentForm form = LatentForm::Automatic;
  double scale = 1.0;
  int64_t window = 0, chunk = 0;
  bool causal = true;
  KvType kv = KvType::F32;
  ScheduleAttr schedule; // a tile for folded queries, one for rebuilt keys and values
  int64_t splitKv = 0;   // keys of a split that threads divide; 0: they divide heads and sequences alone
  // Bytes from one head's packed matrix to the next: (nope, rank), (rank, nope) and (value, rank).
  int64_t keyBytes = 0, foldBytes = 0, valueBytes = 0;

  // Heads of a tile of folded queries, of at most `most`.
  int64_t tileHeads(int64_t most) const;
  // Attention over the cached rows with folded queries, so many heads to a tile, and over rebuilt keys and values.
  AttentionSpec absorbed(int64_t tileHeads) const;
  AttentionSpec rebuilt() const;
};

// All kernels are called with a LatentAttentionCall, in the form that spec.splitKv asks for, and serve the sequences that their
// body is chosen for. `matmul…` are plain f32 products (buildMatmul) with the packed matrices of one head, `attention` is a
// kernel of OnlineAttention.h for spec.absorbed().

// The absorbed body, with a barrier between any two: scratch = [q_nope @ key_up | q_rope] per head; what it attends to
// among the cached rows; out = that @ value_up^T.
mlir::func::FuncOp buildLatentFold(mlir::ModuleOp module, llvm::StringRef name, const LatentAttentionSpec &spec,
                                   mlir::func::FuncOp matmulFold);
// `shared` has tiles of as many heads as share a load of the cache; in `divided`, heads are divided more finely, for steps that
// have too few tiles for their threads.
mlir::func::FuncOp buildLatentAttend(mlir::ModuleOp module, llvm::StringRef name, const LatentAttentionSpec &spec,
                                     mlir::func::FuncOp shared, mlir::func::FuncOp divided);
// The same in two, with a barrier between: what is seen of each split (`attention` is buildAttentionSplit's), and its merge
// (`combine` is buildCombineSplits').
mlir::func::FuncOp buildLatentAttendSplits(mlir::ModuleOp module, llvm::StringRef name, const LatentAttentionSpec &spec,
                                           mlir::func::FuncOp attention);
mlir::func::FuncOp buildLatentCombine(mlir::ModuleOp module, llvm::StringRef name, const LatentAttentionSpec &spec,
                                      mlir::func::FuncOp combine);
mlir::func::FuncOp buildLatentProject(mlir::ModuleOp module, llvm::StringRef name, const LatentAttentionSpec &spec,
                                      mlir::func::FuncOp matmulValue);
// The materialised body, whole.
mlir::func::FuncOp buildLatentRebuild(mlir::ModuleOp module, llvm::StringRef name, const LatentAttentionSpec &spec,
                                      const CpuTarget &target, mlir::func::FuncOp matmulKey,
                                      mlir::func::FuncOp matmulValue);

} // namespace heddle

#endif
