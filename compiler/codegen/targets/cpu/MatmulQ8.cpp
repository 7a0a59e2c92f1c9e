// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products of int8 activations with quantised weights.
//
// Within a block of weights the sum of products is exact in i32; blocks are added in f32 in ascending order of K:
//   y += scale_w * (scale_a * (dot - zero * sum_a)) + min_w * (scale_a * sum_a)

#include "compiler/codegen/targets/cpu/DotProduct.h"
#include "compiler/codegen/targets/cpu/MatmulEmitter.h"
#include "compiler/codegen/targets/cpu/WeightReader.h"

#include <algorithm>

using namespace mlir;
using namespace heddle;

// Values that share a scale of activations, and those whose codes are summed.
static constexpr int64_t scaleValues = 32, sumValues = 16;

void MatmulEmitter::emitQ8() {
  zeroPoint = int32_t(spec.layout.zero) - DotProduct(b, target, spec.layout.maxCode).codeBias();
  // setup: terms (rowBlock, K / block)
  SmallVector<int64_t> heights = tiles.q8.heights;
  if (usesInt8Tiles())
    heights.insert(heights.begin(), q8UnitRows());
  int64_t rowBytes = spec.k / spec.layout.block * 4;
  int64_t rowBlock = std::clamp<int64_t>(tiles.termBytes / rowBytes / heights[0] * heights[0], 8, tiles.rowBlock);
  terms = b.stack(rowBlock * rowBytes);
  if (usesInt8Tiles())
    beginQ8Unit();
  // compute
  b.loop(b.index(0), call.rows, rowBlock, [&](Value begin) {
    Value end = b.minimum(call.rows, b.add(begin, rowBlock));
    auto rowTerms = [&](Value row) { return b.at(terms, b.mul(b.sub(row, begin), rowBytes)); };
    b.loop(begin, end, 1, [&](Value row) { emitQ8Terms(storedRow(row), rowTerms(row)); });
    forPanels(tiles.q8.panels, [&](Value panel, int64_t panels) {
      forRows(heights, begin, end,
              [&](Value row, int64_t height) { emitQ8Tile(panel, panels, row, height, rowTerms(row)); });
    });
  });
  // finish
  if (usesInt8Tiles())
    endQ8Unit();
}

// What a row contributes to every panel's block beside the products, once for all panels: with mins scale_a * sum_a as
// f32, else the integer -zero * sum_a from which the products are added up. No format has both a min and a zero.
void MatmulEmitter::emitQ8Terms(Value row, Value rowTerms) {
  const PackedLayout &layout = spec.layout;
  if (!layout.hasMin && !zeroPoint)
    return;
  Value sums = b.at(call.actSums, b.mul(row, spec.k / sumValues * 4));
  Value scales = b.at(call.actScales, b.mul(row, spec.k / scaleValues * 4));
  int64_t sumsPerBlock = layout.block / sumValues;
  b.loop(b.index(0), b.index(spec.k / layout.block), 1, [&](Value block) {
    Value sum = b.load(b.i32, b.at(sums, b.mul(block, 4 * sumsPerBlock)));
    if (sumsPerBlock == 2)
      sum = b.add(sum, b.load(b.i32, b.at(sums, b.add(b.mul(block, 8), 4))));
    Value scale = b.load(b.f32, b.at(scales, b.mul(b.divide(block, scaleValues / layout.block), 4)));
    b.store(layout.hasMin ? b.mul(scale, b.toFloat(sum)) : b.mul(sum, b.int32(-zeroPoint)),
            b.at(rowTerms, b.mul(block, 4)));
  });
}

void MatmulEmitter::emitQ8Tile(Value panel, int64_t panels, Value row, int64_t height, Value tileTerms) {
  SmallVector<IntegerRow> tileRows;
  for (int64_t r = 0; r < height; ++r) {
    Value stored = storedRow(b.add(row, r));
    tileRows.push_back({activationRow(b.add(row, r)), b.at(call.actScales, b.mul(stored, spec.k / scaleValues * 4)),
                        b.at(tileTerms, r * (spec.k / spec.layout.block * 4))});
  }
  bool onUnit = usesInt8Tiles() && height == q8UnitRows();
  emitIntegerTile(
      panel, panels, row, tileRows,
      [&](BlockReader &weights, ArrayRef<IntegerRow> blockRows, int64_t p) {
        return onUnit ? emitQ8UnitDots(weights, blockRows, p) : emitQ8Dots(weights, blockRows);
      },
      /*together=*/onUnit ? panels : 1);
}

// The rows of a tile, from `row` on, times `panels` panels from `panel` on. K passes for `together` of them at a time: a tile of activations
// serves several, but memory is read the faster the fewer places it is read from.
void MatmulEmitter::emitIntegerTile(Value panel, int64_t panels, Value row, ArrayRef<IntegerRow> tileRows,
                                    BlockDots emitDots, int64_t together) {
  int64_t height = tileRows.size();
  // compute: sums (rows, panels)
  Values sums(height * panels);
  for (int64_t first = 0; first < panels; first += together) {
    Values of = sumIntegerPanels(b.add(panel, first), together, tileRows, emitDots);
    for (int64_t r = 0; r < height; ++r)
      llvm::copy(ValuesRef(of).slice(r * together, together), sums.begin() + r * panels + first);
  }
  // store
  for (int64_t r = 0; r < height; ++r)
    storeRow(ValuesRef(sums).slice(r * panels, panels), panel, b.add(row, r));
}

