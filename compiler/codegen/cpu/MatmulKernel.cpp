// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/cpu/MatmulKernel.h"

#include "compiler/codegen/cpu/MatmulEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

#include <numeric>

using namespace mlir;
using namespace heddle;

MatmulEmitter::MatmulEmitter(ModuleOp module, StringRef name, const MatmulSpec &spec, const CpuTarget &target)
    : b(module, name, "ppppppiiiii"), spec(spec), target(target), tiles(matmulTiles(target)) {
  Value *arguments[] = {&act,  &actScales, &actSums,   &weights,    &bias,    &out,
                        &rows, &actStride, &outStride, &panelBegin, &panelEnd};
  for (auto [position, argument] : llvm::enumerate(arguments))
    *argument = b.argument(position);
}

void MatmulEmitter::forPanels(int64_t panels, function_ref<void(Value, int64_t)> body) {
  Value whole = b.wholeSteps(panelBegin, panelEnd, panels);
  b.loop(panelBegin, whole, panels, [&](Value panel) { body(panel, panels); });
  if (panels > 1)
    b.loop(whole, panelEnd, 1, [&](Value panel) { body(panel, 1); });
}

void MatmulEmitter::forRows(ArrayRef<int64_t> heights, Value begin, Value end, function_ref<void(Value, int64_t)> body) {
  for (int64_t height : heights) {
    Value whole = b.wholeSteps(begin, end, height);
    b.loop(begin, whole, height, [&](Value row) { body(row, height); });
    begin = whole;
  }
}

Value MatmulEmitter::panelAddress(Value panel) {
  return b.at(weights, b.mul(panel, spec.layout.panelBytes(spec.k)));
}

Value MatmulEmitter::activationRow(Value row) {
  int64_t width = spec.activation == MatmulActivation::F32 ? 4 : 1;
  return b.at(act, b.mul(b.mul(row, actStride), width));
}

SmallVector<Value> MatmulEmitter::zeros(int64_t count) { return Values(count, b.splatReal(0)); }

void MatmulEmitter::storeResult(Value sum, Value panel, Value row) {
  constexpr int64_t lanes = PackedLayout::panelRows;
  Value column = b.mul(panel, lanes);
  Value address = b.at(out, b.mul(b.add(b.mul(row, outStride), column), 4));
  Value biasAddress = b.at(bias, b.mul(column, 4));
  Value mask;  // of the lanes that are columns of W, where the last panel is not full
  if (spec.n % lanes) {
    SmallVector<int32_t> lane(lanes);
    std::iota(lane.begin(), lane.end(), 0);
    Value iota = arith::ConstantOp::create(b, b.getI32VectorAttr(lane));
    Value left = arith::TruncIOp::create(b, b.i32, b.sub(b.index(spec.n), column));
    mask = b.lessThan(iota, b.splat(left));
  }
  auto loadLanes = [&](Value from) { return mask ? b.loadMasked(b.v16f32, from, mask) : b.load(b.v16f32, from); };
  if (spec.hasBias)
    sum = b.add(sum, loadLanes(biasAddress));
  if (spec.accumulate)
    sum = b.add(sum, loadLanes(address));
  mask ? b.storeMasked(sum, address, mask) : b.store(sum, address);
}

FailureOr<func::FuncOp> heddle::buildMatmul(ModuleOp module, StringRef name, const MatmulSpec &spec,
                                            const CpuTarget &target) {
  bool q8 = spec.activation == MatmulActivation::Q8;
  if (q8 && (!spec.layout.isQuantized() || spec.k % 32 != 0))
    return module.emitError("kernel '") << name << "': int8 activations need quantised weights and K (" << spec.k
                                        << ") a multiple of 32";
  MatmulEmitter emitter(module, name, spec, target);
  q8 ? emitter.emitQ8() : emitter.emitF32();
  return emitter.finish();
}
