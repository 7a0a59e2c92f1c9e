// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/targets/cpu/WeightReader.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace heddle;

BlockReader::BlockReader(KernelBuilder &builder, const PackedLayout &layout, Value block)
    : b(builder), layout(layout), block(block), scales(loadScales(0)) {
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

Value BlockReader::column(Value codes, int64_t j) {
  Value code = b.shiftRight(codes, 8 * j);
  if (j != 3)
    code = b.maskBits(code, 0xff);
  if (layout.zero)
    code = b.sub(code, b.splatInt(layout.zero));
  Value centred = b.toFloat(code);
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
