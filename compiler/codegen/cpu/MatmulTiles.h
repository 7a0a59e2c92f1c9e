// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The register and cache tiles of matrix products, by target.
#ifndef HEDDLE_COMPILER_CODEGEN_CPU_MATMULTILES_H
#define HEDDLE_COMPILER_CODEGEN_CPU_MATMULTILES_H

#include "compiler/codegen/Target.h"

#include "llvm/ADT/SmallVector.h"

namespace heddle {

// Rows × panels of accumulators that stay in registers while K goes by.
struct MatmulTile {
  llvm::SmallVector<int64_t> heights;  // row counts for which a tile is emitted, largest first, down to 1
  int64_t panels;                      // panels of 16 columns side by side; what is left over is done one by one
};

struct MatmulTiles {
  MatmulTile f32Few;   // weights unpacked in registers; up to f32Few.heights[0] rows
  MatmulTile f32Many;  // weights from an f32 scratch panel
  MatmulTile q8;
  int64_t columnBlock;     // columns of W that are unpacked at once
  int64_t rowBlock;        // rows that share them
  int64_t prefetchBytes;   // how far ahead of the loads of a streamed panel
};

MatmulTiles matmulTiles(const CpuTarget &target);

} // namespace heddle

#endif
