// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/schedule/Passes.h"

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

  // Attention to the splits, merged into the destination of `op`.
  Value splitAndCombine(OpBuilder &b, OnlineAttentionOp op, int64_t maxRows, int64_t splits) {
    Location loc = op.getLoc();
    int64_t heads = op.getNumHeads(), headDim = op.getCache().getType().getHeadDim();
    SmallVector<Value> states;
    for (int64_t columns : {splits * heads * headDim, splits * heads, splits * heads})
      states.push_back(tensor::EmptyOp::create(b, loc, ArrayRef<int64_t>{maxRows, columns}, b.getF32Type()));
    auto split = OnlineAttentionOp::create(
        b, loc, ValueRange(states).getTypes(), op.getQuery(), op.getCache(), op.getLayer(), op.getPositions(),
        /*sinks=*/Value(), states, op.getNumHeadsAttr(), op.getMaskAttr(), op.getScaleAttr(), op.getSoftcapAttr(),
        op.getBlockKvAttr(), op.getShareKvAttr(), b.getI64IntegerAttr(splitKv), op.getStartsAttr(), op.getRowsAttr());
    return CombineSplitsOp::create(b, loc, op.getResultTypes(), split.getResult(0), split.getResult(1),
                                   split.getResult(2), op.getCache(), op.getSinks(), op.getInits(),
                                   op.getNumHeadsAttr(), op.getMaskAttr(), b.getI64IntegerAttr(splitKv))
        .getResult(0);
  }

  void split(OnlineAttentionOp op) {
    int64_t splits = llvm::divideCeil(context, splitKv), maxRows = std::max<int64_t>(1, slots / splits);
    if (splits < 2 || op.getSplitKv() || op.storesScores() || op.getCache().getType().getCross())
      return;
    OpBuilder b(op);
    Location loc = op.getLoc();
    Value rows = tensor::DimOp::create(b, loc, op.getQuery(), 0);
    Value isPreferred = PreferSplitsOp::create(b, loc, op.getCache(), rows, maxRows, splitKv);
    auto branch = scf::IfOp::create(b, loc, op.getResultTypes(), isPreferred, /*withElseRegion=*/true);
    op.getResults().replaceAllUsesWith(branch.getResults());
    b.setInsertionPointToStart(branch.thenBlock());
    scf::YieldOp::create(b, loc, splitAndCombine(b, op, maxRows, splits));
    op->moveBefore(branch.elseBlock(), branch.elseBlock()->begin());
    b.setInsertionPointToEnd(branch.elseBlock());
    scf::YieldOp::create(b, loc, op.getResults());
  }

  void runInStage() override {
    if (context < 1 || splitKv < 1 || slots < 1) {
      getOperation().emitError("context (") << int64_t(context) << "), split-kv (" << int64_t(splitKv)
                                            << ") and slots (" << int64_t(slots) << ") must be positive";
      return signalPassFailure();
    }
    SmallVector<OnlineAttentionOp> ops;
    getOperation().walk([&](OnlineAttentionOp op) { ops.push_back(op); });
    for (OnlineAttentionOp op : ops)
      split(op);
  }
};
} // namespace
