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
// Up to so many rows, products wait for the weights, which are then read in the order in which they lie.
static constexpr int64_t streamedRows = 64;

void MatmulEmitter::emitTileUnit() {
  // setup
  tileUnit.emplace(b, b.stack(TileUnit::shapesBytes));
  if (stagesActivations())
    staged = b.stack(2 * tileRows * stagedStride());
  int64_t most = tiles.unitPanels, least = spec.isGated ? 2 : 1;
  unitSums = tiles.hasScratch ? call.scratch : b.stack(most * tiles.unitRowBlock * lineBytes);
  // compute
  Value begin = b.mul(call.panelBegin, least), end = b.mul(call.panelEnd, least);
  auto emitSlabs = [&] {
    Value panels =
        b.select(b.lessThan(b.index(streamedRows), call.rows), b.index(most), b.index(tiles.tileUnit.panels));
    Value slabs = b.divide(b.add(b.sub(end, begin), b.sub(panels, b.index(1))), panels);
    b.loop(b.index(0), slabs, 1, [&](Value slab) {
      Value first = b.add(begin, b.mul(slab, panels));
      emitTileUnitSlab(first, b.minimum(end, b.add(first, panels)));
    });
  };
  if (int64_t most = mostStreamedRows()) {
    Value isAny = b.lessThan(b.index(0), call.rows), isFew = b.lessThan(call.rows, b.index(most + 1));
    b.branch(arith::AndIOp::create(b, isAny, isFew), [&] { emitStreamedPanels(begin, end); }, emitSlabs);
  } else {
    emitSlabs();
  }
  // finish
  tileUnit->release();
}

// Rows that need no copy, of weights that need none; of gathered ones, which lie anywhere, one.
int64_t MatmulEmitter::mostStreamedRows() const {
  if (scratch || spec.k % tileColumns != 0)
    return 0;
  return spec.rows == MatmulRows::Gathered ? 1 : streamedRows;
}

// out[rows][panels begin … end): a pair of panels after the other is read from end to end, while the sums of 32 rows stay in tiles. What the first
// of them brought, others find in the second cache.
void MatmulEmitter::emitStreamedPanels(Value begin, Value end) {
  const int64_t tall = 2 * tileRows;
  forPairs(begin, end, [&](Value panel, int64_t panels) {
    b.loop(b.index(0), call.rows, tall, [&](Value rowBegin) {
      Value height = b.minimum(b.sub(call.rows, rowBegin), b.index(tall));
      auto addPanels = [&](int64_t rowTiles) {
        configureTiles(height, rowTiles);
        addStreamedPanels(panel, panels, rowBegin, rowTiles);
      };
      b.branch(b.lessThan(b.index(tileRows), height), [&] { addPanels(2); }, [&] { addPanels(1); });
      b.loop(b.index(0), height, 1, [&](Value row) {
        finishRow(b.at(unitSums, b.mul(row, panels * lineBytes)), panel, panels, b.add(rowBegin, row));
      });
    });
  });
}

// sums (rows, panels, 16) = activations (rows, K) * W (panels, K, 16). Each step asks for one that follows it in memory: asked for in bursts,
// weights came at 13.4 GB/s instead of 16.1 (one core of an Emerald Rapids, a loop in plain C).
void MatmulEmitter::addStreamedPanels(Value panel, int64_t panels, Value row, int64_t rowTiles) {
  Value weights = panelAddress(panel), stride = b.mul(inputStride, activationBytes());
  auto forSums = [&](function_ref<void(int64_t r, int64_t p)> body) {
    for (int64_t r = 0; r < rowTiles; ++r)
      for (int64_t p = 0; p < panels; ++p)
        body(r, p);
  };
  forSums([&](int64_t r, int64_t p) { tileUnit->clear(TileUnit::sumTile(r, p)); });
  b.loop(b.index(0), b.index(spec.k / tileColumns), 1, [&](Value step) {
    for (int64_t r = 0; r < rowTiles; ++r) {
      Value rows = activationRow(b.add(row, r * tileRows));
      tileUnit->load(TileUnit::leftTile(r), b.at(rows, b.mul(step, tileRowBytes)), stride);
    }
    for (int64_t p = 0; p < panels; ++p) {
      Value lines = b.at(b.at(weights, b.mul(step, tileBytes)), p * spec.layout.panelBytes(spec.k));
      for (int64_t line = 0; tiles.prefetch.bytes && line < tileBytes; line += lineBytes)
        b.prefetch(b.at(lines, tiles.prefetch.bytes + line), tiles.prefetch.cache);
      tileUnit->load(TileUnit::rightTile(p), lines, b.index(lineBytes));
      for (int64_t r = 0; r < rowTiles; ++r)
        tileUnit->multiplyAdd("tdpbf16ps", TileUnit::sumTile(r, p), TileUnit::leftTile(r), TileUnit::rightTile(p));
    }
  });
  forSums([&](int64_t r, int64_t p) {
    Value sums = b.at(unitSums, (r * tileRows * panels + p) * lineBytes);
    tileUnit->store(TileUnit::sumTile(r, p), sums, b.index(panels * lineBytes));
  });
}

