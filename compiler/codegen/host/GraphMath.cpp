// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/host/GraphMath.h"

#include "compiler/codegen/kernel/VectorMath.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"

using namespace mlir;

// |x| compared with a number.
static Value compareMagnitude(PatternRewriter &rewriter, Location loc, Value x, arith::CmpFPredicate predicate,
                              const APFloat &number) {
  Value magnitude = math::AbsFOp::create(rewriter, loc, x);
  TypedAttr bound = rewriter.getFloatAttr(getElementTypeOrSelf(x.getType()), number);
  if (auto vector = dyn_cast<VectorType>(x.getType()))
    bound = DenseElementsAttr::get(vector, Attribute(bound));
  return arith::CmpFOp::create(rewriter, loc, predicate, magnitude, arith::ConstantOp::create(rewriter, loc, bound));
}

namespace {

struct ExpandIsInf : OpRewritePattern<math::IsInfOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(math::IsInfOp op, PatternRewriter &rewriter) const override {
    auto type = cast<FloatType>(getElementTypeOrSelf(op.getOperand().getType()));
    rewriter.replaceOp(op, compareMagnitude(rewriter, op.getLoc(), op.getOperand(), arith::CmpFPredicate::OEQ,
                                            APFloat::getInf(type.getFloatSemantics())));
    return success();
  }
};

// Neither 0, nor denormal, infinite or NaN.
struct ExpandIsNormal : OpRewritePattern<math::IsNormalOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(math::IsNormalOp op, PatternRewriter &rewriter) const override {
    auto type = cast<FloatType>(getElementTypeOrSelf(op.getOperand().getType()));
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
    Type type = op.getType(), element = getElementTypeOrSelf(type), wide = rewriter.getF32Type();
    if (!element.isF16() && !element.isBF16())
      return rewriter.notifyMatchFailure(op, "has an instruction");
    if (auto vector = dyn_cast<VectorType>(type))
      wide = vector.clone(wide);
    SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      operands.push_back(arith::ExtFOp::create(rewriter, op.getLoc(), wide, operand));
    Value sum = math::FmaOp::create(rewriter, op.getLoc(), operands[0], operands[1], operands[2]);
    rewriter.replaceOpWithNewOp<arith::TruncFOp>(op, type, sum);
    return success();
  }
};

// A function of f32, or of a vector of it, as the arithmetic that `emit` writes.
template <typename Op, Value (*emit)(ImplicitLocOpBuilder &, Value)> struct ExpandFunction : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;
  LogicalResult matchAndRewrite(Op op, PatternRewriter &rewriter) const override {
    Type type = op.getType();
    if (!getElementTypeOrSelf(type).isF32() || !isa<FloatType, VectorType>(type))
      return rewriter.notifyMatchFailure(op, "is not of f32");
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    rewriter.replaceOp(op, emit(b, op.getOperand()));
    return success();
  }
};

} // namespace

void heddle::populateGraphMathPatterns(RewritePatternSet &patterns) {
  patterns.add<ExpandIsInf, ExpandIsNormal, WidenFma, ExpandFunction<math::CosOp, emitCos>,
               ExpandFunction<math::ErfOp, emitErf>, ExpandFunction<math::ExpOp, emitExp>,
               ExpandFunction<math::Exp2Op, emitExp2OfAny>, ExpandFunction<math::ExpM1Op, emitExpm1>,
               ExpandFunction<math::LogOp, emitLog>, ExpandFunction<math::Log1pOp, emitLog1p>,
               ExpandFunction<math::Log2Op, emitLog2>, ExpandFunction<math::SinOp, emitSin>,
               ExpandFunction<math::TanhOp, emitTanh>>(patterns.getContext());
  // Powers by 2, 3, 1/2 and the like are products and roots.
  populateMathAlgebraicSimplificationPatterns(patterns);
}
