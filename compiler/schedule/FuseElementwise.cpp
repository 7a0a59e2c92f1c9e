// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/schedule/Passes.h"
#include "dialect/Entries.h"
#include "dialect/Locations.h"

#include "mlir/Dialect/Linalg/IR/LinalgInterfaces.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/Linalg/Utils/Utils.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/Transforms/Transforms.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace heddle {
#define GEN_PASS_DEF_FUSEELEMENTWISE
#include "compiler/schedule/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

// A fused body is copied with every producer that joins it: without bounds, time is quadratic in the length of a chain.
static constexpr size_t mostBodyOps = 48;
static constexpr unsigned mostInputs = 16;

namespace {

// The sizes of a tensor, taken from what its loops write into: asked of the result, they would be looked for step by step through
// all ops before it.
SmallVector<OpFoldResult> sizesOf(OpBuilder &b, Location loc, Value tensor) {
  while (auto loops = tensor.getDefiningOp<linalg::GenericOp>())
    tensor = loops.getDpsInitOperand(cast<OpResult>(tensor).getResultNumber())->get();
  if (auto room = tensor.getDefiningOp<tensor::EmptyOp>())
    return room.getMixedSizes();
  return tensor::getMixedSizes(b, loc, tensor);
}

// An elementwise op on tensors as loops that write a new tensor. Its result never takes the place of an operand: what lies in
// one place is compared pair by pair when buffers are assigned.
struct ElementwiseToLoops : RewritePattern {
  ElementwiseToLoops(MLIRContext *context) : RewritePattern(MatchAnyOpTypeTag(), 1, context) {}
  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    if (!OpTrait::hasElementwiseMappableTraits(op) ||
        !llvm::all_of(op->getResultTypes(), llvm::IsaPred<RankedTensorType>))
      return rewriter.notifyMatchFailure(op, "is not elementwise on ranked tensors");
    auto shaped =
        llvm::find_if(op->getOperands(), [](Value operand) { return isa<RankedTensorType>(operand.getType()); });
    if (shaped == op->getOperands().end())
      return rewriter.notifyMatchFailure(op, "has no tensor whose size it takes");
    Location loc = op->getLoc();
    SmallVector<OpFoldResult> sizes = sizesOf(rewriter, loc, *shaped);
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
      SmallVector<Type> types =
          llvm::map_to_vector(op->getResultTypes(), [](Type type) { return getElementTypeOrSelf(type); });
      Operation *element = b.create(loc, op->getName().getIdentifier(), elements.take_front(op->getNumOperands()),
                                    types, op->getAttrs());
      linalg::YieldOp::create(b, loc, element->getResults());
    };
    rewriter.replaceOpWithNewOp<linalg::GenericOp>(op, op->getResultTypes(), op->getOperands(), outputs, maps, loops,
                                                   body);
    return success();
  }
};

// Whether one element costs about as much as reading it would.
bool isCheap(linalg::GenericOp op) {
  Block &body = *op.getBody();
  return body.getOperations().size() <= 4 &&
         llvm::none_of(body, [](Operation &inner) { return isa<math::MathDialect>(inner.getDialect()); });
}

// Why the op that makes `operand` may not become part of the one that reads it; empty if it may.
StringRef whyNotFused(OpOperand *operand) {
  auto producer = operand->get().getDefiningOp<linalg::GenericOp>();
  auto consumer = dyn_cast<linalg::GenericOp>(operand->getOwner());
  if (!producer || !consumer)
    return "it is no loop";
  if (!operand->get().hasOneUse())
    return "its result is read in several places";
  // Products have kernels of their own, which read whole buffers.
  if (linalg::isaContractionOpInterface(consumer))
    return "a product reads it";
  if (producer.getBody()->getOperations().size() + consumer.getBody()->getOperations().size() > mostBodyOps ||
      producer.getNumDpsInputs() + consumer.getNumDpsInputs() > mostInputs)
    return "the loop would grow over its bounds";
  // Read once per element, or computed again wherever it is read.
  if (!consumer.getMatchingIndexingMap(operand).isPermutation() && !isCheap(producer))
    return "a costly element would be computed more than once";
  return "";
}

