// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/raise/Passes.h"

#include "compiler/raise/ElementTrace.h"
#include "compiler/raise/Remarks.h"
#include "compiler/raise/Weights.h"

#include <cmath>

namespace heddle {
#define GEN_PASS_DEF_RAISENORM
#include "compiler/raise/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

static RankedTensorType shaped(Value value) {
  return cast<RankedTensorType>(value.getType());
}

namespace {

// Matches the element of a value against the formulas of the norms of `input`.
class NormMatcher {
public:
  NormMatcher(Value input, Value root) : input(input), root(root), trace(exprs) { trace.stopAt(input); }
  bool run();

private:
  bool isInput(Expr expr, Expr last);
  bool isMean(Expr expr, double factor);
  bool isCentered(Expr expr, Expr last);
  // sum over the last dimension of `body` ^ 2, divided by the width.
  bool isMeanSquare(Expr term, double factor, llvm::function_ref<bool(Expr base, Expr index)> isBase);
  bool matchScale(Expr factor, bool centered);
  void replace(bool centered, Value bias);

  Value input, root;
  ExprContext exprs;
  ElementTrace trace;
  SmallVector<Expr> symbols;
  Value weight;
  double eps = 0, weightOffset = 0;
  int64_t width = 0;
};

} // namespace

bool NormMatcher::isInput(Expr expr, Expr last) {
  return expr->kind == ExprKind::Leaf && expr->value == input && expr->arguments.back() == last &&
         ArrayRef<Expr>(expr->arguments).drop_back() == ArrayRef<Expr>(symbols).drop_back();
}

static bool near(double a, double b) {
  return std::abs(a - b) <= 1e-6 * std::abs(b);
}

bool NormMatcher::isMean(Expr expr, double factor) {
  return expr->kind == ExprKind::Reduce && expr->name == "sum" && near(factor * width, 1) &&
         isInput(expr->arguments[0], expr->symbol);
}

bool NormMatcher::isCentered(Expr expr, Expr last) {
  SmallVector<std::pair<Expr, double>> terms = termsOf(expr);
  if (terms.size() != 2 || constantOf(expr) != 0)
    return false;
  for (int first : {0, 1})
    if (terms[first].second == 1 && isInput(terms[first].first, last) &&
        isMean(terms[1 - first].first, -terms[1 - first].second))
      return true;
  return false;
}

bool NormMatcher::isMeanSquare(Expr term, double factor, function_ref<bool(Expr, Expr)> isBase) {
  if (term->kind != ExprKind::Reduce || term->name != "sum" || !near(factor * width, 1))
    return false;
  SmallVector<std::pair<Expr, double>> factors = factorsOf(term->arguments[0]);
  return term->arguments[0]->kind == ExprKind::Product && factors.size() == 1 && factors[0].second == 2 &&
         isBase(factors[0].first, term->symbol);
}

// (mean of squares + eps), the base of the power -1/2.
bool NormMatcher::matchScale(Expr base, bool centered) {
  SmallVector<std::pair<Expr, double>> terms = termsOf(base);
  eps = constantOf(base);
  return terms.size() == 1 && eps >= 0 && isMeanSquare(terms[0].first, terms[0].second, [&](Expr inner, Expr index) {
           return centered ? isCentered(inner, index) : isInput(inner, index);
         });
}

void NormMatcher::replace(bool centered, Value bias) {
  OpBuilder b(root.getDefiningOp());
  Location loc = root.getLoc();
  Value result;
  if (centered)
    result = LayerNormOp::create(b, loc, input.getType(), input, weight, bias, b.getF64FloatAttr(asWritten(eps)));
  else
    result = RmsNormOp::create(b, loc, input.getType(), input, weight, b.getF64FloatAttr(asWritten(eps)),
                               b.getF64FloatAttr(weightOffset));
  if (result.getType() != root.getType())
    result = tensor::CastOp::create(b, loc, root.getType(), result);
  root.replaceAllUsesWith(result);
}

bool NormMatcher::run() {
  width = shaped(input).getShape().back();
  symbols = trace.indexSymbols(input);
  if (symbols.back()->kind != ExprKind::Symbol)
    return false;
  Expr element = trace.element(root, symbols);
  // weight * normalised, plus a bias.
  Value bias;
  SmallVector<std::pair<Expr, double>> terms = termsOf(element);
  if (constantOf(element) != 0 || terms.empty() || terms.size() > 2)
    return false;
  if (terms.size() == 2) {
    unsigned other = terms[0].first->kind == ExprKind::Product ? 1 : 0;
    bias = storedVector(terms[other].first, symbols.back());
    if (!bias || terms[other].second != 1)
      return false;
    terms.erase(terms.begin() + other);
  }
  if (terms[0].second != 1)
    return false;
  bool hasScale = false, hasInput = false, centered = false;
  for (auto &[base, exponent] : factorsOf(terms[0].first))
    if (exponent == 1 && (isInput(base, symbols.back()) || isCentered(base, symbols.back()))) {
      hasInput = true;
      centered = !isInput(base, symbols.back());
    }
  for (auto &[base, exponent] : factorsOf(terms[0].first)) {
    if (exponent == 1 && hasInput && (isInput(base, symbols.back()) || isCentered(base, symbols.back())))
      continue;
    if (exponent == -0.5 && !hasScale && matchScale(base, centered)) {
      hasScale = true;
      continue;
    }
    // weight, or weight + offset
    SmallVector<std::pair<Expr, double>> parts = termsOf(base);
    if (exponent != 1 || weight || parts.size() != 1 || parts[0].second != 1)
      return false;
    weight = storedVector(parts[0].first, symbols.back());
    weightOffset = constantOf(base);
    if (!weight)
      return false;
  }
  if (!hasScale || !hasInput || !weight || (bias && !centered) || (centered && weightOffset != 0))
    return false;
  replace(centered, bias);
  return true;
}

//===- candidates ---------------------------------------------------------===//

static Value withoutCasts(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<arith::ExtFOp, arith::TruncFOp, tensor::CastOp>(op))
      break;
    value = op->getOperand(0);
  }
  return value;
}

