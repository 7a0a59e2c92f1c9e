// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products of many rows with quantised weights as 16-bit words, of which an instruction sums two products.
//
// Activations are the integers of MatmulInt16.cpp. The codes of a panel and a block of K are staged once as words, less their zero point, with
// their scales, and stay in the first cache while all rows use them: twice the products of f32 for an instruction. Sums of a block are exact and
// blocks are added as few rows add them, so that a row has the same bits in either form.

#include "compiler/codegen/targets/cpu/DotProduct.h"
#include "compiler/codegen/targets/cpu/MatmulEmitter.h"
#include "compiler/codegen/targets/cpu/WeightReader.h"

#include <algorithm>

using namespace mlir;
using namespace heddle;

static constexpr int64_t stepValues = 32; // of activations that share a scale

// Lines of two columns in 16 lanes, in the order of the planes of activations; the block's own scales, and its mins.
int64_t MatmulEmitter::wordBlockBytes() const {
  return (spec.layout.block / 2 + (spec.layout.hasMin ? 2 : 1)) * lineBytes;
}

void MatmulEmitter::emitWords() {
  WideDotProduct dot = WideDotProduct::ofWords(b, target, spec.layout.maxCode);
  zeroPoint = 0;
  forRoundedRows(dot, [&](Value begin, Value end) {
    forPanels(/*panels=*/1, [&](Value panel, int64_t panels) { emitWordPanels(panel, panels, begin, end); });
  });
}

void MatmulEmitter::emitWordPanels(Value panel, int64_t panels, Value rowBegin, Value rowEnd) {
  const PackedLayout &layout = spec.layout;
  // setup: sums (rows, panels, 16); a unit of nested scales is staged at once
  int64_t columns = layout.isNested() ? layout.unitValues() : std::min(2 * tiles.lineBlock, spec.k);
  if (!words) {
    words = b.stack(columns / layout.block * wordBlockBytes());
    partials = b.stack(roundedRows * (spec.isGated ? 2 : 1) * lineBytes);
  }
  auto partial = [&](Value row, int64_t p) {
    return b.at(b.at(partials, b.mul(b.sub(row, rowBegin), panels * lineBytes)), p * lineBytes);
  };
  b.loop(rowBegin, rowEnd, 1, [&](Value row) {
    for (int64_t p = 0; p < panels; ++p)
      b.store(b.splatReal(0), partial(row, p));
  });
  // compute
  b.loop(b.index(0), b.index(spec.k), columns, [&](Value begin) {
    Value end = b.minimum(b.index(spec.k), b.add(begin, columns));
    for (int64_t p = 0; p < panels; ++p) {
      stageWords(b.add(panel, p), begin, end);
      Value unit = b.at(panelAddress(b.add(panel, p)), b.mul(b.divide(begin, layout.unitValues()), layout.unitBytes()));
      forRows(tiles.words.heights, rowBegin, rowEnd, [&](Value row, int64_t height) {
        SmallVector<IntegerRow> tileRows;
        Values sums;
        for (int64_t r = 0; r < height; ++r) {
          tileRows.push_back(roundedRow(row, r));
          sums.push_back(partial(b.add(row, r), p));
        }
        addWordTile(tileRows, sums, unit, begin, end);
      });
    }
  });
  // store
  b.loop(rowBegin, rowEnd, 1, [&](Value row) {
    Values sums;
    for (int64_t p = 0; p < panels; ++p)
      sums.push_back(b.load(b.v16f32, partial(row, p)));
    storeRow(sums, panel, row);
  });
}

