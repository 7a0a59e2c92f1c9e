// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The attributes of schedules, apart from the dialect: only `assign-schedules` and codegen know them.
#ifndef HEDDLE_DIALECT_SCHEDULEATTRS_H
#define HEDDLE_DIALECT_SCHEDULEATTRS_H

#include "dialect/HeddleDialect.h"

#include "dialect/ScheduleEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialect/ScheduleAttrs.h.inc"

namespace heddle {

// The parameters of a tile and of a schedule, to set by name those that a kernel has.
struct TileFields {
  TileRole role;
  llvm::SmallVector<int64_t> rows;
  int64_t columns;
  int64_t maxRows = 0, k = 0;
  llvm::SmallVector<int64_t> warps = {};
  int64_t stages = 1;

  static TileFields of(TileAttr tile);
  TileAttr get(mlir::MLIRContext *context) const;
};

struct ScheduleFields {
  llvm::SmallVector<TileAttr> tiles;
  int64_t kBlock = 0, rowBlock = 0, termBytes = 0, prefetchBytes = 0, prefetchCache = 1, prefetchLines = 0, blockKv = 0,
          splitKv = 0, scratchBytes = 0;
  mlir::StringAttr evidence;

  static ScheduleFields of(ScheduleAttr schedule);
  ScheduleAttr get(mlir::MLIRContext *context) const;
  ScheduleAttr get(mlir::MLIRContext *context, llvm::StringRef evidence) const;
  // The first tile of that role; null where there is none.
  TileAttr *find(TileRole role);
};

} // namespace heddle

#endif
