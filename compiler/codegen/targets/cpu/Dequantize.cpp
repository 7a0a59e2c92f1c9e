// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/targets/cpu/Dequantize.h"

#include "compiler/codegen/kernel/KernelCalls.h"
#include "compiler/codegen/kernel/KernelSignatures.h"
#include "compiler/codegen/targets/cpu/CpuKernels.h"
#include "compiler/codegen/targets/cpu/KernelBuilder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace heddle;

static constexpr int64_t lanes = PackedLayout::panelRows;

namespace {
// Reads one lane of a panel: a row of W.
class RowReader {
public:
  RowReader(KernelBuilder &b, const EmbeddingSpec &spec, Value panel, Value lane)
      : b(b), layout(spec.layout), spec(spec), panel(panel), lane(lane) {}

  void copyTo(Value out);

private:
  void copyPlain(Value unit, int64_t columns, Value out);
  void copyBlock(Value block, Value out);
  Value loadScale(Value address);
  Value scaled(Value values);

  KernelBuilder &b;
  const PackedLayout &layout;
  const EmbeddingSpec &spec;
  Value panel, lane;
};
} // namespace

Value RowReader::scaled(Value values) {
  if (spec.scale == 1)
    return values;
  Value scale = b.real(spec.scale);
  return b.mul(values, isa<VectorType>(values.getType()) ? b.splat(scale, 4) : scale);
}

void RowReader::copyTo(Value out) {
  int64_t values = layout.unitValues(), units = spec.k / values;
  b.loop(b.index(0), b.index(units), 1, [&](Value unit) {
    Value from = b.at(panel, b.mul(unit, layout.unitBytes())), to = b.at(out, b.mul(unit, 4 * values));
    layout.isQuantized() ? copyBlock(from, to) : copyPlain(from, values, to);
  });
  if (int64_t left = spec.k % values)
    copyPlain(b.at(panel, units * layout.unitBytes()), left, b.at(out, units * values * 4));
}

void RowReader::copyPlain(Value unit, int64_t columns, Value out) {
  Value address = b.at(unit, b.mul(lane, 4));
  for (int64_t i = 0; i < columns; ++i) {
    Value value;
    if (layout.numbers == PackedNumbers::F32) {
      value = b.load(b.f32, address);
    } else if (layout.numbers == PackedNumbers::F16) {
      value = arith::ExtFOp::create(b, b.f32, b.load(b.f16, b.at(address, 2 * i)));
    } else {
      Value bits = arith::ExtUIOp::create(b, b.i32, b.load(b.i16, b.at(address, 2 * i)));
      value = b.bitcast(b.f32, arith::ShLIOp::create(b, bits, b.int32(16)));
    }
    b.store(scaled(value), b.at(out, 4 * i));
  }
}

Value RowReader::loadScale(Value scales) {
  Value address = b.at(scales, b.mul(lane, layout.scaleBytes()));
  if (layout.wideScales)
    return b.load(b.f32, address);
  return arith::ExtFOp::create(b, b.f32, b.load(b.f16, address));
}

void RowReader::copyBlock(Value block, Value out) {
  Value scale = b.splat(loadScale(block), 4), min;
  if (layout.hasMin)
    min = b.splat(loadScale(b.at(block, layout.minOffset())), 4);
  Value shifts = arith::ConstantOp::create(b, b.getI32VectorAttr({0, 8, 16, 24}));
  bool nibbles = layout.numbers == PackedNumbers::U4;
  int64_t quads = layout.block / (nibbles ? 8 : 4);
  for (int64_t quad = 0; quad < layout.block / 4; ++quad) {
    Value address = b.at(b.at(block, b.mul(lane, 4)), layout.codeOffset() + 4 * lanes * (quad % quads));
    Value bytes = arith::ShRUIOp::create(b, b.splat(b.load(b.i32, address, 2), 4), shifts);
    if (quad >= quads)
      bytes = arith::ShRUIOp::create(b, bytes, b.splatInt(4, 4));
    Value codes = arith::AndIOp::create(b, bytes, b.splatInt(nibbles ? 15 : 255, 4));
    Value centred = b.toFloat(b.sub(codes, b.splatInt(layout.zero, 4)));
    Value values = layout.hasMin ? b.fma(scale, centred, min) : b.mul(scale, centred);
    b.store(scaled(values), b.at(out, 16 * quad));
  }
}

func::FuncOp heddle::buildEmbedding(ModuleOp module, StringRef name, const EmbeddingSpec &spec) {
  KernelBuilder b(module, name, parameterTypes<EmbeddingCall>(module.getContext()));
  auto call = argumentsOf<EmbeddingCall>(b.function);
  b.loop(call.rowBegin, call.rowEnd, 1, [&](Value row) {
    Value id = arith::ExtUIOp::create(b, b.i64, b.load(b.i32, b.at(call.ids, b.mul(row, 4))));
    Value panel = b.divide(id, lanes);
    Value lane = b.sub(id, b.mul(panel, lanes));
    RowReader reader(b, spec, b.at(call.weights, b.mul(panel, spec.layout.panelBytes(spec.k))), lane);
    reader.copyTo(b.at(call.out, b.mul(b.mul(row, call.outStride), 4)));
  });
  return b.finish();
}

namespace {

class Dequantize : public KernelEmitterOf<DequantizeOp> {
public:
protected:
  FailureOr<std::string> nameOf(DequantizeOp op) const override { return signatureOf(op, /*countsRows=*/false); }
  FailureOr<Kernels> build(DequantizeOp op, ScheduleAttr schedule, StringRef name,
                           KernelModule &module) const override {
    FailureOr<EmbeddingSpec> spec = specOf(op);
    if (failed(spec))
      return failure();
    return oneKernel(module.once(name, [&] { return buildEmbedding(module.code, name, *spec); }));
  }
};

} // namespace

std::unique_ptr<KernelEmitter> heddle::cpu::dequantize() {
  return std::make_unique<Dequantize>();
}
