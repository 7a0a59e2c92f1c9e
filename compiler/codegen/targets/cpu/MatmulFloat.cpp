// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products with f32 or bf16 activations, whatever the weights are stored as.
//
// Weights come in lines of 64 bytes, 16 lanes of four: a column of W in f32, or for bf16 activations a pair of columns in
// bf16. Four bytes of a row of activations go with a line. Every output element is one chain over its lines, in ascending
// order of K, from zero. Few and many rows differ in where an unpacked line waits (register or scratch), never in the
// chain. Tiles (MatmulTileUnit.cpp) add 16 lines at a time, for every number of rows.

#include "compiler/codegen/targets/cpu/MatmulEmitter.h"
#include "compiler/codegen/targets/cpu/WeightReader.h"

using namespace mlir;
using namespace heddle;

void MatmulEmitter::emitFloat() {
  // setup: the scratch panels and the unfinished sums of a row block
  const MatmulTile &many = usesTileUnit() ? tiles.tileUnit : tiles.floatMany;
  if (usesTileUnit())
    tiles.lineBlock = tiles.unitLineBlock;
  if (!readsLinesInPlace())
    scratch = b.stack(many.panels * tiles.lineBlock * lineBytes);
  if (usesTileUnit())
    return emitTileUnit();
  partials = b.stack(many.panels * tiles.rowBlock * lineBytes);
  if (spec.int16FewRows)
    return emitManyRows(many);
  Value few = b.lessThan(call.rows, b.index(tiles.floatFew.heights.front() + 1));
  b.branch(few, [&] { emitFewRows(tiles.floatFew); }, [&] { emitManyRows(many); });
}

bool MatmulEmitter::readsLinesInPlace() const {
  return spec.layout.numbers == (isBf16() ? PackedNumbers::BF16 : PackedNumbers::F32);
}

// The lines of a unit of plain weights.
SmallVector<Value> MatmulEmitter::readUnit(Value unit) {
  if (isBf16())
    return {b.load(b.v16i32, unit)};
  return readPlainUnit(b, spec.layout, unit);
}

// The lines of four columns of quantised weights.
SmallVector<Value> MatmulEmitter::readQuad(BlockReader &reader, Value number, int64_t share) {
  BlockReader::Quad quad = reader.loadQuad(number);
  Values columns;
  for (int64_t j = 0; j < 4; ++j)
    columns.push_back(reader.column(quad, share, j));
  if (isBf16())
    return {pairs.round(columns[0], columns[1]), pairs.round(columns[2], columns[3])};
  return columns;
}

// What a line is multiplied by: the four bytes at `address` in every lane.
Value MatmulEmitter::loadActivation(Value address) {
  return isBf16() ? b.splat(b.load(b.i32, address, 2)) : b.splat(b.load(b.f32, address));
}

Value MatmulEmitter::multiplyAdd(Value activation, Value line, Value sum) {
  return isBf16() ? pairs.dot(sum, line, activation) : b.fma(activation, line, sum);
}

void MatmulEmitter::emitFewRows(const MatmulTile &tile) {
  forPanels(tile.panels, [&](Value panel, int64_t panels) {
    forRows(tile.heights, b.index(0), call.rows, [&](Value row, int64_t height) {
      Values panelAddresses, rowAddresses;
      for (int64_t p = 0; p < panels; ++p)
        panelAddresses.push_back(panelAddress(b.add(panel, p)));
      for (int64_t r = 0; r < height; ++r)
        rowAddresses.push_back(activationRow(b.add(row, r)));
      Values sums = accumulateUnits(panelAddresses, rowAddresses, zeros(height * panels));
      for (int64_t r = 0; r < height; ++r)
        storeRow(ValuesRef(sums).slice(r * panels, panels), panel, b.add(row, r));
    });
  });
}

