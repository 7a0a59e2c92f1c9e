// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products with f32 activations, whatever the weights are stored as.
//
// Every output element is one chain of fused multiply-adds along K, in ascending order, from zero. Few and many rows
// differ in where the unpacked weight waits (register or scratch), never in the chain.

#include "compiler/codegen/cpu/MatmulEmitter.h"
#include "compiler/codegen/cpu/WeightReader.h"

using namespace mlir;
using namespace heddle;

static constexpr int64_t columnBytes = 4 * PackedLayout::panelRows;  // 16 f32

void MatmulEmitter::emitF32() {
  // setup: the scratch panels and the unfinished sums of a row block
  int64_t panels = tiles.f32Many.panels;
  if (spec.layout.numbers != PackedNumbers::F32)
    scratch = b.stack(panels * tiles.columnBlock * columnBytes);
  partials = b.stack(panels * tiles.rowBlock * columnBytes);
  Value few = b.lessThan(rows, b.index(tiles.f32Few.heights.front() + 1));
  b.branch(few, [&] { emitFewRows(tiles.f32Few); }, [&] { emitManyRows(tiles.f32Many); });
}

void MatmulEmitter::emitFewRows(const MatmulTile &tile) {
  forPanels(tile.panels, [&](Value panel, int64_t panels) {
    forRows(tile.heights, b.index(0), rows, [&](Value row, int64_t height) {
      Values panelAddresses, rowAddresses;
      for (int64_t p = 0; p < panels; ++p)
        panelAddresses.push_back(panelAddress(b.add(panel, p)));
      for (int64_t r = 0; r < height; ++r)
        rowAddresses.push_back(activationRow(b.add(row, r)));
      Values sums = accumulateUnits(panelAddresses, rowAddresses, zeros(height * panels));
      for (int64_t r = 0; r < height; ++r)
        for (int64_t p = 0; p < panels; ++p)
          storeResult(sums[r * panels + p], b.add(panel, p), b.add(row, r));
    });
  });
}

// Adds all of K to sums (rows, panels).
SmallVector<Value> MatmulEmitter::accumulateUnits(ValuesRef panelAddresses, ValuesRef rowAddresses, Values sums) {
  const PackedLayout &layout = spec.layout;
  int64_t values = layout.unitValues(), bytes = layout.unitBytes();
  int64_t unroll = layout.isQuantized() ? 1 : 4 / values;  // units in a step of the loop
  int64_t units = spec.k / values, whole = units / unroll * unroll;
  auto step = [&](Value unit, int64_t columns, Values &sums) {
    Values unitAddresses, activations;
    for (Value panel : panelAddresses)
      unitAddresses.push_back(b.at(panel, b.mul(unit, bytes)));
    for (Value row : rowAddresses)
      activations.push_back(b.at(row, b.mul(unit, 4 * values)));
    accumulateColumns(unitAddresses, activations, columns, sums);
  };
  sums = b.loop(b.index(0), b.index(whole), unroll, sums, [&](Value unit, ValuesRef carried) {
    Values next(carried);
    step(unit, unroll * values, next);
    return next;
  });
  if (int64_t left = spec.k - whole * values)
    step(b.index(whole), left, sums);
  return sums;
}

// sums[r][p] += act[r][0 … columns) * W[p][0 … columns)
void MatmulEmitter::accumulateColumns(ValuesRef units, ValuesRef activations, int64_t columns, Values &sums) {
  const PackedLayout &layout = spec.layout;
  int64_t values = layout.unitValues(), bytes = layout.unitBytes(), panels = units.size();
  SmallVector<WeightReader> readers;
  for (int64_t i = 0; i < columns; ++i) {
    if (i % values == 0) {
      readers.clear();
      for (Value unit : units) {
        Value address = b.at(unit, i / values * bytes);
        for (int64_t line = 0; line < bytes; line += 64)
          b.prefetch(b.at(address, tiles.prefetchBytes + line));
        readers.emplace_back(b, layout, address);
      }
    }
    Values broadcasts;
    for (Value row : activations)
      broadcasts.push_back(b.splat(b.load(b.f32, b.at(row, 4 * i))));
    for (int64_t p = 0; p < panels; ++p) {
      Value weight = readers[p].column(i % values);
      for (auto [r, x] : llvm::enumerate(broadcasts))
        sums[r * panels + p] = b.fma(x, weight, sums[r * panels + p]);
    }
  }
}

void MatmulEmitter::emitManyRows(const MatmulTile &tile) {
  forPanels(tile.panels, [&](Value panel, int64_t panels) {
    b.loop(b.index(0), rows, tiles.rowBlock, [&](Value rowBegin) {
      emitRowBlock(tile, panel, panels, rowBegin, b.minimum(rows, b.add(rowBegin, tiles.rowBlock)));
    });
  });
}

