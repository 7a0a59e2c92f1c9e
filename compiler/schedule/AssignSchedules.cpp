// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/schedule/Passes.h"
#include "compiler/codegen/cpu/PackedLayout.h"

namespace heddle {
#define GEN_PASS_DEF_ASSIGNSCHEDULES
#include "compiler/schedule/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

static bool hasQuantizedWeights(PackedMatmulOp op) {
  return symbolizeQuantKind(op.getFormat()).has_value() && op.getK() % 32 == 0;
}

namespace {
struct AssignSchedules : heddle::impl::AssignSchedulesBase<AssignSchedules> {
  using AssignSchedulesBase::AssignSchedulesBase;

  void quantizeInput(PackedMatmulOp op) {
    Value input = op.getInput();
    QuantizeOp quantized = byInput.lookup(input);
    if (!quantized) {
      OpBuilder b(op);
      b.setInsertionPointAfterValue(input);
      int64_t k = op.getK();
      auto type = [&](int64_t width, Type element) { return RankedTensorType::get({ShapedType::kDynamic, width}, element); };
      quantized = QuantizeOp::create(b, op.getLoc(), type(k, b.getI8Type()), type(k / 32, b.getF32Type()),
                                     type(k / 16, b.getI32Type()), input);
      byInput[input] = quantized;
    }
    op.getInputMutable().assign(quantized.getCodes());
    op.getInputScalesMutable().assign(quantized.getScales());
    op.getInputSumsMutable().assign(quantized.getSums());
  }

  void runOnOperation() override {
    if (activations != "f32" && activations != "int8") {
      getOperation().emitError("activations must be f32 or int8, got '") << activations << "'";
      return signalPassFailure();
    }
    getOperation().walk([&](Operation *op) {
      if (auto matmul = dyn_cast<PackedMatmulOp>(op); matmul && activations == "int8" && hasQuantizedWeights(matmul))
        quantizeInput(matmul);
      if (auto rope = dyn_cast<RopeOp>(op); rope && !rope.getTable()) {
        OpBuilder b(rope);
        auto type = RankedTensorType::get({ShapedType::kDynamic, rope.getRope().getRotaryDim()}, b.getF32Type());
        rope.getTableMutable().assign(RopeTableOp::create(b, rope.getLoc(), type, b.getI64IntegerAttr(rope.getRope().getTable())));
      }
    });
  }

  DenseMap<Value, QuantizeOp> byInput;
};
} // namespace
