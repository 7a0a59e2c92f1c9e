// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/cpu/WeightReader.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace heddle;

WeightReader::WeightReader(KernelBuilder &builder, const PackedLayout &layout, Value unit)
    : b(builder), layout(layout), unit(unit) {
  if (!layout.isQuantized())
    return;
  scales = loadScales(0);
  if (layout.hasMin)
    mins = loadScales(layout.minOffset());
}

Value WeightReader::loadScales(int64_t offset) {
  Value address = b.at(unit, offset);
  if (layout.wideScales)
    return b.load(b.v16f32, address);
  return arith::ExtFOp::create(b, b.v16f32, b.load(b.vec(16, b.f16), address));
}

Value WeightReader::codes(int64_t group) {
  bool nibbles = layout.numbers == PackedNumbers::U4;
  int64_t groups = layout.block / (nibbles ? 8 : 4), stored = group % groups;
  if (stored != cachedGroup) {
    cached = b.load(b.v16i32, b.at(unit, layout.codeOffset() + 64 * stored));
    cachedGroup = stored;
  }
  return nibbles ? b.maskBits(b.shiftRight(cached, group < groups ? 0 : 4), 0x0f0f0f0f) : cached;
}

Value WeightReader::column(int64_t i) {
  if (layout.numbers == PackedNumbers::F32)
    return b.load(b.v16f32, unit);
  if (layout.isQuantized()) {
    Value code = b.shiftRight(codes(i / 4), i % 4 * 8);
    if (i % 4 != 3)
      code = b.maskBits(code, 0xff);
    if (layout.zero)
      code = b.sub(code, b.splatInt(layout.zero));
    Value centred = b.toFloat(code);
    return layout.hasMin ? b.fma(scales, centred, mins) : b.mul(scales, centred);
  }
  // Two 16-bit values in each lane, the even column in the low half.
  if (cachedGroup < 0) {
    cached = b.load(b.v16i32, unit);
    cachedGroup = 0;
  }
  if (layout.numbers == PackedNumbers::BF16)
    return b.bitcast(b.v16f32, i ? b.maskBits(cached, 0xffff0000)
                                 : arith::ShLIOp::create(b, cached, b.splatInt(16)).getResult());
  Value half = arith::TruncIOp::create(b, b.vec(16, b.i16), b.shiftRight(cached, i ? 16 : 0));
  return arith::ExtFOp::create(b, b.v16f32, b.bitcast(b.vec(16, b.f16), half));
}
