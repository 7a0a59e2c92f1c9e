// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/targets/cpu/WeightReader.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace heddle;

static constexpr int64_t quadBytes = 4 * PackedLayout::panelRows, mantissaBits = 23;
static constexpr uint32_t everyByte = 0x01010101;

BlockReader BlockReader::inPanel(KernelBuilder &builder, const PackedLayout &layout, Value panel, Value index,
                                 const CpuTarget &target) {
  int64_t perUnit = layout.blocksPerUnit();
  Value unit = perUnit == 1 ? index : builder.divide(index, perUnit);
  Value number = perUnit == 1 ? builder.index(0) : builder.sub(index, builder.mul(unit, perUnit));
  return BlockReader(builder, layout, builder.at(panel, builder.mul(unit, layout.unitBytes())), number, target);
}

BlockReader::BlockReader(KernelBuilder &builder, const PackedLayout &layout, Value unit, Value number,
                         const CpuTarget &target)
    : b(builder), layout(layout), target(target), unit(unit), number(number) {
  int64_t perGroup = layout.blocksPerGroup();
  Value groupIndex = perGroup == 1 ? number : b.divide(number, perGroup);
  Value inGroup = perGroup == 1 ? b.index(0) : b.sub(number, b.mul(groupIndex, perGroup));
  Value group = b.at(b.at(unit, b.mul(groupIndex, layout.groupBytes())), layout.headerBytes());
  low = b.at(group, b.mul(inGroup, layout.lowBytes()));
  if (layout.highBits) {
    high = b.load(b.v16i32, b.at(group, perGroup * layout.lowBytes()));
    if (perGroup > 1) {
      Value shift = b.mul(inGroup, int64_t(layout.block / 4) * layout.highBits);
      high = arith::ShRUIOp::create(b, high, b.splat(arith::TruncIOp::create(b, b.i32, shift)));
    }
  }
  scales = ownScales = loadScales(0);
  if (layout.hasMin)
    mins = ownMins = loadScales(layout.minOffset());
  if (!layout.isNested())
    return;
  Value ofScales = loadNested(layout.nestedScaleOffset()), ofMins;
  if (layout.hasNibbleScales) {
    ofMins = b.shiftRight(ofScales, 4);
    ofScales = b.maskBits(ofScales, 15);
  } else if (layout.hasMin) {
    ofMins = loadNested(layout.nestedMinOffset());
  }
  unitScales = scales;
  ownScales = b.toFloat(ofScales);
  scales = b.mul(unitScales, ownScales);
  if (!layout.hasMin)
    return;
  unitMins = mins;
  ownMins = b.toFloat(ofMins);
  mins = b.mul(unitMins, ownMins);
}

// Of the whole unit.
Value BlockReader::loadScales(int64_t offset) {
  Value stored = loadStoredScales(b.at(unit, offset));
  return layout.scaleShift ? b.mul(stored, b.splatReal(layout.scaleFactor())) : stored;
}

Value BlockReader::loadStoredScales(Value address) {
  switch (layout.scales) {
  case PackedScales::F32:
    return b.load(b.v16f32, address);
  case PackedScales::BF16: {
    Value bits = arith::ExtUIOp::create(b, b.v16i32, b.load(b.vec(16, b.i16), address));
    return b.bitcast(b.v16f32, arith::ShLIOp::create(b, bits, b.splatInt(16)));
  }
  case PackedScales::F16:
  case PackedScales::Shared:
  case PackedScales::Nested:
    return arith::ExtFOp::create(b, b.v16f32, b.load(b.vec(16, b.f16), address));
  case PackedScales::None:
    break;
  }
  llvm_unreachable("a kind of scales");
}

// The block's own integers.
Value BlockReader::loadNested(int64_t offset) {
  Value bytes = b.load(b.vec(16, b.i8), b.at(b.at(unit, b.mul(number, PackedLayout::panelRows)), offset));
  return layout.hasNibbleScales ? arith::ExtUIOp::create(b, b.v16i32, bytes).getResult()
                                : arith::ExtSIOp::create(b, b.v16i32, bytes).getResult();
}

