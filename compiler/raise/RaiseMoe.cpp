// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/raise/Passes.h"

#include "compiler/raise/Arrange.h"
#include "compiler/raise/Contraction.h"
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

//===- experts ------------------------------------------------------------===//

namespace {
// An element of a product of rows with a matrix: sum over k of rows[…, k] * matrix[row, k]. Where each token takes a matrix of its own out of a
// stored tensor, `number` is which one, an index of dimension `numbered`.
struct RowMatmul {
  Expr rows = nullptr, matrix = nullptr; // elements, in `k`
  Axis k;
  Expr number = nullptr;
  unsigned numbered = 0;
};

// One term of the sum over experts.
struct Expert {
  Expr weight = nullptr; // of the token: an element of the routing's result
  Expr rows = nullptr;   // x[token, h]
  Value gate, up, down;
  ActivationKind activation = ActivationKind::Silu;
};

// A sum over experts and what it takes to write it as `moe`.
class MoeMatcher {
public:
  explicit MoeMatcher(Operation *root)
      : root(root), layout(exprs, TraceDepth::Layout), moves(exprs, TraceDepth::Moves), b(root) {}

  // The reason why not, empty if the sum became a `moe`.
  std::string run();
  // Nothing in it says that it sums experts.
  bool isSilent() const { return silent; }

private:
  enum : int64_t { columnSymbol = 20, hiddenSymbol, choiceSymbol };

  bool findTerms();
  void additions(Value value);
  bool sumOfOne(linalg::LinalgOp op);
  SmallVector<Expr> factors(Value value, ArrayRef<Expr> indices);
  std::optional<RowMatmul> rowMatmul(Expr element, int64_t number);
  bool hasToken(Expr part);
  bool findNumber(RowMatmul &product);
  bool readExpert(ArrayRef<Expr> term);
  bool addExperts(const Expert &first, const RowMatmul &gate, const RowMatmul &up, const RowMatmul &down);
  Value matrixOf(const RowMatmul &product, Axis row, Axis column, int64_t expert);
  Value weightsOfAll(Expr weight, Expr number, int64_t numExperts);
  Expr tokenOf(Value tensor, ArrayRef<Expr> indices, unsigned without);
  bool emit();
  bool because(std::string text) {
    if (reason.empty())
      reason = std::move(text);
    return false;
  }

  Operation *root;
  ExprContext exprs;
  ElementTrace layout, moves;
  OpBuilder b;
  std::string reason;
  bool silent = true;
  SmallVector<Expr> symbols;            // of root's result: tokens, then the width
  std::vector<SmallVector<Expr>> terms; // the factors of each
  std::optional<Axis> choice;           // of one term for all: which of its experts a token is at
  SmallVector<Expert> experts;
};
} // namespace

//===- terms --------------------------------------------------------------===//

// What is multiplied to give element [indices] of `value`. Products are taken apart only where an expert's result is in them: the weight
// of a token may be one as well.
SmallVector<Expr> MoeMatcher::factors(Value value, ArrayRef<Expr> indices) {
  Expr element = moves.element(value, indices);
  auto product = element->kind == ExprKind::Leaf ? element->value.getDefiningOp<arith::MulFOp>() : arith::MulFOp();
  if (!product)
    return {element};
  SmallVector<Expr> parts;
  for (Value operand : product->getOperands())
    parts.append(factors(operand, element->arguments));
  bool holdsExpert = llvm::any_of(parts, [](Expr part) {
    Operation *op = part->kind == ExprKind::Leaf ? part->value.getDefiningOp() : nullptr;
    return op && (isa<LinearOp>(op) || isContraction(op));
  });
  return holdsExpert ? parts : SmallVector<Expr>{element};
}

void MoeMatcher::additions(Value value) {
  auto add = value.getDefiningOp<arith::AddFOp>();
  if (!add || (add != root && !add->hasOneUse())) {
    if (!layout.element(value, symbols)->isConstant(0)) // what a loop over experts begins with
      terms.push_back(factors(value, symbols));
    return;
  }
  for (Value operand : add->getOperands())
    additions(operand);
}

