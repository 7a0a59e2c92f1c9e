// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products of many rows with quantised weights as 16-bit words, of which an instruction sums two products.
//
// A row is rounded to integers with a scale for 256 columns, a unit. The codes of a unit of a panel are staged once as words, less their zero
// point, and stay in the first cache while all rows use them: twice the products of f32 for an instruction. Small integers that scale blocks
// are multiplied into the words where that leaves rows 14 bits, so that whole groups of blocks are one exact sum. Blocked as on a tile unit: sums wait in
// the scratch for the next columns of K, of which rows are rounded once for a slab of panels.

#include "compiler/codegen/targets/cpu/DotProduct.h"
#include "compiler/codegen/targets/cpu/MatmulEmitter.h"
#include "compiler/codegen/targets/cpu/QuantizeKernel.h"
#include "compiler/codegen/targets/cpu/WeightReader.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <algorithm>

using namespace mlir;
using namespace heddle;

// Columns under one scale of a row, those that are rounded at once, and the bytes of their integers.
static constexpr int64_t unitColumns = PackedLayout::superBlock, stepColumns = 32, codeBytes = 2 * unitColumns;

// The largest factor of a block's scale that is its own.
static int64_t mostOwnScale(const PackedLayout &layout) {
  return layout.hasNibbleScales ? 15 : layout.hasMin ? 63 : 128;
}

WordForm heddle::wordFormOf(const PackedLayout &layout) {
  constexpr int64_t least = 1 << 14, most = INT16_MAX;
  int64_t code = std::max<int64_t>(layout.zero, layout.maxCode - layout.zero);
  // The sum of so many products of words and integers fits 32 bits.
  auto largest = [&](int64_t word, int64_t columns) { return std::min(INT32_MAX / (word * columns), most); };
  for (int64_t columns = unitColumns; layout.isNested() && columns >= stepColumns; columns /= 2)
    if (int64_t integer = largest(code * mostOwnScale(layout), columns); integer >= least - 1)
      return {columns, int32_t(integer), /*holdsScales=*/true};
  return {layout.block, int32_t(largest(code, layout.block)), /*holdsScales=*/false};
}

namespace {
// Where the parts of a staged unit of a panel lie: lines of two columns in 16 lanes, in the order of the rows' integers; of each block its own scale, unless
// words hold it, and its min; numbers of the whole unit.
struct StagedUnit {
  StagedUnit(const PackedLayout &layout, int64_t lineBytes) {
    int64_t blocks = unitColumns / layout.block * lineBytes;
    scales = unitColumns / 2 * lineBytes;
    mins = scales + (wordFormOf(layout).holdsScales ? 0 : blocks);
    unitScale = mins + (layout.hasMin ? blocks : 0);
    unitMin = unitScale + (layout.isNested() ? lineBytes : 0);
    bytes = unitMin + (layout.isNested() && layout.hasMin ? lineBytes : 0);
  }
  int64_t scales, mins, unitScale, unitMin, bytes;
};
} // namespace

// A unit of a row: integers, their scale and, with mins, the sum of each block's integers as f32.
static constexpr int64_t sumsOffset = codeBytes + 4;
static int64_t roundedUnitBytes(const PackedLayout &layout) {
  return llvm::alignTo(sumsOffset + (layout.hasMin ? unitColumns / layout.block * 4 : 0), 64);
}

