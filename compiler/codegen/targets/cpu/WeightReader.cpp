// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/targets/cpu/WeightReader.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace heddle;

BlockReader::BlockReader(KernelBuilder &builder, const PackedLayout &layout, Value block, const CpuTarget &target)
    : b(builder), layout(layout), block(block), scales(loadScales(0)), hasLookup(target.hasAvx512()) {
  if (layout.hasMin)
    mins = loadScales(layout.minOffset());
}

Value BlockReader::loadScales(int64_t offset) {
  Value address = b.at(block, offset);
  if (layout.wideScales)
    return b.load(b.v16f32, address);
  return arith::ExtFOp::create(b, b.v16f32, b.load(b.vec(16, b.f16), address));
}

Value BlockReader::codesAddress() {
  return b.at(block, layout.codeOffset());
}

Value BlockReader::loadQuad(Value quad) {
  return b.load(b.v16i32, b.at(codesAddress(), b.mul(quad, 4 * PackedLayout::panelRows)));
}

Value BlockReader::codes(Value stored, int64_t half) {
  return numHalves(layout) == 2 ? b.maskBits(b.shiftRight(stored, 4 * half), 0x0f0f0f0f) : stored;
}

// code - zero as a number. A lookup takes the bits of a lane that it does not read as they are, and converts nothing.
Value BlockReader::centredCode(Value stored, int64_t half, int64_t j) {
  bool isNibble = layout.numbers == PackedNumbers::U4;
  Value code = b.shiftRight(stored, 8 * j + (isNibble ? 4 * half : 0));
  if (isNibble && hasLookup) {
    SmallVector<float> numbers;
    for (int64_t value = 0; value < 16; ++value)
      numbers.push_back(float(value - layout.zero));
    Value table = arith::ConstantOp::create(b, b.getF32VectorAttr(numbers));
    return b.intrinsic("llvm.x86.avx512.permvar.sf.512", b.v16f32, {table, code});
  }
  if (isNibble || j != 3)
    code = b.maskBits(code, isNibble ? 0xf : 0xff);
  if (layout.zero)
    code = b.sub(code, b.splatInt(layout.zero));
  return b.toFloat(code);
}

Value BlockReader::column(Value stored, int64_t half, int64_t j) {
  Value centred = centredCode(stored, half, j);
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