// A sum over one loop of an element or of a product of two. Where tokens number their experts, which they choose one by one in that loop, one
// term stands for all.
bool MoeMatcher::sumOfOne(linalg::LinalgOp op) {
  SmallVector<unsigned> summed;
  op.getReductionDims(summed);
  bool isProduct = isContraction(op);
  if (summed.size() != 1 || op.getNumDpsInits() != 1 || op.getNumDpsInputs() != (isProduct ? 2 : 1))
    return false;
  if (!isProduct) {
    Operation *yielded = op.getBlock()->getTerminator()->getOperand(0).getDefiningOp();
    bool isSum = isa_and_nonnull<arith::AddFOp>(yielded) &&
                 llvm::all_of(yielded->getOperands(), [](Value part) { return isa<BlockArgument>(part); }) &&
                 yielded->getOperand(0) != yielded->getOperand(1);
    if (!isSum)
      return false;
  }
  SmallVector<Expr> loops(op.getNumLoops());
  for (auto [d, expr] : llvm::enumerate(op.getMatchingIndexingMap(op.getDpsInitOperand(0)).getResults())) {
    auto dim = dyn_cast<AffineDimExpr>(expr);
    if (!dim)
      return false;
    loops[dim.getPosition()] = symbols[d];
  }
  int64_t count = op.getStaticLoopRanges()[summed[0]];
  if (ShapedType::isDynamic(count) || count > 1024)
    return false;
  if (!llvm::all_of(op.getDpsInputOperands(),
                    [&](OpOperand *operand) { return op.getMatchingIndexingMap(operand).isProjectedPermutation(); }))
    return false;
  auto termAt = [&](Expr at) {
    SmallVector<Expr> term;
    loops[summed[0]] = at;
    for (OpOperand *operand : op.getDpsInputOperands()) {
      SmallVector<Expr> indices;
      for (AffineExpr expr : op.getMatchingIndexingMap(operand).getResults())
        indices.push_back(loops[cast<AffineDimExpr>(expr).getPosition()]);
      term.append(factors(operand->get(), indices));
    }
    return term;
  };
  Axis any{exprs.symbol(choiceSymbol, exprs.constant(count)), exprs.constant(count)};
  terms.push_back(termAt(any.index));
  bool isNumbered = llvm::any_of(terms.front(), [&](Expr factor) {
    std::optional<RowMatmul> product = rowMatmul(factor, hiddenSymbol);
    return product && product->number;
  });
  if (isNumbered) {
    choice = any;
  } else {
    terms.clear();
    for (int64_t e = 0; e < count; ++e)
      terms.push_back(termAt(exprs.constant(e)));
  }
  return layout.element(op.getDpsInitOperand(0)->get(), symbols)->isConstant(0);
}

bool MoeMatcher::findTerms() {
  symbols = layout.indexSymbols(root->getResult(0));
  if (auto op = dyn_cast<linalg::LinalgOp>(root))
    return sumOfOne(op) && (choice || terms.size() > 1);
  if (isa<arith::MulFOp>(root)) { // one expert, that of a token's only choice or of all tokens
    terms.push_back(factors(root->getResult(0), symbols));
    choice = Axis{exprs.constant(0), exprs.constant(1)};
    return terms.front().size() > 1;
  }
  additions(root->getResult(0));
  return terms.size() > 1;
}

//===- one expert ---------------------------------------------------------===//

// `element` of a product, whose summed index is symbol `number`; nothing if it is no such element.
std::optional<RowMatmul> MoeMatcher::rowMatmul(Expr element, int64_t number) {
  if (element->kind != ExprKind::Leaf)
    return std::nullopt;
  Operation *op = element->value.getDefiningOp();
  if (auto linear = dyn_cast_or_null<LinearOp>(op)) {
    if (linear.getWeights().size() != 1 || !linear.getBiases().empty())
      return std::nullopt;
    Expr extent = exprs.constant(shaped(linear.getWeights()[0]).getDimSize(1)), k = exprs.symbol(number, extent);
    SmallVector<Expr> row = llvm::to_vector(element->arguments);
    row.back() = k;
    return RowMatmul{layout.element(linear.getInput(), row),
                     layout.element(linear.getWeights()[0], {element->arguments.back(), k}),
                     {k, extent}};
  }
  std::optional<Contraction> product = op ? Contraction::of(op) : std::nullopt;
  int64_t summed = product ? product->op.getStaticLoopRanges()[product->contracted] : ShapedType::kDynamic;
  if (ShapedType::isDynamic(summed))
    return std::nullopt;
  Expr extent = exprs.constant(summed), k = exprs.symbol(number, extent);
  SmallVector<Expr> loops(product->op.getNumLoops());
  for (auto [loop, index] : llvm::zip_equal(product->outLoops, element->arguments))
    loops[loop] = index;
  loops[product->contracted] = k;
  SmallVector<Expr> elements;
  for (unsigned operand : {0u, 1u}) {
    SmallVector<Expr> indices = product->indices(operand, loops);
    if (indices.empty())
      return std::nullopt;
    elements.push_back(layout.element(product->input(operand), indices));
  }
  // The matrix is the operand that no token is an index of, or that one which a token numbers.
  bool isOfToken = hasToken(elements[0]);
  if (isOfToken != hasToken(elements[1]))
    return RowMatmul{elements[isOfToken ? 0 : 1], elements[isOfToken ? 1 : 0], {k, extent}};
  for (unsigned rows : {0u, 1u})
    if (RowMatmul numbered{elements[rows], elements[1 - rows], {k, extent}}; isOfToken && findNumber(numbered))
      return numbered;
  return std::nullopt;
}

