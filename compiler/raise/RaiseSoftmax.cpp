// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/raise/Passes.h"

#include "compiler/raise/ElementTrace.h"
#include "compiler/raise/Remarks.h"

namespace heddle {
#define GEN_PASS_DEF_RAISESOFTMAX
#include "compiler/raise/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

static RankedTensorType shaped(Value value) {
  return cast<RankedTensorType>(value.getType());
}

// Whether `root` is exp(input - m) / sum over the last dimension of exp(input - m), whatever m is, if it is the same in both and for
// the whole row: it cancels.
static bool isSoftmax(Value input, Value root) {
  ExprContext exprs;
  ElementTrace trace(exprs);
  trace.stopAt(input);
  SmallVector<Expr> symbols = trace.indexSymbols(input);
  Expr last = symbols.back(), element = trace.element(root, symbols);
  if (last->kind != ExprKind::Symbol || element->kind != ExprKind::Product || element->terms.size() != 2)
    return false;
  Expr numerator = nullptr, denominator = nullptr;
  for (auto &[base, exponent] : element->terms) {
    if (exponent == 1 && base->kind == ExprKind::Call && base->name == "exp")
      numerator = base;
    if (exponent == -1 && base->kind == ExprKind::Reduce && base->name == "sum")
      denominator = base;
  }
  if (!numerator || !denominator || denominator->arguments[0]->kind != ExprKind::Call ||
      denominator->arguments[0]->name != "exp")
    return false;
  // Both are shifted, each by what is left without its own score.
  SmallVector<Expr> summed(symbols);
  summed.back() = denominator->symbol;
  Expr shift = exprs.sub(numerator->arguments[0], exprs.leaf(input, symbols));
  Expr summedShift = exprs.sub(denominator->arguments[0]->arguments[0], exprs.leaf(input, summed));
  auto isSame = [&](Expr a, Expr b) {
    if (a == b)
      return true;
    // The greatest score, with another name for the place that it is looked for at.
    SmallVector<std::pair<Expr, double>> x = termsOf(a), y = termsOf(b);
    if (x.size() != 1 || y.size() != 1 || x[0].second != y[0].second || constantOf(a) != constantOf(b) ||
        x[0].first->kind != ExprKind::Reduce || y[0].first->kind != ExprKind::Reduce ||
        x[0].first->name != y[0].first->name)
      return false;
    DenseMap<Expr, Expr> rename{{y[0].first->symbol, x[0].first->symbol}};
    return exprs.substitute(y[0].first->arguments[0], rename) == x[0].first->arguments[0];
  };
  return denominator->symbol->extent == last->extent && !exprs.contains(shift, last) &&
         !exprs.contains(summedShift, denominator->symbol) && isSame(shift, summedShift);
}

static Value withoutCasts(Value value) {
  while (auto cast = value.getDefiningOp<arith::ExtFOp>())
    value = cast.getIn();
  return value;
}

static bool raise(Operation *root) {
  Value result = root->getResult(0);
  // The exp op nearest behind the root, and what it reads before anything was taken off.
  SmallVector<Value> work{result};
  for (size_t next = 0; next < work.size() && work.size() < 16; ++next) {
    Operation *op = work[next].getDefiningOp();
    if (!op || !isa<RankedTensorType>(work[next].getType()) || isContraction(op) ||
        isa<HeddleDialect>(op->getDialect()))
      continue;
    if (!isa<math::ExpOp>(op)) {
      llvm::append_range(work, op->getOperands());
      continue;
    }
    Value shifted = op->getOperand(0);
    SmallVector<Value> inputs{shifted};
    if (auto sub = shifted.getDefiningOp<arith::SubFOp>())
      inputs.insert(inputs.begin(), withoutCasts(sub.getLhs()));
    for (Value input : inputs) {
      if (shaped(input).getShape() != shaped(result).getShape() || !isSoftmax(input, result))
        continue;
      OpBuilder b(root);
      int64_t rank = shaped(input).getRank();
      Value init = tensor::EmptyOp::create(b, root->getLoc(), tensor::getMixedSizes(b, root->getLoc(), input),
                                           shaped(input).getElementType());
      Value softmax =
          linalg::SoftmaxOp::create(b, root->getLoc(), TypeRange{init.getType()}, input, init, rank - 1).getResult()[0];
      if (shaped(softmax).getElementType() != shaped(result).getElementType())
        softmax =
            arith::ExtFOp::create(b, root->getLoc(), shaped(softmax).clone(shaped(result).getElementType()), softmax);
      if (softmax.getType() != result.getType())
        softmax = tensor::CastOp::create(b, root->getLoc(), result.getType(), softmax);
      result.replaceAllUsesWith(softmax);
      return true;
    }
  }
  return false;
}

namespace {
struct RaiseSoftmax : heddle::impl::RaiseSoftmaxBase<RaiseSoftmax> {
  void runOnOperation() override {
    SmallVector<Operation *> roots;
    getOperation().walk([&](Operation *op) {
      if (isa<arith::DivFOp, arith::MulFOp>(op) && isa<RankedTensorType>(op->getResult(0).getType()))
        roots.push_back(op);
    });
    for (Operation *root : llvm::reverse(roots))
      raise(root);
    eraseDeadOps(getOperation());
  }
};
} // namespace