// words = W[panel][begin … end)
void MatmulEmitter::stageWords(Value panel, Value begin, Value end) {
  const PackedLayout &layout = spec.layout;
  WideDotProduct dot = WideDotProduct::ofWords(b, target, layout.maxCode);
  Value first = b.divide(begin, layout.block), from = panelAddress(panel);
  b.loop(first, b.divide(end, layout.block), 1, [&](Value block) {
    BlockReader weights = BlockReader::inPanel(b, layout, from, block, target);
    weights.prefetch(tiles.prefetch, 1);
    Value to = b.at(words, b.mul(b.sub(block, first), wordBlockBytes()));
    for (int64_t number = 0; number < layout.quadsPerShare(); ++number) {
      BlockReader::Quad quad = weights.loadQuad(number);
      for (int64_t share = 0; share < layout.sharesPerByte(); ++share) {
        auto [even, odd] = dot.words(weights.codes(quad, share), layout.zero);
        Value lines = b.at(to, 2 * (share * layout.quadsPerShare() + number) * lineBytes);
        b.store(even, lines);
        b.store(odd, b.at(lines, lineBytes));
      }
    }
    Value scales = b.at(to, layout.block / 2 * lineBytes);
    b.store(weights.ownScale(), scales);
    if (layout.hasMin)
      b.store(weights.ownMin(), b.at(scales, lineBytes));
  });
}

// partials (rows, 16) += the rows' columns [begin, end) times the staged words, of the unit at `unit` where scales are nested.
void MatmulEmitter::addWordTile(ArrayRef<IntegerRow> tileRows, ValuesRef partials, Value unit, Value begin, Value end) {
  const PackedLayout &layout = spec.layout;
  int64_t rows = tileRows.size(), blocks = stepValues / layout.block;
  Values sums = zeros(layout.isNested() && layout.hasMin ? 2 * rows : rows);
  for (int64_t r = 0; !layout.isNested() && r < rows; ++r)
    sums[r] = b.load(b.v16f32, partials[r]);
  Value first = b.divide(begin, stepValues);
  sums = b.loop(first, b.divide(end, stepValues), 1, sums, [&](Value step, ValuesRef carried) {
    Values next(carried);
    for (int64_t block = 0; block < blocks; ++block) {
      SmallVector<IntegerRow> blockRows = stepRows(tileRows, step, block);
      Value staged = b.at(words, b.mul(b.add(b.mul(b.sub(step, first), blocks), block), wordBlockBytes()));
      Values dots = emitWordDots(staged, blockRows);
      Value scales = b.at(staged, layout.block / 2 * lineBytes);
      addIntegerBlock(dots, b.load(b.v16f32, scales),
                      layout.hasMin ? b.load(b.v16f32, b.at(scales, lineBytes)) : Value(), blockRows, 0, 1, next);
    }
    return next;
  });
  for (int64_t r = 0; r < rows; ++r) {
    if (layout.isNested()) {
      BlockReader weights(b, layout, unit, b.index(0), target);
      Value ofUnits = b.load(b.v16f32, partials[r]);
      Value sum = b.fma(sums[r], weights.unitScale(), ofUnits);
      sums[r] = layout.hasMin ? b.fma(sums[rows + r], weights.unitMin(), sum) : sum;
    }
    b.store(sums[r], partials[r]);
  }
}

// The products of a staged block, of each row. Where products and sums are two instructions a loop, since sums of a whole block would be
// regrouped into trees that spill.
SmallVector<Value> MatmulEmitter::emitWordDots(Value block, ArrayRef<IntegerRow> blockRows) {
  WideDotProduct dot = WideDotProduct::ofWords(b, target, spec.layout.maxCode);
  const int64_t unroll = dot.accumulatesWords() ? spec.layout.block / 4 : 1; // quads of columns
  Values zero(blockRows.size(), b.splatInt(0));
  return b.loop(b.index(0), b.index(spec.layout.block / 4), unroll, zero, [&](Value quad, ValuesRef carried) {
    Values dots(carried);
    Value lines = b.at(block, b.mul(quad, 2 * lineBytes));
    for (int64_t line = 0; line < 2 * unroll; ++line) {
      Value columns = b.load(b.v16i32, b.at(lines, line * lineBytes));
      for (auto [r, row] : llvm::enumerate(blockRows)) {
        Value codes = b.at(b.at(row.codes, b.mul(quad, 4)), line % 2 * stepValues + line / 2 * 4);
        dots[r] = dot.multiplyWords(dots[r], columns, b.splat(b.load(b.i32, codes, 1)));
      }
    }
    return dots;
  });
}
