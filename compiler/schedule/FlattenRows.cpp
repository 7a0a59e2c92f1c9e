// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels see activations as rows. A decoder's step has them as rows from the start; a graph's have the dimensions that its file gives
// them, (batch, sequence, features) mostly. Here the leading ones are joined around the ops that become packed matmuls, which moves no
// element.

#include "compiler/schedule/Passes.h"

#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace heddle {
#define GEN_PASS_DEF_FLATTENROWS
#include "compiler/schedule/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

namespace {

LinearOp productOfRows(PatternRewriter &rewriter, LinearOp op, RankedTensorType type, Value rows) {
  return LinearOp::create(rewriter, op.getLoc(), type, rows, op.getWeights(), op.getBiases());
}
IntegerLinearOp productOfRows(PatternRewriter &rewriter, IntegerLinearOp op, RankedTensorType type, Value rows) {
  return IntegerLinearOp::create(rewriter, op.getLoc(), type, rows, op.getZero(), op.getWeight(),
                                 op.getIsUnsignedAttr());
}

// (d0, …, dn, k) -> (d0 * … * dn, k) for the input, and back for the result.
template <typename Op> struct FlattenProduct : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;
  LogicalResult matchAndRewrite(Op op, PatternRewriter &rewriter) const override {
    auto type = cast<RankedTensorType>(op.getInput().getType()), result = cast<RankedTensorType>(op.getType());
    if (type.getRank() == 2)
      return rewriter.notifyMatchFailure(op, "works on rows already");
    Location loc = op.getLoc();
    if (type.getRank() == 1)
      return flattenVector(op, rewriter);
    SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(rewriter, loc, op.getInput());
    sizes.back() = rewriter.getIndexAttr(result.getShape().back());
    ReassociationIndices leading = llvm::to_vector(llvm::seq<int64_t>(0, type.getRank() - 1));
    SmallVector<ReassociationIndices> groups = {leading, {type.getRank() - 1}};
    Value input = tensor::CollapseShapeOp::create(rewriter, loc, op.getInput(), groups);
    int64_t rows = cast<RankedTensorType>(input.getType()).getDimSize(0);
    Value product = productOfRows(rewriter, op, result.clone({rows, result.getShape().back()}), input);
    rewriter.replaceOpWithNewOp<tensor::ExpandShapeOp>(op, result, product, groups, sizes);
    return success();
  }

private:
  // A vector is one row.
  static LogicalResult flattenVector(Op op, PatternRewriter &rewriter) {
    Location loc = op.getLoc();
    auto type = cast<RankedTensorType>(op.getInput().getType()), result = cast<RankedTensorType>(op.getType());
    SmallVector<ReassociationIndices> groups = {{0, 1}};
    Value input =
        tensor::ExpandShapeOp::create(rewriter, loc, type.clone({1, type.getDimSize(0)}), op.getInput(), groups);
    Value product = productOfRows(rewriter, op, result.clone({1, result.getDimSize(0)}), input);
    rewriter.replaceOpWithNewOp<tensor::CollapseShapeOp>(op, product, groups);
    return success();
  }
};

// ids (d0, …, dn) -> (d0 * … * dn), and back with the width of the table behind.
struct FlattenEmbedding : OpRewritePattern<EmbeddingOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(EmbeddingOp op, PatternRewriter &rewriter) const override {
    auto type = cast<RankedTensorType>(op.getIds().getType()), result = cast<RankedTensorType>(op.getType());
    int64_t rank = type.getRank(), width = result.getShape().back();
    if (rank == 1)
      return rewriter.notifyMatchFailure(op, "looks up rows already");
    Location loc = op.getLoc();
    ReassociationIndices leading = llvm::to_vector(llvm::seq<int64_t>(0, rank));
    if (rank == 0) {
      Value ids =
          tensor::ExpandShapeOp::create(rewriter, loc, type.clone({1}), op.getIds(), ArrayRef<ReassociationIndices>());
      Value row = EmbeddingOp::create(rewriter, loc, result.clone({1, width}), ids, op.getTable(), op.getScaleAttr(),
                                      op.getGiven());
      rewriter.replaceOpWithNewOp<tensor::CollapseShapeOp>(op, row, ArrayRef<ReassociationIndices>{{0, 1}});
      return success();
    }
    SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(rewriter, loc, op.getIds());
    sizes.push_back(rewriter.getIndexAttr(width));
    Value ids = tensor::CollapseShapeOp::create(rewriter, loc, op.getIds(), ArrayRef{leading});
    int64_t count = cast<RankedTensorType>(ids.getType()).getDimSize(0);
    Value rows = EmbeddingOp::create(rewriter, loc, result.clone({count, width}), ids, op.getTable(), op.getScaleAttr(),
                                     op.getGiven());
    rewriter.replaceOpWithNewOp<tensor::ExpandShapeOp>(op, result, rows,
                                                       ArrayRef<ReassociationIndices>{leading, {rank}}, sizes);
    return success();
  }
};

struct FlattenRows : heddle::impl::FlattenRowsBase<FlattenRows> {
  void runInStage() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<FlattenEmbedding, FlattenProduct<LinearOp>, FlattenProduct<IntegerLinearOp>>(&getContext());
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace
