// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products of 16-bit integers on AMX: two planes of bytes of 16 rows times a block of a panel, an instruction each.
//
// Sums leave the tiles through memory, where vectors put the planes together and scale them, as those of few rows do. All of it is exact, so a row
// has the same bits on tiles and on vectors.

#include "compiler/codegen/targets/cpu/MatmulEmitter.h"
#include "compiler/codegen/targets/cpu/WeightReader.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace heddle;

// Registers: the rows of a plane (rows, 32), the codes (8, 16 lanes of 4 columns) and the sums of both planes (rows, 16 lanes).
static constexpr int64_t unitRows = TileUnit::maxRows, planeTile = 0, codeTile = 1;
static int64_t planeSumTile(int64_t plane) {
  return 2 + plane;
}
// Of the sums of a step.
static constexpr int64_t dotBytes = 2 * unitRows * TileUnit::maxRowBytes;

// Codes of 8 bits are a tile as they are stored. With others unpacked for it, 16 rows take as long as tiles of bf16 (README.md).
bool MatmulEmitter::usesInt16Tiles() const {
  const PackedLayout &layout = spec.layout;
  bool hasCodes = layout.lowBits() == 8 && layout.book == CodeBook::None && !layout.isNested();
  return target.hasAvx512() && target.has("amx-tile") && target.has("amx-int8") && hasCodes &&
         layout.block == int16PlaneBytes;
}

void MatmulEmitter::beginInt16Unit() {
  tiles.int16.heights.insert(tiles.int16.heights.begin(), unitRows);
  unitDots = b.stack(2 * dotBytes);
  tileUnit.emplace(b, b.stack(TileUnit::shapesBytes));
  tileUnit->setShape(planeTile, unitRows, int16PlaneBytes);
  tileUnit->setShape(codeTile, int16PlaneBytes / 4, lineBytes);
  b.branch(fillsInt16Unit(), [&] { tileUnit->configure(); }, [] {});
}

void MatmulEmitter::endInt16Unit() {
  b.branch(fillsInt16Unit(), [&] { tileUnit->release(); }, [] {});
}

Value MatmulEmitter::fillsInt16Unit() {
  return b.lessThan(b.index(unitRows - 1), call.rows);
}

bool MatmulEmitter::isInt16UnitHeight(int64_t height) const {
  return usesInt16Tiles() && height == unitRows;
}

// The rows of a tile times `panels` panels.
void MatmulEmitter::emitInt16UnitTile(Value panel, int64_t panels, Value row, ArrayRef<IntegerRow> tileRows) {
  SmallVector<Values> sums;
  for (int64_t p = 0; p < panels; ++p)
    sums.push_back(sumInt16Unit(b.add(panel, p), tileRows));
  for (int64_t r = 0; r < unitRows; ++r)
    storeRow(llvm::map_to_vector(sums, [&](const Values &of) { return of[r]; }), panel, b.add(row, r));
}

// (rows). What tiles hand to vectors through memory takes longer than a step: while one is scaled, the next is multiplied. At the end the last is
// multiplied again.
SmallVector<Value> MatmulEmitter::sumInt16Unit(Value panel, ArrayRef<IntegerRow> tileRows) {
  Value address = panelAddress(panel), last = b.index(spec.k / int16PlaneBytes - 1);
  auto readerOf = [&](Value step) { return BlockReader::inPanel(b, spec.layout, address, step, target); };
  auto dotsOf = [&](Value step) { // in one of two places
    Value isOdd = b.sub(step, b.mul(b.divide(step, 2), 2));
    return b.at(unitDots, b.mul(isOdd, dotBytes));
  };
  auto multiply = [&](Value step) {
    BlockReader weights = readerOf(step);
    weights.prefetch(tiles.prefetch, 1);
    multiplyPlanes(weights.codesAddress(), b.at(tileRows.front().codes, b.mul(step, int16StepBytes())), dotsOf(step));
  };
  multiply(b.index(0));
  return b.loop(b.index(0), b.add(last, 1), 1, zeros(unitRows), [&](Value step, ValuesRef carried) {
    multiply(b.minimum(b.add(step, 1), last));
    Values sums(carried);
    BlockReader weights = readerOf(step);
    SmallVector<IntegerRow> blockRows = stepRows(tileRows, step, 0);
    addIntegerBlock(loadPlaneDots(dotsOf(step), blockRows), weights.ownScale(), weights.ownMin(), blockRows, 0, 1,
                    sums);
    return sums;
  });
}

// dots (2, rows, 16) = planes of bytes (rows, 32) * codes (32, 16)
void MatmulEmitter::multiplyPlanes(Value codes, Value planes, Value dots) {
  Value lineStride = b.index(lineBytes), rowStride = b.index(int16RowBytes());
  tileUnit->load(codeTile, codes, lineStride);
  for (int64_t plane : {0, 1}) {
    tileUnit->load(planeTile, b.at(planes, plane * int16PlaneBytes), rowStride);
    tileUnit->clear(planeSumTile(plane));
    tileUnit->multiplyAdd("tdpbsud", planeSumTile(plane), planeTile, codeTile);
    tileUnit->store(planeSumTile(plane), b.at(dots, plane * unitRows * lineBytes), lineStride);
  }
}

// What emitInt16Dots gives.
SmallVector<Value> MatmulEmitter::loadPlaneDots(Value dots, ArrayRef<IntegerRow> blockRows) {
  Values loaded;
  for (auto [r, row] : llvm::enumerate(blockRows)) {
    auto sumOf = [&, r = r](int64_t plane) { return b.load(b.v16i32, b.at(dots, (plane * unitRows + r) * lineBytes)); };
    Value dot = b.add(arith::ShLIOp::create(b, sumOf(0), b.splatInt(8)), sumOf(1));
    loaded.push_back(zeroPoint ? b.add(dot, b.splat(b.load(b.i32, row.terms))) : dot);
  }
  return loaded;
}
