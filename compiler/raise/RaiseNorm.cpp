// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/raise/Passes.h"

#include "compiler/raise/Arrange.h"
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

// Numbers that a norm stores: one for each place of the last dimension, or, where dimension `heads` of four is one of heads, one for each place of
// each head, those of one head behind those of the other.
struct StoredNumbers {
  Value vector;
  std::optional<unsigned> heads;
};

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
  StoredNumbers storedNumbers(Expr element);
  void replace(bool centered);

  Value input, root;
  ExprContext exprs;
  ElementTrace trace;
  SmallVector<Expr> symbols;
  StoredNumbers weight, bias;
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

StoredNumbers NormMatcher::storedNumbers(Expr element) {
  if (Value vector = storedVector(element, symbols.back()))
    return {vector, std::nullopt};
  OpBuilder b(root.getDefiningOp());
  auto axis = [&](unsigned d) { return Axis{symbols[d], trace.size(input, d)}; };
  if (Value vector = storedVectorPart(b, element, axis(symbols.size() - 1))) // of the only head
    return {vector, std::nullopt};
  // In layer_norm and rms_norm heads are dimension 1.
  for (unsigned heads = 1; symbols.size() == 4 && heads <= 2; ++heads)
    if (symbols[heads]->kind == ExprKind::Symbol)
      if (Value rows = storedRows(b, element, axis(heads), axis(3)))
        return {rows, heads};
  return {};
}

// `x` with dimensions 1 and 2 of its four exchanged.
static Value exchanged(OpBuilder &b, Location loc, Value x) {
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, loc, x);
  std::swap(sizes[1], sizes[2]);
  Value init = tensor::EmptyOp::create(b, loc, sizes, shaped(x).getElementType());
  return linalg::TransposeOp::create(b, loc, x, init, ArrayRef<int64_t>{0, 2, 1, 3}).getResult()[0];
}

