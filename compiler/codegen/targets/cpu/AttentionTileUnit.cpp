// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The two products of an attention tile on AMX. Panels of bf16 pairs are what its right operands are, so that vectors and tiles read the
// same memory.
//
// Every number of rows runs on tiles of 16, since `tdpbf16ps` adds 32 columns up in an order that no other instruction has. Rows behind
// the last are multiplied as well: they are whatever the scratch held, no other row reads them, and nobody reads what they become.

#include "compiler/codegen/targets/cpu/AttentionTile.h"

using namespace mlir;
using namespace heddle;

static constexpr int64_t floatBytes = sizeof(float);
// A tile of sums is 16 rows by 16 lanes; an instruction takes 32 columns of the left operand, 16 pairs of the right.
static constexpr int64_t unitRows = TileUnit::maxRows, unitLanes = TileUnit::maxRowBytes / floatBytes, unitPairs = 16;

int64_t AttentionTile::unitPairsOf(int64_t columns) {
  return llvm::divideCeil(columns, 2 * unitPairs) * unitPairs;
}

// Columns of queries and of keys behind head_dim, and columns of values behind theirs, are zeros that no step writes.
void AttentionTile::beginTileUnit() {
  if (spec.headDim % (2 * unitPairs)) {
    fillZeros(query, runRows * queryStride);
    fillZeros(panel, unitPairsOf(spec.headDim) * blockTokens);
  }
  if (spec.valueDim() != valueStride)
    fillZeros(valuePanel, blockTokens / 2 * valueStride);
  tileUnit.emplace(b, b.stackScratch(TileUnit::shapesBytes));
  tileUnit->configure();
}

void AttentionTile::finish() {
  if (tileUnit)
    tileUnit->release();
}

// sums (rows, columns) = [sums +] left (rows, pairs) @ right (pairs, columns)
void AttentionTile::multiplyUnit(int64_t rowTiles, int64_t columnTiles, const Panel &left, const Panel &right,
                                 const Panel &sums, int64_t pairCount, bool accumulates) {
  Value leftStride = b.constant(left.rowBytes), rightStride = b.constant(right.rowBytes),
        sumStride = b.constant(sums.rowBytes);
  auto forSums = [&](llvm::function_ref<void(int64_t, Value)> body) {
    for (int64_t r = 0; r < rowTiles; ++r)
      for (int64_t c = 0; c < columnTiles; ++c)
        body(TileUnit::sumTile(r, c), b.at(sums.base, r * unitRows * sums.rowBytes + c * TileUnit::maxRowBytes));
  };
  forSums([&](int64_t tile, Value address) {
    accumulates ? tileUnit->load(tile, address, sumStride) : tileUnit->clear(tile);
  });
  b.loop(0, pairCount, unitPairs, [&](Value pair) {
    Value leftPairs = b.at(left.base, pair, floatBytes), rightPairs = b.at(right.base, pair, right.rowBytes);
    for (int64_t r = 0; r < rowTiles; ++r)
      tileUnit->load(TileUnit::leftTile(r), b.at(leftPairs, r * unitRows * left.rowBytes), leftStride);
    for (int64_t c = 0; c < columnTiles; ++c) {
      tileUnit->load(TileUnit::rightTile(c), b.at(rightPairs, c * TileUnit::maxRowBytes), rightStride);
      for (int64_t r = 0; r < rowTiles; ++r)
        tileUnit->multiplyAdd("tdpbf16ps", TileUnit::sumTile(r, c), TileUnit::leftTile(r), TileUnit::rightTile(c));
    }
  });
  forSums([&](int64_t tile, Value address) { tileUnit->store(tile, address, sumStride); });
}

// `body(row tiles, column, column tiles)` for all rows of a block and every 2 tiles of columns. Sixteen rows or fewer take one tile.
void AttentionTile::unitBlocks(const RowBlock &block, int64_t columns,
                               llvm::function_ref<void(int64_t, Value, int64_t)> body) {
  auto columnBlocks = [&](int64_t rowTiles) {
    int64_t whole = columns / (2 * unitLanes) * (2 * unitLanes);
    if (whole)
      b.loop(0, whole, 2 * unitLanes, [&](Value column) { body(rowTiles, column, 2); });
    if (whole < columns)
      body(rowTiles, b.constant(whole), 1);
  };
  b.ifThen(b.lessThan(block.count, b.constant(unitRows + 1)), [&] { columnBlocks(1); });
  if (blockRows() > unitRows)
    b.ifThen(b.lessThan(b.constant(unitRows), block.count), [&] { columnBlocks(2); });
}

void AttentionTile::multiplyScoresOnUnit(const RowBlock &block, const Panel &keys) {
  int64_t queryBytes = queryStride * floatBytes, keyBytes = blockTokens * floatBytes;
  unitBlocks(block, blockTokens, [&](int64_t rowTiles, Value key, int64_t keyTiles) {
    Panel queries = {b.at(query, block.first, queryBytes), queryBytes};
    Panel columns = {b.at(keys.base, key, floatBytes), keys.rowBytes};
    Panel to = {b.at(scores, key, floatBytes), keyBytes};
    multiplyUnit(rowTiles, keyTiles, queries, columns, to, unitPairsOf(spec.headDim), /*accumulates=*/false);
  });
}

// The keys of a page all take part: those that no row sees have a weight of 0 and a value of 0.
void AttentionTile::accumulateValuesOnUnit(const RowBlock &block, const Panel &values) {
  int64_t weightBytes = blockTokens * floatBytes, valueBytes = valueStride * floatBytes;
  unitBlocks(block, valueStride, [&](int64_t rowTiles, Value column, int64_t columnTiles) {
    Panel weights = {scores, weightBytes};
    Panel columns = {columnOf(values, values.base, column), values.rowBytes};
    Panel to = {b.at(b.at(accs, block.first, valueBytes), column, floatBytes), valueBytes};
    multiplyUnit(rowTiles, columnTiles, weights, columns, to, blockTokens / 2, /*accumulates=*/true);
  });
}
