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
  auto step = [&](Value unit, int64_t columns, Values sums) {
    Values unitAddresses, activations;
    for (Value panel : panelAddresses) {
      unitAddresses.push_back(b.at(panel, b.mul(unit, bytes)));
      for (int64_t line = 0; line < unroll * bytes; line += 64)
        b.prefetch(b.at(unitAddresses.back(), tiles.prefetchBytes + line));
    }
    for (Value row : rowAddresses)
      activations.push_back(b.at(row, b.mul(unit, 4 * values)));
    return layout.isQuantized() ? accumulateBlock(unitAddresses, activations, sums)
                                : accumulatePlain(unitAddresses, activations, columns, sums);
  };
  sums = b.loop(b.index(0), b.index(whole), unroll, sums,
                [&](Value unit, ValuesRef carried) { return step(unit, unroll * values, Values(carried)); });
  if (int64_t left = spec.k - whole * values)
    sums = step(b.index(whole), left, sums);
  return sums;
}

// sums[r][p] += act[r] * weights[p], one column of W
void MatmulEmitter::accumulateColumn(ValuesRef weights, ValuesRef activations, int64_t column, Values &sums) {
  int64_t panels = weights.size();
  for (auto [r, row] : llvm::enumerate(activations)) {
    Value x = b.splat(b.load(b.f32, b.at(row, 4 * column)));
    for (int64_t p = 0; p < panels; ++p)
      sums[r * panels + p] = b.fma(x, weights[p], sums[r * panels + p]);
  }
}

SmallVector<Value> MatmulEmitter::accumulatePlain(ValuesRef units, ValuesRef activations, int64_t columns, Values sums) {
  const PackedLayout &layout = spec.layout;
  int64_t values = layout.unitValues();
  for (int64_t i = 0; i < columns; i += values) {
    SmallVector<Values> panels;
    for (Value unit : units)
      panels.push_back(readPlainUnit(b, layout, b.at(unit, i / values * layout.unitBytes())));
    for (int64_t j = 0; j < values && i + j < columns; ++j) {
      Values weights;
      for (const Values &panel : panels)
        weights.push_back(panel[j]);
      accumulateColumn(weights, activations, i + j, sums);
    }
  }
  return sums;
}

SmallVector<Value> MatmulEmitter::accumulateBlock(ValuesRef blocks, ValuesRef activations, Values sums) {
  const PackedLayout &layout = spec.layout;
  SmallVector<BlockReader> readers;
  for (Value block : blocks)
    readers.emplace_back(b, layout, block);
  int64_t quads = BlockReader::quadsPerHalf(layout);
  for (int64_t half = 0; half < BlockReader::numHalves(layout); ++half)
    sums = b.loop(b.index(0), b.index(quads), 1, sums, [&](Value quad, ValuesRef carried) {
      Values next(carried), codes, quadActivations;
      for (BlockReader &reader : readers)
        codes.push_back(reader.codes(reader.loadQuad(quad), half));
      for (Value row : activations)
        quadActivations.push_back(b.at(row, b.mul(b.add(quad, half * quads), 16)));
      for (int64_t j = 0; j < 4; ++j) {
        Values weights;
        for (auto [reader, code] : llvm::zip(readers, codes))
          weights.push_back(reader.column(code, j));
        accumulateColumn(weights, quadActivations, j, next);
      }
      return next;
    });
  return sums;
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
  b.loop(b.index(0), b.index(panels), 1, [&](Value p) {
    Value from = panelAddress(b.add(panel, p));
    Value to = b.at(scratch, b.mul(p, tiles.columnBlock * columnBytes));
    b.loop(begin, end, values, [&](Value column) {
      Value unit = b.at(from, b.mul(b.divide(column, values), layout.unitBytes()));
      Value columns = b.at(to, b.mul(b.sub(column, begin), columnBytes));
      if (layout.isQuantized())
        return unpackBlock(unit, columns);
      for (auto [i, weight] : llvm::enumerate(readPlainUnit(b, layout, unit)))
        b.store(weight, b.at(columns, i * columnBytes));
    });
  });
}

void MatmulEmitter::unpackBlock(Value block, Value columns) {
  BlockReader reader(b, spec.layout, block);
  int64_t quads = BlockReader::quadsPerHalf(spec.layout);
  for (int64_t half = 0; half < BlockReader::numHalves(spec.layout); ++half)
    b.loop(b.index(0), b.index(quads), 1, [&](Value quad) {
      Value codes = reader.codes(reader.loadQuad(quad), half);
      Value to = b.at(columns, b.mul(b.add(quad, half * quads), 4 * columnBytes));
      for (int64_t j = 0; j < 4; ++j)
        b.store(reader.column(codes, j), b.at(to, j * columnBytes));
    });
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