bool MoeMatcher::hasToken(Expr part) {
  return llvm::any_of(ArrayRef(symbols).drop_back(),
                      [&](Expr symbol) { return symbol->kind == ExprKind::Symbol && exprs.contains(part, symbol); });
}

// Whether `expr` is read from a tensor.
static bool isRead(Expr expr) {
  return expr->kind == ExprKind::Leaf || llvm::any_of(expr->arguments, isRead) ||
         llvm::any_of(expr->terms, [](auto &term) { return isRead(term.first); });
}

// Whether the matrix is a part of one tensor, of which a token says one index alone, read where its choices are. An index that counts from the
// end makes a decision: what is the same at all of its ends is the matrix, what differs the number.
bool MoeMatcher::findNumber(RowMatmul &product) {
  Expr first = nullptr;
  bool isPart = true;
  forEachEnd(product.matrix, [&](Expr end) {
    isPart &= end->kind == ExprKind::Leaf && (!first || end->value == first->value);
    first = first ? first : end;
  });
  if (!isPart)
    return false;
  SmallVector<unsigned> numbered;
  for (auto [d, index] : llvm::enumerate(first->arguments))
    if (hasToken(index))
      numbered.push_back(d);
  if (numbered.size() != 1 || !isRead(first->arguments[numbered[0]]) || shaped(first->value).isDynamicDim(numbered[0]))
    return false;
  forEachEnd(product.matrix, [&](Expr end) {
    for (auto [d, index] : llvm::enumerate(end->arguments))
      isPart &= d == numbered[0] || index == first->arguments[d];
  });
  product.numbered = numbered[0];
  product.number = exprs.mapEnds(product.matrix, [&](Expr end) { return end->arguments[numbered[0]]; });
  product.matrix = first;
  return isPart;
}

// The matrix of `product` as one of its own: of `expert`, where tokens number it.
Value MoeMatcher::matrixOf(const RowMatmul &product, Axis row, Axis column, int64_t expert) {
  Expr element = product.matrix;
  if (element->kind != ExprKind::Leaf)
    return {};
  if (product.number) {
    SmallVector<Expr> indices = llvm::to_vector(element->arguments);
    indices[product.numbered] = exprs.constant(expert);
    element = exprs.leaf(element->value, indices);
  }
  if (isStored(element->value))
    return storedPart(b, element, row, column);
  std::string why;
  return arrange(b, root->getLoc(), exprs, element->value, element->arguments, {row, column}, why);
}

bool MoeMatcher::readExpert(ArrayRef<Expr> term) {
  Expert expert;
  std::optional<RowMatmul> down;
  for (Expr factor : term) {
    std::optional<RowMatmul> product = rowMatmul(factor, hiddenSymbol);
    auto gated =
        product && product->rows->kind == ExprKind::Leaf ? product->rows->value.getDefiningOp<GluOp>() : GluOp();
    if (gated && !down)
      down = product;
    else if (factor->kind == ExprKind::Leaf && isa<RankedTensorType>(factor->value.getType()) && !expert.weight)
      expert.weight = factor;
    else
      return because("a term of it has more factors than an expert and its weight");
  }
  if (!down || !expert.weight)
    return because("not every term of it is an expert with its weight");
  auto glu = down->rows->value.getDefiningOp<GluOp>();
  silent = false;
  if (!glu.getUp())
    return because(describe(glu) + " has no gate");
  expert.activation = glu.getActivation();
  auto inner = [&](Value value) { return rowMatmul(layout.element(value, down->rows->arguments), columnSymbol); };
  std::optional<RowMatmul> gate = inner(glu.getGate()), up = inner(glu.getUp());
  if (!gate || !up || gate->rows != up->rows || gate->rows->kind != ExprKind::Leaf ||
      gate->rows->arguments.back() != gate->k.index)
    return because(describe(glu) + " does not gate two products of the same rows");
  expert.rows = gate->rows;
  auto count = [](const RowMatmul &product) {
    return product.number ? shaped(product.matrix->value).getDimSize(product.numbered) : 1;
  };
  if (gate->number != down->number || up->number != down->number || count(*gate) != count(*down) ||
      count(*up) != count(*down))
    return because(describe(glu) + " has matrices of different experts");
  return addExperts(expert, *gate, *up, *down) ||
         because(describe(glu) + " has matrices that are not (out_features, in_features) parts of one tensor");
}

