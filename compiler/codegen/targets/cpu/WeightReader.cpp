// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/targets/cpu/WeightReader.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace heddle;

static constexpr int64_t quadBytes = 4 * PackedLayout::panelRows;

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
  Value address = b.at(unit, offset);
  switch (layout.scales) {
  case PackedScales::F32:
    return b.load(b.v16f32, address);
  case PackedScales::BF16: {
    Value bits = arith::ExtUIOp::create(b, b.v16i32, b.load(b.vec(16, b.i16), address));
    return b.bitcast(b.v16f32, arith::ShLIOp::create(b, bits, b.splatInt(16)));
  }
  case PackedScales::F16:
  case PackedScales::Nested:
    return arith::ExtFOp::create(b, b.v16f32, b.load(b.vec(16, b.f16), address));
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
  uint32_t everyByte = 0x01010101;
  Value codes = bits == 8 ? quad.low : b.maskBits(b.shiftRight(quad.low, bits * share), everyByte * ((1 << bits) - 1));
  if (layout.highBits) {
    Value shift = b.mul(b.add(quad.number, share * layout.quadsPerShare()), layout.highBits);
    Value ofQuad = arith::ShRUIOp::create(b, high, b.splat(arith::TruncIOp::create(b, b.i32, shift)));
    ofQuad = b.maskBits(ofQuad, everyByte * ((1 << layout.highBits) - 1));
    codes = arith::OrIOp::create(b, codes, arith::ShLIOp::create(b, ofQuad, b.splatInt(bits)));
  }
  return layout.book == CodeBook::None ? codes : lookUp(codes);
}

// Each byte, of 0 to 15, replaced by the entry of the code book plus zero.
Value BlockReader::lookUp(Value nibbles) {
  SmallVector<int8_t> entries;
  for (int64_t byte = 0; byte < 64; ++byte)
    entries.push_back(int8_t(entriesOf(layout.book)[byte % 16] + layout.zero));
  int64_t lanes = target.vectorLanes();
  return b.inParts(lanes, nibbles, [&](ArrayRef<Value> part) -> Value {
    VectorType bytes = b.vec(4 * lanes, b.i8);
    Value table = arith::ConstantOp::create(b, DenseElementsAttr::get(bytes, ArrayRef(entries).take_front(4 * lanes)));
    StringRef name = target.isAArch64() ? "llvm.aarch64.neon.tbl1.v16i8"
                     : lanes == 16      ? "llvm.x86.avx512.pshuf.b.512"
                                        : "llvm.x86.avx2.pshuf.b";
    return b.bitcast(b.vec(lanes, b.i32), b.intrinsic(name, bytes, {table, b.bitcast(bytes, part[0])}));
  });
}

// code - zero as a number. A lookup of 16 numbers reads the low four bits of a lane, takes the others as they are, and converts nothing.
Value BlockReader::centredCode(const Quad &quad, int64_t share, int64_t j) {
  int64_t bits = layout.lowBits();
  if (bits < 8 && !layout.highBits && target.hasAvx512()) {
    SmallVector<float> numbers;
    for (int code = 0; code < 16; ++code)
      numbers.push_back(float(layout.book == CodeBook::None ? (code & ((1 << bits) - 1)) - layout.zero
                                                            : entriesOf(layout.book)[code]));
    Value table = arith::ConstantOp::create(b, b.getF32VectorAttr(numbers));
    return b.intrinsic("llvm.x86.avx512.permvar.sf.512", b.v16f32,
                       {table, b.shiftRight(quad.low, 8 * j + bits * share)});
  }
  Value code = b.shiftRight(codes(quad, share), 8 * j);
  if (j != 3)
    code = b.maskBits(code, 0xff);
  if (layout.zero)
    code = b.sub(code, b.splatInt(layout.zero));
  return b.toFloat(code);
}

Value BlockReader::column(const Quad &quad, int64_t share, int64_t j) {
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
