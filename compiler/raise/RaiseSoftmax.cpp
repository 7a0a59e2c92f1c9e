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

namespace {
// numerator / (the sum of `summed` over the symbol): what both are exponentials of.
struct Quotient {
  Expr numerator, summed, symbol;
};
} // namespace

static Expr exponentOf(Expr expr) {
  return expr->kind == ExprKind::Call && expr->name == "exp" ? expr->arguments[0] : nullptr;
}

// The quotient that an element is: exp(a) / sum exp(b), or exp(a - log(sum exp(b))), which log-softmax and log-sum-exp come to.
static std::optional<Quotient> quotientOf(ExprContext &exprs, Expr element) {
  Expr numerator = nullptr, sum = nullptr;
  if (Expr exponent = exponentOf(element)) {
    for (auto &[term, factor] : termsOf(exponent))
      if (factor == -1 && term->kind == ExprKind::Call && term->name == "log") {
        numerator = exprs.add(exponent, term);
        sum = term->arguments[0];
      }
  } else if (element->kind == ExprKind::Product && element->terms.size() == 2) {
    for (auto &[base, exponent] : element->terms) {
      if (exponent == 1)
        numerator = exponentOf(base);
      if (exponent == -1)
        sum = base;
    }
  }
  if (!numerator || !sum || sum->kind != ExprKind::Reduce || sum->name != "sum" || !exponentOf(sum->arguments[0]))
    return std::nullopt;
  return Quotient{numerator, exponentOf(sum->arguments[0]), sum->symbol};
}

static double factorOf(Expr sum, Expr term) {
  for (auto &[part, factor] : termsOf(sum))
    if (part == term)
      return factor;
  return 0;
}

// The factor f, if there is one, with which `root` is exp(f * input - m) / sum over the last dimension of exp(f * input - m), whatever m
// is, if it is the same in both and for the whole row: it cancels.
static std::optional<double> softmaxFactor(Value input, Value root) {
  ExprContext exprs;
  ElementTrace trace(exprs);
  trace.stopAt(input);
  SmallVector<Expr> symbols = trace.indexSymbols(input);
  Expr last = symbols.back();
  std::optional<Quotient> quotient = quotientOf(exprs, trace.element(root, symbols));
  if (!quotient || last->kind != ExprKind::Symbol)
    return std::nullopt;
  // Both are shifted, each by what is left without its own score.
  SmallVector<Expr> summed(symbols);
  summed.back() = quotient->symbol;
  Expr score = exprs.leaf(input, symbols), summedScore = exprs.leaf(input, summed);
  double factor = factorOf(quotient->numerator, score);
  if (factor == 0 || factor != factorOf(quotient->summed, summedScore))
    return std::nullopt;
  Expr shift = exprs.sub(quotient->numerator, exprs.mul(exprs.constant(factor), score));
  Expr summedShift = exprs.sub(quotient->summed, exprs.mul(exprs.constant(factor), summedScore));
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
  if (std::abs(factor - 1) < 1e-6) // log2(e) as 32 bits have it, times log(2)
    factor = 1;
  bool cancels = quotient->symbol->extent == last->extent && !exprs.contains(shift, last) &&
                 !exprs.contains(summedShift, quotient->symbol) && isSame(shift, summedShift);
  return cancels ? std::optional(factor) : std::nullopt;
}

static Value withoutCasts(Value value) {
  while (auto cast = value.getDefiningOp<arith::ExtFOp>())
    value = cast.getIn();
  return value;
}

// What scores an exponential may be taken of: what is left of them without what was taken off, the least changed last; then without
// factors too.
static SmallVector<Value> candidates(Value exponent) {
  SmallVector<Value> shifted, scaled{exponent};
  for (size_t next = 0; next < scaled.size() && scaled.size() < 6; ++next) {
    Value value = withoutCasts(scaled[next]);
    if (auto sub = value.getDefiningOp<arith::SubFOp>())
      scaled.push_back(withoutCasts(sub.getLhs()));
    else if (auto mul = value.getDefiningOp<arith::MulFOp>())
      scaled.append({withoutCasts(mul.getLhs()), withoutCasts(mul.getRhs())});
  }
  for (Value value = exponent; auto sub = withoutCasts(value).getDefiningOp<arith::SubFOp>();)
    shifted.push_back(value = withoutCasts(sub.getLhs()));
  SmallVector<Value> all(llvm::reverse(shifted));
  for (Value value : llvm::reverse(scaled))
    if (!llvm::is_contained(all, value))
      all.push_back(value);
  return all;
}

// softmax(factor * input) along the last dimension.
static Value createSoftmax(OpBuilder &b, Location loc, Value input, double factor) {
  auto empty = [&] {
    return tensor::EmptyOp::create(b, loc, tensor::getMixedSizes(b, loc, input), shaped(input).getElementType());
  };
  if (factor != 1) {
    Value constant = arith::ConstantOp::create(b, loc, b.getFloatAttr(shaped(input).getElementType(), factor));
    Value filled = linalg::FillOp::create(b, loc, constant, Value(empty())).getResult(0);
    if (filled.getType() != input.getType())
      filled = tensor::CastOp::create(b, loc, input.getType(), filled);
    input = arith::MulFOp::create(b, loc, input, filled);
  }
  Value init = empty();
  return linalg::SoftmaxOp::create(b, loc, TypeRange{init.getType()}, input, init, shaped(input).getRank() - 1)
      .getResult()[0];
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
    if (!isa<math::ExpOp, math::Exp2Op>(op)) {
      llvm::append_range(work, op->getOperands());
      continue;
    }
    for (Value input : candidates(op->getOperand(0))) {
      if (shaped(input).getShape() != shaped(result).getShape())
        continue;
      std::optional<double> factor = softmaxFactor(input, result);
      if (!factor)
        continue;
      OpBuilder b(root);
      Value softmax = createSoftmax(b, root->getLoc(), input, *factor);
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

// Whether a reduction reads the result.
static bool isSummed(Operation *op) {
  return llvm::any_of(op->getUsers(), [](Operation *user) {
    auto loops = dyn_cast<linalg::LinalgOp>(user);
    return loops && !isa<linalg::SoftmaxOp>(user) && loops.getNumReductionLoops() > 0;
  });
}

namespace {
struct RaiseSoftmax : heddle::impl::RaiseSoftmaxBase<RaiseSoftmax> {
  void runInStage() override {
    SmallVector<Operation *> roots;
    getOperation().walk([&](Operation *op) {
      if (isa<arith::DivFOp, arith::MulFOp, math::ExpOp, math::Exp2Op>(op) &&
          isa<RankedTensorType>(op->getResult(0).getType()))
        roots.push_back(op);
    });
    for (Operation *root : llvm::reverse(roots))
      raise(root);
    eraseDeadOps(getOperation());
    getOperation().walk([](Operation *op) {
      if (isa<math::ExpOp, math::Exp2Op>(op) && isa<RankedTensorType>(op->getResult(0).getType()) && isSummed(op))
        op->emitRemark(
            "exponentials and their sum are no softmax along the last dimension: what they weigh is no attention");
    });
  }
};
} // namespace
