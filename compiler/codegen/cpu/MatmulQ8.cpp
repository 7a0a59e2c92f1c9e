// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products of int8 activations with quantised weights.
//
// Within a block of weights the sum of products is exact in i32; blocks are added in f32 in ascending order of K:
//   y += scale_w * (scale_a * (dot - zero * sum_a)) + min_w * (scale_a * sum_a)

#include "compiler/codegen/cpu/DotProduct.h"
#include "compiler/codegen/cpu/MatmulEmitter.h"
#include "compiler/codegen/cpu/WeightReader.h"

using namespace mlir;
using namespace heddle;

// Values that share a scale of activations, and those whose codes are summed.
static constexpr int64_t scaleValues = 32, sumValues = 16;

void MatmulEmitter::emitQ8() {
  forPanels(tiles.q8.panels, [&](Value panel, int64_t panels) {
    forRows(tiles.q8.heights, b.index(0), rows,
            [&](Value row, int64_t height) { emitQ8Tile(panel, panels, row, height); });
  });
}

namespace {
// One row's share of a step along K: 32 codes, their scale, the sums of both halves.
struct ActivationRow {
  Value codes, scales, sums;
};
} // namespace

void MatmulEmitter::emitQ8Tile(Value panel, int64_t panels, Value row, int64_t height) {
  const PackedLayout &layout = spec.layout;
  DotProduct dot(b, target, layout.maxCode);
  int64_t blocks = scaleValues / layout.block;  // of weights, in a step
  int32_t zero = int32_t(layout.zero) - dot.codeBias();
  // setup
  SmallVector<ActivationRow> rowAddresses;
  for (int64_t r = 0; r < height; ++r) {
    Value index = b.add(row, r);
    rowAddresses.push_back({activationRow(index), b.at(actScales, b.mul(index, spec.k / scaleValues * 4)),
                            b.at(actSums, b.mul(index, spec.k / sumValues * 4))});
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
    // setup: the sum of the block's codes as f32, and the integers that the products add to
    Values dots, codeSums, scales;
    for (const ActivationRow &address : rowAddresses) {
      Value sums = b.at(address.sums, b.mul(step, scaleValues / sumValues * 4));
      Value codeSum = b.load(b.i32, b.at(sums, 4 * block));
      if (layout.block == scaleValues)
        codeSum = b.add(codeSum, b.load(b.i32, b.at(sums, 4)));
      codeSums.push_back(codeSum);
      scales.push_back(b.load(b.f32, b.at(address.scales, b.mul(step, 4))));
      dots.push_back(zero ? b.splat(b.mul(codeSum, b.int32(-zero))) : b.splatInt(0));
    }
    // compute: the halves of a quad share its bytes
    for (int64_t quad = 0; quad < BlockReader::quadsPerHalf(layout); ++quad) {
      Value stored = weights.loadQuad(quad);
      for (int64_t half = 0; half < BlockReader::numHalves(layout); ++half) {
        Value codes = dot.prepareCodes(weights.codes(stored, half));
        int64_t column = layout.block * block + half * layout.block / 2 + 4 * quad;
        for (auto [r, address] : llvm::enumerate(rowAddresses)) {
          Value four = b.load(b.i32, b.at(b.at(address.codes, b.mul(step, scaleValues)), column), 1);
          dots[r] = dot.emit(dots[r], codes, b.splat(four));
        }
      }
    }
    // finish
    for (int64_t r = 0; r < height; ++r) {
      Value &sum = sums[r * panels + p];
      sum = b.fma(b.mul(b.toFloat(dots[r]), b.splat(scales[r])), weights.scale(), sum);
      if (layout.hasMin)
        sum = b.fma(weights.min(), b.splat(b.mul(scales[r], b.toFloat(codeSums[r]))), sum);
    }
  };
  Values sums = b.loop(b.index(0), b.index(spec.k / scaleValues), 1, zeros(height * panels),
                       [&](Value step, ValuesRef carried) {
                         Values next(carried);
                         for (int64_t block = 0; block < blocks; ++block)
                           for (int64_t p = 0; p < panels; ++p)
                             addBlock(step, block, p, next);
                         return next;
                       });
  // store
  for (int64_t r = 0; r < height; ++r)
    for (int64_t p = 0; p < panels; ++p)
      storeResult(sums[r * panels + p], b.add(panel, p), b.add(row, r));
}