// The integers of rows and the sums of a slab of panels, in what memory there is: panels before rows, since all rows are rounded for every slab.
MatmulEmitter::WordMemory MatmulEmitter::planWords() {
  constexpr int64_t mostPanels = 64, leastPanels = 2, leastRows = 64;
  const MatmulTile &tile = tiles.words;
  WordMemory plan;
  plan.columns = std::min(tiles.wordColumns, int64_t(llvm::alignTo(spec.k, unitColumns)));
  plan.rowBytes = plan.columns / unitColumns * roundedUnitBytes(spec.layout);
  plan.tileBytes = tile.heights.front() * tile.panels * lineBytes;
  int64_t bytes = (tiles.hasScratch ? tiles.scratchBytes : tiles.termBytes) - 2 * plan.tileBytes;
  auto rowsBeside = [&](int64_t panels) { return bytes / (plan.rowBytes + panels * lineBytes); };
  plan.panels = mostPanels;
  while (plan.panels > leastPanels && rowsBeside(plan.panels) < std::min(tiles.wordRows, leastRows))
    plan.panels /= 2;
  plan.rows = std::clamp<int64_t>(rowsBeside(plan.panels), 1, tiles.wordRows);
  int64_t needed = plan.rows * (plan.rowBytes + plan.panels * lineBytes) + 2 * plan.tileBytes;
  // Of a schedule whose terms take less than a row of words does.
  bool isMore = !tiles.hasScratch && needed > tiles.termBytes;
  plan.integers = tiles.hasScratch ? call.scratch : isMore ? b.stack(needed) : termMemory();
  plan.sums = b.at(plan.integers, plan.rows * plan.rowBytes);
  plan.unfinished = b.at(plan.sums, plan.rows * plan.panels * lineBytes);
  plan.staged = b.stack(tile.panels * StagedUnit(spec.layout, lineBytes).bytes);
  return plan;
}

void MatmulEmitter::emitWords() {
  // setup
  words = planWords();
  int64_t least = spec.isGated ? 2 : 1;
  Value begin = b.mul(call.panelBegin, least), end = b.mul(call.panelEnd, least);
  // compute
  b.loop(begin, end, words.panels, [&](Value first) {
    Value last = b.minimum(end, b.add(first, words.panels));
    b.loop(b.index(0), call.rows, words.rows, [&](Value rowBegin) {
      emitWordSlab(first, last, rowBegin, b.minimum(call.rows, b.add(rowBegin, words.rows)));
    });
  });
}

// out[rowBegin … rowEnd)[panels begin … end)
void MatmulEmitter::emitWordSlab(Value begin, Value end, Value rowBegin, Value rowEnd) {
  const int64_t width = tiles.words.panels, least = spec.isGated ? 2 : 1;
  auto forTiles = [&](function_ref<void(Value panel, int64_t panels)> body) {
    Value whole = b.wholeSteps(begin, end, width);
    b.loop(begin, whole, width, [&](Value panel) { body(panel, width); });
    if (width > least)
      b.loop(whole, end, 1, [&](Value panel) { body(panel, 1); });
  };
  // Of the panels of a tile beside each other, whether there are `width` or one.
  auto sums = [&](Value panel, Value row) {
    Value before = b.mul(b.sub(panel, begin), words.rows * lineBytes);
    return b.at(b.at(words.sums, before), b.mul(b.sub(row, rowBegin), width * lineBytes));
  };
  // setup
  forTiles([&](Value panel, int64_t panels) {
    b.loop(rowBegin, rowEnd, 1, [&](Value row) {
      for (int64_t p = 0; p < panels; ++p)
        b.store(b.splatReal(0), b.at(sums(panel, row), p * lineBytes));
    });
  });
  // compute
  b.loop(b.index(0), b.index(spec.k), words.columns, [&](Value column) {
    Value columnEnd = b.minimum(b.index(spec.k), b.add(column, words.columns));
    b.loop(rowBegin, rowEnd, 1, [&](Value row) {
      roundWords(row, column, columnEnd, b.at(words.integers, b.mul(b.sub(row, rowBegin), words.rowBytes)));
    });
    forTiles([&](Value panel, int64_t panels) {
      b.loop(column, columnEnd, unitColumns, [&](Value first) {
        Value last = b.minimum(columnEnd, b.add(first, unitColumns));
        stageWords(panel, panels, first, last);
        Value unit = b.mul(b.divide(b.sub(first, column), unitColumns), roundedUnitBytes(spec.layout));
        forRows(tiles.words.heights, rowBegin, rowEnd, [&](Value row, int64_t height) {
          Value integers = b.at(b.at(words.integers, b.mul(b.sub(row, rowBegin), words.rowBytes)), unit);
          addWordTile(integers, sums(panel, row), height, panels, b.sub(last, first));
        });
      });
    });
  });
  // store: gated, pairs of panels
  int64_t together = std::max(width, least);
  auto finish = [&](Value panel, int64_t panels) {
    b.loop(rowBegin, rowEnd, 1, [&](Value row) {
      Values finished;
      for (int64_t p = 0; p < panels; ++p)
        finished.push_back(b.load(b.v16f32, b.at(sums(b.add(panel, p / width * width), row), p % width * lineBytes)));
      storeRow(finished, panel, row);
    });
  };
  if (together == width)
    return forTiles(finish);
  b.loop(begin, end, together, [&](Value panel) { finish(panel, together); });
}

