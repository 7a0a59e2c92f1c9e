// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/GraphMath.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"

using namespace mlir;

// |x| compared with a number.
static Value compareMagnitude(PatternRewriter &rewriter, Location loc, Value x, arith::CmpFPredicate predicate,
                              const APFloat &number) {
  Value magnitude = math::AbsFOp::create(rewriter, loc, x);
  Value bound = arith::ConstantOp::create(rewriter, loc, rewriter.getFloatAttr(x.getType(), number));
  return arith::CmpFOp::create(rewriter, loc, predicate, magnitude, bound);
}

namespace {

struct ExpandIsInf : OpRewritePattern<math::IsInfOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(math::IsInfOp op, PatternRewriter &rewriter) const override {
    auto type = dyn_cast<FloatType>(op.getOperand().getType());
    if (!type)
      return rewriter.notifyMatchFailure(op, "is not of one number");
    rewriter.replaceOp(op, compareMagnitude(rewriter, op.getLoc(), op.getOperand(), arith::CmpFPredicate::OEQ,
                                            APFloat::getInf(type.getFloatSemantics())));
    return success();
  }
};

// Neither 0, nor denormal, infinite or NaN.
struct ExpandIsNormal : OpRewritePattern<math::IsNormalOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(math::IsNormalOp op, PatternRewriter &rewriter) const override {
    auto type = dyn_cast<FloatType>(op.getOperand().getType());
    if (!type)
      return rewriter.notifyMatchFailure(op, "is not of one number");
    const llvm::fltSemantics &semantics = type.getFloatSemantics();
    Value isLarge = compareMagnitude(rewriter, op.getLoc(), op.getOperand(), arith::CmpFPredicate::OGE,
                                     APFloat::getSmallestNormalized(semantics));
    Value isFinite =
        compareMagnitude(rewriter, op.getLoc(), op.getOperand(), arith::CmpFPredicate::OLT, APFloat::getInf(semantics));
    rewriter.replaceOpWithNewOp<arith::AndIOp>(op, isLarge, isFinite);
    return success();
  }
};

struct WidenFma : OpRewritePattern<math::FmaOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(math::FmaOp op, PatternRewriter &rewriter) const override {
    Type type = op.getType(), wide = rewriter.getF32Type();
    if (!type.isF16() && !type.isBF16())
      return rewriter.notifyMatchFailure(op, "has an instruction");
    SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      operands.push_back(arith::ExtFOp::create(rewriter, op.getLoc(), wide, operand));
    Value sum = math::FmaOp::create(rewriter, op.getLoc(), operands[0], operands[1], operands[2]);
    rewriter.replaceOpWithNewOp<arith::TruncFOp>(op, type, sum);
    return success();
  }
};

} // namespace

void heddle::populateGraphMathPatterns(RewritePatternSet &patterns) {
  patterns.add<ExpandIsInf, ExpandIsNormal, WidenFma>(patterns.getContext());
  populateMathPolynomialApproximationPatterns(patterns,
                                              [](StringRef name) { return name == math::ExpOp::getOperationName(); });
}
