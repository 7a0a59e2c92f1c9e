// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A code of up to 7 bits in the mantissa of 64 is the bf16 64 + code / 2; one fma makes of two of them code - centre, exactly. (A factor of 1 would be an
// addition, which sm_80 has none of and LLVM makes one of f32.) The highest bit of a code of 8 chooses what is taken away.

#include "compiler/codegen/targets/cuda/CodeFragments.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;
using namespace heddle;

// Bytes of a quad of all rows, and of two rows.
static constexpr int64_t lineBytes = 64, pairBytes = 8;
// Of bf16: 2, 64, -128, of which the last bit of the mantissa is 1, and -256. Of f32: 2^23.
static constexpr int64_t bitsOf2 = 0x4000, bitsOf64 = 0x4280, bitsOfMinus128 = 0xc300, bitsOfMinus256 = 0xc380,
                         bitsOf2To23 = 0x4b000000;

// `bits` in both halves of an i32, or in all four of its bytes.
static int64_t inHalves(int64_t bits) {
  return int32_t(uint32_t(bits | bits << 16));
}
static int64_t inBytes(int64_t bits) {
  return int32_t(uint32_t(bits) * 0x01010101u);
}

bool CodeFragments::takes(const PackedLayout &layout, int64_t k) {
  return layout.isQuantized() && layout.book == CodeBook::None && layout.scales != PackedScales::Shared &&
         k % placeColumns == 0;
}

int64_t CodeFragments::registers(const PackedLayout &layout) {
  int64_t blocks = placeColumns / layout.block, low = 2 * blocks * llvm::divideCeil(layout.quadsPerShare(), 4);
  int64_t high = layout.highBits ? 2 * blocks / layout.blocksPerGroup() : 0, scale = layout.scaleBytes() / 2;
  int64_t nested = layout.isNested() ? blocks : 0;
  return low + high + (layout.hasMin ? 2 : 1) * scale + (layout.hasMin && !layout.hasNibbleScales ? 2 : 1) * nested;
}

CodeFragments::CodeFragments(GpuBuilder &builder, const PackedLayout &layout, int64_t k, Value lane, Value warp)
    : b(builder), layout(layout), k(k) {
  Value pair = b.divide(lane, 4), quad = b.remainder(lane, 4);
  // A warp that has no place takes another's.
  Value place = places() < numWarps ? b.min(warp, b.constant(places() - 1)) : warp;
  lastStep = b.divide(b.sub(b.constant(places() - 1), place), numWarps);
  // Of nested scales a step is a unit, else a place is.
  Value unit = layout.isNested() ? b.constant(0) : b.mul(place, layout.unitBytes());
  Value group = b.add(unit, layout.headerBytes());
  if (layout.isNested())
    group = b.add(group, b.mul(place, groups() * layout.groupBytes()));
  int64_t share = std::min<int64_t>(4, layout.quadsPerShare());
  lowAt = b.add(group, b.add(b.mul(b.remainder(quad, share), lineBytes), b.mul(pair, pairBytes)));
  if (share < 4)
    lowShift = b.mul(b.divide(quad, share), layout.lowBits());
  highAt = b.add(b.add(group, b.mul(pair, pairBytes)), layout.blocksPerGroup() * layout.lowBytes());
  highShift = b.mul(quad, layout.highBits);
  scaleAt = b.add(unit, b.mul(pair, 2 * layout.scaleBytes()));
  Value ofBlock = b.add(b.mul(place, blocks() * PackedLayout::panelRows), b.mul(pair, 2));
  nestedAt = b.add(ofBlock, layout.nestedScaleOffset());
}

void CodeFragments::load(Value panel, Value first, int64_t count, SmallVectorImpl<Value> &loaded) const {
  auto words = VectorType::get({2}, b.getI32Type());
  auto floats = VectorType::get({2}, layout.scales == PackedScales::F32 ? Type(b.getF32Type()) : b.getF16Type());
  bool mayEnd = places() % (numWarps * count);
  Value begin = b.at(panel, b.mul(first, stepBytes()), 1);
  for (int64_t step = 0; step < count; ++step) {
    Value from = mayEnd ? b.at(panel, b.mul(b.min(b.add(first, step), lastStep), stepBytes()), 1) : begin;
    auto read = [&](Type type, Value at, int64_t offset) {
      return b.load(type, b.at(b.at(from, at, 1), b.constant(offset + (mayEnd ? 0 : step * stepBytes())), 1));
    };
    auto readNested = [&](int64_t offset) {
      return arith::ExtUIOp::create(b, b.getI32Type(), read(b.getI16Type(), nestedAt, offset)).getResult();
    };
    for (int64_t block = 0; block < blocks(); ++block)
      for (int64_t line = 0; line < lines(); ++line)
        loaded.push_back(read(words, lowAt,
                              block / layout.blocksPerGroup() * layout.groupBytes() +
                                  block % layout.blocksPerGroup() * layout.lowBytes() + 4 * line * lineBytes));
    for (int64_t group = 0; layout.highBits && group < groups(); ++group)
      loaded.push_back(read(words, highAt, group * layout.groupBytes()));
    loaded.push_back(read(floats, scaleAt, 0));
    if (layout.hasMin)
      loaded.push_back(read(floats, scaleAt, layout.minOffset()));
    if (!layout.isNested())
      continue;
    for (int64_t block = 0; block < blocks(); ++block)
      loaded.push_back(readNested(block * PackedLayout::panelRows));
    for (int64_t block = 0; layout.hasMin && !layout.hasNibbleScales && block < blocks(); ++block)
      loaded.push_back(
          readNested(layout.nestedMinOffset() - layout.nestedScaleOffset() + block * PackedLayout::panelRows));
  }
}