void NormMatcher::replace(bool centered) {
  OpBuilder b(root.getDefiningOp());
  Location loc = root.getLoc();
  if (!weight.vector) {
    auto ones = DenseElementsAttr::get(RankedTensorType::get({width}, b.getF32Type()), 1.0f);
    weight.vector = arith::ConstantOp::create(b, loc, ones);
  }
  bool exchanges = weight.heads == 2u;
  Value x = exchanges ? exchanged(b, loc, input) : input, result;
  if (centered)
    result = LayerNormOp::create(b, loc, x.getType(), x, weight.vector, bias.vector, b.getF64FloatAttr(asWritten(eps)));
  else
    result = RmsNormOp::create(b, loc, x.getType(), x, weight.vector, b.getF64FloatAttr(asWritten(eps)),
                               b.getF64FloatAttr(weightOffset));
  if (exchanges)
    result = exchanged(b, loc, result);
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
  // weight * normalised, plus a bias; no weight is one of ones.
  SmallVector<std::pair<Expr, double>> terms = termsOf(element);
  if (constantOf(element) != 0 || terms.empty() || terms.size() > 2)
    return false;
  if (terms.size() == 2) {
    unsigned other = terms[0].first->kind == ExprKind::Product ? 1 : 0;
    bias = storedNumbers(terms[other].first);
    if (!bias.vector || terms[other].second != 1)
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
    if (exponent != 1 || weight.vector || parts.size() != 1 || parts[0].second != 1)
      return false;
    weight = storedNumbers(parts[0].first);
    weightOffset = constantOf(base);
    if (!weight.vector)
      return false;
  }
  if (!hasScale || !hasInput || (centered && weightOffset != 0))
    return false;
  if (bias.vector && (!centered || bias.heads != weight.heads))
    return false;
  replace(centered);
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

//===- heads that are normed one by one -----------------------------------===//

// Norms of one head each, (batch, 1, sequence, width), that `join` puts together are one norm of all, whose weight is theirs, one behind the other.
static void joinHeads(tensor::ConcatOp join) {
  RankedTensorType type = join.getResultType();
  if (join.getDim() != 1 || type.getRank() != 4 || join.getInputs().size() < 2)
    return;
  ExprContext exprs;
  ElementTrace moves(exprs, TraceDepth::Moves);
  SmallVector<Expr> symbols = moves.indexSymbols(join.getResult()), ofHead(symbols), first, second;
  Operation *norm = join.getInputs()[0].getDefiningOp();
  SmallVector<SmallVector<Value>> vectors; // of each head: the weight and perhaps the bias
  Value source;
  for (auto [h, head] : llvm::enumerate(join.getInputs())) {
    Operation *op = head.getDefiningOp();
    if (!isa_and_nonnull<RmsNormOp, LayerNormOp>(op) || shaped(head).getDimSize(1) != 1 ||
        op->getName() != norm->getName() || op->getAttrs() != norm->getAttrs() ||
        op->getNumOperands() != norm->getNumOperands())
      return;
    vectors.emplace_back(llvm::drop_begin(op->getOperands()));
    if (llvm::any_of(vectors.back(), [&](Value vector) {
          return !vector.getDefiningOp<WeightOp>() || shaped(vector) != shaped(vectors[0][0]);
        }))
      return;
    ofHead[1] = exprs.constant(0);
    Expr element = moves.element(op->getOperand(0), ofHead);
    if (element->kind != ExprKind::Leaf || (source && element->value != source))
      return;
    source = element->value;
    SmallVector<Expr> places(ArrayRef<Expr>(element->arguments));
    if (h < 2)
      (h == 0 ? first : second) = places;
    for (auto [d, place] : llvm::enumerate(places))
      if (h > 1 && place != exprs.add(first[d], exprs.mul(exprs.constant(double(h)), exprs.sub(second[d], first[d]))))
        return;
  }
  SmallVector<Expr> places;
  for (auto [begin, next] : llvm::zip_equal(first, second))
    places.push_back(exprs.add(begin, exprs.mul(symbols[1], exprs.sub(next, begin))));
  SmallVector<Axis> axes;
  for (auto [d, symbol] : llvm::enumerate(symbols))
    axes.push_back({symbol, moves.size(join.getResult(), d)});
  OpBuilder b(join);
  Location loc = join.getLoc();
  std::string why;
  Value heads = arrange(b, loc, exprs, source, places, axes, why);
  if (!heads)
    return;
  Operation *all = b.clone(*norm);
  all->setOperand(0, heads);
  for (unsigned v = 0; v < vectors[0].size(); ++v) {
    SmallVector<Value> ofHeads = llvm::map_to_vector(vectors, [&](ArrayRef<Value> ofHead) { return ofHead[v]; });
    all->setOperand(v + 1, tensor::ConcatOp::create(b, loc, 0, ofHeads));
    all->moveBefore(join);
  }
  all->getResult(0).setType(heads.getType());
  Value result = all->getResult(0);
  if (result.getType() != type)
    result = tensor::CastOp::create(b, loc, type, result);
  join.getResult().replaceAllUsesWith(result);
}

// Heads that lie among the rows of a norm, (batch, sequence * heads, width), and are put apart behind it are put apart before it: its rows are the same.
static void splitBeforeNorm(tensor::ExpandShapeOp split) {
  Operation *norm = split.getSrc().getDefiningOp();
  if (!isa_and_nonnull<RmsNormOp, LayerNormOp>(norm) || split.getReassociationIndices().back().size() != 1)
    return;
  // What splits the norm's input as the norm is split says where its elements come from.
  OpBuilder b(split);
  auto apart = cast<tensor::ExpandShapeOp>(b.clone(*split));
  apart.getSrcMutable().assign(norm->getOperand(0));
  ExprContext exprs;
  ElementTrace moves(exprs, TraceDepth::Moves);
  Expr element = moves.element(apart.getResult(), moves.indexSymbols(apart.getResult()));
  SmallVector<Axis> axes;
  for (auto [d, symbol] : llvm::enumerate(moves.indexSymbols(apart.getResult())))
    axes.push_back({symbol, moves.size(apart.getResult(), d)});
  std::string why;
  Value heads;
  if (element->kind == ExprKind::Leaf)
    heads = arrange(b, split.getLoc(), exprs, element->value, SmallVector<Expr>(ArrayRef<Expr>(element->arguments)),
                    axes, why);
  if (heads && heads.getType() == split.getType()) {
    Operation *ofHeads = b.clone(*norm);
    ofHeads->setOperand(0, heads);
    ofHeads->getResult(0).setType(heads.getType());
    split.getResult().replaceAllUsesWith(ofHeads->getResult(0));
  }
  apart.erase();
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
    SmallVector<tensor::ConcatOp> joins;
    getOperation().walk([&](tensor::ConcatOp op) { joins.push_back(op); });
    llvm::for_each(joins, joinHeads);
    SmallVector<tensor::ExpandShapeOp> splits;
    getOperation().walk([&](tensor::ExpandShapeOp op) { splits.push_back(op); });
    llvm::for_each(splits, splitBeforeNorm);
    eraseDeadOps(getOperation());
  }
};
} // namespace
