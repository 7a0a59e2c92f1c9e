// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The constraints of schedules, and how they are put together.

#include "dialect/ScheduleAttrs.h"

using namespace mlir;
using namespace heddle;

#include "dialect/ScheduleEnums.cpp.inc"

bool TargetAttr::has(StringRef feature) const {
  return llvm::any_of(getFeatures(), [&](StringAttr known) { return known.getValue() == feature; });
}

LogicalResult TargetAttr::verify(function_ref<InFlightDiagnostic()> emitError, TargetDevice device, StringRef,
                                 int64_t lanes, int64_t registers, ArrayRef<StringAttr>, StringRef) {
  bool isCpu = device == TargetDevice::Cpu;
  if (isCpu ? (lanes != 4 && lanes != 8 && lanes != 16) || registers < 1 : lanes != 0 || registers != 0) // target_c1
    return emitError() << "target has " << registers << " registers of " << lanes << " lanes; "
                       << (isCpu ? "a CPU has some, of 4, 8 or 16 lanes" : "a device has none");
  return success();
}

LogicalResult TileAttr::verify(function_ref<InFlightDiagnostic()> emitError, TileRole, ArrayRef<int64_t> rows,
                               int64_t columns, int64_t maxRows, int64_t k, ArrayRef<int64_t> warps, int64_t stages) {
  for (size_t i = 0; i < rows.size(); ++i)
    if (rows[i] < 1 || (i && rows[i] >= rows[i - 1])) // tile_c1
      return emitError() << "rows [" << rows << "] of a tile must be positive and fall";
  if (rows.empty() || columns < 1) // tile_c1
    return emitError() << "a tile of " << rows.size() << " heights and " << columns << " columns holds nothing";
  if (k < 0 || maxRows < 0 || stages < 1) // tile_c2
    return emitError() << "k (" << k << ") and maxRows (" << maxRows << ") must not be negative, stages (" << stages
                       << ") must be positive";
  if (!warps.empty() && (warps.size() != 2 || warps[0] < 1 || warps[1] < 1)) // tile_c2
    return emitError() << "warps [" << warps << "] must be two positive numbers";
  return success();
}

LogicalResult ScheduleAttr::verify(function_ref<InFlightDiagnostic()> emitError, ArrayRef<TileAttr>, int64_t kBlock,
                                   int64_t rowBlock, int64_t termBytes, int64_t prefetchBytes, int64_t prefetchCache,
                                   int64_t prefetchLines, int64_t blockKv, int64_t splitKv, int64_t scratchBytes,
                                   StringAttr) {
  for (int64_t number : {kBlock, rowBlock, termBytes, prefetchBytes, blockKv, splitKv, scratchBytes})
    if (number < 0) // schedule_c1
      return emitError() << "a number of a schedule (" << number << ") must not be negative";
  if (prefetchCache != 1 && prefetchCache != 2) // schedule_c3
    return emitError() << "prefetchCache (" << prefetchCache << ") must be 1 or 2";
  if (prefetchLines != 0 && prefetchLines != 1) // schedule_c4
    return emitError() << "prefetchLines (" << prefetchLines << ") must be 0 or 1";
  if (blockKv && 64 % blockKv) // schedule_c2
    return emitError() << "blockKv (" << blockKv << ") must divide the page of 64 tokens";
  if (splitKv && (!blockKv || splitKv % 64)) // schedule_c2
    return emitError() << "splitKv (" << splitKv << ") must be a multiple of the page of 64 tokens, of blocks ("
                       << blockKv << ")";
  return success();
}

TileAttr ScheduleAttr::getTile(TileRole role) const {
  return *llvm::find_if(getTiles(), [&](TileAttr tile) { return tile.getRole() == role; });
}

TileFields TileFields::of(TileAttr tile) {
  return {tile.getRole(), SmallVector<int64_t>(tile.getRows()),  tile.getColumns(), tile.getMaxRows(),
          tile.getK(),    SmallVector<int64_t>(tile.getWarps()), tile.getStages()};
}

TileAttr TileFields::get(MLIRContext *context) const {
  return TileAttr::get(context, role, rows, columns, maxRows, k, warps, stages);
}

ScheduleFields ScheduleFields::of(ScheduleAttr schedule) {
  ScheduleFields fields;
  fields.tiles.assign(schedule.getTiles().begin(), schedule.getTiles().end());
  fields.kBlock = schedule.getKBlock();
  fields.rowBlock = schedule.getRowBlock();
  fields.termBytes = schedule.getTermBytes();
  fields.prefetchBytes = schedule.getPrefetchBytes();
  fields.prefetchCache = schedule.getPrefetchCache();
  fields.prefetchLines = schedule.getPrefetchLines();
  fields.blockKv = schedule.getBlockKv();
  fields.splitKv = schedule.getSplitKv();
  fields.scratchBytes = schedule.getScratchBytes();
  fields.evidence = schedule.getEvidence();
  return fields;
}

ScheduleAttr ScheduleFields::get(MLIRContext *context) const {
  return ScheduleAttr::get(context, tiles, kBlock, rowBlock, termBytes, prefetchBytes, prefetchCache, prefetchLines,
                           blockKv, splitKv, scratchBytes, evidence);
}

ScheduleAttr ScheduleFields::get(MLIRContext *context, StringRef evidence) const {
  ScheduleFields fields = *this;
  fields.evidence = StringAttr::get(context, evidence);
  return fields.get(context);
}

TileAttr *ScheduleFields::find(TileRole role) {
  auto tile = llvm::find_if(tiles, [&](TileAttr tile) { return tile.getRole() == role; });
  return tile == tiles.end() ? nullptr : &*tile;
}