// Codes that lie in the low bits of both halves, as numbers.
Value CodeFragments::centred(Value codes) const {
  int64_t inMantissa = std::min<int64_t>(7, codeBits());
  Value of64 = b.bitOr(b.bitAnd(codes, b.constant(inHalves((1 << inMantissa) - 1))), b.constant(inHalves(bitsOf64)));
  Value less = b.constant(inHalves(bitsOfMinus128 + centre())); // centre() is below 128
  if (codeBits() == 8)
    less = b.bitXor(b.bitAnd(codes, b.constant(inHalves(0x80))), b.constant(inHalves(bitsOfMinus256)));
  return b.fmaBf16(of64, b.constant(inHalves(bitsOf2)), less);
}

// Columns 0 and 2 of a row's quad, and 1 and 3, whose bits begin at `lowShift` and `highShift` of each byte.
std::array<Value, 2> CodeFragments::pairs(Value low, Value high, int64_t lowShift, int64_t highShift) const {
  if (!high)
    return {centred(b.shift(low, -lowShift)), centred(b.shift(low, -lowShift - 8))};
  int64_t lowMask = (1 << layout.lowBits()) - 1, highMask = ((1 << layout.highBits) - 1) << layout.lowBits();
  Value codes = b.bitOr(b.bitAnd(b.shift(low, -lowShift), b.constant(inBytes(lowMask))),
                        b.bitAnd(b.shift(high, layout.lowBits() - highShift), b.constant(inBytes(highMask))));
  return {centred(codes), centred(b.shift(codes, -8))};
}

std::array<Value, 2> CodeFragments::floats(Value pair) const {
  std::array<Value, 2> numbers = {b.element(pair, 0), b.element(pair, 1)};
  if (layout.scales != PackedScales::F32)
    numbers = {b.floatOfHalf(numbers[0]), b.floatOfHalf(numbers[1])};
  return numbers;
}

// An unsigned byte in the mantissa of 2^23.
Value CodeFragments::floatOfByte(Value bytes, int64_t row) const {
  Value byte = row ? b.shift(bytes, -8) : b.bitAnd(bytes, b.constant(255));
  return b.floatOfBits(b.bitOr(byte, b.constant(bitsOf2To23)));
}

void CodeFragments::scale(Block &block, Value scales, Value mins, Value nestedScales, Value nestedMins) const {
  block.scale = floats(scales);
  if (mins)
    block.min = floats(mins);
  if (nestedScales) {
    double bias = 8388608;
    if (layout.hasNibbleScales) {
      nestedMins = b.bitAnd(b.shift(nestedScales, -4), b.constant(0x0f0f));
      nestedScales = b.bitAnd(nestedScales, b.constant(0x0f0f));
    } else { // signed
      bias += 128;
      for (Value *bytes : {&nestedScales, &nestedMins})
        if (*bytes)
          *bytes = b.bitXor(*bytes, b.constant(0x8080));
    }
    for (int64_t row = 0; row < 2; ++row) {
      auto nested = [&](Value of, Value bytes) {
        return b.mulF(of, b.subF(floatOfByte(bytes, row), b.constantF32(bias)));
      };
      block.scale[row] = nested(block.scale[row], nestedScales);
      if (mins)
        block.min[row] = nested(block.min[row], nestedMins);
    }
  }
  if (centre() == layout.zero)
    return;
  Value shift = b.constantF32(double(centre() - layout.zero));
  for (int64_t row = 0; row < 2; ++row)
    block.min[row] = mins ? b.fma(block.scale[row], shift, block.min[row]) : b.mulF(block.scale[row], shift);
}

SmallVector<CodeFragments::Block, 2> CodeFragments::unpack(ArrayRef<Value> &loaded) const {
  auto take = [&] {
    Value first = loaded.front();
    loaded = loaded.drop_front();
    return first;
  };
  auto rowsOf = [&](Value words, Value shift) {
    std::array<Value, 2> rows;
    for (int64_t row = 0; row < 2; ++row)
      rows[row] = shift ? b.shiftDown(b.element(words, row), shift) : b.element(words, row);
    return rows;
  };
  SmallVector<std::array<Value, 2>> low, high;
  for (int64_t i = 0; i < blocks() * lines(); ++i)
    low.push_back(rowsOf(take(), lowShift));
  for (int64_t i = 0; layout.highBits && i < groups(); ++i)
    high.push_back(rowsOf(take(), highShift));
  Value scales = take(), mins = layout.hasMin ? take() : Value();
  SmallVector<Value> nestedScales(blocks()), nestedMins(blocks());
  for (int64_t i = 0; layout.isNested() && i < blocks(); ++i)
    nestedScales[i] = take();
  for (int64_t i = 0; layout.isNested() && layout.hasMin && !layout.hasNibbleScales && i < blocks(); ++i)
    nestedMins[i] = take();
  SmallVector<Block, 2> result(blocks());
  int64_t perShare = layout.quadsPerShare(), perGroup = layout.blocksPerGroup();
  for (auto [i, block] : llvm::enumerate(result)) {
    for (int64_t quad = 0; quad < layout.block / 4; quad += 4) {
      int64_t inGroup = int64_t(i) % perGroup * (layout.block / 4) + quad;
      std::array<Value, 2> rows[2];
      for (int64_t row = 0; row < 2; ++row)
        rows[row] = pairs(low[int64_t(i) * lines() + quad % perShare / 4][row],
                          layout.highBits ? high[int64_t(i) / perGroup][row] : Value(),
                          quad / perShare * layout.lowBits(), inGroup * layout.highBits);
      block.fragments.push_back({rows[0][0], rows[1][0], rows[0][1], rows[1][1]});
    }
    scale(block, scales, mins, nestedScales[i], nestedMins[i]);
  }
  return result;
}