// `to` (units) = the columns [begin, end) of row `row`, the second and third of each four changed about, as words have them.
void MatmulEmitter::roundWords(Value row, Value begin, Value end, Value to) {
  const PackedLayout &layout = spec.layout;
  Value from = b.at(call.act, b.mul(b.mul(storedRow(row), call.actStride), 4));
  VectorType sixteenWords = b.vec(16, b.i16);
  SmallVector<int64_t> order;
  for (int64_t quad = 0; quad < 16; quad += 4)
    llvm::append_range(order, ArrayRef<int64_t>{quad, quad + 2, quad + 1, quad + 3});
  b.loop(begin, end, unitColumns, [&](Value first) {
    Value in = b.at(from, b.mul(first, 4)), count = b.minimum(b.sub(end, first), b.index(unitColumns));
    Value unit = b.at(to, b.mul(b.divide(b.sub(first, begin), unitColumns), roundedUnitBytes(layout)));
    auto half = [&](Value column, int64_t number) {
      return b.load(b.v16f32, b.at(b.at(in, b.mul(column, 4)), number * lineBytes));
    };
    Value magnitudes = b.loop(b.index(0), count, stepColumns, b.splatInt(0), [&](Value column, ValuesRef carried) {
                          Value largest = carried[0];
                          for (int64_t number : {0, 1})
                            largest = arith::MaxSIOp::create(b, largest, magnitudesOf(b, half(column, number)));
                          return Values{largest};
                        }).front();
    Rounding rounding = roundingOf(b, magnitudes, wordFormOf(layout).largest);
    b.store(rounding.scale, b.at(unit, codeBytes));
    b.loop(b.index(0), count, stepColumns, [&](Value column) {
      Value sums[2];
      for (int64_t number : {0, 1}) {
        Value integers = rounding.round(b, half(column, number));
        Value codes = arith::TruncIOp::create(b, sixteenWords, integers);
        b.store(vector::ShuffleOp::create(b, codes, codes, order), b.at(b.at(unit, b.mul(column, 2)), 32 * number));
        if (layout.hasMin)
          sums[number] = vector::ReductionOp::create(b, vector::CombiningKind::ADD, integers);
      }
      if (!layout.hasMin)
        return;
      Value at = b.at(b.at(unit, sumsOffset), b.mul(b.divide(column, layout.block), 4));
      if (layout.block == stepColumns)
        return b.store(b.toFloat(b.add(sums[0], sums[1])), at);
      for (auto [number, sum] : llvm::enumerate(sums))
        b.store(b.toFloat(sum), b.at(at, 4 * number));
    });
  });
}

// An integer of each lane as two equal words.
static Value twoWords(KernelBuilder &b, Value reals) {
  Value integers = b.maskBits(arith::FPToSIOp::create(b, b.v16i32, reals), 0xffff);
  Value both = arith::OrIOp::create(b, integers, arith::ShLIOp::create(b, integers, b.splatInt(16)));
  return b.bitcast(b.vec(32, b.i16), both);
}

