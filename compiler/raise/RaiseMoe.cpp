// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/raise/Passes.h"

#include "compiler/raise/Arrange.h"
#include "compiler/raise/MoeMatcher.h"
#include "compiler/raise/Remarks.h"
#include "compiler/raise/Routing.h"
#include "compiler/raise/Weights.h"

#include "mlir/IR/TypeUtilities.h"

namespace heddle {
#define GEN_PASS_DEF_RAISEMOE
#include "compiler/raise/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

static RankedTensorType shaped(Value value) {
  return cast<RankedTensorType>(value.getType());
}

//===- one expert ---------------------------------------------------------===//

// How the rows that a down projection reads are made of a gate and an up projection; nothing where they are not.
std::optional<Gated> MoeMatcher::hiddenOf(Expr rows) {
  Operation *op = rows->kind == ExprKind::Leaf ? rows->value.getDefiningOp() : nullptr;
  if (auto glu = dyn_cast_or_null<GluOp>(op); glu && glu.getUp())
    return Gated{layout.element(glu.getGate(), rows->arguments), layout.element(glu.getUp(), rows->arguments),
                 glu.getActivation(), GatingAttr()};
  if (!isa_and_nonnull<arith::MulFOp>(op))
    return std::nullopt;
  return readGated(
      exprs, exprs.substitute(whole.element(rows->value, rows->arguments), products.known),
      [&](Expr part) { return products.isProduct(part); }, b.getContext());
}

// One product of which even columns are the gate's and odd ones the up projection's, in a symbol of its own; nothing if they lie otherwise.
std::optional<RowMatmul> MoeMatcher::gateAndUpOf(const Gated &hidden, const RowMatmul &down) {
  Expr two = exprs.constant(2), even = exprs.mul(two, down.k.index), odd = exprs.add(even, exprs.constant(1));
  Expr turn = exprs.symbol(turnSymbol, exprs.mul(two, down.k.extent));
  Expr gate = exprs.substitute(hidden.gate, {{even, turn}}), up = exprs.substitute(hidden.up, {{odd, turn}});
  return gate == up && gate != hidden.gate ? products.read(gate, columnSymbol) : std::nullopt;
}

// Whether `factor` may be the weight of an expert: an element of a tensor, or of several that are put together of the choices of a token.
static bool isWeight(Expr factor) {
  bool isElement = true;
  forEachEnd(factor, [&](Expr end) {
    isElement &= end->kind == ExprKind::Leaf && isa<RankedTensorType>(end->value.getType());
  });
  return isElement;
}

bool MoeMatcher::readExpert(const MoeTerm &term) {
  MoeExpert expert;
  std::optional<RowMatmul> down;
  std::optional<Gated> hidden;
  for (Expr factor : term.factors) {
    std::optional<RowMatmul> product = down ? std::nullopt : products.read(factor, hiddenSymbol);
    hidden = product ? hiddenOf(product->rows) : hidden;
    if (product && hidden)
      down = product;
    else if (isWeight(factor) && !expert.weight)
      expert.weight = factor;
    else
      return because("a term of it has more factors than an expert and its weight");
  }
  if (!down || !expert.weight)
    return because("not every term of it is an expert with its weight");
  Operation *activated = down->rows->value.getDefiningOp();
  silent = false;
  expert.activation = hidden->activation;
  expert.gating = hidden->gating;
  std::optional<RowMatmul> gate = products.read(hidden->gate, columnSymbol),
                           up = products.read(hidden->up, columnSymbol);
  if (!gate || !up || gate->rows != up->rows || gate->rows->kind != ExprKind::Leaf ||
      gate->rows->arguments.back() != gate->k.index)
    return because(describe(activated) + " does not gate two products of the same rows");
  expert.rows = gate->rows;
  ExpertMatmuls matmuls{*gate, *up, *down, gateAndUpOf(*hidden, *down)};
  auto count = [](const RowMatmul &product) {
    const NumberedElement &matrix = product.matrix;
    return matrix.number ? shaped(matrix.element->value).getDimSize(matrix.dimension) : 1;
  };
  if (gate->matrix.number != down->matrix.number || up->matrix.number != down->matrix.number ||
      count(*gate) != count(*down) || count(*up) != count(*down))
    return because(describe(activated) + " has matrices of different experts");
  return (term.tokens ? addChosen(expert, matmuls, *term.tokens) : addExperts(expert, matmuls)) ||
         because(describe(activated) +
                 " has matrices or biases that are not (out_features, in_features) parts of one tensor");
}

// One expert, or all of which a token may number one.
bool MoeMatcher::addExperts(const MoeExpert &first, const ExpertMatmuls &matmuls) {
  const NumberedElement &matrix = matmuls.down.matrix;
  int64_t count = matrix.number ? shaped(matrix.element->value).getDimSize(matrix.dimension) : 1;
  Value weights = matrix.number ? weightsOfAll(first.weight, matrix.number, count) : Value();
  if (matrix.number ? !weights : first.weight->kind != ExprKind::Leaf)
    return because("its weights are no tensor of the tokens and their choices");
  for (int64_t e = 0; e < count; ++e) {
    MoeExpert expert = first;
    if (weights) {
      SmallVector<Expr> indices(symbols);
      indices.back() = exprs.constant(e);
      expert.weight = exprs.leaf(weights, indices);
    }
    if (!addMatrices(expert, matmuls, e))
      return false;
    experts.push_back(expert);
  }
  return true;
}

// An expert that is computed for its tokens alone. Where it is place c of a list of n, and all of them number one of n matrices, it is expert c: the
// list ascends, and the last place is below n. A graph in which an expert has no token does not run to its end.
bool MoeMatcher::addChosen(MoeExpert expert, const ExpertMatmuls &matmuls, const ChosenTokens &tokens) {
  const NumberedElement &matrix = matmuls.down.matrix;
  int64_t count = terms.size();
  bool isNumbered = matrix.number && matrix.number == tokens.number &&
                    shaped(matrix.element->value).getDimSize(matrix.dimension) == count;
  if (numbered ? !isNumbered : matrix.number != nullptr)
    return because("its matrices are those of other experts than its tokens");
  expert.number = tokens.number ? tokens.place : experts.size();
  Expr weight = expert.weight, none = exprs.constant(0), sum = none;
  int64_t choices = tokens.choice && tokens.choice->kind == ExprKind::Symbol ? tokens.choice->extent->constant : 1;
  if (tokens.choice && exprs.contains(expert.rows, tokens.choice) && choices > 1)
    return because("its choices read different rows");
  for (int64_t c = 0; c < choices; ++c) {
    DenseMap<Expr, Expr> fixed;
    if (tokens.number)
      fixed[tokens.number] = exprs.constant(tokens.place);
    if (choices > 1)
      fixed[tokens.choice] = exprs.constant(c);
    Expr seen = exprs.condition(exprs.substitute(tokens.seen, fixed)), own = exprs.substitute(weight, fixed);
    sum = tokens.adds ? exprs.add(sum, exprs.select(seen, own, none)) : exprs.select(seen, own, sum);
  }
  expert.weight = sum;
  experts.push_back(expert);
  return addMatrices(experts.back(), matmuls, expert.number);
}

// (tokens, experts): the weights of experts that are computed for their tokens alone, side by side.
bool MoeMatcher::placeWeights() {
  llvm::stable_sort(experts, [](const MoeExpert &a, const MoeExpert &b) { return a.number < b.number; });
  Axis tokens{symbols[0], symbols[0]->extent}, one{exprs.constant(0), exprs.constant(1)};
  SmallVector<Value> columns;
  for (const MoeExpert &expert : experts) {
    Value column = emitTensor(b, root->getLoc(), exprs, expert.weight, {tokens, one}, b.getF32Type(), /*repeats=*/true);
    if (!column || exprs.exhausted())
      return because("its weights have no op");
    columns.push_back(column);
  }
  Value weights = tensor::ConcatOp::create(b, root->getLoc(), 1, columns);
  for (auto [e, expert] : llvm::enumerate(experts)) {
    if (expert.number != (int64_t)e)
      return because("an expert of it is missing");
    expert.weight = exprs.leaf(weights, {symbols[0], exprs.constant(e)});
  }
  return true;
}

// The matrices and biases of expert `number`, where tokens number them.
bool MoeMatcher::addMatrices(MoeExpert &expert, const ExpertMatmuls &matmuls, int64_t number) {
  Axis width{symbols.back(), layout.size(root->getResult(0), symbols.size() - 1)}, hidden = matmuls.down.k;
  auto set = [&](const RowMatmul &product, Axis row, Value &matrix, Value &bias) {
    matrix = products.matrixOf(b, root->getLoc(), product, row, product.k, number);
    bias = product.bias ? products.biasOf(b, product, row, number) : Value();
    return matrix && bool(bias) == product.bias.has_value();
  };
  if (!set(matmuls.down, width, expert.down, expert.downBias))
    return false;
  bool isApart = matmuls.gate.bias.has_value() == matmuls.up.bias.has_value() &&
                 set(matmuls.gate, hidden, expert.gate, expert.gateBias) &&
                 set(matmuls.up, hidden, expert.up, expert.upBias);
  if (isApart || !matmuls.gateAndUp || int64_t(hidden.extent->constant) % panelRows)
    return isApart;
  Expr both = exprs.mul(exprs.constant(2), hidden.extent);
  expert.up = expert.upBias = Value();
  return set(*matmuls.gateAndUp, {exprs.symbol(turnSymbol, both), both}, expert.gate, expert.gateBias);
}

// (tokens, experts): the weights of a token's choices, `weight`, where their `number` is the expert's, and 0 elsewhere. Null if they are no
// tensors of tokens and choices.
Value MoeMatcher::weightsOfAll(Expr weight, Expr number, int64_t numExperts) {
  if (!choice)
    return {};
  Location loc = root->getLoc();
  SmallVector<Axis> axes;
  for (auto [d, symbol] : llvm::enumerate(ArrayRef(symbols).drop_back()))
    axes.push_back({symbol, layout.size(root->getResult(0), d)});
  axes.push_back(*choice);
  std::string why;
  Value ofChoices = weight->kind == ExprKind::Leaf
                        ? arrange(b, loc, exprs, weight->value, weight->arguments, axes, why)
                        : emitTensor(b, loc, exprs, weight, axes, b.getF32Type(), /*repeats=*/true);
  Value numbers = ofChoices ? emitIntegers(b, loc, exprs, number, axes) : Value();
  if (!numbers)
    return {};
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, loc, ofChoices);
  sizes.back() = b.getIndexAttr(numExperts);
  Type type = shaped(ofChoices).getElementType();
  Value zero = arith::ConstantOp::create(b, loc, b.getZeroAttr(type));
  Value none = linalg::FillOp::create(b, loc, zero, tensor::EmptyOp::create(b, loc, sizes, type).getResult()).result();
  // Loops: tokens, choices, experts.
  unsigned rank = axes.size();
  AffineMap ofChoice = b.getMultiDimIdentityMap(rank + 1).getMajorSubMap(rank);
  AffineMap ofExpert = ofChoice.insertResult(b.getAffineDimExpr(rank), rank - 1).dropResult(rank);
  SmallVector<utils::IteratorType> loops(rank + 1, utils::IteratorType::parallel);
  loops[rank - 1] = utils::IteratorType::reduction;
  auto sum = linalg::GenericOp::create(
      b, loc, none.getType(), ValueRange{ofChoices, numbers}, none, {ofChoice, ofChoice, ofExpert}, loops,
      [&](OpBuilder &inner, Location at, ValueRange values) {
        Value expert = linalg::IndexOp::create(inner, at, rank);
        Value chosen = arith::IndexCastOp::create(inner, at, inner.getIndexType(), values[1]);
        Value isChosen = arith::CmpIOp::create(inner, at, arith::CmpIPredicate::eq, chosen, expert);
        Value part = arith::SelectOp::create(inner, at, isChosen, values[0], zero);
        linalg::YieldOp::create(inner, at, arith::AddFOp::create(inner, at, values[2], part).getResult());
      });
  return sum.getResult(0);
}

