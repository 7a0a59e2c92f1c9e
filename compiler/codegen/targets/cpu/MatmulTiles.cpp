// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/targets/cpu/MatmulTiles.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>

using namespace heddle;

void MatmulTile::makePaired() {
  int64_t sums = heights.front() * panels;
  panels = std::max<int64_t>(panels / 2 * 2, 2);
  llvm::erase_if(heights, [&](int64_t height) { return height > 1 && height * panels > sums; });
}

MatmulTiles heddle::matmulTiles(const CpuTarget &target) {
  MatmulTiles tiles;
  tiles.lineBlock = 256;
  tiles.rowBlock = 256;
  tiles.q8TermBytes = 96 << 10;
  tiles.prefetchBytes = 2048;
  tiles.tileUnit = {{32, 16}, 2}; // 4 tiles of sums, 2 of rows, 2 of weights: all 8
  if (target.vectorLanes() == 16) {
    tiles.floatFew = {{4, 1}, 2};        // 8 sums; unpacking hides the latency of one row's two chains
    tiles.floatMany = {{8, 4, 2, 1}, 3}; // 24 sums + 3 columns + 1 broadcast of 32 registers
    if (target.has("avx512vnni"))
      tiles.q8 = {{8, 4, 2, 1}, 1}; // 8 integer and 8 f32 sums; broadcasts come from memory
    else
      tiles.q8 = {{4, 2, 1}, 1}; // with 8 rows the widened bytes spill
  } else if (target.isX86()) {
    tiles.floatFew = {{2, 1}, 1};     // 4 sums, 2 scales, 2 mins of 16 registers
    tiles.floatMany = {{6, 2, 1}, 1}; // 12 sums + 2 columns + 1 broadcast
    tiles.q8 = {{2, 1}, 1};           // 4 integer and 4 f32 sums, 4 temporaries
  } else {
    tiles.floatFew = {{2, 1}, 1};     // 8 sums, 4 scales, 4 mins of 32 registers
    tiles.floatMany = {{5, 2, 1}, 1}; // 20 sums + 4 columns + 1 broadcast; with 6 rows sums spill
    tiles.q8 = {{2, 1}, 1};           // 8 integer and 8 f32 sums; with 3 rows broadcasts spill
  }
  return tiles;
}