void MatmulEmitter::emitRowBlock(const MatmulTile &tile, Value panel, int64_t panels, Value rowBegin, Value rowEnd) {
  // partials (rowBlock, panels, 16)
  auto partial = [&](Value row) {
    return b.at(partials, b.mul(b.sub(row, rowBegin), panels * columnBytes));
  };
  b.loop(rowBegin, rowEnd, 1, [&](Value row) {
    for (int64_t p = 0; p < panels; ++p)
      b.store(b.splatReal(0), b.at(partial(row), p * columnBytes));
  });
  // compute: a block of K at a time, so that its unpacked weights stay in the cache while all rows use them
  b.loop(b.index(0), b.index(spec.k), tiles.columnBlock, [&](Value begin) {
    Value end = b.minimum(b.index(spec.k), b.add(begin, tiles.columnBlock));
    Value source = scratch;
    int64_t panelStride = tiles.columnBlock * columnBytes;
    if (scratch) {
      unpackPanels(panel, panels, begin, end);
    } else {
      source = b.at(panelAddress(panel), b.mul(begin, columnBytes));
      panelStride = spec.layout.panelBytes(spec.k);
    }
    forRows(tile.heights, rowBegin, rowEnd, [&](Value row, int64_t height) {
      Value activations = b.at(activationRow(row), b.mul(begin, 4));
      emitManyRowsTile(source, panelStride, activations, height, panels, b.sub(end, begin), partial(row));
    });
  });
  // finish
  b.loop(rowBegin, rowEnd, 1, [&](Value row) {
    for (int64_t p = 0; p < panels; ++p)
      storeResult(b.load(b.v16f32, b.at(partial(row), p * columnBytes)), b.add(panel, p), row);
  });
}

// scratch (panels, columnBlock, 16) = W[panel …][begin … end); a 16-bit last column brings its padding along.
void MatmulEmitter::unpackPanels(Value panel, int64_t panels, Value begin, Value end) {
  const PackedLayout &layout = spec.layout;
  int64_t values = layout.unitValues();
  for (int64_t p = 0; p < panels; ++p) {
    Value from = panelAddress(b.add(panel, p));
    Value to = b.at(scratch, p * tiles.columnBlock * columnBytes);
    b.loop(begin, end, values, [&](Value column) {
      Value unit = b.divide(column, values);
      WeightReader reader(b, layout, b.at(from, b.mul(unit, layout.unitBytes())));
      Value row = b.at(to, b.mul(b.sub(column, begin), columnBytes));
      for (int64_t i = 0; i < values; ++i)
        b.store(reader.column(i), b.at(row, i * columnBytes));
    });
  }
}

// partial (rows, panels, 16) += activations (rows, columns) * weights (panels, columns, 16)
void MatmulEmitter::emitManyRowsTile(Value weights, int64_t panelStride, Value activations, int64_t rows,
                                     int64_t panels, Value columns, Value partial) {
  // setup
  Values rowAddresses, sums;
  for (int64_t r = 0; r < rows; ++r)
    rowAddresses.push_back(b.at(activations, b.mul(b.mul(actStride, r), 4)));
  for (int64_t i = 0; i < rows * panels; ++i)
    sums.push_back(b.load(b.v16f32, b.at(partial, i * columnBytes)));
  // compute: sums[r][p] += act[r][k] * W[p][k]
  auto step = [&](Value k, int64_t unroll, Values next) {
    for (int64_t i = 0; i < unroll; ++i) {
      Value columnAddress = b.at(weights, b.mul(b.add(k, i), columnBytes));
      Values columnsOfW;
      for (int64_t p = 0; p < panels; ++p)
        columnsOfW.push_back(b.load(b.v16f32, b.at(columnAddress, p * panelStride)));
      for (int64_t r = 0; r < rows; ++r) {
        Value x = b.splat(b.load(b.f32, b.at(rowAddresses[r], b.mul(b.add(k, i), 4))));
        for (int64_t p = 0; p < panels; ++p)
          next[r * panels + p] = b.fma(x, columnsOfW[p], next[r * panels + p]);
      }
    }
    return next;
  };
  constexpr int64_t unroll = 4;
  Value whole = b.wholeSteps(b.index(0), columns, unroll);
  sums = b.loop(b.index(0), whole, unroll, sums, [&](Value k, ValuesRef carried) { return step(k, unroll, Values(carried)); });
  if (spec.k % unroll)
    sums = b.loop(whole, columns, 1, sums, [&](Value k, ValuesRef carried) { return step(k, 1, Values(carried)); });
  // store
  for (int64_t i = 0; i < rows * panels; ++i)
    b.store(sums[i], b.at(partial, i * columnBytes));
}
