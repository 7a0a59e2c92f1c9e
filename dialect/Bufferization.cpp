// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernel ops write their destinations in place; appending to the cache reads its operands.

#include "dialect/HeddleDialect.h"

#include "mlir/Dialect/Bufferization/IR/BufferizableOpInterface.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Bufferization/IR/DstBufferizableOpInterfaceImpl.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace mlir::bufferization;
using namespace heddle;

// A buffer of its own for what `buffer` holds, whole and in order.
static FailureOr<Value> wholeBuffer(RewriterBase &rewriter, const BufferizationOptions &options, Value buffer) {
  auto type = cast<MemRefType>(buffer.getType());
  Location loc = buffer.getLoc();
  SmallVector<Value> sizes;
  for (int64_t d = 0; d < type.getRank(); ++d)
    if (type.isDynamicDim(d))
      sizes.push_back(memref::DimOp::create(rewriter, loc, buffer, d));
  return options.createAlloc(rewriter, loc, MemRefType::get(type.getShape(), type.getElementType()), sizes);
}

// The op again, on buffers and without tensor results.
static FailureOr<Operation *> cloneOnBuffers(Operation *op, RewriterBase &rewriter, const BufferizationOptions &options,
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
  return rewriter.create(created);
}

namespace {
template <typename Op> struct KernelModel : DstBufferizableOpInterfaceExternalModel<KernelModel<Op>, Op> {
  bool bufferizesToMemoryRead(Operation *op, OpOperand &operand, const AnalysisState &) const {
    auto dps = cast<DestinationStyleOpInterface>(op);
    if (!dps.isDpsInit(&operand))
      return true;
    if (auto matmul = dyn_cast<PackedMatmulOp>(op))
      return matmul.getAccumulate() && operand.get() == matmul.getInits()[0];
    if (auto attention = dyn_cast<RaggedAttentionOp>(op))
      return attention.getOfGlobals();
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

// The kernel wants the elements of a row side by side: a view that has them elsewhere is copied, into and out of a buffer.
struct FlashAttentionModel : DstBufferizableOpInterfaceExternalModel<FlashAttentionModel, FlashAttentionOp> {
  bool bufferizesToMemoryRead(Operation *op, OpOperand &operand, const AnalysisState &) const {
    return !cast<DestinationStyleOpInterface>(op).isDpsInit(&operand);
  }
  LogicalResult bufferize(Operation *op, RewriterBase &rewriter, const BufferizationOptions &options,
                          BufferizationState &state) const {
    OpBuilder::InsertionGuard guard(rewriter);
    rewriter.setInsertionPoint(op);
    SmallVector<Value> destinations;
    FailureOr<Operation *> kernel = cloneOnBuffers(op, rewriter, options, state, destinations);
    if (failed(kernel))
      return failure();
    for (OpOperand &operand : (*kernel)->getOpOperands()) {
      Value buffer = operand.get();
      if (FlashAttentionOp::hasUnitStride(buffer))
        continue;
      bool isDestination = cast<DestinationStyleOpInterface>(*kernel).isDpsInit(&operand);
      rewriter.setInsertionPoint(*kernel);
      FailureOr<Value> whole = wholeBuffer(rewriter, options, buffer);
      if (isDestination)
        rewriter.setInsertionPointAfter(*kernel);
      if (failed(whole) || failed(options.createMemCpy(rewriter, op->getLoc(), isDestination ? *whole : buffer,
                                                       isDestination ? buffer : *whole)))
        return failure();
      operand.set(*whole);
    }
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
    IntegerMatmulOp::attachInterface<KernelModel<IntegerMatmulOp>>(*context);
    RouteExpertsOp::attachInterface<KernelModel<RouteExpertsOp>>(*context);
    ExpertMatmulOp::attachInterface<KernelModel<ExpertMatmulOp>>(*context);
    OnlineAttentionOp::attachInterface<KernelModel<OnlineAttentionOp>>(*context);
    FlashAttentionOp::attachInterface<FlashAttentionModel>(*context);
    RaggedAttentionOp::attachInterface<KernelModel<RaggedAttentionOp>>(*context);
    CombineSplitsOp::attachInterface<KernelModel<CombineSplitsOp>>(*context);
    OnlineLatentAttentionOp::attachInterface<KernelModel<OnlineLatentAttentionOp>>(*context);
    RotateAppendOp::attachInterface<KernelModel<RotateAppendOp>>(*context);
    RaggedConvOp::attachInterface<KernelModel<RaggedConvOp>>(*context);
    RaggedLinearAttentionOp::attachInterface<KernelModel<RaggedLinearAttentionOp>>(*context);
    DequantizeOp::attachInterface<KernelModel<DequantizeOp>>(*context);
    KernelCallOp::attachInterface<KernelModel<KernelCallOp>>(*context);
    KvAppendOp::attachInterface<KvAppendModel>(*context);
  });
}
