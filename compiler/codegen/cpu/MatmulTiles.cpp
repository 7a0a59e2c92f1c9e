// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/cpu/MatmulTiles.h"

using namespace heddle;

MatmulTiles heddle::matmulTiles(const CpuTarget &target) {
  MatmulTiles tiles;
  tiles.columnBlock = 256;
  tiles.rowBlock = 256;
  tiles.prefetchBytes = 2048;
  if (target.vectorLanes() == 16) {
    tiles.f32Few = {{4, 1}, 2};         // 8 sums; unpacking hides the latency of one row's two chains
    tiles.f32Many = {{8, 4, 2, 1}, 3};  // 24 sums + 3 columns + 1 broadcast of 32 registers
    tiles.q8 = {{8, 4, 2, 1}, 1};       // 8 integer and 8 f32 sums; broadcasts come from memory
  } else if (target.isX86()) {
    tiles.f32Few = {{2, 1}, 2};      // 8 sums, 2 columns of 16 registers
    tiles.f32Many = {{6, 2, 1}, 1};  // 12 sums + 2 columns + 1 broadcast
    tiles.q8 = {{2, 1}, 1};          // 4 integer and 4 f32 sums, 4 temporaries
  } else {
    tiles.f32Few = {{2, 1}, 2};      // 16 sums, 4 columns of 32 registers
    tiles.f32Many = {{6, 2, 1}, 1};  // 24 sums + 4 columns + 1 broadcast
    tiles.q8 = {{3, 2, 1}, 1};       // 12 integer and 12 f32 sums
  }
  return tiles;
}
