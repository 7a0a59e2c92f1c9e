// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A code becomes f32 without a conversion, of which a multiprocessor has a quarter as many as of additions: its bits are put at the top
// of the mantissa of 1, which gives m = 1 + code / 2^bits, and w = (2^bits scale) m + (min - (2^bits + zero) scale). All products and the
// sum fit 24 bits where there is no min: the number is exactly that of the file.

#include "compiler/codegen/targets/cuda/WeightChunks.h"

#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;
using namespace heddle;

// Rows of a chunk, four bytes of each.
static constexpr int64_t chunkRows = 4, lineBytes = 64;
static constexpr int64_t mantissaBits = 23, bitsOfOne = 0x3f800000;

std::string WeightChunks::missing(const PackedLayout &layout) {
  return layout.book == CodeBook::None ? "" : "of a code book";
}

int64_t WeightChunks::runColumns(const PackedLayout &layout) {
  return layout.isQuantized() ? 4 : layout.unitValues();
}

int64_t WeightChunks::lanesOfPlace(const PackedLayout &layout) {
  return chunkRows * (layout.isQuantized() ? layout.quadsPerShare() : 1);
}

WeightChunks::WeightChunks(GpuBuilder &builder, const PackedLayout &layout, int64_t k, Value lane)
    : b(builder), layout(layout), k(k), chunk(b.remainder(lane, chunkRows)),
      line(b.remainder(b.divide(lane, chunkRows), linesOfPlace())), place(b.divide(lane, chunkRows * linesOfPlace())) {}

Value WeightChunks::placeOf(Value step) {
  return b.add(b.mul(step, placesPerStep()), place);
}

Value WeightChunks::columnOf(Value place, int64_t run) {
  Value first = b.mul(place, placeValues());
  return layout.isQuantized() ? b.add(first, b.mul(b.add(line, run * linesOfPlace()), 4)) : first;
}

WeightChunks::Chunk WeightChunks::load(Value panel, Value place) {
  auto wordsType = VectorType::get({chunkRows}, b.getI32Type());
  Value inLine = b.mul(chunk, chunkBytes);
  Chunk loaded;
  if (!layout.isQuantized()) {
    loaded.words = b.load(wordsType, b.at(panel, b.add(b.mul(place, lineBytes), inLine), 1));
    return loaded;
  }
  int64_t perUnit = layout.blocksPerUnit(), perGroup = layout.blocksPerGroup();
  Value unit = b.at(panel, b.mul(b.divide(place, perUnit), layout.unitBytes()), 1);
  Value number = b.remainder(place, perUnit), inGroup = b.remainder(number, perGroup);
  Value group = b.add(b.mul(b.divide(number, perGroup), layout.groupBytes()), layout.headerBytes());
  Value low = b.add(b.mul(inGroup, layout.lowBytes()), b.mul(line, lineBytes));
  loaded.words = b.load(wordsType, b.at(unit, b.add(b.add(group, low), inLine), 1));
  if (layout.highBits) {
    Value high = b.load(wordsType, b.at(unit, b.add(b.add(group, inLine), perGroup * layout.lowBytes()), 1));
    Value places = b.mul(b.add(b.mul(inGroup, layout.block / 4), line), layout.highBits);
    SmallVector<Value> words;
    for (int64_t row = 0; row < chunkRows; ++row)
      words.push_back(b.shiftDown(b.element(high, row), places));
    loaded.high = b.vector(words);
  }
  loadScales(loaded, unit, number);
  return loaded;
}

std::array<Value, 4> WeightChunks::loadFloats(Value unit, int64_t offset) {
  bool isHalf = layout.scales != PackedScales::F32;
  Type element = isHalf ? Type(b.getF16Type()) : Type(b.getF32Type());
  Value at = b.at(unit, b.add(b.mul(chunk, chunkRows * layout.scaleBytes()), offset), 1);
  Value numbers = b.load(VectorType::get({chunkRows}, element), at);
  std::array<Value, 4> floats;
  for (int64_t row = 0; row < chunkRows; ++row) {
    Value number = b.element(numbers, row);
    floats[row] = isHalf ? b.floatOfHalf(number) : number;
    if (layout.scaleShift)
      floats[row] = b.mulF(floats[row], b.constantF32(layout.scaleFactor()));
  }
  return floats;
}

std::array<Value, 4> WeightChunks::loadNested(Value unit, int64_t offset, Value number) {
  Value at = b.add(b.add(b.mul(number, PackedLayout::panelRows), b.mul(chunk, chunkRows)), offset);
  Value bytes = b.load(b.getI32Type(), b.at(unit, at, 1));
  std::array<Value, 4> integers;
  for (int64_t row = 0; row < chunkRows; ++row)
    integers[row] = b.shift(bytes, 24 - 8 * row); // in the highest byte
  return integers;
}

void WeightChunks::loadScales(Chunk &chunk, Value unit, Value number) {
  std::array<Value, 4> scales = loadFloats(unit, 0), mins, ofScales, ofMins;
  if (layout.hasMin)
    mins = loadFloats(unit, layout.minOffset());
  if (layout.isNested()) {
    ofScales = loadNested(unit, layout.nestedScaleOffset(), number);
    if (layout.hasMin)
      ofMins = layout.hasNibbleScales ? ofScales : loadNested(unit, layout.nestedMinOffset(), number);
  }
  double range = double(int64_t(1) << layout.codeBits());
  for (int64_t row = 0; row < chunkRows; ++row) {
    Value scale = scales[row], min = layout.hasMin ? mins[row] : Value();
    if (layout.isNested() && layout.hasNibbleScales) {
      Value ofScale = b.bitAnd(b.shift(ofScales[row], -24), b.constant(15));
      scale = b.mulF(scale, b.floatOfInt(ofScale));
      min = b.mulF(min, b.floatOfInt(b.shift(ofMins[row], -28)));
    } else if (layout.isNested()) {
      scale = b.mulF(scale, b.floatOfInt(b.shiftSigned(ofScales[row], 24)));
      if (min)
        min = b.mulF(min, b.floatOfInt(b.shiftSigned(ofMins[row], 24)));
    }
    Value shift = b.constantF32(-(range + layout.zero));
    chunk.scale[row] = b.mulF(scale, b.constantF32(range));
    chunk.offset[row] = min ? b.fma(scale, shift, min) : b.mulF(scale, shift);
  }
}

Value WeightChunks::number(const Chunk &chunk, int64_t row, int64_t run, int64_t column) {
  Value word = b.element(chunk.words, row);
  switch (layout.numbers) {
  case PackedNumbers::F32:
    return b.floatOfBits(word);
  case PackedNumbers::BF16:
    return b.unpackBf16(word)[column];
  case PackedNumbers::F16:
    return b.unpackHalves(word)[column];
  default:
    break;
  }
  // `bits` of `from`, from bit `first` on, moved to bit `to`.
  auto place = [&](Value from, int64_t first, int64_t bits, int64_t to) {
    return b.bitAnd(b.shift(from, to - first), b.constant(((int64_t(1) << bits) - 1) << to));
  };
  int64_t lowest = mantissaBits - layout.codeBits();
  Value bits = place(word, 8 * column + run * layout.lowBits(), layout.lowBits(), lowest);
  if (layout.highBits)
    bits = b.bitOr(bits, place(b.element(chunk.high, row), 8 * column + run * linesOfPlace() * layout.highBits,
                               layout.highBits, lowest + layout.lowBits()));
  Value m = b.floatOfBits(b.bitOr(bits, b.constant(bitsOfOne)));
  return b.fma(m, chunk.scale[row], chunk.offset[row]);
}
