// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products of rows with quantised weights: the kernel rounds f32 activations to 16-bit integers with a scale per 32 values.
//
// For few rows weights stay bytes as they are stored, which costs a fraction of unpacking them to numbers, so that a row waits for memory alone;
// 16 bits keep what f32 would give but for 2^-16 of a block's largest value. Every thread rounds all rows for itself: that is
// less than reading one panel of weights, and a barrier is saved.

#include "compiler/codegen/targets/cpu/DotProduct.h"
#include "compiler/codegen/targets/cpu/MatmulEmitter.h"
#include "compiler/codegen/targets/cpu/QuantizeKernel.h"
#include "compiler/codegen/targets/cpu/WeightReader.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <algorithm>

using namespace mlir;
using namespace heddle;

static constexpr int64_t blockValues = 32; // of activations that share a scale

// A row in the scratch is one stream of steps: two planes of bytes of 32 columns, their scale, and the terms of their blocks of weights.
int64_t MatmulEmitter::int16StepBytes() const {
  return 2 * blockValues + 4 + blockValues / spec.layout.block * 4;
}

int64_t MatmulEmitter::int16RowBytes() const {
  return spec.k / blockValues * int16StepBytes();
}

void MatmulEmitter::emitInt16() {
  WideDotProduct dot(b, target, spec.layout.maxCode);
  zeroPoint = int32_t(spec.layout.zero) - dot.codeBias();
  if (usesInt16Tiles())
    beginInt16Unit();
  forRoundedRows(dot, [&](Value begin, Value end) {
    forPanels(tiles.int16.panels, [&](Value panel, int64_t panels) {
      forRows(tiles.int16.heights, begin, end, [&](Value row, int64_t height) {
        SmallVector<IntegerRow> tileRows;
        for (int64_t r = 0; r < height; ++r)
          tileRows.push_back(roundedRow(row, r));
        if (isInt16UnitHeight(height))
          return emitInt16UnitTile(panel, panels, row, tileRows);
        auto emitDots = [&](BlockReader &weights, ArrayRef<IntegerRow> rows, int64_t) {
          return emitInt16Dots(weights, rows);
        };
        emitIntegerTile(panel, panels, row, tileRows, emitDots,
                        /*together=*/height == 1 ? std::min(panels, panelsOfOneRow) : 1);
      });
    });
  });
  if (usesInt16Tiles())
    endInt16Unit();
}

Value MatmulEmitter::termMemory() {
  if (!termStack)
    termStack = b.stack(std::max(tiles.termBytes, int16RowBytes()));
  return termStack;
}

// Calls body(begin, end) for as many rows at a time as the stack holds as integers, whole ones of the tallest tile that fits.
void MatmulEmitter::forRoundedRows(WideDotProduct &dot, function_ref<void(Value, Value)> body) {
  if (!rounded) {
    int64_t fitting = tiles.termBytes / int16RowBytes();
    const int64_t *tallest = llvm::find_if(tiles.int16.heights, [&](int64_t height) { return height <= fitting; });
    roundedRows = tallest == tiles.int16.heights.end() ? 1 : std::min(fitting / *tallest * *tallest, tiles.rowBlock);
    rounded = termMemory();
  }
  b.loop(b.index(0), call.rows, roundedRows, [&](Value begin) {
    Value end = b.minimum(call.rows, b.add(begin, roundedRows));
    rowsRounded = begin;
    b.loop(begin, end, 1, [&](Value row) { roundInt16(dot, row, roundedRow(row, 0)); });
    body(begin, end);
  });
}

MatmulEmitter::IntegerRow MatmulEmitter::roundedRow(Value row, int64_t offset) {
  Value first = b.at(rounded, b.mul(b.sub(row, rowsRounded), int16RowBytes()));
  Value address = b.at(first, offset * int16RowBytes());
  return {address, b.at(address, 2 * blockValues), b.at(address, 2 * blockValues + 4)};
}

// `to` = row `row` of the activations. Terms are what a row adds to every panel's block beside the products: with mins scale * sum as
// f32, else the integer -zero * sum.
void MatmulEmitter::roundInt16(WideDotProduct &dot, Value row, IntegerRow to) {
  const PackedLayout &layout = spec.layout;
  Value from = b.at(call.act, b.mul(b.mul(storedRow(row), call.actStride), 4));
  b.loop(b.index(0), b.index(spec.k / blockValues), 1, [&](Value block) {
    QuantizedBlock integers = quantizeBlock(b, b.at(from, b.mul(block, blockValues * 4)), WideDotProduct::largest);
    Value offset = b.mul(block, int16StepBytes());
    b.store(integers.scale, b.at(to.scales, offset));
    Value sums[2];
    for (auto [half, columns] : llvm::enumerate(integers.halves)) {
      Value at = b.at(b.at(to.codes, offset), 16 * half);
      auto [first, second] = dot.planes(columns);
      b.store(first, at);
      b.store(second, b.at(at, blockValues));
      sums[half] = vector::ReductionOp::create(b, vector::CombiningKind::ADD, columns);
    }
    auto storeTerm = [&](Value sum, Value at) {
      if (layout.hasMin)
        b.store(b.mul(integers.scale, b.toFloat(sum)), at);
      else if (zeroPoint)
        b.store(b.mul(sum, b.int32(-zeroPoint)), at);
    };
    if (layout.block == blockValues)
      return storeTerm(b.add(sums[0], sums[1]), b.at(to.terms, offset));
    for (auto [half, sum] : llvm::enumerate(sums))
      storeTerm(sum, b.at(b.at(to.terms, offset), 4 * half));
  });
}

// -zero * sum + the products of a block, of each row.
SmallVector<Value> MatmulEmitter::emitInt16Dots(BlockReader &weights, ArrayRef<IntegerRow> blockRows) {
  const PackedLayout &layout = spec.layout;
  WideDotProduct dot(b, target, layout.maxCode);
  SmallVector<WideDotProduct::Sums> sums;
  for (const IntegerRow &row : blockRows)
    sums.push_back({zeroPoint ? b.splat(b.load(b.i32, row.terms)) : b.splatInt(0)});
  for (int64_t number = 0; number < layout.quadsPerShare(); ++number) {
    BlockReader::Quad quad = weights.loadQuad(number);
    for (int64_t share = 0; share < layout.sharesPerByte(); ++share) {
      Value codes = dot.prepareCodes(weights.codes(quad, share));
      int64_t column = 4 * (share * layout.quadsPerShare() + number);
      auto plane = [&](Value row, int64_t number) {
        return b.splat(b.load(b.i32, b.at(row, number * blockValues + column), 1));
      };
      for (auto [r, row] : llvm::enumerate(blockRows))
        dot.add(sums[r], codes, plane(row.codes, 0), plane(row.codes, 1));
    }
  }
  return llvm::map_to_vector(sums, [&](const WideDotProduct::Sums &of) { return dot.total(of); });
}