// staged = W[panel … panel + panels)[begin … end), of one unit
void MatmulEmitter::stageWords(Value panel, int64_t panels, Value begin, Value end) {
  const PackedLayout &layout = spec.layout;
  const WordForm form = wordFormOf(layout);
  const StagedUnit parts(layout, lineBytes);
  WideDotProduct dot = WideDotProduct::ofWords(b, target, layout.maxCode);
  Value first = b.divide(begin, layout.block), last = b.divide(end, layout.block);
  for (int64_t p = 0; p < panels; ++p) {
    Value from = panelAddress(b.add(panel, p)), unit = b.at(words.staged, p * parts.bytes);
    b.loop(first, last, 1, [&](Value block) {
      BlockReader weights = BlockReader::inPanel(b, layout, from, block, target);
      weights.prefetch(tiles.prefetch, panels);
      Value number = b.sub(block, first), lines = b.at(unit, b.mul(number, layout.block / 2 * lineBytes)),
            ofBlock = b.mul(number, lineBytes), scale;
      if (form.holdsScales)
        scale = twoWords(b, weights.ownScale());
      else
        b.store(weights.ownScale(), b.at(b.at(unit, parts.scales), ofBlock));
      auto store = [&](Value codes, Value line) {
        if (scale)
          codes = b.bitcast(b.v16i32, b.mul(b.bitcast(scale.getType(), codes), scale));
        b.store(codes, line);
      };
      for (int64_t quadNumber = 0; quadNumber < layout.quadsPerShare(); ++quadNumber) {
        BlockReader::Quad quad = weights.loadQuad(quadNumber);
        for (int64_t share = 0; share < layout.sharesPerByte(); ++share) {
          auto [even, odd] = dot.words(weights.codes(quad, share), layout.zero);
          int64_t line = 2 * (share * layout.quadsPerShare() + quadNumber) * lineBytes;
          store(even, b.at(lines, line));
          store(odd, b.at(lines, line + lineBytes));
        }
      }
      if (layout.hasMin)
        b.store(weights.ownMin(), b.at(b.at(unit, parts.mins), ofBlock));
    });
    if (!layout.isNested())
      continue;
    BlockReader weights = BlockReader::inPanel(b, layout, from, first, target);
    b.store(weights.unitScale(), b.at(unit, parts.unitScale));
    if (layout.hasMin)
      b.store(weights.unitMin(), b.at(unit, parts.unitMin));
  }
}

