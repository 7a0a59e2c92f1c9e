// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products of int8 activations on AMX: the codes of up to 16 rows times a block of a panel, one instruction.
//
// A block has a scale of its own, so its sums leave the tile through memory to be scaled. They are exact, and scaled as those of
// vectors are: rows that fill no tile run on vectors and get the same bits.

#include "compiler/codegen/targets/cpu/MatmulEmitter.h"
#include "compiler/codegen/targets/cpu/WeightReader.h"

using namespace mlir;
using namespace heddle;

// Registers by panel p, of two at most.
static constexpr int64_t activationTile = 0; // (rows, block)
static int64_t sumTile(int64_t p) {          // (rows, 16 lanes)
  return 1 + p;
}
static int64_t weightTile(int64_t p) { // (block / 4, 16 lanes of 4 columns)
  return 3 + p;
}

// Rows of a tile: with their panels, as many scaled sums as the vector registers hold beside 16 more.
int64_t MatmulEmitter::q8UnitRows() const {
  return TileUnit::maxRows / tiles.q8.panels;
}

void MatmulEmitter::beginQ8Unit() {
  int64_t panels = tiles.q8.panels, block = spec.layout.block;
  unitDots = b.stack(panels * q8UnitRows() * lineBytes);
  if (spec.layout.lowBits() < 8)
    unitCodes = b.stack(panels * block / 4 * lineBytes);
  tileUnit.emplace(b, b.stack(TileUnit::shapesBytes));
  tileUnit->setShape(activationTile, q8UnitRows(), block);
  for (int64_t p = 0; p < panels; ++p) {
    tileUnit->setShape(sumTile(p), q8UnitRows(), lineBytes);
    tileUnit->setShape(weightTile(p), block / 4, lineBytes);
  }
  b.branch(fillsQ8Unit(), [&] { tileUnit->configure(); }, [] {});
}

void MatmulEmitter::endQ8Unit() {
  b.branch(fillsQ8Unit(), [&] { tileUnit->release(); }, [] {});
}

Value MatmulEmitter::fillsQ8Unit() {
  return b.lessThan(b.index(q8UnitRows() - 1), call.rows);
}

// What emitQ8Dots gives, of as many rows as a tile has; panels in their order.
SmallVector<Value> MatmulEmitter::emitQ8UnitDots(BlockReader &weights, ArrayRef<IntegerRow> blockRows, int64_t p) {
  Value lineStride = b.index(lineBytes), dots = b.at(unitDots, p * blockRows.size() * lineBytes);
  if (p == 0)
    tileUnit->load(activationTile, blockRows.front().codes, call.actStride);
  tileUnit->load(weightTile(p), unitCodesOf(weights, p), lineStride);
  tileUnit->clear(sumTile(p));
  tileUnit->multiplyAdd("tdpbsud", sumTile(p), activationTile, weightTile(p));
  tileUnit->store(sumTile(p), dots, lineStride);
  Values loaded;
  for (auto [r, row] : llvm::enumerate(blockRows)) {
    Value dot = b.load(b.v16i32, b.at(dots, r * lineBytes));
    loaded.push_back(zeroPoint ? b.add(dot, b.splat(b.load(b.i32, row.terms))) : dot);
  }
  return loaded;
}

// Where the codes of a block lie as bytes: where they are stored, or unpacked.
Value MatmulEmitter::unitCodesOf(BlockReader &weights, int64_t p) {
  const PackedLayout &layout = spec.layout;
  if (!unitCodes)
    return weights.codesAddress();
  Value unpacked = b.at(unitCodes, p * layout.block / 4 * lineBytes);
  for (int64_t number = 0; number < layout.quadsPerShare(); ++number) {
    BlockReader::Quad quad = weights.loadQuad(number);
    for (int64_t share = 0; share < layout.sharesPerByte(); ++share)
      b.store(weights.codes(quad, share), b.at(unpacked, (share * layout.quadsPerShare() + number) * lineBytes));
  }
  return unpacked;
}