// As MLIR's pattern, which this one comes before, but the loop says of all ops that are in it where they come from.
struct FuseProducer : OpRewritePattern<linalg::GenericOp> {
  FuseProducer(MLIRContext *context) : OpRewritePattern(context, /*benefit=*/2) {}
  LogicalResult matchAndRewrite(linalg::GenericOp op, PatternRewriter &rewriter) const override {
    for (OpOperand &operand : op->getOpOperands()) {
      if (!linalg::areElementwiseOpsFusable(&operand) || !whyNotFused(&operand).empty())
        continue;
      Operation *producer = operand.get().getDefiningOp();
      Location merged = mergedLocation(rewriter.getContext(), {producer->getLoc(), op.getLoc()});
      FailureOr<linalg::ElementwiseOpFusionResult> fused = linalg::fuseElementwiseOps(rewriter, &operand);
      if (failed(fused))
        return rewriter.notifyMatchFailure(op, "is not fused with its producer by linalg");
      fused->fusedOp->setLoc(merged);
      for (auto [value, replacement] : fused->replacements)
        rewriter.replaceUsesWithIf(value, replacement,
                                   [&](OpOperand &use) { return use.get().getDefiningOp() != producer; });
      rewriter.eraseOp(op);
      return success();
    }
    return rewriter.notifyMatchFailure(op, "no operand is made by a loop that may join it");
  }
};

// A tensor of one value that several loops read becomes one for each, which is then a number in the loop.
void splitFills(func::FuncOp graph) {
  graph.walk([](linalg::GenericOp fill) {
    bool isOneValue = fill.getBody()->getOperations().size() == 1 && fill.getNumResults() == 1 &&
                      llvm::none_of(fill.getInputs(), [](Value input) { return isa<ShapedType>(input.getType()); });
    if (!isOneValue || fill->hasOneUse())
      return;
    for (OpOperand &use : llvm::make_early_inc_range(fill->getUses()))
      if (auto reader = dyn_cast<linalg::GenericOp>(use.getOwner()); reader && reader.isDpsInput(&use))
        use.set(OpBuilder(reader).clone(*fill)->getResult(0));
  });
}

// Remarks on loops whose result another loop reads.
void remarkOnUnfused(func::FuncOp graph) {
  graph.walk([](linalg::GenericOp producer) {
    if (!linalg::isElementwise(producer) || producer.getNumResults() == 0)
      return;
    for (OpOperand &use : producer->getUses()) {
      StringRef reason = whyNotFused(&use);
      if (!isa<linalg::GenericOp>(use.getOwner()) || reason.empty())
        continue;
      // Of the location alone: the op would be printed with it, and numbered in its function, every time.
      mlir::emitRemark(producer.getLoc(), "not fused into the loop that reads it: ") << reason;
      return;
    }
  });
}

struct FuseElementwise : heddle::impl::FuseElementwiseBase<FuseElementwise> {
  void runInStage() override {
    MLIRContext *context = &getContext();
    RewritePatternSet loops(context), fusion(context);
    fusion.add<FuseProducer>(context);
    linalg::populateLinalgNamedOpsGeneralizationPatterns(loops);
    loops.add<ElementwiseToLoops>(context);
    memref::populateResolveRankedShapedTypeResultDimsPatterns(loops);
    linalg::populateElementwiseOpsFusionPatterns(fusion,
                                                 [](OpOperand *operand) { return whyNotFused(operand).empty(); });
    linalg::populateEraseUnusedOperandsAndResultsPatterns(fusion);
    memref::populateResolveRankedShapedTypeResultDimsPatterns(fusion);
    FrozenRewritePatternSet makeLoops(std::move(loops)), fuse(std::move(fusion));
    // Operands first: sizes come from their loops, and a producer is whole before it joins its consumer.
    GreedyRewriteConfig operandsFirst = GreedyRewriteConfig().setUseTopDownTraversal();
    for (func::FuncOp graph : graphEntries(getOperation())) {
      if (failed(applyPatternsGreedily(graph, makeLoops, operandsFirst)))
        return signalPassFailure();
      splitFills(graph);
      if (failed(applyPatternsGreedily(graph, fuse, operandsFirst)))
        return signalPassFailure();
      remarkOnUnfused(graph);
    }
  }
};
} // namespace
