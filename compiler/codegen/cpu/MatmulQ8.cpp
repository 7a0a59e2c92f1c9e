// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products of int8 activations with quantised weights.
//
// Within a block of weights the sum of products is exact in i32; blocks are added in f32 in ascending order of K:
//   y += scale_w * (scale_a * (dot - zero * sum_a)) + min_w * (scale_a * sum_a)

#include "compiler/codegen/cpu/DotProduct.h"
#include "compiler/codegen/cpu/MatmulEmitter.h"
#include "compiler/codegen/cpu/WeightReader.h"

#include <algorithm>

using namespace mlir;
using namespace heddle;

// Values that share a scale of activations, and those whose codes are summed.
static constexpr int64_t scaleValues = 32, sumValues = 16;

namespace {
// One row's share of a step along K: 32 codes, their scale, and the terms of the step's blocks of weights.
struct ActivationRow {
  Value codes, scales, terms;
};
} // namespace

void MatmulEmitter::emitQ8() {
  zeroPoint = int32_t(spec.layout.zero) - DotProduct(b, target, spec.layout.maxCode).codeBias();
  // setup: terms (rowBlock, K / block)
  int64_t rowBytes = spec.k / spec.layout.block * 4;
  int64_t rowBlock = std::clamp<int64_t>(tiles.q8TermBytes / rowBytes / 8 * 8, 8, tiles.rowBlock);
  terms = b.stack(rowBlock * rowBytes);
  b.loop(b.index(0), rows, rowBlock, [&](Value begin) {
    Value end = b.minimum(rows, b.add(begin, rowBlock));
    auto rowTerms = [&](Value row) { return b.at(terms, b.mul(b.sub(row, begin), rowBytes)); };
    b.loop(begin, end, 1, [&](Value row) { emitQ8Terms(storedRow(row), rowTerms(row)); });
    forPanels(tiles.q8.panels, [&](Value panel, int64_t panels) {
      forRows(tiles.q8.heights, begin, end,
              [&](Value row, int64_t height) { emitQ8Tile(panel, panels, row, height, rowTerms(row)); });
    });
  });
}

// What a row contributes to every panel's block beside the products, once for all panels: with mins scale_a * sum_a as
// f32, else the integer -zero * sum_a from which the products are added up. No format has both a min and a zero.
void MatmulEmitter::emitQ8Terms(Value row, Value rowTerms) {
  const PackedLayout &layout = spec.layout;
  if (!layout.hasMin && !zeroPoint)
    return;
  Value sums = b.at(actSums, b.mul(row, spec.k / sumValues * 4));
  Value scales = b.at(actScales, b.mul(row, spec.k / scaleValues * 4));
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
  const PackedLayout &layout = spec.layout;
  int64_t blocks = scaleValues / layout.block; // of weights, in a step
  DotProduct dot(b, target, layout.maxCode);
  // setup
  SmallVector<ActivationRow> rowAddresses;
  for (int64_t r = 0; r < height; ++r) {
    Value stored = storedRow(b.add(row, r));
    rowAddresses.push_back({activationRow(b.add(row, r)), b.at(actScales, b.mul(stored, spec.k / scaleValues * 4)),
                            b.at(tileTerms, r * (spec.k / layout.block * 4))});
  }
  Values panelAddresses;
  for (int64_t p = 0; p < panels; ++p)
    panelAddresses.push_back(panelAddress(b.add(panel, p)));

  // compute: sums (rows, panels)
  auto addBlock = [&](Value step, int64_t block, int64_t p, Values &sums) {
    Value unit = b.at(panelAddresses[p], b.mul(b.add(b.mul(step, blocks), block), layout.unitBytes()));
    for (int64_t line = 0; line < layout.unitBytes(); line += 64)
      b.prefetch(b.at(unit, tiles.prefetchBytes + line));
    BlockReader weights(b, layout, unit);
    auto loadTerm = [&](const ActivationRow &row, Type type) {
      return b.splat(b.load(type, b.at(b.at(row.terms, b.mul(step, 4 * blocks)), 4 * block)));
    };
    Values dots;
    for (const ActivationRow &row : rowAddresses)
      dots.push_back(zeroPoint ? loadTerm(row, b.i32) : b.splatInt(0));
    // the halves of a quad share its bytes
    for (int64_t quad = 0; quad < BlockReader::quadsPerHalf(layout); ++quad) {
      Value stored = weights.loadQuad(quad);
      for (int64_t half = 0; half < BlockReader::numHalves(layout); ++half) {
        Value codes = dot.prepareCodes(weights.codes(stored, half));
        int64_t column = layout.block * block + half * layout.block / 2 + 4 * quad;
        for (auto [r, row] : llvm::enumerate(rowAddresses)) {
          Value four = b.load(b.i32, b.at(b.at(row.codes, b.mul(step, scaleValues)), column), 1);
          dots[r] = dot.emit(dots[r], codes, b.splat(four));
        }
      }
    }
    for (auto [r, row] : llvm::enumerate(rowAddresses)) {
      Value scale = b.splat(b.load(b.f32, b.at(row.scales, b.mul(step, 4))));
      Value &sum = sums[r * panels + p];
      sum = b.fma(b.mul(b.toFloat(dots[r]), scale), weights.scale(), sum);
      if (layout.hasMin)
        sum = b.fma(weights.min(), loadTerm(row, b.f32), sum);
    }
  };
  Values sums =
      b.loop(b.index(0), b.index(spec.k / scaleValues), 1, zeros(height * panels), [&](Value step, ValuesRef carried) {
        Values next(carried);
        for (int64_t block = 0; block < blocks; ++block)
          for (int64_t p = 0; p < panels; ++p)
            addBlock(step, block, p, next);
        return next;
      });
  // store
  for (int64_t r = 0; r < height; ++r)
    storeRow(ValuesRef(sums).slice(r * panels, panels), panel, b.add(row, r));
}
