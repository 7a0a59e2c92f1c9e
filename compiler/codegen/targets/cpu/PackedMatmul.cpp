// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/targets/cpu/PackedMatmul.h"

#include "compiler/codegen/kernel/KernelSignatures.h"
#include "compiler/codegen/kernel/VectorMath.h"
#include "compiler/codegen/targets/cpu/CpuKernels.h"
#include "compiler/codegen/targets/cpu/MatmulEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace heddle;

MatmulEmitter::MatmulEmitter(ModuleOp module, StringRef name, const MatmulSpec &spec, ScheduleAttr schedule,
                             const CpuTarget &target)
    : b(module, name, parameterTypes<MatmulCall>(module.getContext(), formOf(spec))), spec(spec), target(target),
      tiles(tilesOf(schedule)), pairs(b, target), call(argumentsOf<MatmulCall>(b.function, formOf(spec))),
      form(spec.activation), input(call.act), inputStride(call.actStride), outs({outOf(/*isMany=*/false)}) {
  panelsOfOneRow = tiles.int16.panels;
  if (!spec.isGated)
    return;
  for (MatmulTile *tile : {&tiles.floatFew, &tiles.floatMany, &tiles.tileUnit, &tiles.q8})
    tile->makePaired();
  // K passes for one panel after the other: the sums of one wait outside of the loop.
  tiles.int16.panels = std::max<int64_t>(tiles.int16.panels / 2 * 2, 2);
}

void MatmulEmitter::forPanels(int64_t panels, function_ref<void(Value, int64_t)> body) {
  int64_t least = spec.isGated ? 2 : 1;
  int64_t most = std::max(panels / least * least, least);
  Value begin = b.mul(call.panelBegin, least), end = b.mul(call.panelEnd, least);
  Value whole = b.wholeSteps(begin, end, most);
  b.loop(begin, whole, most, [&](Value panel) { body(panel, most); });
  if (most > least)
    b.loop(whole, end, least, [&](Value panel) { body(panel, least); });
}

void MatmulEmitter::forRows(ArrayRef<int64_t> heights, Value begin, Value end,
                            function_ref<void(Value, int64_t)> body) {
  for (int64_t height : heights) {
    Value whole = b.wholeSteps(begin, end, height);
    b.loop(begin, whole, height, [&](Value row) { body(row, height); });
    begin = whole;
  }
}

Value MatmulEmitter::panelAddress(Value panel) {
  return b.at(call.weights, b.mul(panel, spec.layout.panelBytes(spec.k)));
}

Value MatmulEmitter::indirect(Value row) {
  return arith::ExtUIOp::create(b, b.i64, b.load(b.i32, b.at(call.rowIndex, b.mul(row, 4))));
}

Value MatmulEmitter::storedRow(Value row) {
  return spec.rows == MatmulRows::Gathered ? indirect(row) : row;
}

Value MatmulEmitter::activationRow(Value row) {
  int64_t width = form == MatmulActivation::Q8 ? 1 : activationBytes();
  return b.at(input, b.mul(b.mul(storedRow(row), inputStride), width));
}

void MatmulEmitter::emit() {
  if (form == MatmulActivation::Q8)
    return emitQ8();
  spec.int16FewRows ? emitByRows() : emitFloat();
}

MatmulEmitter::Destination MatmulEmitter::outOf(bool isMany) {
  if (isMany)
    return {call.outRounded, call.outRoundedStride, 2};
  return {call.out, call.outStride, spec.isOutRounded ? 2 : 4};
}

// Few rows wait for memory and many for arithmetic. Where what is many to the reader of the result is few here, or the other way round, both of its
// destinations are written.
void MatmulEmitter::emitByRows() {
  int64_t above = tiles.int16MaxRows;
  auto setOuts = [&](bool hasFew, bool hasMany) {
    outs.clear();
    for (bool isMany : {false, true})
      if (isMany ? hasMany : hasFew)
        outs.push_back(outOf(isMany));
  };
  auto emitFew = [&] {
    setOuts(true, spec.roundedAbove && (!above || spec.roundedAbove < above));
    emitInt16();
  };
  auto emitMany = [&] {
    setOuts(spec.roundedAbove == 0 || above < spec.roundedAbove, spec.roundedAbove > 0);
    if (!tiles.words.heights.empty())
      return emitWords();
    if (spec.hasRounded) {
      form = MatmulActivation::Bf16;
      input = call.rounded;
      inputStride = call.roundedStride;
    }
    emitFloat();
  };
  if (!above)
    return emitFew();
  Value isMany = b.lessThan(b.index(above), call.rows);
  Value isFree = b.lessThan(call.isFixed, b.index(1));
  b.branch(arith::AndIOp::create(b, isMany, isFree), emitMany, emitFew);
}