//===- the op -------------------------------------------------------------===//

// The number of the token that an element is of: its indices but `without`, counted in row-major order.
Expr MoeMatcher::tokenOf(Value tensor, ArrayRef<Expr> indices, unsigned without) {
  Expr token = exprs.constant(0);
  for (auto [d, index] : llvm::enumerate(indices))
    if (d != without)
      token = exprs.add(exprs.mul(token, layout.size(tensor, d)), index);
  return token;
}

bool MoeMatcher::emit() {
  const MoeExpert &first = experts[0];
  Value input = first.rows->value, weights = first.weight->value;
  SmallVector<std::pair<int64_t, unsigned>> order; // expert and term
  std::optional<unsigned> expertDim;
  if (experts.size() == 1)
    expertDim = first.weight->arguments.size() - 1;
  for (auto [term, expert] : llvm::enumerate(experts)) {
    if (expert.rows != first.rows || expert.weight->value != weights || expert.activation != first.activation ||
        expert.gating != first.gating || !expert.gateBias != !first.gateBias || !expert.downBias != !first.downBias)
      return because("its experts read different rows or weights, or have different activations");
    if (!expertDim)
      for (unsigned d = 0; d < expert.weight->arguments.size(); ++d)
        if (expert.weight->arguments[d] != experts[1].weight->arguments[d])
          expertDim = d;
    if (!expertDim || !expert.weight->arguments[*expertDim]->isConstant())
      return because("its weights do not number its experts");
    order.push_back({(int64_t)expert.weight->arguments[*expertDim]->constant, term});
  }
  llvm::sort(order);
  int64_t numExperts = shaped(weights).getDimSize(*expertDim);
  if ((int64_t)order.size() != numExperts)
    return because("it sums " + std::to_string(order.size()) + " experts of " + std::to_string(numExperts));
  for (auto [e, entry] : llvm::enumerate(order))
    if (entry.first != (int64_t)e)
      return because("an expert of it is missing");
  unsigned inputRank = first.rows->arguments.size();
  Expr token = tokenOf(input, first.rows->arguments, inputRank - 1);
  for (const MoeExpert &expert : experts)
    if (tokenOf(weights, expert.weight->arguments, *expertDim) != token)
      return because("its weights are those of other tokens");
  std::optional<Routing> routing = readRouting(weights, *expertDim, /*checksHold=*/!numbered, reason);
  if (!routing)
    return false;
  LinearOp router = routing->router;
  SmallVector<Expr> places = layout.indexSymbols(router.getInput());
  Expr routed = layout.element(router.getInput(), places);
  if (routed->kind != ExprKind::Leaf || routed->value != input || !llvm::equal(routed->arguments, places))
    return because(describe(router) + " reads other rows than its experts");
  auto ofExperts = [&](Value MoeExpert::*part) { // or none
    SmallVector<Value> values;
    for (auto [e, term] : order)
      if (Value value = experts[term].*part)
        values.push_back(value);
    return values;
  };
  RankedTensorType type = shaped(root->getResult(0));
  bool isJoined = shaped(input).getRank() == type.getRank() + 1 && type.getRank() == 2;
  if ((!isJoined && shaped(input).getRank() != type.getRank()) ||
      tokenOf(root->getResult(0), symbols, symbols.size() - 1) != token)
    return because("its result counts tokens otherwise than its rows");
  Value routerBias = router.getBiases().empty() ? Value() : router.getBiases()[0];
  Value result = MoeOp::create(
      b, root->getLoc(), input.getType(), input, router.getWeights()[0], /*router_input=*/Value(), routerBias,
      routing->correction, /*scales=*/Value(), ofExperts(&MoeExpert::gate), ofExperts(&MoeExpert::up),
      ofExperts(&MoeExpert::down), ofExperts(&MoeExpert::gateBias), ofExperts(&MoeExpert::upBias),
      ofExperts(&MoeExpert::downBias), b.getI64IntegerAttr(routing->topK), b.getBoolAttr(routing->normalize),
      routing->attr, first.gating, ActivationKindAttr::get(b.getContext(), first.activation));
  if (isJoined)
    result = tensor::CollapseShapeOp::create(b, root->getLoc(), result, SmallVector<ReassociationIndices>{{0, 1}, {2}});
  if (result.getType() != type)
    result = tensor::CastOp::create(b, root->getLoc(), type, result);
  root->getResult(0).replaceAllUsesWith(result);
  for (cf::AssertOp check : routing->checks)
    check.erase();
  return true;
}

