// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/schedule/GraphPasses.h"

#include "mlir/Dialect/Linalg/IR/LinalgInterfaces.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/Transforms/Transforms.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace heddle {
#define GEN_PASS_DEF_FUSEELEMENTWISE
#include "compiler/schedule/GraphPasses.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

// A fused body is copied with every producer that joins it: without bounds, time is quadratic in the length of a chain.
static constexpr size_t mostBodyOps = 48;
static constexpr unsigned mostInputs = 16;

namespace {

// An elementwise op on tensors as loops that write a new tensor. Its result never takes the place of an operand: what lies in
// one place is compared pair by pair when buffers are assigned.
struct ElementwiseToLoops : RewritePattern {
  ElementwiseToLoops(MLIRContext *context) : RewritePattern(MatchAnyOpTypeTag(), 1, context) {}
  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    if (!OpTrait::hasElementwiseMappableTraits(op) || !llvm::all_of(op->getResultTypes(), llvm::IsaPred<RankedTensorType>))
      return rewriter.notifyMatchFailure(op, "is not elementwise on ranked tensors");
    auto shaped = llvm::find_if(op->getOperands(), [](Value operand) { return isa<RankedTensorType>(operand.getType()); });
    if (shaped == op->getOperands().end())
      return rewriter.notifyMatchFailure(op, "has no tensor whose size it takes");
    Location loc = op->getLoc();
    SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(rewriter, loc, *shaped);
    int64_t rank = sizes.size();
    SmallVector<Value> outputs;
    for (Type type : op->getResultTypes()) {
      auto tensor = cast<RankedTensorType>(type);
      SmallVector<Value> dynamic;
      for (auto [axis, size] : llvm::enumerate(sizes))
        if (tensor.isDynamicDim(axis))
          dynamic.push_back(getValueOrCreateConstantIndexOp(rewriter, loc, size));
      outputs.push_back(tensor::EmptyOp::create(rewriter, loc, tensor, dynamic));
    }
    AffineMap same = rewriter.getMultiDimIdentityMap(rank), scalar = AffineMap::get(rank, 0, rewriter.getContext());
    SmallVector<AffineMap> maps;
    for (Value operand : op->getOperands())
      maps.push_back(isa<RankedTensorType>(operand.getType()) ? same : scalar);
    maps.append(outputs.size(), same);
    SmallVector<utils::IteratorType> loops(rank, utils::IteratorType::parallel);
    auto body = [&](OpBuilder &b, Location loc, ValueRange elements) {
      SmallVector<Type> types = llvm::map_to_vector(op->getResultTypes(), [](Type type) { return getElementTypeOrSelf(type); });
      Operation *element = b.create(loc, op->getName().getIdentifier(), elements.take_front(op->getNumOperands()), types, op->getAttrs());
      linalg::YieldOp::create(b, loc, element->getResults());
    };
    rewriter.replaceOpWithNewOp<linalg::GenericOp>(op, op->getResultTypes(), op->getOperands(), outputs, maps, loops, body);
    return success();
  }
};

// Whether one element costs about as much as reading it would.
bool isCheap(linalg::GenericOp op) {
  Block &body = *op.getBody();
  return body.getOperations().size() <= 4 && llvm::none_of(body, [](Operation &inner) { return isa<math::MathDialect>(inner.getDialect()); });
}

// Whether the op that makes `operand` may become part of the one that reads it.
bool mayFuse(OpOperand *operand) {
  auto producer = operand->get().getDefiningOp<linalg::GenericOp>();
  auto consumer = dyn_cast<linalg::GenericOp>(operand->getOwner());
  if (!producer || !consumer || !operand->get().hasOneUse())
    return false;
  // Products have kernels of their own, which read whole buffers.
  if (linalg::isaContractionOpInterface(consumer))
    return false;
  if (producer.getBody()->getOperations().size() + consumer.getBody()->getOperations().size() > mostBodyOps ||
      producer.getNumDpsInputs() + consumer.getNumDpsInputs() > mostInputs)
    return false;
  // Read once per element, or computed again wherever it is read.
  return consumer.getMatchingIndexingMap(operand).isPermutation() || isCheap(producer);
}

struct FuseElementwise : heddle::impl::FuseElementwiseBase<FuseElementwise> {
  void runOnOperation() override {
    MLIRContext *context = &getContext();
    RewritePatternSet loops(context);
    loops.add<ElementwiseToLoops>(context);
    memref::populateResolveRankedShapedTypeResultDimsPatterns(loops);
    if (failed(applyPatternsGreedily(getOperation(), std::move(loops))))
      return signalPassFailure();
    RewritePatternSet fusion(context);
    linalg::populateElementwiseOpsFusionPatterns(fusion, mayFuse);
    linalg::populateEraseUnusedOperandsAndResultsPatterns(fusion);
    memref::populateResolveRankedShapedTypeResultDimsPatterns(fusion);
    // Inner ops first: a producer is whole before it joins its consumer.
    if (failed(applyPatternsGreedily(getOperation(), std::move(fusion), GreedyRewriteConfig().setUseTopDownTraversal())))
      signalPassFailure();
  }
};
} // namespace