// Adds all of K to sums (rows, panels).
SmallVector<Value> MatmulEmitter::accumulateUnits(ValuesRef panelAddresses, ValuesRef rowAddresses, Values sums) {
  const PackedLayout &layout = spec.layout;
  int64_t streams = panelAddresses.size(), prefetchBytes = tiles.prefetch.bytes / streams;
  if (layout.isQuantized())
    return b.loop(b.index(0), b.index(spec.k / layout.block), 1, sums, [&](Value block, ValuesRef carried) {
      SmallVector<BlockReader> readers;
      Values activations;
      for (Value panel : panelAddresses)
        readers.push_back(BlockReader::inPanel(b, layout, panel, block, target));
      for (BlockReader &reader : readers)
        reader.prefetch(tiles.prefetch, streams);
      for (Value row : rowAddresses)
        activations.push_back(b.at(row, b.mul(block, activationBytes() * layout.block)));
      return accumulateBlock(readers, activations, Values(carried));
    });
  int64_t values = layout.unitValues(), bytes = layout.unitBytes();
  int64_t unroll = 4 / values; // units in a step of the loop
  int64_t units = spec.k / values, whole = units / unroll * unroll;
  auto step = [&](Value unit, int64_t columns, Values sums) {
    Values unitAddresses, activations;
    for (Value panel : panelAddresses) {
      unitAddresses.push_back(b.at(panel, b.mul(unit, bytes)));
      for (int64_t line = 0; prefetchBytes && line < unroll * bytes; line += 64)
        b.prefetch(b.at(unitAddresses.back(), prefetchBytes + line), tiles.prefetch.cache);
    }
    for (Value row : rowAddresses)
      activations.push_back(b.at(row, b.mul(unit, activationBytes() * values)));
    return accumulatePlain(unitAddresses, activations, columns, std::move(sums));
  };
  sums = b.loop(b.index(0), b.index(whole), unroll, sums,
                [&](Value unit, ValuesRef carried) { return step(unit, unroll * values, Values(carried)); });
  if (int64_t left = spec.k - whole * values)
    sums = step(b.index(whole), left, sums);
  return sums;
}

// sums[r][p] += act[r] * lines[p], with the activations `offset` bytes behind the addresses
void MatmulEmitter::accumulateLine(ValuesRef lines, ValuesRef activations, int64_t offset, Values &sums) {
  int64_t panels = lines.size();
  for (auto [r, row] : llvm::enumerate(activations)) {
    Value x = loadActivation(b.at(row, offset));
    for (int64_t p = 0; p < panels; ++p)
      sums[r * panels + p] = multiplyAdd(x, lines[p], sums[r * panels + p]);
  }
}

SmallVector<Value> MatmulEmitter::accumulatePlain(ValuesRef units, ValuesRef activations, int64_t columns,
                                                  Values sums) {
  const PackedLayout &layout = spec.layout;
  int64_t values = layout.unitValues();
  for (int64_t i = 0; i < columns; i += values) {
    SmallVector<Values> panels;
    for (Value unit : units)
      panels.push_back(readUnit(b.at(unit, i / values * layout.unitBytes())));
    for (int64_t j = 0; j < values && i + j < columns; j += lineValues()) {
      Values lines;
      for (const Values &panel : panels)
        lines.push_back(panel[j / lineValues()]);
      accumulateLine(lines, activations, (i + j) * activationBytes(), sums);
    }
  }
  return sums;
}

SmallVector<Value> MatmulEmitter::accumulateBlock(MutableArrayRef<BlockReader> readers, ValuesRef activations,
                                                  Values sums) {
  int64_t quads = spec.layout.quadsPerShare();
  for (int64_t share = 0; share < spec.layout.sharesPerByte(); ++share)
    sums = b.loop(b.index(0), b.index(quads), 1, sums, [&](Value quad, ValuesRef carried) {
      Values next(carried), quadActivations;
      SmallVector<Values> panels;
      for (BlockReader &reader : readers)
        panels.push_back(readQuad(reader, quad, share));
      for (Value row : activations)
        quadActivations.push_back(b.at(row, b.mul(b.add(quad, share * quads), 4 * activationBytes())));
      for (int64_t line = 0; line < int64_t(panels[0].size()); ++line) {
        Values lines;
        for (const Values &panel : panels)
          lines.push_back(panel[line]);
        accumulateLine(lines, quadActivations, 4 * line, next);
      }
      return next;
    });
  return sums;
}

void MatmulEmitter::emitManyRows(const MatmulTile &tile) {
  forPanels(tile.panels, [&](Value panel, int64_t panels) {
    b.loop(b.index(0), call.rows, tiles.rowBlock, [&](Value rowBegin) {
      emitRowBlock(tile, panel, panels, rowBegin, b.minimum(call.rows, b.add(rowBegin, tiles.rowBlock)));
    });
  });
}

