// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Folds and canonical forms of the ops; each op's description says its own. All keep a finite result as it is: what keeps it only
// within rounding (rotations composed, a norm of a norm) is no fold.

#include "dialect/HeddleDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace heddle;

Operation *HeddleDialect::materializeConstant(OpBuilder &b, Attribute value, Type type, Location loc) {
  return arith::ConstantOp::materialize(b, value, type, loc);
}

// Whether every element is `wanted`: a constant, or a tensor filled with one.
static bool isFilledWith(Value value, double wanted) {
  if (auto fill = value.getDefiningOp<linalg::FillOp>())
    value = fill.getInputs()[0];
  else if (auto splat = value.getDefiningOp<tensor::SplatOp>())
    value = splat.getInput();
  FloatAttr scalar;
  if (matchPattern(value, m_Constant(&scalar)))
    return scalar.getValueAsDouble() == wanted;
  DenseFPElementsAttr elements;
  return matchPattern(value, m_Constant(&elements)) &&
         llvm::all_of(elements, [&](const APFloat &element) { return element.convertToDouble() == wanted; });
}

static bool isZero(Value value) {
  return isFilledWith(value, 0.0);
}

// A weight as it is stored, where `value` only widens it.
static Value storedWeight(Value value) {
  auto wider = value.getDefiningOp<arith::ExtFOp>();
  return wider && wider.getIn().getDefiningOp<WeightOp>() ? wider.getIn() : Value();
}

namespace {
// What an op computes with is exact either way: a cast of the weight only makes more bytes of it.
template <typename Op> struct ReadWeightsAsStored : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;
  LogicalResult matchAndRewrite(Op op, PatternRewriter &rewriter) const override {
    // The first operand is what flows through the model.
    MutableArrayRef<OpOperand> operands = op->getOpOperands().drop_front();
    if (llvm::none_of(operands, [](OpOperand &operand) { return storedWeight(operand.get()); }))
      return rewriter.notifyMatchFailure(op, "no weight is widened");
    rewriter.modifyOpInPlace(op, [&] {
      for (OpOperand &operand : operands)
        if (Value weight = storedWeight(operand.get()))
          operand.set(weight);
    });
    return success();
  }
};
} // namespace

//===- embedding, linear, norms -------------------------------------------===//

void EmbeddingOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<ReadWeightsAsStored<EmbeddingOp>>(context);
}

static LogicalResult dropZeroBiases(LinearOp op, PatternRewriter &rewriter) {
  if (op.getBiases().empty() || !llvm::all_of(op.getBiases(), isZero))
    return rewriter.notifyMatchFailure(op, "a bias is not zero");
  rewriter.modifyOpInPlace(op, [&] { op.getBiasesMutable().clear(); });
  return success();
}

static LogicalResult dropEmptyWeights(LinearOp op, PatternRewriter &rewriter) {
  auto isEmpty = [](Value weight) { return cast<RankedTensorType>(weight.getType()).getDimSize(0) == 0; };
  if (llvm::none_of(op.getWeights(), isEmpty) || llvm::all_of(op.getWeights(), isEmpty))
    return rewriter.notifyMatchFailure(op, "no weight of several is empty");
  rewriter.modifyOpInPlace(op, [&] {
    for (size_t i = op.getWeights().size(); i-- > 0;) {
      if (!isEmpty(op.getWeights()[i]))
        continue;
      if (!op.getBiases().empty())
        op.getBiasesMutable().erase(i);
      op.getWeightsMutable().erase(i);
    }
  });
  return success();
}

void LinearOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add(dropZeroBiases);
  patterns.add(dropEmptyWeights);
  patterns.add<ReadWeightsAsStored<LinearOp>>(context);
}

void RmsNormOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<ReadWeightsAsStored<RmsNormOp>>(context);
}

static LogicalResult dropZeroBias(LayerNormOp op, PatternRewriter &rewriter) {
  if (!op.getBias() || !isZero(op.getBias()))
    return rewriter.notifyMatchFailure(op, "there is no bias of zeros");
  rewriter.modifyOpInPlace(op, [&] { op.getBiasMutable().clear(); });
  return success();
}

void LayerNormOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add(dropZeroBias);
  patterns.add<ReadWeightsAsStored<LayerNormOp>>(context);
}

//===- rope, position_bias, attention -------------------------------------===//

// An angle of 0 turns nothing. A table may hold anything.
OpFoldResult RopeOp::fold(FoldAdaptor adaptor) {
  if (getTable() || getRope().getAttentionFactor().getValueAsDouble() != 1.0 || getRope().getGrowth())
    return {};
  auto positions = dyn_cast_or_null<DenseIntElementsAttr>(adaptor.getPositions());
  bool atZero = positions && llvm::all_of(positions, [](const APInt &position) { return position.isZero(); });
  bool isStill =
      llvm::all_of(getRope().getInverseFrequency().asArrayRef(), [](float frequency) { return frequency == 0; });
  return atZero || isStill ? OpFoldResult(getInput()) : OpFoldResult();
}