// Sums of a row, (panels, 16), as they are stored.
void MatmulEmitter::finishRow(Value sums, Value panel, int64_t panels, Value row) {
  Values finished;
  for (int64_t p = 0; p < panels; ++p)
    finished.push_back(b.load(b.v16f32, b.at(sums, p * lineBytes)));
  storeRow(finished, panel, row);
}

// Calls body(panel, panels) for two panels at a time, then for the one that is left.
void MatmulEmitter::forPairs(Value begin, Value end, function_ref<void(Value panel, int64_t panels)> body) {
  int64_t pair = tiles.tileUnit.panels;
  Value whole = b.wholeSteps(begin, end, pair);
  b.loop(begin, whole, pair, [&](Value panel) { body(panel, pair); });
  if (!spec.isGated)
    b.loop(whole, end, 1, [&](Value panel) { body(panel, 1); });
}

// out[rows][panels begin … end)
void MatmulEmitter::emitTileUnitSlab(Value begin, Value end) {
  int64_t columnBlock = tiles.lineBlock * lineValues(), pair = tiles.tileUnit.panels;
  b.loop(b.index(0), call.rows, tiles.unitRowBlock, [&](Value rowBegin) {
    Value rowEnd = b.minimum(call.rows, b.add(rowBegin, tiles.unitRowBlock));
    // The sums of two panels are (rows, 2, 16), whether there are two or one.
    auto sums = [&](Value panel, Value row) {
      Value before = b.mul(b.sub(panel, begin), tiles.unitRowBlock * lineBytes);
      return b.at(b.at(unitSums, before), b.mul(b.sub(row, rowBegin), pair * lineBytes));
    };
    b.loop(b.index(0), b.index(spec.k), columnBlock, [&](Value column) {
      Value columns = b.minimum(b.sub(b.index(spec.k), column), b.index(columnBlock));
      forPairs(begin, end, [&](Value panel, int64_t panels) {
        LineBlock lines{scratch, tiles.lineBlock * lineBytes, panels, column, columns};
        Value place = packedColumns(panel, column);
        if (scratch)
          unpackPanels(panel, panels, column, b.add(column, columns));
        else
          lines = {place, spec.layout.panelBytes(spec.k), panels, column, columns};
        Value isLast = b.lessThan(b.sub(end, b.index(1)), b.add(panel, panels));
        lines.next =
            b.select(isLast, packedColumns(begin, b.add(column, columns)), packedColumns(b.add(panel, panels), column));
        emitTileUnitRows(lines, panel, rowBegin, rowEnd, [&](Value row) { return sums(panel, row); });
      });
    });
  });
}

// Where the columns of a panel from `column` on lie, the first of a block.
Value MatmulEmitter::packedColumns(Value panel, Value column) {
  const PackedLayout &layout = spec.layout;
  return b.at(panelAddress(panel), b.mul(b.divide(column, layout.unitValues()), layout.unitBytes()));
}

// Shapes the tiles of sums and activations for a block of `height` rows, 16 in all but the last row tile, and clears all.
void MatmulEmitter::configureTiles(Value height, int64_t rowTiles) {
  for (int64_t r = 0; r < rowTiles; ++r) {
    Value left = b.minimum(b.sub(height, b.index(r * tileRows)), b.index(tileRows));
    Value count = arith::TruncIOp::create(b, b.i8, left);
    for (int64_t tile : {TileUnit::sumTile(r, 0), TileUnit::sumTile(r, 1), TileUnit::leftTile(r)})
      tileUnit->setRows(tile, count);
  }
  tileUnit->configure();
}

// sums (rows, 2, 16) += activations (rows, columns) * W (panels, columns, 16), or =, of the first columns. With the last columns they
// are finished.
void MatmulEmitter::emitTileUnitRows(const LineBlock &block, Value panel, Value rowBegin, Value rowEnd,
                                     RowAddress sums) {
  auto emitBlock = [&](Value row, Value height, int64_t rowTiles) {
    prefetchWeights(block, row, rowBegin, rowEnd);
    emitTileUnitBlock(block, panel, row, height, rowTiles, sums(row));
  };
  auto emitIf = [&](Value condition, function_ref<void()> body) { b.branch(condition, body, [] {}); };
  int64_t tall = 2 * tileRows;
  Value whole = b.wholeSteps(rowBegin, rowEnd, tall), left = b.sub(rowEnd, whole);
  emitIf(b.lessThan(rowBegin, whole), [&] {
    configureTiles(b.index(tall), 2);
    b.loop(rowBegin, whole, tall, [&](Value row) { emitBlock(row, b.index(tall), 2); });
  });
  auto emitRest = [&](int64_t rowTiles) {
    configureTiles(left, rowTiles);
    emitBlock(whole, left, rowTiles);
  };
  emitIf(b.lessThan(b.index(0), left),
         [&] { b.branch(b.lessThan(b.index(tileRows), left), [&] { emitRest(2); }, [&] { emitRest(1); }); });
}