void MatmulEmitter::emitRowBlock(const MatmulTile &tile, Value panel, int64_t panels, Value rowBegin, Value rowEnd) {
  // partials (rowBlock, panels, 16)
  auto partial = [&](Value row) { return b.at(partials, b.mul(b.sub(row, rowBegin), panels * lineBytes)); };
  b.loop(rowBegin, rowEnd, 1, [&](Value row) {
    for (int64_t p = 0; p < panels; ++p)
      b.store(b.splatReal(0), b.at(partial(row), p * lineBytes));
  });
  // compute: a block of K at a time, so that its unpacked weights stay in the cache while all rows use them
  int64_t columnBlock = tiles.lineBlock * lineValues();
  b.loop(b.index(0), b.index(spec.k), columnBlock, [&](Value begin) {
    Value end = b.minimum(b.index(spec.k), b.add(begin, columnBlock)), columns = b.sub(end, begin);
    LineBlock lines{scratch, tiles.lineBlock * lineBytes, panels, begin, columns};
    if (scratch)
      unpackPanels(panel, panels, begin, end);
    else
      lines = {b.at(panelAddress(panel), b.mul(b.divide(begin, lineValues()), lineBytes)),
               spec.layout.panelBytes(spec.k), panels, begin, columns};
    if (!scratch)
      lines.next = b.select(b.lessThan(end, b.index(spec.k)), b.at(lines.address, tiles.lineBlock * lineBytes),
                            panelAddress(b.add(panel, panels)));
    forRows(tile.heights, rowBegin, rowEnd, [&](Value row, int64_t height) {
      Values activations;
      for (int64_t r = 0; r < height; ++r)
        activations.push_back(b.at(activationRow(b.add(row, r)), b.mul(begin, activationBytes())));
      emitManyRowsTile(lines, activations, partial(row), nextLines(lines, row, rowBegin, rowEnd));
    });
  });
  // finish
  b.loop(rowBegin, rowEnd, 1, [&](Value row) {
    Values sums;
    for (int64_t p = 0; p < panels; ++p)
      sums.push_back(b.load(b.v16f32, b.at(partial(row), p * lineBytes)));
    storeRow(sums, panel, row);
  });
}

// Where the tile at `row` begins to fetch the next block: as far in it as the row is among the rows, so that memory is read evenly
// while all rows are computed. Null where nothing is fetched.
Value MatmulEmitter::nextLines(const LineBlock &block, Value row, Value rowBegin, Value rowEnd) {
  if (!block.next)
    return {};
  Value line = b.divide(b.mul(b.sub(row, rowBegin), tiles.lineBlock), b.sub(rowEnd, rowBegin));
  return b.at(block.next, b.mul(line, lineBytes));
}

// scratch (panels, lineBlock, 64 bytes) = W[panel …][begin … end); a 16-bit last column brings its padding along.
// One loop over the units of all panels, whose body has none: masks and tables are then used at fewer levels of loops than sums are, and where
// registers are short, the compiler reads those again and keeps the sums.
void MatmulEmitter::unpackPanels(Value panel, int64_t panels, Value begin, Value end) {
  const PackedLayout &layout = spec.layout;
  int64_t values = layout.isQuantized() ? layout.block : layout.unitValues();
  Value count = b.divide(b.add(b.sub(end, begin), values - 1), values);
  b.loop(b.index(0), b.mul(count, panels), 1, {b.index(0), begin}, [&](Value, ValuesRef place) -> Values {
    Value p = place[0], column = place[1], index = b.divide(column, values);
    Value from = panelAddress(b.add(panel, p));
    Value to = b.at(scratch, b.mul(p, tiles.lineBlock * lineBytes));
    Value lines = b.at(to, b.mul(b.divide(b.sub(column, begin), lineValues()), lineBytes));
    if (layout.isQuantized()) {
      unpackBlock(BlockReader::inPanel(b, layout, from, index, target), lines);
    } else {
      Value unit = b.at(from, b.mul(index, layout.unitBytes()));
      for (auto [i, line] : llvm::enumerate(readUnit(unit)))
        b.store(line, b.at(lines, i * lineBytes));
    }
    Value next = b.add(column, values), isInside = b.lessThan(next, end);
    return {b.select(isInside, p, b.add(p, 1)), b.select(isInside, next, begin)};
  });
}

void MatmulEmitter::unpackBlock(BlockReader reader, Value lines) {
  int64_t quads = spec.layout.quadsPerShare();
  for (int64_t quad = 0; quad < quads; ++quad)
    for (int64_t share = 0; share < spec.layout.sharesPerByte(); ++share) {
      Value to = b.at(lines, (quad + share * quads) * 4 / lineValues() * lineBytes);
      for (auto [i, line] : llvm::enumerate(readQuad(reader, b.index(quad), share)))
        b.store(line, b.at(to, i * lineBytes));
    }
}