// One expert, or all of which a token may number one.
bool MoeMatcher::addExperts(const Expert &first, const RowMatmul &gate, const RowMatmul &up, const RowMatmul &down) {
  Axis width{symbols.back(), layout.size(root->getResult(0), symbols.size() - 1)};
  int64_t count = down.number ? shaped(down.matrix->value).getDimSize(down.numbered) : 1;
  Value weights = down.number ? weightsOfAll(first.weight, down.number, count) : Value();
  if (down.number && !weights)
    return because("its weights are no tensor of the tokens and their choices");
  for (int64_t e = 0; e < count; ++e) {
    Expert expert = first;
    expert.gate = matrixOf(gate, down.k, gate.k, e);
    expert.up = matrixOf(up, down.k, up.k, e);
    expert.down = matrixOf(down, width, down.k, e);
    if (weights) {
      SmallVector<Expr> indices(symbols);
      indices.back() = exprs.constant(e);
      expert.weight = exprs.leaf(weights, indices);
    }
    if (!expert.gate || !expert.up || !expert.down)
      return false;
    experts.push_back(expert);
  }
  return true;
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
  Value ofChoices = arrange(b, loc, exprs, weight->value, weight->arguments, axes, why);
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
  const Expert &first = experts[0];
  Value input = first.rows->value, weights = first.weight->value;
  SmallVector<std::pair<int64_t, unsigned>> order; // expert and term
  std::optional<unsigned> expertDim;
  if (experts.size() == 1)
    expertDim = first.weight->arguments.size() - 1;
  for (auto [term, expert] : llvm::enumerate(experts)) {
    if (expert.rows != first.rows || expert.weight->value != weights || expert.activation != first.activation)
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
  for (const Expert &expert : experts)
    if (tokenOf(weights, expert.weight->arguments, *expertDim) != token)
      return because("its weights are those of other tokens");
  std::optional<Routing> routing = readRouting(weights, *expertDim, reason);
  if (!routing)
    return false;
  LinearOp router = routing->router;
  SmallVector<Expr> places = layout.indexSymbols(router.getInput());
  Expr routed = layout.element(router.getInput(), places);
  if (routed->kind != ExprKind::Leaf || routed->value != input || !llvm::equal(routed->arguments, places))
    return because(describe(router) + " reads other rows than its experts");
  SmallVector<Value> gates, ups, downs;
  for (auto [e, term] : order) {
    gates.push_back(experts[term].gate);
    ups.push_back(experts[term].up);
    downs.push_back(experts[term].down);
  }
  RankedTensorType type = shaped(root->getResult(0));
  bool isJoined = shaped(input).getRank() == type.getRank() + 1 && type.getRank() == 2;
  if ((!isJoined && shaped(input).getRank() != type.getRank()) ||
      tokenOf(root->getResult(0), symbols, symbols.size() - 1) != token)
    return because("its result counts tokens otherwise than its rows");
  Value result = MoeOp::create(b, root->getLoc(), input.getType(), input, router.getWeights()[0], Value(),
                               routing->correction, gates, ups, downs, ValueRange(), ValueRange(), ValueRange(),
                               b.getI64IntegerAttr(routing->topK), b.getBoolAttr(routing->normalize), routing->attr,
                               GatingAttr(), ActivationKindAttr::get(b.getContext(), first.activation));
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
  for (ArrayRef<Expr> term : terms)
    if (!readExpert(term)) {
      // A residual beside experts; the sum without it comes later.
      silent |= isa<arith::AddFOp>(root);
      break;
    }
  bool isRead = reason.empty() && emit();
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
