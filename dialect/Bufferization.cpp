// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernel ops write their destinations in place; appending to the cache reads its operands.

#include "dialect/HeddleDialect.h"

#include "mlir/Dialect/Bufferization/IR/BufferizableOpInterface.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Bufferization/IR/DstBufferizableOpInterfaceImpl.h"

using namespace mlir;
using namespace mlir::bufferization;
using namespace heddle;

// The op again, on buffers and without tensor results.
static LogicalResult cloneOnBuffers(Operation *op, RewriterBase &rewriter, const BufferizationOptions &options,
                                    BufferizationState &state, SmallVectorImpl<Value> &destinations) {
  SmallVector<Value> operands;
  auto dps = dyn_cast<DestinationStyleOpInterface>(op);
  for (OpOperand &operand : op->getOpOperands()) {
    Value value = operand.get();
    if (isa<TensorType>(value.getType())) {
      FailureOr<Value> buffer = getBuffer(rewriter, value, options, state);
      if (failed(buffer))
        return failure();
      value = *buffer;
      if (dps && dps.isDpsInit(&operand))
        destinations.push_back(value);
    }
    operands.push_back(value);
  }
  OperationState created(op->getLoc(), op->getName(), operands, TypeRange(), op->getAttrs());
  created.propertiesAttr = op->getPropertiesAsAttribute();
  rewriter.create(created);
  return success();
}

namespace {
template <typename Op> struct KernelModel : DstBufferizableOpInterfaceExternalModel<KernelModel<Op>, Op> {
  bool bufferizesToMemoryRead(Operation *op, OpOperand &operand, const AnalysisState &) const {
    auto dps = cast<DestinationStyleOpInterface>(op);
    if (!dps.isDpsInit(&operand))
      return true;
    if (auto matmul = dyn_cast<PackedMatmulOp>(op))
      return matmul.getAccumulate();
    auto experts = dyn_cast<ExpertMatmulOp>(op);
    return experts && experts.getAccumulate();
  }
  LogicalResult bufferize(Operation *op, RewriterBase &rewriter, const BufferizationOptions &options,
                          BufferizationState &state) const {
    OpBuilder::InsertionGuard guard(rewriter);
    rewriter.setInsertionPoint(op);
    SmallVector<Value> destinations;
    if (failed(cloneOnBuffers(op, rewriter, options, state, destinations)))
      return failure();
    replaceOpWithBufferizedValues(rewriter, op, destinations);
    return success();
  }
};

struct KvAppendModel : BufferizableOpInterface::ExternalModel<KvAppendModel, KvAppendOp> {
  bool bufferizesToMemoryRead(Operation *, OpOperand &, const AnalysisState &) const { return true; }
  bool bufferizesToMemoryWrite(Operation *, OpOperand &, const AnalysisState &) const { return false; }
  AliasingValueList getAliasingValues(Operation *, OpOperand &, const AnalysisState &) const { return {}; }
  LogicalResult bufferize(Operation *op, RewriterBase &rewriter, const BufferizationOptions &options,
                          BufferizationState &state) const {
    OpBuilder::InsertionGuard guard(rewriter);
    rewriter.setInsertionPoint(op);
    SmallVector<Value> destinations;
    if (failed(cloneOnBuffers(op, rewriter, options, state, destinations)))
      return failure();
    rewriter.eraseOp(op);
    return success();
  }
};
} // namespace

void heddle::registerBufferizationModels(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, HeddleDialect *) {
    PackedMatmulOp::attachInterface<KernelModel<PackedMatmulOp>>(*context);
    RouteExpertsOp::attachInterface<KernelModel<RouteExpertsOp>>(*context);
    ExpertMatmulOp::attachInterface<KernelModel<ExpertMatmulOp>>(*context);
    OnlineAttentionOp::attachInterface<KernelModel<OnlineAttentionOp>>(*context);
    CombineSplitsOp::attachInterface<KernelModel<CombineSplitsOp>>(*context);
    OnlineLatentAttentionOp::attachInterface<KernelModel<OnlineLatentAttentionOp>>(*context);
    DequantizeOp::attachInterface<KernelModel<DequantizeOp>>(*context);
    KernelCallOp::attachInterface<KernelModel<KernelCallOp>>(*context);
    KvAppendOp::attachInterface<KvAppendModel>(*context);
  });
}