// Neighbouring runs of distances that read the same row are one run.
static LogicalResult joinEqualRuns(PositionBiasOp op, PatternRewriter &rewriter) {
  if (!op.getRows())
    return rewriter.notifyMatchFailure(op, "slopes have no runs");
  SmallVector<int64_t> starts, rows{op.getRows()->front()};
  for (auto [start, row] : llvm::zip(*op.getStarts(), op.getRows()->drop_front())) {
    if (row == rows.back())
      continue;
    starts.push_back(start);
    rows.push_back(row);
  }
  if (rows.size() == op.getRows()->size())
    return rewriter.notifyMatchFailure(op, "neighbouring runs differ");
  rewriter.modifyOpInPlace(op, [&] {
    op.setStarts(starts);
    op.setRows(rows);
  });
  return success();
}

void PositionBiasOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *) {
  patterns.add(joinEqualRuns);
}

static LogicalResult dropZeroScoreBias(AttentionOp op, PatternRewriter &rewriter) {
  auto positions = op.getBias() ? op.getBias().getDefiningOp<PositionBiasOp>() : PositionBiasOp();
  if (!op.getBias() || !isZero(positions ? positions.getTable() : op.getBias()))
    return rewriter.notifyMatchFailure(op, "there is no bias of zeros");
  rewriter.modifyOpInPlace(op, [&] { op.getBiasMutable().clear(); });
  return success();
}

void AttentionOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *) {
  patterns.add(dropZeroScoreBias);
}

//===- glu, moe -----------------------------------------------------------===//

// max(max(x, 0), 0) = max(x, 0)
OpFoldResult GluOp::fold(FoldAdaptor) {
  auto inner = getGate().getDefiningOp<GluOp>();
  bool isTwice = getActivation() == ActivationKind::Relu && inner && inner.getActivation() == ActivationKind::Relu &&
                 !inner.getUp();
  if (!isTwice)
    return {};
  if (!getUp())
    return getGate();
  getGateMutable().assign(inner.getGate());
  return getResult();
}

static LogicalResult dropUpOfOnes(GluOp op, PatternRewriter &rewriter) {
  if (!op.getUp() || !isFilledWith(op.getUp(), 1.0))
    return rewriter.notifyMatchFailure(op, "there is no up of ones");
  rewriter.modifyOpInPlace(op, [&] { op.getUpMutable().clear(); });
  return success();
}

void GluOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *) {
  patterns.add(dropUpOfOnes);
}

// The softmax over one expert is 1, whatever the router says.
static LogicalResult runTheOnlyExpert(MoeOp op, PatternRewriter &rewriter) {
  RoutingAttr routing = op.getRoutingAttr();
  if (op.getGates().size() != 1 || op.getScales() ||
      (routing && (routing.getSigmoid() || routing.getScaleValue() != 1.0 || routing.getCapacity())))
    return rewriter.notifyMatchFailure(op, "there is a choice, a weight that is not 1, or a capacity");
  if (op.getUps().empty() || op.getGating())
    return rewriter.notifyMatchFailure(op, "no glu computes what is gated");
  Location loc = op.getLoc();
  auto input = cast<RankedTensorType>(op.getInput().getType());
  SmallVector<int64_t> shape(input.getShape());
  shape.back() = cast<RankedTensorType>(op.getUps()[0].getType()).getDimSize(0);
  auto hidden = RankedTensorType::get(shape, input.getElementType());
  auto project = [&](Type type, Value from, ValueRange weight, ValueRange bias) {
    return LinearOp::create(rewriter, loc, type, from, weight, bias);
  };
  Value gate = project(hidden, op.getInput(), op.getGates(), op.getGateBiases()),
        up = project(hidden, op.getInput(), op.getUps(), op.getUpBiases());
  Value gated = GluOp::create(rewriter, loc, hidden, gate, up, op.getActivation());
  rewriter.replaceOp(op, project(op.getType(), gated, op.getDowns(), op.getDownBiases()));
  return success();
}

void MoeOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add(runTheOnlyExpert);
  patterns.add<ReadWeightsAsStored<MoeOp>>(context);
}

//===- kernels ------------------------------------------------------------===//

// A residual of zeros adds nothing: the destination is only written.
template <typename Op> static LogicalResult dropZeroResidual(Op op, PatternRewriter &rewriter) {
  if (!op.getAccumulate() || op->getNumResults() != 1 || !isZero(op.getInits()[0]))
    return rewriter.notifyMatchFailure(op, "there is no residual of zeros");
  Value residual = op.getInits()[0];
  auto type = cast<RankedTensorType>(residual.getType());
  Value destination = tensor::EmptyOp::create(
      rewriter, op.getLoc(), tensor::getMixedSizes(rewriter, op.getLoc(), residual), type.getElementType());
  rewriter.modifyOpInPlace(op, [&] {
    op.getInitsMutable().assign(destination);
    op.setAccumulate(false);
  });
  return success();
}

void PackedMatmulOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *) {
  patterns.add(dropZeroResidual<PackedMatmulOp>);
}

void ExpertMatmulOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *) {
  patterns.add(dropZeroResidual<ExpertMatmulOp>);
}

OpFoldResult PreferSplitsOp::fold(FoldAdaptor adaptor) {
  auto rows = dyn_cast_or_null<IntegerAttr>(adaptor.getRows());
  return rows && rows.getInt() > int64_t(getMaxRows()) ? OpFoldResult(BoolAttr::get(getContext(), false))
                                                       : OpFoldResult();
}
