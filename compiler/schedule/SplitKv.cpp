// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/schedule/Passes.h"
#include "compiler/schedule/ScheduleTable.h"

#include "llvm/Support/MathExtras.h"

namespace heddle {
#define GEN_PASS_DEF_SPLITKV
#include "compiler/schedule/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

namespace {
struct SplitKv : heddle::impl::SplitKvBase<SplitKv> {
  using SplitKvBase::SplitKvBase;

  // A buffer for `columns` numbers of each row and split.
  Value state(OpBuilder &b, Location loc, int64_t columns) {
    return tensor::EmptyOp::create(b, loc, ArrayRef<int64_t>{maxRows(), splits() * columns}, b.getF32Type());
  }

  // Attention to the splits, merged into the destination of `op`.
  SmallVector<Value> splitAndCombine(OpBuilder &b, OnlineAttentionOp op) {
    Location loc = op.getLoc();
    int64_t heads = op.getNumHeads();
    Value inits[] = {state(b, loc, heads * op.getCache().getType().getHeadDim()), state(b, loc, heads),
                     state(b, loc, heads)};
    auto split = OnlineAttentionOp::create(
        b, loc, TypeRange(ValueRange(inits)), op.getQuery(), op.getCache(), op.getLayer(), op.getPositions(),
        /*sinks=*/Value(), inits, op.getNumHeadsAttr(), op.getMaskAttr(), op.getScaleAttr(), op.getSoftcapAttr(),
        op.getBlockKvAttr(), op.getShareKvAttr(), b.getI64IntegerAttr(splitKv), op.getStartsAttr(), op.getRowsAttr());
    return {CombineSplitsOp::create(b, loc, op.getResultTypes(), split.getResult(0), split.getResult(1),
                                    split.getResult(2), op.getCache(), op.getSinks(), op.getInits(),
                                    op.getNumHeadsAttr(), op.getMaskAttr(), b.getI64IntegerAttr(splitKv))
                .getResult(0)};
  }

  // The same op, whose folded queries attend to the splits.
  SmallVector<Value> splitAndCombine(OpBuilder &b, OnlineLatentAttentionOp op) {
    SmallVector<Value> inits = llvm::to_vector(op.getInits());
    inits.push_back(state(b, op.getLoc(), op.getDims().numHeads * (op.getDims().rank + 2)));
    auto split = OnlineLatentAttentionOp::create(
        b, op.getLoc(), TypeRange(ValueRange(inits)), op.getQuery(), op.getCache(), op.getLayer(), op.getKeyUps(),
        op.getValueUps(), op.getKeyFolds(), inits, op.getNumHeadsAttr(), op.getNumKvHeadsAttr(), op.getNopeAttr(),
        op.getValueAttr(), op.getMaskAttr(), op.getScaleAttr(), op.getFormAttr(), op.getKeyFormatAttr(),
        op.getFoldFormatAttr(), op.getValueFormatAttr(), b.getI64IntegerAttr(splitKv));
    return llvm::to_vector(ValueRange(split.getResults()).take_front(op.getNumResults()));
  }

  // `items`: what the threads divide of a sequence where its keys are whole.
  template <typename Op> void split(Op op, int64_t items) {
    OpBuilder b(op);
    Location loc = op.getLoc();
    Value rows = tensor::DimOp::create(b, loc, op.getQuery(), 0);
    Value isPreferred = PreferSplitsOp::create(b, loc, op.getCache(), rows, items, maxRows(), splitKv);
    auto branch = scf::IfOp::create(b, loc, op.getResultTypes(), isPreferred, /*withElseRegion=*/true);
    op->replaceAllUsesWith(branch.getResults());
    b.setInsertionPointToStart(branch.thenBlock());
    scf::YieldOp::create(b, loc, splitAndCombine(b, op));
    op->moveBefore(branch.elseBlock(), branch.elseBlock()->begin());
    b.setInsertionPointToEnd(branch.elseBlock());
    scf::YieldOp::create(b, loc, op->getResults());
  }

  static bool canSplit(OnlineAttentionOp op) {
    return !op.getSplitKv() && !op.storesScores() && !op.getCache().getType().getCross();
  }
  static bool canSplit(OnlineLatentAttentionOp op) {
    return !op.getSplitKv() && op.getForm() != LatentForm::Materialised;
  }

  int64_t splits() const { return llvm::divideCeil(context, splitKv); }
  int64_t maxRows() const { return std::max<int64_t>(1, slots / splits()); }

  void runInStage() override {
    if (context < 1 || splitKv < 1 || slots < 1) {
      getOperation().emitError("context (") << int64_t(context) << "), split-kv (" << int64_t(splitKv)
                                            << ") and slots (" << int64_t(slots) << ") must be positive";
      return signalPassFailure();
    }
    if (splits() < 2)
      return;
    SmallVector<OnlineAttentionOp> ops;
    SmallVector<OnlineLatentAttentionOp> latents;
    auto target = getOperation()->getAttrOfType<TargetAttr>(targetAttrName);
    getOperation().walk([&](Operation *op) {
      if (!hasSplits(target, op))
        return;
      if (auto attention = dyn_cast<OnlineAttentionOp>(op); attention && canSplit(attention))
        ops.push_back(attention);
      if (auto latent = dyn_cast<OnlineLatentAttentionOp>(op); latent && canSplit(latent))
        latents.push_back(latent);
    });
    for (OnlineAttentionOp op : ops)
      split(op, op.getCache().getType().getNumKvHeads());
    for (OnlineLatentAttentionOp op : latents)
      split(op, llvm::divideCeil(op.getDims().numHeads, LatentDims::headsOfItem));
  }
};
} // namespace