// Every line of a unit once, in equal shares of its blocks: one that nobody asks for is waited for, and a header lies between the codes of two
// units, so that asking ahead of the codes alone leaves out as many lines of each unit.
void BlockReader::prefetch(const Prefetch &ahead, int64_t streams) {
  int64_t distance = ahead.bytes / streams;
  if (!distance)
    return;
  int64_t lines = llvm::divideCeil(layout.unitBytes(), 64);
  int64_t perBlock = ahead.everyBlock ? 1 : llvm::divideCeil(lines, layout.blocksPerUnit());
  Value offset = b.add(b.mul(number, perBlock * 64), distance);
  Value first = b.at(unit, offset);
  for (int64_t line = 0; line < perBlock; ++line)
    b.prefetch(b.at(first, line * 64), ahead.cache);
}

BlockReader::Quad BlockReader::loadQuad(Value quad) {
  return {quad, b.load(b.v16i32, b.at(low, b.mul(quad, quadBytes)))};
}

Value BlockReader::codes(const Quad &quad, int64_t share) {
  int64_t bits = layout.lowBits();
  if (bits == 8)
    return quad.low;
  Value codes = b.maskBits(b.shiftRight(quad.low, bits * share), everyByte * ((1 << bits) - 1));
  if (layout.highBits) {
    Value ofQuad = b.maskBits(highOf(quad, share), everyByte * (((1 << layout.highBits) - 1) << bits));
    codes = arith::OrIOp::create(b, codes, ofQuad);
  }
  return layout.book == CodeBook::None ? codes : lookUp(codes);
}

// The high bits of a quad, above where the low ones lie in each byte; what is beside them belongs to others.
Value BlockReader::highOf(const Quad &quad, int64_t share) {
  Value shift = b.mul(b.add(quad.number, share * layout.quadsPerShare()), layout.highBits);
  Value ofQuad = arith::ShRUIOp::create(b, high, b.splat(arith::TruncIOp::create(b, b.i32, shift)));
  return arith::ShLIOp::create(b, ofQuad, b.splatInt(layout.lowBits()));
}

// The codes, and above them in their bytes whatever is there: their reader takes `codeBits` of each.
Value BlockReader::looseCodes(const Quad &quad, int64_t share) {
  int64_t bits = layout.lowBits();
  Value low = b.shiftRight(quad.low, bits * share);
  if (!layout.highBits)
    return low;
  uint32_t mask = everyByte * ((1 << bits) - 1);
  return arith::OrIOp::create(b, b.maskBits(low, mask), b.maskBits(highOf(quad, share), ~mask));
}

// Each byte, a code, replaced by the entry of the code book plus zero.
Value BlockReader::lookUp(Value codes) {
  SmallVector<int8_t> entries;
  for (int64_t byte = 0; byte < 64; ++byte)
    entries.push_back(int8_t(entriesOf(layout.book)[byte % 16] + layout.zero));
  int64_t lanes = target.vectorLanes();
  return b.inParts(lanes, codes, [&](ArrayRef<Value> part) -> Value {
    VectorType bytes = b.vec(4 * lanes, b.i8);
    Value table = arith::ConstantOp::create(b, DenseElementsAttr::get(bytes, ArrayRef(entries).take_front(4 * lanes)));
    StringRef name = target.isAArch64() ? "llvm.aarch64.neon.tbl1.v16i8"
                     : lanes == 16      ? "llvm.x86.avx512.pshuf.b.512"
                                        : "llvm.x86.avx2.pshuf.b";
    return b.bitcast(b.vec(lanes, b.i32), b.intrinsic(name, bytes, {table, b.bitcast(bytes, part[0])}));
  });
}

// Whether code - zero is an entry of a table of 16 or 32 numbers, whose instruction takes as many bits of a lane as it needs and converts nothing.
bool BlockReader::readsTable() const {
  return target.hasAvx512() && layout.codeBits() <= 5;
}

