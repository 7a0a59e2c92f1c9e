// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/raise/MoeMatcher.h"

#include "compiler/raise/Contraction.h"
#include "compiler/raise/WriteLoops.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace heddle;

static RankedTensorType shaped(Value value) {
  return cast<RankedTensorType>(value.getType());
}

size_t MoeMatcher::stepsOf(Operation *root) {
  size_t loops = 0;
  SmallVector<Operation *> parts{root};
  while (!parts.empty())
    if (Operation *op = parts.pop_back_val(); isa_and_present<arith::AddFOp>(op) && (op == root || op->hasOneUse()))
      for (Value operand : op->getOperands())
        parts.push_back(operand.getDefiningOp());
    else if (isa_and_present<scf::ForOp>(op))
      ++loops;
  return ExprContext::manySteps * (1 + 2 * loops);
}

// What is multiplied to give element [indices] of `value`. Products are taken apart only where an expert's result is in them: the weight
// of a token may be one as well.
SmallVector<Expr> MoeMatcher::factors(Value value, ArrayRef<Expr> indices) {
  Expr element = exprs.substitute(moves.element(value, indices), products.known);
  auto product = element->kind == ExprKind::Leaf ? element->value.getDefiningOp<arith::MulFOp>() : arith::MulFOp();
  if (!product)
    return {element};
  SmallVector<Expr> parts;
  for (Value operand : product->getOperands())
    parts.append(factors(operand, element->arguments));
  bool holdsExpert = llvm::any_of(parts, [&](Expr part) { return products.isProduct(part); });
  return holdsExpert ? parts : SmallVector<Expr>{element};
}

void MoeMatcher::additions(Value value) {
  auto add = value.getDefiningOp<arith::AddFOp>();
  if (!add || (add != root && !add->hasOneUse())) {
    if (std::optional<MoeTerm> term = chosenTerm(value))
      terms.push_back(*term);
    else if (!layout.element(value, symbols)->isConstant(0)) // what a loop over experts begins with
      terms.push_back({factors(value, symbols), std::nullopt});
    return;
  }
  for (Value operand : add->getOperands())
    additions(operand);
}

// What is computed for chosen tokens and written into zeros. Looked-up places become symbols: the token, and which of its choices it is.
std::optional<MoeTerm> MoeMatcher::chosenTerm(Value value) {
  std::optional<WrittenElements> written = writtenElements(value);
  if (!written || symbols.size() != 2 || written->places.size() != 2 || written->indices.size() != 2 ||
      written->places[1] != written->indices[1] || !layout.element(written->init, symbols)->isConstant(0))
    return std::nullopt;
  Expr rows = layout.size(written->updates, 0), row = exprs.symbol(rowSymbol, rows);
  DenseMap<Expr, Expr> inLoop{{exprs.leaf(written->indices[0], {}), row},
                              {exprs.leaf(written->indices[1], {}), symbols[1]}};
  MoeTerm term;
  term.tokens.emplace();
  term.tokens->adds = written->adds;
  if (layout.size(written->updates, 1) != layout.size(written->init, 1) ||
      !readMask(exprs.substitute(layout.element(written->places[0]), inLoop), row, rows, *term.tokens))
    return std::nullopt;
  products.addToken(row);
  term.factors = factors(written->updates, {row, symbols[1]});
  return term;
}

// Whether `place`, of row `row` of `rows`, is the token that a list of a mask's true places says: each of its places has a row.
bool MoeMatcher::readMask(Expr place, Expr row, Expr rows, ChosenTokens &tokens) {
  Expr listed = nullptr;
  for (Expr leaf : leavesOf(place))
    if (listedMask(leaf->value) && leaf->arguments[0]->isConstant() && leaf->arguments[1] == row &&
        layout.size(leaf->value, 1) == rows)
      listed = leaf;
  Value mask = listed ? listedMask(listed->value) : Value();
  if (!mask || shaped(mask).getRank() > 2 || symbols[0]->kind != ExprKind::Symbol)
    return false;
  auto tokenDim = (unsigned)listed->arguments[0]->constant;
  SmallVector<Expr> places;
  for (unsigned d = 0; d < shaped(mask).getRank(); ++d) {
    Expr extent = layout.size(mask, d);
    if (d == tokenDim ? extent != symbols[0]->extent : !extent->isConstant() || extent->constant > 64)
      return false;
    places.push_back(d == tokenDim ? symbols[0] : exprs.symbol(choiceSymbol, extent));
    products.known[exprs.leaf(listed->value, {exprs.constant(d), row})] = places.back();
    if (d != tokenDim)
      tokens.choice = places.back();
  }
  // Experts that a list names become symbols.
  tokens.seen = products.elementOf(mask, places);
  for (Expr leaf : leavesOf(tokens.seen)) {
    Value experts = listedMask(leaf->value);
    if (!experts || shaped(experts).getRank() != 1 || !leaf->arguments[1]->isConstant())
      continue;
    if ((numbered && numbered != leaf->value) || tokens.number)
      return false;
    numbered = leaf->value;
    tokens.place = (int64_t)leaf->arguments[1]->constant;
    tokens.number = exprs.symbol(firstNumber + tokens.place, layout.size(experts, 0));
    products.known[leaf] = tokens.number;
    products.addNumber(tokens.number);
  }
  tokens.seen = exprs.substitute(tokens.seen, products.known);
  return exprs.substitute(place, products.known) == symbols[0];
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
    MoeTerm term;
    loops[summed[0]] = at;
    for (OpOperand *operand : op.getDpsInputOperands()) {
      SmallVector<Expr> indices;
      for (AffineExpr expr : op.getMatchingIndexingMap(operand).getResults())
        indices.push_back(loops[cast<AffineDimExpr>(expr).getPosition()]);
      term.factors.append(factors(operand->get(), indices));
    }
    return term;
  };
  Axis any{exprs.symbol(choiceSymbol, exprs.constant(count)), exprs.constant(count)};
  terms.push_back(termAt(any.index));
  bool isNumbered = llvm::any_of(terms.front().factors, [&](Expr factor) {
    std::optional<RowMatmul> product = products.read(factor, hiddenSymbol);
    return product && product->matrix.number;
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
  if (auto op = dyn_cast<linalg::LinalgOp>(root))
    return sumOfOne(op) && (choice || terms.size() > 1);
  if (isa<arith::MulFOp>(root)) { // one expert, that of a token's only choice or of all tokens
    terms.push_back({factors(root->getResult(0), symbols), std::nullopt});
    choice = Axis{exprs.constant(0), exprs.constant(1)};
    return terms.front().factors.size() > 1;
  }
  additions(root->getResult(0));
  return terms.size() > 1;
}