SmallVector<Value> MatmulEmitter::zeros(int64_t count) {
  return Values(count, b.splatReal(0));
}

void MatmulEmitter::storeRow(ValuesRef sums, Value panel, Value row) {
  if (spec.isGated) {
    for (int64_t p = 0; p < int64_t(sums.size()); p += 2)
      storeGated(sums[p], sums[p + 1], b.divide(b.add(panel, p), 2), row);
    return;
  }
  for (auto [p, sum] : llvm::enumerate(sums))
    storePanel(sum, b.add(panel, p), row);
}

// Biases of the gate's rows stand before those of the up projection's, or beside them.
void MatmulEmitter::storeGated(Value gate, Value up, Value panel, Value row) {
  constexpr int64_t lanes = PackedLayout::panelRows;
  Value column = b.mul(panel, lanes), mask = lanesOf(column);
  gate = scaled(gate, row);
  up = scaled(up, row);
  if (spec.hasBias) {
    Value first = spec.alternates ? b.mul(column, 2) : column;
    gate = b.add(gate, loadLanes(b.at(call.bias, b.mul(first, 4)), mask));
    up = b.add(up, loadLanes(b.at(call.bias, b.mul(b.add(first, spec.alternates ? lanes : spec.n), 4)), mask));
  }
  if (spec.alternates) {
    SmallVector<int64_t> even, odd;
    for (int64_t lane = 0; lane < lanes; ++lane) {
      even.push_back(2 * lane);
      odd.push_back(2 * lane + 1);
    }
    Value first = gate, second = up;
    gate = vector::ShuffleOp::create(b, first, second, even);
    up = vector::ShuffleOp::create(b, first, second, odd);
  }
  if (const GatingSpec &gating = spec.gating; gating.limit > 0) {
    gate = arith::MinimumFOp::create(b, gate, b.splatReal(gating.limit));
    up = arith::MinimumFOp::create(b, up, b.splatReal(gating.limit));
    up = arith::MaximumFOp::create(b, up, b.splatReal(-gating.limit));
    up = b.add(up, b.splatReal(gating.offset));
    gate = b.mul(activate(b.mul(gate, b.splatReal(gating.alpha))), b.splatReal(1 / gating.alpha));
  } else {
    gate = activate(gate);
  }
  storeLanes(b.mul(gate, up), row, panel, mask);
}

Value MatmulEmitter::rowScale(Value row) {
  return b.splat(b.load(b.f32, b.at(call.rowScale, b.mul(row, 4))));
}

// A product is linear: its sum is scaled where its input should be.
Value MatmulEmitter::scaled(Value sum, Value row) {
  return spec.scalesInput && spec.rows == MatmulRows::Gathered ? b.mul(sum, rowScale(row)) : sum;
}

Value MatmulEmitter::activate(Value x) {
  switch (spec.epilogue) {
  case MatmulEpilogue::None:
    return x;
  case MatmulEpilogue::Silu:
    return b.mul(x, emitSigmoid(b, x));
  case MatmulEpilogue::Gelu:
    return b.mul(x, emitNormalDistribution(b, x));
  case MatmulEpilogue::GeluTanh: {
    // x / 2 (1 + tanh u) = x emitSigmoid(2 u) with u = sqrt(2 / pi) (x + 0.044715 x^3)
    Value cubic = b.fma(b.mul(b.mul(x, x), x), b.splatReal(0.044715f), x);
    return b.mul(x, emitSigmoid(b, b.mul(cubic, b.splatReal(1.5957691216057308f))));
  }
  case MatmulEpilogue::Relu:
    return arith::MaximumFOp::create(b, x, b.splatReal(0));
  case MatmulEpilogue::QuickGelu:
    return b.mul(x, emitSigmoid(b, b.mul(x, b.splatReal(1.702f))));
  case MatmulEpilogue::Tanh:
    return b.fma(emitSigmoid(b, b.mul(x, b.splatReal(2))), b.splatReal(2), b.splatReal(-1));
  case MatmulEpilogue::SquaredRelu: {
    Value positive = arith::MaximumFOp::create(b, x, b.splatReal(0));
    return b.mul(positive, positive);
  }
  }
  llvm_unreachable("an epilogue of the table");
}