Value BlockReader::lookUpNumber(Value index) {
  SmallVector<float> numbers;
  for (int64_t entry = 0; entry < 32; ++entry) {
    int64_t code = entry & ((1 << layout.codeBits()) - 1);
    numbers.push_back(layout.book == CodeBook::None ? float(code - layout.zero) : float(entriesOf(layout.book)[code]));
  }
  auto table = [&](int64_t first) -> Value {
    return arith::ConstantOp::create(b, b.getF32VectorAttr(ArrayRef(numbers).slice(first, 16)));
  };
  if (layout.codeBits() < 5)
    return b.intrinsic("llvm.x86.avx512.permvar.sf.512", b.v16f32, {table(0), index});
  return b.intrinsic("llvm.x86.avx512.vpermi2var.ps.512", b.v16f32, {table(0), index, table(16)});
}

// Whether scale * (code - zero) is computed as scale * (2^biasBits + code) - scale * (2^biasBits + zero), rounded once as well: what is subtracted is
// exact, at most 18 bits of a scale made of f16 by 6, or 16 of one by 5 and 8 of 2^biasBits + zero, and no such scale overflows. AArch64 converts in as
// many instructions.
bool BlockReader::readsBiased() const {
  bool isOfHalves = layout.scales == PackedScales::F16 || layout.scales >= PackedScales::Shared;
  return isOfHalves && !layout.hasMin && !target.isAArch64();
}

// 2^biasBits is a power of two that no code reaches; where 7 bits are enough, the third byte of a lane needs no shift.
static int64_t biasBits(const PackedLayout &layout) {
  return layout.maxCode < 128 ? 7 : 8;
}

// 2^biasBits + code as a number, put together from its bits: those of the code are the upper ones of the mantissa.
Value BlockReader::biasedCode(const Quad &quad, int64_t share, int64_t j) {
  bool hasEntries = layout.book != CodeBook::None;
  int64_t bits = hasEntries ? biasBits(layout) : layout.codeBits(), from = 8 * j, to = mantissaBits - biasBits(layout);
  Value code = hasEntries ? codes(quad, share) : looseCodes(quad, share);
  if (to < from)
    code = b.shiftRight(code, from - to);
  else if (from < to)
    code = arith::ShLIOp::create(b, code, b.splatInt(to - from));
  uint32_t bias = (127 + biasBits(layout)) << mantissaBits;
  code = b.maskBits(code, ((1u << bits) - 1) << to);
  return b.bitcast(b.v16f32, arith::OrIOp::create(b, code, b.splatInt(bias)));
}

// code - zero as a number.
Value BlockReader::centredCode(const Quad &quad, int64_t share, int64_t j) {
  if (readsTable())
    return lookUpNumber(b.shiftRight(looseCodes(quad, share), 8 * j));
  Value code = b.shiftRight(codes(quad, share), 8 * j);
  if (j != 3)
    code = b.maskBits(code, 0xff);
  if (layout.zero)
    code = b.sub(code, b.splatInt(layout.zero));
  return b.toFloat(code);
}

Value BlockReader::column(const Quad &quad, int64_t share, int64_t j) {
  if (!readsTable() && readsBiased()) {
    int64_t biasedZero = (1 << biasBits(layout)) + layout.zero;
    return b.fma(scales, biasedCode(quad, share, j), b.mul(scales, b.splatReal(-float(biasedZero))));
  }
  Value centred = centredCode(quad, share, j);
  return layout.hasMin ? b.fma(scales, centred, mins) : b.mul(scales, centred);
}

SmallVector<Value> heddle::readPlainUnit(KernelBuilder &b, const PackedLayout &layout, Value unit) {
  if (layout.numbers == PackedNumbers::F32)
    return {b.load(b.v16f32, unit)};
  // Two 16-bit values in each lane, the even column in the low half.
  Value pairs = b.load(b.v16i32, unit);
  if (layout.numbers == PackedNumbers::BF16)
    return {b.bitcast(b.v16f32, arith::ShLIOp::create(b, pairs, b.splatInt(16))),
            b.bitcast(b.v16f32, b.maskBits(pairs, 0xffff0000))};
  SmallVector<Value> columns;
  for (uint32_t shift : {0, 16}) {
    Value half = arith::TruncIOp::create(b, b.vec(16, b.i16), b.shiftRight(pairs, shift));
    columns.push_back(arith::ExtFOp::create(b, b.v16f32, b.bitcast(b.vec(16, b.f16), half)));
  }
  return columns;
}
