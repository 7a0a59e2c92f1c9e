// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Blocks of one launch that leave parts of a whole in global memory, and of which the last one to be done goes on with the whole.
//
// All threads of a block have stored, and meet; one of them fences and counts. By the PTX memory model (cumulativity of fence.acq_rel.gpu behind
// bar.sync) whoever counts later and fences behind that sees all that was stored before, and so do, behind another bar.sync, the threads of its block.
// A counter begins at 0 and is 0 again when the last block has counted, so that nobody has to clear it for the next launch.
#ifndef HEDDLE_COMPILER_CODEGEN_TARGETS_CUDA_LASTBLOCK_H
#define HEDDLE_COMPILER_CODEGEN_TARGETS_CUDA_LASTBLOCK_H

#include "compiler/codegen/targets/cuda/GpuBuilder.h"

namespace heddle {

class LastBlock {
public:
  // Of wholes `first` … `last` (i32), at most `most` and not more than threads: `blocksOf` a whole is how many blocks have a part of it. counters:
  // uint32_t *, one of each whole. Called by all threads of the block, behind their stores. Bytes [shared, shared + 4 most) of shared memory are
  // overwritten.
  LastBlock(GpuBuilder &builder, mlir::Value counters, mlir::Value first, mlir::Value last, int64_t most,
            llvm::function_ref<mlir::Value(mlir::Value)> blocksOf, int64_t shared);

  // By all threads of the block: whether it is the last one that was done with its part of whole first + i, i1.
  mlir::Value isLastOf(int64_t i);

private:
  GpuBuilder &b;
  mlir::Value first, last;
  int64_t shared;
};

} // namespace heddle

#endif