// Whether a single op reads `value`, casts aside. A norm reads its input twice at least, to measure it and to scale it.
static bool isReadOnce(Value value) {
  while (value.hasOneUse()) {
    Operation *user = *value.user_begin();
    if (!isa<arith::ExtFOp, arith::TruncFOp, tensor::CastOp>(user))
      return true;
    value = user->getResult(0);
  }
  return false;
}

// What `reduction`, which may sum squares, may be the norm of: its input, the input's square root, and that before a mean is taken off.
static SmallVector<Value> inputsOf(linalg::LinalgOp reduction) {
  SmallVector<Value> inputs{withoutCasts(reduction.getDpsInputOperand(0)->get())};
  for (int depth = 0; depth < 3; ++depth) {
    Operation *op = inputs.back().getDefiningOp();
    if (!op || !op->hasTrait<OpTrait::Elementwise>() || op->getNumOperands() == 0)
      break;
    inputs.push_back(withoutCasts(op->getOperand(0)));
  }
  return inputs;
}

// Values of `type`'s shape that depend on `start` through ops on elements and broadcasts, the furthest first.
static SmallVector<Value> rootsOf(Value start, RankedTensorType type) {
  SmallVector<Value> roots, work{start};
  llvm::SmallDenseSet<Value> seen;
  for (size_t next = 0; next < work.size() && work.size() < 24; ++next)
    for (Operation *user : work[next].getUsers()) {
      bool isStep = user->getNumResults() == 1 && isa<RankedTensorType>(user->getResult(0).getType()) &&
                    (user->hasTrait<OpTrait::Elementwise>() ||
                     isa<linalg::LinalgOp, tensor::ExpandShapeOp, tensor::CollapseShapeOp, tensor::CastOp>(user)) &&
                    !isContraction(user);
      if (!isStep || !seen.insert(user->getResult(0)).second)
        continue;
      Value result = user->getResult(0);
      work.push_back(result);
      if (shaped(result).getShape() == type.getShape() && shaped(result).getElementType().isF32())
        roots.push_back(result);
    }
  return SmallVector<Value>(roots.rbegin(), roots.rend());
}

// Whether `root` is computed from `input` and what is stored: only then can it be a norm, and only then is its element a short expression.
static bool isMadeOf(Value root, Value input) {
  SmallVector<Value> work{root};
  llvm::SmallDenseSet<Value> seen{input};
  while (!work.empty()) {
    Value value = work.pop_back_val();
    if (!isa<RankedTensorType>(value.getType()) || isStored(value) || !seen.insert(value).second)
      continue;
    Operation *op = value.getDefiningOp();
    if (!op || isa<LinearOp, EmbeddingOp>(op) || isContraction(op))
      return false;
    op->walk([&](Operation *inner) { llvm::append_range(work, inner->getOperands()); });
  }
  return true;
}

static void raise(linalg::LinalgOp reduction) {
  // The furthest first: what is normalised with its mean taken off is a layer norm, not the RMS norm of the difference.
  SmallVector<Value> inputs = inputsOf(reduction);
  for (Value input : llvm::reverse(inputs)) {
    auto type = dyn_cast<RankedTensorType>(input.getType());
    if (!type || type.getRank() == 0 || !type.getElementType().isF32() || type.isDynamicDim(type.getRank() - 1) ||
        isReadOnce(input))
      continue;
    // Norms of one input share what measures it, as those before an attention and the block beside it do.
    bool isRaised = false;
    for (Value root : rootsOf(reduction->getResult(0), type))
      if (root != input && !isDead(root.getDefiningOp()) && isMadeOf(root, input))
        isRaised |= NormMatcher(input, root).run();
    if (isRaised)
      return;
  }
}

namespace {
struct RaiseNorm : heddle::impl::RaiseNormBase<RaiseNorm> {
  void runInStage() override {
    SmallVector<linalg::LinalgOp> reductions;
    getOperation().walk([&](linalg::LinalgOp op) {
      if (op.getNumReductionLoops() == 1 && op->getNumResults() == 1 && op.getNumDpsInputs() && !isContraction(op))
        reductions.push_back(op);
    });
    // The variance's sum before the mean's, which also leads to the root.
    for (linalg::LinalgOp reduction : llvm::reverse(reductions))
      if (!reduction->getResult(0).use_empty())
        raise(reduction);
    eraseDeadOps(getOperation());
  }
};
} // namespace