// sums (height, tile's panels, 16) += the integers of `height` rows times `columns` staged columns of `panels` panels.
void MatmulEmitter::addWordTile(Value integers, Value sums, int64_t height, int64_t panels, Value columns) {
  const PackedLayout &layout = spec.layout;
  const WordForm form = wordFormOf(layout);
  const StagedUnit parts(layout, lineBytes);
  auto ofPanel = [&](int64_t p, int64_t offset) { return b.at(words.staged, p * parts.bytes + offset); };
  auto ofRow = [&](int64_t r, int64_t offset) { return b.at(integers, r * words.rowBytes + offset); };
  auto forSums = [&](function_ref<void(int64_t r, int64_t p, int64_t number)> body) {
    for (int64_t r = 0; r < height; ++r)
      for (int64_t p = 0; p < panels; ++p)
        body(r, p, r * panels + p);
  };
  // Read where the group before has written them, and written beside: of lines that are both LLVM keeps copies on the stack.
  auto unfinished = [&](Value group) {
    return b.at(words.unfinished, b.mul(arith::AndIOp::create(b, group, b.index(1)), words.tileBytes));
  };
  // setup
  for (int64_t number = 0; number < height * panels; ++number)
    b.store(b.splatReal(0), b.at(words.unfinished, number * lineBytes));
  Value groups = b.divide(columns, form.columns);
  // compute: sums of groups of columns, exact
  b.loop(b.index(0), groups, 1, [&](Value group) {
    Value lines = b.mul(group, form.columns / 2 * lineBytes), codes = b.mul(group, form.columns * 2);
    Values dots = emitWordDots(lines, codes, integers, height, panels);
    Value from = unfinished(group), to = unfinished(b.add(group, 1));
    forSums([&](int64_t, int64_t p, int64_t number) {
      Value dot = b.toFloat(dots[number]), sum = b.load(b.v16f32, b.at(from, number * lineBytes));
      if (form.holdsScales)
        sum = b.add(sum, dot);
      else
        sum = b.fma(dot, b.load(b.v16f32, b.at(ofPanel(p, parts.scales), b.mul(group, lineBytes))), sum);
      b.store(sum, b.at(to, number * lineBytes));
    });
  });
  // finish
  Value finished = unfinished(groups);
  Values mins;
  if (layout.hasMin)
    mins = b.loop(b.index(0), b.divide(columns, layout.block), 1, zeros(height * panels),
                  [&](Value block, ValuesRef carried) {
                    Values next(carried), ofBlock;
                    for (int64_t p = 0; p < panels; ++p)
                      ofBlock.push_back(b.load(b.v16f32, b.at(ofPanel(p, parts.mins), b.mul(block, lineBytes))));
                    for (int64_t r = 0; r < height; ++r) {
                      Value sum = b.splat(b.load(b.f32, b.at(ofRow(r, sumsOffset), b.mul(block, 4))));
                      for (int64_t p = 0; p < panels; ++p)
                        next[r * panels + p] = b.fma(sum, ofBlock[p], next[r * panels + p]);
                    }
                    return next;
                  });
  forSums([&](int64_t r, int64_t p, int64_t number) {
    Value scale = b.splat(b.load(b.f32, ofRow(r, codeBytes))),
          at = b.at(sums, (r * tiles.words.panels + p) * lineBytes);
    Value total = b.load(b.v16f32, at), sum = b.load(b.v16f32, b.at(finished, number * lineBytes));
    if (!layout.isNested()) {
      total = b.fma(layout.hasMin ? b.add(sum, mins[number]) : sum, scale, total);
    } else {
      total = b.fma(b.mul(sum, scale), b.load(b.v16f32, ofPanel(p, parts.unitScale)), total);
      if (layout.hasMin)
        total = b.fma(b.mul(mins[number], scale), b.load(b.v16f32, ofPanel(p, parts.unitMin)), total);
    }
    b.store(total, at);
  });
}

// The products of a group of columns, of each row and panel. A loop of one line each, in which sums take all registers but those for what is multiplied: LLVM
// loads the lines of several ahead. Of two where products and sums are two instructions.
SmallVector<Value> MatmulEmitter::emitWordDots(Value lines, Value codes, Value integers, int64_t height,
                                               int64_t panels) {
  const PackedLayout &layout = spec.layout;
  WideDotProduct dot = WideDotProduct::ofWords(b, target, layout.maxCode);
  const int64_t panelBytes = StagedUnit(layout, lineBytes).bytes, unroll = dot.accumulatesWords() ? 1 : 2;
  Values zero(height * panels, b.splatInt(0));
  int64_t numLines = wordFormOf(layout).columns / 2;
  return b.loop(b.index(0), b.index(numLines), unroll, zero, [&](Value line, ValuesRef carried) {
    Values dots(carried);
    Value from = b.at(b.at(words.staged, lines), b.mul(line, lineBytes)),
          row = b.at(b.at(integers, codes), b.mul(line, 4));
    for (int64_t i = 0; i < unroll; ++i) {
      Values columns;
      for (int64_t p = 0; p < panels; ++p)
        columns.push_back(b.load(b.v16i32, b.at(from, p * panelBytes + i * lineBytes)));
      for (int64_t r = 0; r < height; ++r) {
        Value pair = b.splat(b.load(b.i32, b.at(row, r * words.rowBytes + i * 4)));
        for (int64_t p = 0; p < panels; ++p)
          dots[r * panels + p] = dot.multiplyWords(dots[r * panels + p], columns[p], pair);
      }
    }
    return dots;
  });
}
