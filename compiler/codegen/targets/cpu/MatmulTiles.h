// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The register and cache tiles of matrix products, as emitters read them from a schedule.
#ifndef HEDDLE_COMPILER_CODEGEN_TARGETS_CPU_MATMULTILES_H
#define HEDDLE_COMPILER_CODEGEN_TARGETS_CPU_MATMULTILES_H

#include "compiler/codegen/targets/cpu/KernelBuilder.h"
#include "dialect/ScheduleAttrs.h"

#include "llvm/ADT/SmallVector.h"

namespace heddle {

// Rows × panels of accumulators that stay in registers while K goes by.
struct MatmulTile {
  llvm::SmallVector<int64_t> heights; // row counts for which a tile is emitted, largest first, down to 1
  int64_t panels;                     // panels of 16 columns side by side; what is left over is done one by one

  // Makes the tile hold pairs of panels with no more sums than before.
  void makePaired();
};

// How weights that are read in order are asked for ahead.
struct Prefetch {
  int64_t bytes;   // ahead; 0: hardware alone fetches them
  Cache cache;     // that they are brought into
  bool everyBlock; // one line for each block, which sets hardware going; else every line
};

struct MatmulTiles {
  MatmulTile floatFew;  // weights unpacked in registers; up to floatFew.heights[0] rows
  MatmulTile floatMany; // weights from a scratch panel
  MatmulTile tileUnit;  // AMX: heights in rows of whole tiles
  MatmulTile q8;
  MatmulTile int16;
  MatmulTile words;         // of more rows than int16MaxRows; without heights they are not of integers
  int64_t int16MaxRows = 0; // rows that are few; 0: all
  int64_t lineBlock;        // lines of 64 bytes of a panel that are unpacked at once
  int64_t unitLineBlock;    // and on a tile unit
  int64_t unitRowBlock;     // rows that share those
  int64_t unitPanels;       // whose sums wait for the next of them
  int64_t wordRows;         // that share staged words
  int64_t wordColumns;      // of K, of which rows are rounded at once
  bool hasScratch;          // for what waits, the thread's; else the stack
  int64_t scratchBytes;
  int64_t rowBlock;  // rows that share them
  int64_t termBytes; // stack for what integer rows contribute to every panel; bounds the rows per pass over the weights
  Prefetch prefetch; // of streamed panels
};

// Those of a product on CPUs (matmulSchedule of compiler/schedule/ScheduleTable.h).
MatmulTiles tilesOf(ScheduleAttr schedule);

} // namespace heddle

#endif