// Those of a panel's lanes that are columns of W, where the last panel is not full; else nothing.
Value MatmulEmitter::lanesOf(Value column) {
  return spec.n % PackedLayout::panelRows ? b.lanesBelow(b.index(spec.n), column) : Value();
}

Value MatmulEmitter::loadLanes(Value from, Value mask) {
  return mask ? b.loadMasked(b.v16f32, from, mask) : b.load(b.v16f32, from);
}

// To all of `outs`: a panel's columns of row `row`.
void MatmulEmitter::storeLanes(Value sum, Value row, Value panel, Value mask) {
  for (const Destination &to : outs) {
    Value address = addressIn(to, row, panel), lanes = to.elementBytes == 2 ? pairs.round(sum) : sum;
    mask ? b.storeMasked(lanes, address, mask) : b.store(lanes, address);
  }
}

// Where a panel's columns of row `row` lie.
Value MatmulEmitter::addressIn(const Destination &to, Value row, Value panel) {
  Value element = b.add(b.mul(row, to.stride), b.mul(panel, PackedLayout::panelRows));
  return b.at(to.address, b.mul(element, to.elementBytes));
}

void MatmulEmitter::storePanel(Value sum, Value panel, Value row) {
  Value column = b.mul(panel, PackedLayout::panelRows);
  bool scattered = spec.rows == MatmulRows::Scattered;
  Value outRow = scattered ? indirect(row) : row;
  Value address = addressIn(outs.front(), outRow, panel);
  Value biasAddress = b.at(call.bias, b.mul(column, 4)), mask = lanesOf(column);
  sum = scaled(sum, row);
  if (spec.hasBias)
    sum = b.add(sum, loadLanes(biasAddress, mask));
  if (spec.epilogue != MatmulEpilogue::None)
    sum = activate(sum);
  if (scattered && !spec.scalesInput)
    sum = b.fma(rowScale(row), sum, loadLanes(address, mask));
  else if (scattered || spec.accumulate)
    sum = b.add(sum, loadLanes(address, mask));
  storeLanes(sum, outRow, panel, mask);
}

FailureOr<func::FuncOp> heddle::buildMatmul(ModuleOp module, StringRef name, const MatmulSpec &spec,
                                            ScheduleAttr schedule, const CpuTarget &target) {
  bool isInteger = spec.activation == MatmulActivation::Q8 || spec.int16FewRows;
  if (isInteger && (!spec.layout.isQuantized() || spec.k % 32 != 0))
    return module.emitError("kernel '") << name << "': integer activations need quantised weights and K (" << spec.k
                                        << ") a multiple of 32";
  bool bf16 = spec.activation == MatmulActivation::Bf16;
  bool fitsPairs = spec.layout.isQuantized() || spec.layout.numbers == PackedNumbers::BF16;
  if (bf16 && (!fitsPairs || spec.k % 2 != 0))
    return module.emitError("kernel '") << name << "': bf16 activations need bf16 or quantised weights and an even K ("
                                        << spec.k << ")";
  MatmulEmitter emitter(module, name, spec, schedule, target);
  emitter.emit();
  return emitter.finish();
}

namespace {

class PackedMatmul : public MatmulKernelEmitter<PackedMatmulOp> {
public:
  using MatmulKernelEmitter::MatmulKernelEmitter;

  bool canEmit(Operation *op, std::string &missing) const override {
    auto matmul = dyn_cast<PackedMatmulOp>(op);
    if (matmul && matmul.getRoom())
      missing = "that prepares its rows";
    return missing.empty();
  }
};

} // namespace

std::unique_ptr<KernelEmitter> heddle::cpu::packedMatmul(const CpuTarget &target) {
  return std::make_unique<PackedMatmul>(target);
}