// Asks for the row's share of the weights that come next, so that memory is read evenly while all rows are computed.
void MatmulEmitter::prefetchWeights(const LineBlock &block, Value row, Value rowBegin, Value rowEnd) {
  const PackedLayout &layout = spec.layout;
  int64_t columns = std::min(tiles.lineBlock * lineValues(), spec.k);
  int64_t lines = llvm::divideCeil(llvm::divideCeil(columns, layout.unitValues()) * layout.unitBytes(), lineBytes);
  auto lineOf = [&](Value row) { return b.divide(b.mul(b.sub(row, rowBegin), lines), b.sub(rowEnd, rowBegin)); };
  Value end = lineOf(b.minimum(rowEnd, b.add(row, 2 * tileRows)));
  b.loop(lineOf(row), end, 1, [&](Value line) {
    for (int64_t p = 0; p < block.panels; ++p)
      b.prefetch(b.at(b.at(block.next, b.mul(line, lineBytes)), p * layout.panelBytes(spec.k)), Cache::Second);
  });
}

// A block of 16 or 32 rows. In the first cache stay the weights, which the next rows read, so activations pass through it; and the sums, which
// come from the second cache and go back there: they are asked for a block ahead, and where they are finished, `out` while they are added up.
void MatmulEmitter::emitTileUnitBlock(const LineBlock &block, Value panel, Value row, Value height, int64_t rowTiles,
                                      Value sums) {
  // setup
  Value activations = staged, stride = b.index(stagedStride());
  if (staged) {
    stageActivations(block, row, height);
  } else {
    activations = b.at(activationRow(row), b.mul(block.begin, activationBytes()));
    stride = b.mul(inputStride, activationBytes());
  }
  const int64_t rows = rowTiles * tileRows, steps = tiles.lineBlock * lineValues() / tileColumns,
                sumStride = tiles.tileUnit.panels * lineBytes, sumLines = rows * sumStride / lineBytes / steps,
                outRows = llvm::divideCeil(rows, steps),
                outLines = spec.isGated || outs.back().elementBytes == 2 ? 1 : block.panels;
  Value lineStride = b.index(lineBytes), stored = b.index(sumStride);
  auto forSums = [&](function_ref<void(int64_t, Value)> body) {
    for (int64_t r = 0; r < rowTiles; ++r)
      for (int64_t p = 0; p < block.panels; ++p)
        body(TileUnit::sumTile(r, p), b.at(sums, r * tileRows * sumStride + p * lineBytes));
  };
  Value nextSums = b.at(sums, rows * sumStride);
  Value isLast = b.lessThan(b.index(spec.k - 1), b.add(block.begin, block.columns));
  bool asksForOut = spec.rows != MatmulRows::Scattered;
  Value out = nextSums, outStride = b.index(0);
  if (asksForOut) {
    const Destination &to = outs.back();
    out = b.select(isLast, addressIn(to, row, spec.isGated ? b.divide(panel, 2) : panel), nextSums);
    outStride = b.select(isLast, b.mul(to.stride, to.elementBytes), outStride);
  }
  auto prefetch = [&](Value step) {
    for (int64_t line = 0; line < sumLines; ++line)
      b.prefetch(b.at(b.at(nextSums, b.mul(step, sumLines * lineBytes)), line * lineBytes));
    for (int64_t r = 0; asksForOut && r < outRows; ++r)
      for (int64_t line = 0; line < outLines; ++line)
        b.prefetch(b.at(b.at(out, b.mul(b.add(b.mul(step, outRows), r), outStride)), line * lineBytes));
  };
  b.branch(
      b.lessThan(b.index(0), block.begin),
      [&] { forSums([&](int64_t tile, Value address) { tileUnit->load(tile, address, stored); }); },
      [&] { forSums([&](int64_t tile, Value) { tileUnit->clear(tile); }); });
  // compute: padded, the last columns of a row of W and of the activations are zero
  Value count = b.divide(b.add(block.columns, tileColumns - 1), tileColumns);
  b.loop(b.index(0), count, 1, [&](Value step) {
    prefetch(step);
    Value columns = b.at(activations, b.mul(step, tileRowBytes)), lines = b.at(block.address, b.mul(step, tileBytes));
    for (int64_t r = 0; r < rowTiles; ++r)
      tileUnit->loadStreamed(TileUnit::leftTile(r), b.at(columns, b.mul(stride, r * tileRows)), stride);
    for (int64_t p = 0; p < block.panels; ++p) {
      tileUnit->load(TileUnit::rightTile(p), b.at(lines, p * block.panelStride), lineStride);
      for (int64_t r = 0; r < rowTiles; ++r)
        tileUnit->multiplyAdd("tdpbf16ps", TileUnit::sumTile(r, p), TileUnit::leftTile(r), TileUnit::rightTile(p));
    }
  });
  // store
  forSums([&](int64_t tile, Value address) { tileUnit->store(tile, address, stored); });
  // finish
  b.branch(
      isLast,
      [&] {
        b.loop(b.index(0), height, 1,
               [&](Value r) { finishRow(b.at(sums, b.mul(r, sumStride)), panel, block.panels, b.add(row, r)); });
      },
      [] {});
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