// partial (rows, panels, 16) += activations (rows, columns) * W (panels, columns, 16)
// A line of each panel at `next` is fetched for every few that are multiplied: hardware foresees neither the next K block nor, at
// the end of K, the next panels, and 128 rows of BERT-base waited for memory a tenth of the time.
void MatmulEmitter::emitManyRowsTile(const LineBlock &block, ValuesRef activations, Value partial, Value next) {
  // setup
  int64_t rows = activations.size(), panels = block.panels;
  Value count = b.divide(block.columns, lineValues());
  Values sums;
  for (int64_t i = 0; i < rows * panels; ++i)
    sums.push_back(b.load(b.v16f32, b.at(partial, i * lineBytes)));
  // compute: sums[r][p] += act[r][line] * W[p][line]
  const int64_t unroll = isBf16() ? 2 : 4; // lines of four steps are loaded early enough to spill
  const bool inMatrices = isBf16() && pairs.hasMatrices() && rows % 2 == 0;
  auto forEachPair = [&](function_ref<void(Value &, Value &)> change) {
    for (int64_t r = 0; inMatrices && r < rows; r += 2)
      for (int64_t p = 0; p < panels; ++p)
        change(sums[r * panels + p], sums[(r + 1) * panels + p]);
  };
  Value whole = b.wholeSteps(b.index(0), count, unroll);
  forEachPair([&](Value &first, Value &second) { pairs.interleave(first, second); });
  sums = b.loop(b.index(0), whole, unroll, sums, [&](Value line, ValuesRef carried) {
    for (int64_t p = 0; next && p < panels; ++p)
      b.prefetch(b.at(b.at(next, b.mul(b.divide(line, unroll), lineBytes)), p * block.panelStride), Cache::Second);
    return inMatrices ? addMatrices(block, activations, line, Values(carried))
                      : addLines(block, activations, line, unroll, Values(carried));
  });
  forEachPair([&](Value &first, Value &second) { pairs.separate(first, second); });
  if (spec.k / lineValues() % unroll)
    sums = b.loop(whole, count, 1, sums, [&](Value line, ValuesRef carried) {
      return addLines(block, activations, line, 1, Values(carried));
    });
  // store
  for (int64_t i = 0; i < rows * panels; ++i)
    b.store(sums[i], b.at(partial, i * lineBytes));
}

Value MatmulEmitter::loadLine(const LineBlock &block, Value line, int64_t panel) {
  Value address = b.at(block.address, b.mul(line, lineBytes));
  return b.load(isBf16() ? b.v16i32 : b.v16f32, b.at(address, panel * block.panelStride));
}

SmallVector<Value> MatmulEmitter::addLines(const LineBlock &block, ValuesRef activations, Value first, int64_t count,
                                           Values sums) {
  for (int64_t i = 0; i < count; ++i) {
    Value line = b.add(first, i);
    Values lines;
    for (int64_t p = 0; p < block.panels; ++p)
      lines.push_back(loadLine(block, line, p));
    for (auto [r, row] : llvm::enumerate(activations)) {
      Value x = loadActivation(b.at(row, b.mul(line, 4)));
      for (int64_t p = 0; p < block.panels; ++p)
        sums[r * block.panels + p] = multiplyAdd(x, lines[p], sums[r * block.panels + p]);
    }
  }
  return sums;
}

// Two lines, of interleaved sums.
SmallVector<Value> MatmulEmitter::addMatrices(const LineBlock &block, ValuesRef activations, Value first, Values sums) {
  int64_t panels = block.panels;
  Values matrices;
  for (int64_t r = 0; r < int64_t(activations.size()); r += 2)
    matrices.push_back(
        pairs.loadMatrix(b.at(activations[r], b.mul(first, 4)), b.at(activations[r + 1], b.mul(first, 4))));
  for (int64_t p = 0; p < panels; ++p) {
    auto [low, high] = pairs.matrices(loadLine(block, first, p), loadLine(block, b.add(first, 1), p));
    for (auto [i, rows] : llvm::enumerate(matrices)) {
      Value &lowSum = sums[2 * i * panels + p], &highSum = sums[(2 * i + 1) * panels + p];
      lowSum = pairs.dotMatrices(lowSum, low, rows);
      highSum = pairs.dotMatrices(highSum, high, rows);
    }
  }
  return sums;
}
