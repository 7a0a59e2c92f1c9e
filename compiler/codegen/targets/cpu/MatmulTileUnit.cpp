// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products with bf16 activations on AMX: 16 rows by 32 columns of activations times 32 columns of a panel, one instruction.
//
// One row is a tile of one row: every number of rows adds up in the same order. Within 32 columns the order is the
// instruction's, between them it ascends within a block of K, whose sums are then added in ascending order.

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
// Two row tiles, and their sums over a block of K: (rows, 2, 16).
static constexpr int64_t tallRows = 2 * tileRows, partialRowBytes = 2 * tileRowBytes,
                         partialBytes = tallRows * partialRowBytes;

void MatmulEmitter::emitTileUnit() {
  // setup
  tileUnit.emplace(b, b.stack(TileUnit::shapesBytes));
  if (stagesActivations())
    staged = b.stack(tallRows * stagedStride());
  unitPartials = b.stack(2 * partialBytes);
  for (int64_t line = 0; mostStreamedRows() && line < 2 * partialBytes; line += lineBytes)
    b.store(b.splatReal(0), b.at(unitPartials, line)); // few rows leave some as they are, which are added all the same
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

// out[rows][panels begin … end): a pair of panels after the other is read from end to end. What the first 32 rows brought, others find in the second
// cache.
void MatmulEmitter::emitStreamedPanels(Value begin, Value end) {
  forPairs(begin, end, [&](Value panel, int64_t panels) {
    b.loop(b.index(0), call.rows, tallRows, [&](Value row) {
      Value height = b.minimum(b.sub(call.rows, row), b.index(tallRows));
      auto addPanels = [&](int64_t rowTiles) {
        configureTiles(height, rowTiles);
        addStreamedPanels(panel, panels, row, height, rowTiles);
      };
      b.branch(b.lessThan(b.index(tileRows), height), [&] { addPanels(2); }, [&] { addPanels(1); });
    });
  });
}

// out[row …][panel …], of up to 32 rows: a block of columns after the other, of which each but the first adds the sums of the one before.
void MatmulEmitter::addStreamedPanels(Value panel, int64_t panels, Value row, Value height, int64_t rowTiles) {
  const int64_t last = (spec.k - 1) / blockColumns();
  auto finish = [&](Value block, Value r, bool isLast) {
    Value place = b.mul(r, partialRowBytes);
    finishRow({last == 0, isLast}, panels, b.at(partialOf(block), place), b.at(unitSums, place), panel, b.add(row, r));
  };
  for (int64_t line = 0; last > 0 && line < partialBytes; line += lineBytes)
    b.store(b.splatReal(0), b.at(unitSums, line));
  // Of all 32 rows, whether there are as many or not.
  addStreamedBlock(panel, panels, row, rowTiles, b.index(0), [](Value) {});
  b.loop(b.index(1), b.index(last + 1), 1, [&](Value block) {
    addStreamedBlock(panel, panels, row, rowTiles, block, [&](Value step) {
      forRowsOfStep(step, [&](Value r) { finish(b.sub(block, b.index(1)), r, /*isLast=*/false); });
    });
  });
  int64_t finished = (spec.k - last * blockColumns()) / tileColumns * rowsOfStep();
  if (last > 0 && finished < tallRows)
    b.loop(b.index(finished), b.index(tallRows), 1, [&](Value r) { finish(b.index(last - 1), r, /*isLast=*/false); });
  b.loop(b.index(0), height, 1, [&](Value r) { finish(b.index(last), r, /*isLast=*/true); });
}

// Each step asks for weights that follow it in memory: asked for in bursts, they came at 13.4 GB/s instead of 16.1 (one core of an Emerald Rapids, a
// loop in plain C).
void MatmulEmitter::addStreamedBlock(Value panel, int64_t panels, Value row, int64_t rowTiles, Value block,
                                     function_ref<void(Value step)> between) {
  const int64_t steps = blockColumns() / tileColumns;
  Value weights = panelAddress(panel), stride = b.mul(inputStride, activationBytes()), first = b.mul(block, steps);
  clearSums(rowTiles, panels);
  b.loop(first, b.minimum(b.add(first, steps), b.index(spec.k / tileColumns)), 1, [&](Value step) {
    between(b.sub(step, first));
    for (int64_t r = 0; r < rowTiles; ++r) {
      Value rows = activationRow(b.add(row, r * tileRows));
      tileUnit->load(TileUnit::leftTile(r), b.at(rows, b.mul(step, tileRowBytes)), stride);
    }
    for (int64_t p = 0; p < panels; ++p) {
      Value lines = b.at(b.at(weights, b.mul(step, tileBytes)), p * spec.layout.panelBytes(spec.k));
      for (int64_t line = 0; tiles.prefetch.bytes && line < tileBytes; line += lineBytes)
        b.prefetch(b.at(lines, tiles.prefetch.bytes + line), tiles.prefetch.cache);
      multiplyPanel(p, rowTiles, lines);
    }
  });
  storeSums(rowTiles, panels, partialOf(block));
}

// Columns of the block of K that begins at `column`.
Value MatmulEmitter::columnsFrom(Value column) {
  return b.minimum(b.sub(b.index(spec.k), column), b.index(blockColumns()));
}

// Of 32 rows, those that are finished in a step along K, such that a whole block finishes all.
int64_t MatmulEmitter::rowsOfStep() const {
  return llvm::divideCeil(tallRows * tileColumns, blockColumns());
}

void MatmulEmitter::forRowsOfStep(Value step, function_ref<void(Value row)> body) {
  for (int64_t i = 0; i < rowsOfStep(); ++i)
    body(b.add(b.mul(step, rowsOfStep()), i));
}

// The tiles of sums, (row tiles, panels).
void MatmulEmitter::clearSums(int64_t rowTiles, int64_t panels) {
  for (int64_t r = 0; r < rowTiles; ++r)
    for (int64_t p = 0; p < panels; ++p)
      tileUnit->clear(TileUnit::sumTile(r, p));
}

void MatmulEmitter::storeSums(int64_t rowTiles, int64_t panels, Value to) {
  for (int64_t r = 0; r < rowTiles; ++r)
    for (int64_t p = 0; p < panels; ++p)
      tileUnit->store(TileUnit::sumTile(r, p), b.at(to, r * tileRows * partialRowBytes + p * lineBytes),
                      b.index(partialRowBytes));
}

// Adds 32 columns of the activations, which are there, times a tile of weights.
void MatmulEmitter::multiplyPanel(int64_t panel, int64_t rowTiles, Value lines) {
  tileUnit->load(TileUnit::rightTile(panel), lines, b.index(lineBytes));
  for (int64_t r = 0; r < rowTiles; ++r)
    tileUnit->multiplyAdd("tdpbf16ps", TileUnit::sumTile(r, panel), TileUnit::leftTile(r), TileUnit::rightTile(panel));
}

// sums (panels, 16) += those of a block of K, or =, of the first; behind the last they are stored as a row of the result.
void MatmulEmitter::finishRow(ColumnPhase phase, int64_t panels, Value partial, Value sums, Value panel, Value row) {
  Values added;
  for (int64_t p = 0; p < panels; ++p) {
    added.push_back(b.load(b.v16f32, b.at(partial, p * lineBytes)));
    if (!phase.isFirst)
      added[p] = b.add(added[p], b.load(b.v16f32, b.at(sums, p * lineBytes)));
  }
  if (phase.isLast)
    return storeRow(added, panel, row);
  for (int64_t p = 0; p < panels; ++p)
    b.store(added[p], b.at(sums, p * lineBytes));
}

// Emits body for where a block of columns may be in K, of which the first, those between and the last are told apart as the program runs.
void MatmulEmitter::forPhase(const LineBlock &block, function_ref<void(ColumnPhase phase)> body) {
  if (spec.k <= blockColumns())
    return body({true, true});
  Value isFirst = b.lessThan(block.begin, b.index(1));
  Value isLast = b.lessThan(b.index(spec.k - 1), b.add(block.begin, block.columns));
  b.branch(
      isLast, [&] { body({false, true}); },
      [&] { b.branch(isFirst, [&] { body({true, false}); }, [&] { body({false, false}); }); });
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
  int64_t pair = tiles.tileUnit.panels;
  b.loop(b.index(0), call.rows, tiles.unitRowBlock, [&](Value rowBegin) {
    Value rowEnd = b.minimum(call.rows, b.add(rowBegin, tiles.unitRowBlock));
    // The sums of two panels are (rows, 2, 16), whether there are two or one.
    auto sums = [&](Value panel, Value row) {
      Value before = b.mul(b.sub(panel, begin), tiles.unitRowBlock * lineBytes);
      return b.at(b.at(unitSums, before), b.mul(b.sub(row, rowBegin), pair * lineBytes));
    };
    b.loop(b.index(0), b.index(spec.k), blockColumns(), [&](Value column) {
      Value columns = columnsFrom(column);
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
  auto none = [](Value) {};
  auto emitIf = [&](Value condition, function_ref<void()> body) { b.branch(condition, body, [] {}); };
  Value whole = b.wholeSteps(rowBegin, rowEnd, tallRows), left = b.sub(rowEnd, whole), tall = b.index(tallRows);
  emitIf(b.lessThan(rowBegin, whole), [&] {
    configureTiles(tall, 2);
    prefetchWeights(block, rowBegin, rowBegin, rowEnd);
    emitTileUnitBlock(block, rowBegin, tall, 2, none);
    Value isWhole = b.lessThan(b.index(blockColumns() - 1), block.columns);
    b.loop(b.add(rowBegin, tallRows), whole, tallRows, [&](Value row) {
      prefetchWeights(block, row, rowBegin, rowEnd);
      b.branch(
          isWhole, [&] { emitTileUnitBlocks(block, panel, row, sums); },
          [&] {
            finishRows(block, panel, b.sub(row, tall), tall, sums);
            emitTileUnitBlock(block, row, tall, 2, none);
          });
    });
    finishRows(block, panel, b.sub(whole, tall), tall, sums);
  });
  emitIf(b.lessThan(b.index(0), left), [&] {
    prefetchWeights(block, whole, rowBegin, rowEnd);
    auto emitRest = [&](int64_t rowTiles) {
      configureTiles(left, rowTiles);
      emitTileUnitBlock(block, whole, left, rowTiles, none);
    };
    b.branch(b.lessThan(b.index(tileRows), left), [&] { emitRest(2); }, [&] { emitRest(1); });
    finishRows(block, panel, whole, left, sums);
  });
}

// Asks for the row's share of the weights that come next, so that memory is read evenly while all rows are computed.
void MatmulEmitter::prefetchWeights(const LineBlock &block, Value row, Value rowBegin, Value rowEnd) {
  const PackedLayout &layout = spec.layout;
  int64_t columns = std::min(blockColumns(), spec.k);
  int64_t lines = llvm::divideCeil(llvm::divideCeil(columns, layout.unitValues()) * layout.unitBytes(), lineBytes);
  auto lineOf = [&](Value row) { return b.divide(b.mul(b.sub(row, rowBegin), lines), b.sub(rowEnd, rowBegin)); };
  Value end = lineOf(b.minimum(rowEnd, b.add(row, tallRows)));
  b.loop(lineOf(row), end, 1, [&](Value line) {
    for (int64_t p = 0; p < block.panels; ++p)
      b.prefetch(b.at(b.at(block.next, b.mul(line, lineBytes)), p * layout.panelBytes(spec.k)), Cache::Second);
  });
}

// The sums of a block of rows and columns wait in one of two places, while the next block's are made.
Value MatmulEmitter::partialOf(Value block) {
  Value isOdd = b.sub(block, b.mul(b.divide(block, 2), 2));
  return b.at(unitPartials, b.mul(isOdd, partialBytes));
}

// Rows of the block at `row`, whose sums of a block of columns are there.
void MatmulEmitter::finishRows(const LineBlock &block, Value panel, Value row, Value height, RowAddress sums) {
  Value partial = partialOf(b.divide(row, tallRows)), sumsOf = sums(row);
  forPhase(block, [&](ColumnPhase phase) {
    b.loop(b.index(0), height, 1, [&](Value r) {
      Value place = b.mul(r, partialRowBytes);
      finishRow(phase, block.panels, b.at(partial, place), b.at(sumsOf, place), panel, b.add(row, r));
    });
  });
}

// sums of tiles += activations (rows, columns) * W (panels, columns, 16), for a block of 16 or 32 rows. In the first cache stay the weights, which the
// next rows read, so activations pass through it.
void MatmulEmitter::emitTileUnitBlock(const LineBlock &block, Value row, Value height, int64_t rowTiles,
                                      function_ref<void(Value step)> between) {
  // setup
  Value activations = staged, stride = b.index(stagedStride());
  if (staged) {
    stageActivations(block, row, height);
  } else {
    activations = b.at(activationRow(row), b.mul(block.begin, activationBytes()));
    stride = b.mul(inputStride, activationBytes());
  }
  clearSums(rowTiles, block.panels);
  // compute: padded, the last columns of a row of W and of the activations are zero
  Value count = b.divide(b.add(block.columns, tileColumns - 1), tileColumns);
  b.loop(b.index(0), count, 1, [&](Value step) {
    between(step);
    Value columns = b.at(activations, b.mul(step, tileRowBytes)), lines = b.at(block.address, b.mul(step, tileBytes));
    for (int64_t r = 0; r < rowTiles; ++r)
      tileUnit->loadStreamed(TileUnit::leftTile(r), b.at(columns, b.mul(stride, r * tileRows)), stride);
    for (int64_t p = 0; p < block.panels; ++p)
      multiplyPanel(p, rowTiles, b.at(lines, p * block.panelStride));
  });
  // store
  storeSums(rowTiles, block.panels, partialOf(b.divide(row, tallRows)));
}

// 32 rows. Between the steps along K the 32 before are finished, whose sums come from the second cache: what waits for it, or for `out`, does not keep
// the tiles waiting. `out` of these rows, which are finished next, is asked for.
void MatmulEmitter::emitTileUnitBlocks(const LineBlock &block, Value panel, Value row, RowAddress sums) {
  Value before = b.sub(row, b.index(tallRows)), partial = partialOf(b.divide(before, tallRows)), sumsOf = sums(before);
  forPhase(block, [&](ColumnPhase phase) {
    emitTileUnitBlock(block, row, b.index(tallRows), 2, [&](Value step) {
      forRowsOfStep(step, [&](Value r) {
        Value place = b.mul(r, partialRowBytes);
        finishRow(phase, block.panels, b.at(partial, place), b.at(sumsOf, place), panel, b.add(before, r));
        if (phase.isLast)
          prefetchOut(block, panel, b.add(row, r));
      });
    });
  });
}

void MatmulEmitter::prefetchOut(const LineBlock &block, Value panel, Value row) {
  const Destination &to = outs.back();
  if (spec.rows == MatmulRows::Scattered)
    return;
  Value address = addressIn(to, row, spec.isGated ? b.divide(panel, 2) : panel);
  for (int64_t line = 0; line < (spec.isGated || to.elementBytes == 2 ? 1 : block.panels); ++line)
    b.prefetch(b.at(address, line * lineBytes));
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
