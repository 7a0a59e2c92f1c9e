// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/targets/cpu/Dequantize.h"

#include "compiler/codegen/kernel/KernelCalls.h"
#include "compiler/codegen/kernel/KernelSignatures.h"
#include "compiler/codegen/targets/cpu/CpuKernels.h"
#include "compiler/codegen/targets/cpu/KernelBuilder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

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
  void copyBlock(Value unit, Value number, Value out);
  Value loadScale(Value scales);
  Value loadStoredScale(Value address);
  Value loadCodes(Value unit, Value number, int64_t quad);
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
  if (layout.isQuantized())
    return b.loop(b.index(0), b.index(spec.k / layout.unitValues()), 1, [&](Value unit) {
      Value from = b.at(panel, b.mul(unit, layout.unitBytes()));
      b.loop(b.index(0), b.index(layout.blocksPerUnit()), 1, [&](Value number) {
        Value block = b.add(b.mul(unit, layout.blocksPerUnit()), number);
        copyBlock(from, number, b.at(out, b.mul(block, int64_t(4) * layout.block)));
      });
    });
  int64_t values = layout.unitValues(), units = spec.k / values;
  b.loop(b.index(0), b.index(units), 1, [&](Value unit) {
    copyPlain(b.at(panel, b.mul(unit, layout.unitBytes())), values, b.at(out, b.mul(unit, 4 * values)));
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
  Value stored = loadStoredScale(b.at(scales, b.mul(lane, layout.scaleBytes())));
  return layout.scaleShift ? b.mul(stored, b.real(layout.scaleFactor())) : stored;
}

Value RowReader::loadStoredScale(Value address) {
  if (layout.scales == PackedScales::F32)
    return b.load(b.f32, address);
  if (layout.scales != PackedScales::BF16)
    return arith::ExtFOp::create(b, b.f32, b.load(b.f16, address));
  Value bits = arith::ExtUIOp::create(b, b.i32, b.load(b.i16, address));
  return b.bitcast(b.f32, arith::ShLIOp::create(b, bits, b.int32(16)));
}

// The codes of quad `quad` of block `number` of a unit, as vector<4xi32>.
Value RowReader::loadCodes(Value unit, Value number, int64_t quad) {
  int64_t perGroup = layout.blocksPerGroup(), lineBytes = 4 * lanes;
  Value groupIndex = b.divide(number, perGroup), inGroup = b.sub(number, b.mul(groupIndex, perGroup));
  Value group = b.at(b.at(unit, b.mul(groupIndex, layout.groupBytes())), layout.headerBytes());
  Value line = b.at(group, b.mul(lane, 4));
  Value bytes = arith::ConstantOp::create(b, b.getI32VectorAttr({0, 8, 16, 24}));
  // Bits [shift, shift + bits) of each of the four bytes at `address`.
  auto fieldsOf = [&](Value address, Value shift, int64_t bits) -> Value {
    Value shifts = b.add(bytes, b.splat(shift, 4));
    Value fields = arith::ShRUIOp::create(b, b.splat(b.load(b.i32, address, 2), 4), shifts);
    return arith::AndIOp::create(b, fields, b.splatInt((1 << bits) - 1, 4));
  };
  int64_t share = quad / layout.quadsPerShare(), inShare = quad % layout.quadsPerShare();
  Value low = b.at(b.at(line, b.mul(inGroup, layout.lowBytes())), inShare * lineBytes);
  Value codes = fieldsOf(low, b.int32(int32_t(share * layout.lowBits())), layout.lowBits());
  if (layout.highBits) {
    Value place = b.mul(b.add(b.mul(inGroup, layout.block / 4), quad), layout.highBits);
    Value high =
        fieldsOf(b.at(line, perGroup * layout.lowBytes()), arith::TruncIOp::create(b, b.i32, place), layout.highBits);
    codes = arith::OrIOp::create(b, codes, arith::ShLIOp::create(b, high, b.splatInt(layout.lowBits(), 4)));
  }
  return codes;
}

void RowReader::copyBlock(Value unit, Value number, Value out) {
  auto nested = [&](int64_t offset) {
    return b.load(b.i8, b.at(b.at(b.at(unit, b.mul(number, lanes)), lane), offset));
  };
  auto times = [&](Value scale, Value integer) {
    return b.mul(scale, arith::SIToFPOp::create(b, b.f32, integer).getResult());
  };
  Value scale = loadScale(unit), min = layout.hasMin ? loadScale(b.at(unit, layout.minOffset())) : Value();
  if (layout.hasNibbleScales) {
    Value both = arith::ExtUIOp::create(b, b.i32, nested(layout.nestedScaleOffset()));
    scale = times(scale, arith::AndIOp::create(b, both, b.int32(15)));
    min = times(min, arith::ShRUIOp::create(b, both, b.int32(4)));
  } else if (layout.isNested()) {
    scale = times(scale, nested(layout.nestedScaleOffset()));
    if (layout.hasMin)
      min = times(min, nested(layout.nestedMinOffset()));
  }
  for (int64_t quad = 0; quad < layout.block / 4; ++quad) {
    Value codes = loadCodes(unit, number, quad);
    Value centred;
    if (layout.book == CodeBook::None) {
      centred = b.toFloat(b.sub(codes, b.splatInt(layout.zero, 4)));
    } else {
      SmallVector<float> entries(entriesOf(layout.book), entriesOf(layout.book) + 16);
      Value table = arith::ConstantOp::create(b, b.getF32VectorAttr(entries));
      centred = arith::ConstantOp::create(b, b.getF32VectorAttr({0, 0, 0, 0}));
      for (int64_t j = 0; j < 4; ++j) {
        Value code = arith::IndexCastUIOp::create(b, b.getIndexType(), vector::ExtractOp::create(b, codes, j));
        centred = vector::InsertOp::create(b, vector::ExtractOp::create(b, table, code), centred, j);
      }
    }
    Value scales = b.splat(scale, 4);
    Value values = layout.hasMin ? b.fma(scales, centred, b.splat(min, 4)) : b.mul(scales, centred);
    b.store(scaled(values), b.at(out, 16 * quad));
  }
}

func::FuncOp heddle::buildEmbedding(ModuleOp module, StringRef name, const EmbeddingSpec &spec) {
  unsigned form = spec.given ? EmbeddingCall::Given : EmbeddingCall::Plain;
  KernelBuilder b(module, name, parameterTypes<EmbeddingCall>(module.getContext(), form));
  auto call = argumentsOf<EmbeddingCall>(b.function, form);
  auto copyRow = [&](Value id, Value out) {
    Value panel = b.divide(id, lanes);
    Value lane = b.sub(id, b.mul(panel, lanes));
    RowReader reader(b, spec, b.at(call.weights, b.mul(panel, spec.layout.panelBytes(spec.k))), lane);
    reader.copyTo(out);
  };
  auto copyGiven = [&](Value id, Value out) {
    Value from = b.at(call.given, b.mul(b.sub(id, b.index(spec.given)), 4 * spec.k));
    b.loop(b.index(0), b.index(spec.k), 1, [&](Value column) {
      Value offset = b.mul(column, 4);
      b.store(b.load(b.f32, b.at(from, offset)), b.at(out, offset));
    });
  };
  b.loop(call.rowBegin, call.rowEnd, 1, [&](Value row) {
    Value id = arith::ExtUIOp::create(b, b.i64, b.load(b.i32, b.at(call.ids, b.mul(row, 4))));
    Value out = b.at(call.out, b.mul(b.mul(row, call.outStride), 4));
    if (spec.given)
      b.branch(b.lessThan(id, b.index(spec.given)), [&] { copyRow(id, out); }, [&] { copyGiven(id, out); });
    else
      copyRow(id, out);
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
