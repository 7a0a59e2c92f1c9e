// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products with bf16 activations on AMX: 16 rows by 32 columns of activations times 32 columns of a panel, one instruction.
//
// One row is a tile of one row: every number of rows adds up in the same order. Within 32 columns the order is the
// instruction's, between them it ascends.

#include "compiler/codegen/targets/cpu/MatmulEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace heddle;

// A tile: 16 rows of 64 bytes, of activations (rows, 32 columns), of weights (16 pairs of columns, 16 lanes), of sums
// (rows, 16 lanes).
static constexpr int64_t tileRows = TileUnit::maxRows, tileRowBytes = TileUnit::maxRowBytes,
                         tileBytes = tileRows * tileRowBytes, tileColumns = 32;
// Steps along K between asking for a row's activations and loading them.
static constexpr int64_t prefetchSteps = 2;

// Registers by row tile r and panel p, two each.
static int64_t sumTile(int64_t r, int64_t p) {
  return 2 * r + p;
}
static int64_t activationTile(int64_t r) {
  return 4 + r;
}
static int64_t weightTile(int64_t p) {
  return 6 + p;
}

void MatmulEmitter::emitTileUnit() {
  // setup
  tileUnit.emplace(b, b.stack(TileUnit::shapesBytes));
  if (stagesActivations())
    staged = b.stack(2 * tileRows * stagedStride());
  // compute
  emitManyRows(tiles.tileUnit);
  // finish
  tileUnit->release();
}

// Shapes the tiles of sums and activations for a block of `height` rows, 16 in all but the last row tile, and clears all.
void MatmulEmitter::configureTiles(Value height, int64_t rowTiles) {
  for (int64_t r = 0; r < rowTiles; ++r) {
    Value left = b.minimum(b.sub(height, b.index(r * tileRows)), b.index(tileRows));
    Value count = arith::TruncIOp::create(b, b.i8, left);
    for (int64_t tile : {sumTile(r, 0), sumTile(r, 1), activationTile(r)})
      tileUnit->setRows(tile, count);
  }
  tileUnit->configure();
}

// partial (rows, panels, 16) += activations (rows, columns) * W (panels, columns, 16)
void MatmulEmitter::emitTileUnitRows(const LineBlock &block, Value rowBegin, Value rowEnd, RowAddress partial) {
  auto emitIf = [&](Value condition, function_ref<void()> body) { b.branch(condition, body, [] {}); };
  int64_t tall = 2 * tileRows;
  Value whole = b.wholeSteps(rowBegin, rowEnd, tall), left = b.sub(rowEnd, whole);
  emitIf(b.lessThan(rowBegin, whole), [&] {
    configureTiles(b.index(tall), 2);
    b.loop(rowBegin, whole, tall, [&](Value row) { emitTileUnitBlock(block, row, b.index(tall), 2, partial(row)); });
  });
  auto emitRest = [&](int64_t rowTiles) {
    configureTiles(left, rowTiles);
    emitTileUnitBlock(block, whole, left, rowTiles, partial(whole));
  };
  emitIf(b.lessThan(b.index(0), left),
         [&] { b.branch(b.lessThan(b.index(tileRows), left), [&] { emitRest(2); }, [&] { emitRest(1); }); });
}

void MatmulEmitter::emitTileUnitBlock(const LineBlock &block, Value row, Value height, int64_t rowTiles,
                                      Value partial) {
  // setup
  Value activations = staged, stride = b.index(stagedStride());
  if (staged) {
    stageActivations(block, row, height);
  } else {
    activations = b.at(activationRow(row), b.mul(block.begin, activationBytes()));
    stride = b.mul(inputStride, activationBytes());
  }
  Value partialStride = b.index(block.panels * lineBytes), lineStride = b.index(lineBytes);
  auto forSums = [&](function_ref<void(int64_t, Value)> body) {
    for (int64_t r = 0; r < rowTiles; ++r)
      for (int64_t p = 0; p < block.panels; ++p)
        body(sumTile(r, p), b.at(partial, (r * tileRows * block.panels + p) * lineBytes));
  };
  forSums([&](int64_t tile, Value address) { tileUnit->load(tile, address, partialStride); });
  // compute: padded, the last columns of a row of W and of the activations are zero
  Value count = b.divide(b.add(block.columns, tileColumns - 1), tileColumns);
  b.loop(b.index(0), count, 1, [&](Value step) {
    Value columns = b.at(activations, b.mul(step, tileRowBytes)), lines = b.at(block.address, b.mul(step, tileBytes));
    for (int64_t r = 0; r < rowTiles; ++r)
      tileUnit->load(activationTile(r), b.at(columns, b.mul(stride, r * tileRows)), stride);
    // Hardware foresees no steps along so many rows.
    for (int64_t r = 0; !staged && r < rowTiles * tileRows; ++r)
      b.prefetch(b.at(b.at(columns, b.mul(stride, r)), prefetchSteps * tileRowBytes));
    for (int64_t p = 0; p < block.panels; ++p) {
      tileUnit->load(weightTile(p), b.at(lines, p * block.panelStride), lineStride);
      for (int64_t r = 0; r < rowTiles; ++r)
        tileUnit->multiplyAdd("tdpbf16ps", sumTile(r, p), activationTile(r), weightTile(p));
    }
  });
  // store
  forSums([&](int64_t tile, Value address) { tileUnit->store(tile, address, partialStride); });
}

// Tiles read rows that are equally far apart and whole to 32 columns.
bool MatmulEmitter::stagesActivations() const {
  return spec.rows == MatmulRows::Gathered || spec.k % tileColumns != 0;
}

// A line more than a block's columns, so that rows do not fall into the same few sets of the cache.
int64_t MatmulEmitter::stagedStride() const {
  return tiles.lineBlock * 4 + tileRowBytes;
}

// staged (height, columns) = act[row …][begin … begin + columns), with zeros up to a multiple of 32 columns
void MatmulEmitter::stageActivations(const LineBlock &block, Value row, Value height) {
  Value whole = b.divide(block.columns, tileColumns);
  Value count = b.divide(b.add(block.columns, tileColumns - 1), tileColumns);
  b.loop(b.index(0), height, 1, [&](Value r) {
    Value from = b.at(activationRow(b.add(row, r)), b.mul(block.begin, activationBytes()));
    Value to = b.at(staged, b.mul(r, stagedStride()));
    b.loop(b.index(0), whole, 1, [&](Value step) {
      Value offset = b.mul(step, tileRowBytes);
      b.store(b.load(b.v16i32, b.at(from, offset), 2), b.at(to, offset));
    });
    if (spec.k % tileColumns == 0)
      return;
    // No step but in the last block of K.
    SmallVector<bool> isColumn(tileRows);
    std::fill_n(isColumn.begin(), spec.k % tileColumns / 2, true);
    Value mask = arith::ConstantOp::create(b, b.getBoolVectorAttr(isColumn));
    b.loop(whole, count, 1, [&](Value step) {
      Value offset = b.mul(step, tileRowBytes);
      b.store(b.loadMasked(b.v16i32, b.at(from, offset), mask), b.at(to, offset));
    });
  });
}