// (rows, panels)
SmallVector<Value> MatmulEmitter::sumIntegerPanels(Value panel, int64_t panels, ArrayRef<IntegerRow> tileRows,
                                                   BlockDots emitDots) {
  const PackedLayout &layout = spec.layout;
  int64_t count = tileRows.size() * panels, blocks = scaleValues / layout.block; // of weights, in a step
  Values panelAddresses;
  for (int64_t p = 0; p < panels; ++p)
    panelAddresses.push_back(panelAddress(b.add(panel, p)));
  using ReaderOf = llvm::function_ref<BlockReader(int64_t block, int64_t p)>;
  auto addStep = [&](Value step, ReaderOf readerOf, ValuesRef carried) {
    Values next(carried);
    for (int64_t block = 0; block < blocks; ++block)
      for (int64_t p = 0; p < panels; ++p) {
        BlockReader weights = readerOf(block, p);
        weights.prefetch(tiles.prefetch, panels);
        SmallVector<IntegerRow> blockRows = stepRows(tileRows, step, block);
        addIntegerBlock(emitDots(weights, blockRows, p), weights.ownScale(), weights.ownMin(), blockRows, p, panels,
                        next);
      }
    return next;
  };
  if (!layout.isNested())
    return b.loop(b.index(0), b.index(spec.k / scaleValues), 1, zeros(count), [&](Value step, ValuesRef sums) {
      auto readerOf = [&](int64_t block, int64_t p) {
        return BlockReader::inPanel(b, layout, panelAddresses[p], b.add(b.mul(step, blocks), block), target);
      };
      return addStep(step, readerOf, sums);
    });
  // Numbers of a unit multiply what its blocks add up under their integers, once.
  int64_t steps = layout.unitValues() / scaleValues;
  return b.loop(b.index(0), b.index(spec.k / layout.unitValues()), 1, zeros(count), [&](Value unit, ValuesRef sums) {
    Values units, next(sums);
    for (Value address : panelAddresses)
      units.push_back(b.at(address, b.mul(unit, layout.unitBytes())));
    Value firstStep = b.mul(unit, steps);
    Values ofUnit = b.loop(b.index(0), b.index(steps), 1, zeros(layout.hasMin ? 2 * count : count),
                           [&](Value step, ValuesRef carried) {
                             auto readerOf = [&](int64_t block, int64_t p) {
                               return BlockReader(b, layout, units[p], b.add(b.mul(step, blocks), block), target);
                             };
                             return addStep(b.add(firstStep, step), readerOf, carried);
                           });
    for (int64_t i = 0; i < count; ++i) {
      BlockReader weights(b, layout, units[i % panels], b.index(0), target);
      next[i] = b.fma(ofUnit[i], weights.unitScale(), next[i]);
      if (layout.hasMin)
        next[i] = b.fma(ofUnit[count + i], weights.unitMin(), next[i]);
    }
    return next;
  });
}

// Where block `block` of step `step` of each row begins.
SmallVector<MatmulEmitter::IntegerRow> MatmulEmitter::stepRows(ArrayRef<IntegerRow> rows, Value step, int64_t block) {
  int64_t blocks = scaleValues / spec.layout.block;
  bool isQ8 = form == MatmulActivation::Q8;
  auto at = [&](Value array, int64_t q8Bytes, int64_t offset) {
    return b.at(b.at(array, b.mul(step, isQ8 ? q8Bytes : int16StepBytes())), offset);
  };
  return llvm::map_to_vector(rows, [&](const IntegerRow &row) {
    return IntegerRow{at(row.codes, scaleValues, spec.layout.block * block), at(row.scales, 4, 0),
                      at(row.terms, 4 * blocks, 4 * block)};
  });
}

// Adds the products of a block of panel `p` of `panels` to sums (rows, panels). With nested scales that is without the unit's own, and mins have
// sums of their own: (2, rows, panels).
void MatmulEmitter::addIntegerBlock(ValuesRef dots, Value ownScale, Value ownMin, ArrayRef<IntegerRow> blockRows,
                                    int64_t p, int64_t panels, Values &sums) {
  int64_t count = blockRows.size() * panels;
  for (auto [r, row] : llvm::enumerate(blockRows)) {
    Value scale = b.splat(b.load(b.f32, row.scales));
    Value &sum = sums[r * panels + p];
    sum = b.fma(b.mul(b.toFloat(dots[r]), scale), ownScale, sum);
    if (!spec.layout.hasMin)
      continue;
    Value &minSum = spec.layout.isNested() ? sums[count + r * panels + p] : sum;
    minSum = b.fma(ownMin, b.splat(b.load(b.f32, row.terms)), minSum);
  }
}

// -zero * sum_a + the products of a block, of each row.
SmallVector<Value> MatmulEmitter::emitQ8Dots(BlockReader &weights, ArrayRef<IntegerRow> blockRows) {
  const PackedLayout &layout = spec.layout;
  DotProduct dot(b, target, layout.maxCode);
  Values dots;
  for (const IntegerRow &row : blockRows)
    dots.push_back(zeroPoint ? b.splat(b.load(b.i32, row.terms)) : b.splatInt(0));
  for (int64_t number = 0; number < layout.quadsPerShare(); ++number) {
    BlockReader::Quad quad = weights.loadQuad(number);
    for (int64_t share = 0; share < layout.sharesPerByte(); ++share) {
      Value codes = dot.prepareCodes(weights.codes(quad, share));
      int64_t column = 4 * (share * layout.quadsPerShare() + number);
      for (auto [r, row] : llvm::enumerate(blockRows))
        dots[r] = dot.emit(dots[r], codes, b.splat(b.load(b.i32, b.at(row.codes, column), 1)));
    }
  }
  return dots;
}