std::string MoeMatcher::run() {
  if (!findTerms())
    return "it is no sum of products";
  for (const MoeTerm &term : terms)
    if (!readExpert(term)) {
      // A residual beside experts; the sum without it comes later.
      silent = !term.tokens && (silent || isa<arith::AddFOp>(root));
      break;
    }
  auto isChosen = [](const MoeTerm &term) { return term.tokens.has_value(); };
  if (llvm::any_of(terms, isChosen) &&
      !llvm::all_of(terms, isChosen)) { // beside an expert that all tokens pass; the sum without it comes later
    because("some of its experts are computed for all tokens");
    silent = true;
  }
  bool isPlaced = reason.empty() && (!isChosen(terms.front()) || placeWeights());
  bool isRead = isPlaced && emit();
  silent |= isa<arith::MulFOp>(root); // which may be any product
  return isRead ? "" : reason;
}

//===- the pass -----------------------------------------------------------===//

namespace {
struct RaiseMoe : heddle::impl::RaiseMoeBase<RaiseMoe> {
  void runInStage() override {
    raiseAll([](Operation *op) {
      return isa<arith::AddFOp>(op) ||
             (isa<linalg::LinalgOp>(op) && cast<linalg::LinalgOp>(op).getNumReductionLoops() == 1);
    });
    // After sums, whose terms are products.
    raiseAll([](Operation *op) { return isa<arith::MulFOp>(op); });
  }

  void raiseAll(function_ref<bool(Operation *)> isRoot) {
    SmallVector<Operation *> candidates;
    getOperation().walk([&](Operation *op) {
      auto type =
          op->getNumResults() == 1 ? dyn_cast<RankedTensorType>(op->getResult(0).getType()) : RankedTensorType();
      bool isInFunction = isa<func::FuncOp>(op->getParentOp());
      if (isRoot(op) && isInFunction && type && type.getRank() >= 2 && type.getElementType().isF32())
        candidates.push_back(op);
    });
    // Last first: a sum before its parts.
    DenseSet<Operation *> done;
    for (Operation *op : llvm::reverse(candidates)) {
      bool isPart = op->hasOneUse() && done.contains(*op->user_begin());
      MoeMatcher matcher(op);
      std::string reason = isPart ? std::string() : matcher.run();
      if (isPart || reason.empty() || !matcher.isSilent())
        done.insert(op);
      if (!reason.empty() && !matcher.isSilent())
        op->emitRemark("no moe: ") << reason;
    }
    eraseDeadOps(getOperation());
  }
};
} // namespace
