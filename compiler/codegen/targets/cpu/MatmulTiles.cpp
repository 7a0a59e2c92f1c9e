// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/targets/cpu/MatmulTiles.h"

#include "compiler/weights/PackedLayout.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace mlir;
using namespace heddle;

void MatmulTile::makePaired() {
  int64_t sums = heights.front() * panels;
  panels = std::max<int64_t>(panels / 2 * 2, 2);
  llvm::erase_if(heights, [&](int64_t height) { return height > 1 && height * panels > sums; });
}

MatmulTiles heddle::tilesOf(ScheduleAttr schedule) {
  MatmulTiles tiles;
  for (TileAttr tile : schedule.getTiles()) {
    MatmulTile *to = tile.getRole() == TileRole::FewRows    ? &tiles.floatFew
                     : tile.getRole() == TileRole::ManyRows ? &tiles.floatMany
                     : tile.getRole() == TileRole::TileUnit ? &tiles.tileUnit
                     : tile.getRole() == TileRole::Int8     ? &tiles.q8
                     : tile.getRole() == TileRole::Int16    ? &tiles.int16
                     : tile.getRole() == TileRole::Words    ? &tiles.words
                                                            : nullptr;
    if (!to) // of attention
      continue;
    to->heights.assign(tile.getRows().begin(), tile.getRows().end());
    to->panels = tile.getColumns() / PackedLayout::panelRows;
    if (to == &tiles.tileUnit) {
      tiles.unitLineBlock = tile.getK() / 2;
      tiles.unitRowBlock = tile.getMaxRows();
    }
    if (to == &tiles.words) {
      tiles.wordRows = tile.getMaxRows();
      tiles.wordColumns = tile.getK();
    }
    if (to == &tiles.int16)
      tiles.int16MaxRows = tile.getMaxRows();
  }
  tiles.lineBlock = schedule.getKBlock();
  tiles.rowBlock = schedule.getRowBlock();
  tiles.termBytes = schedule.getTermBytes();
  tiles.prefetch = {schedule.getPrefetchBytes(), schedule.getPrefetchCache() == 2 ? Cache::Second : Cache::First,
                    schedule.getPrefetchLines() == 1};
  // Without scratch two panels at a time, of as many rows as other products have on the stack.
  tiles.scratchBytes = schedule.getScratchBytes();
  tiles.hasScratch = tiles.scratchBytes > 0;
  if (!tiles.hasScratch)
    tiles.unitRowBlock = tiles.rowBlock;
  tiles.unitPanels = tiles.hasScratch ? schedule.getScratchBytes() / (tiles.unitRowBlock * 4 * PackedLayout::panelRows)
                                      : tiles.tileUnit.panels;
  return tiles;
}
