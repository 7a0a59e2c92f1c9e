// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/raise/AttentionMatcher.h"

#include "compiler/raise/Weights.h"

#include "mlir/Analysis/SliceAnalysis.h"

#include <cmath>

using namespace mlir;
using namespace heddle;

static RankedTensorType shaped(Value value) {
  return cast<RankedTensorType>(value.getType());
}

//===- the first product --------------------------------------------------===//

static void collectContractions(Expr expr, SmallVectorImpl<Expr> &found) {
  if (expr->kind == ExprKind::Leaf) {
    Operation *op = expr->value.getDefiningOp();
    if (op && isContraction(op) && !llvm::is_contained(found, expr))
      found.push_back(expr);
    return;
  }
  if (expr->kind == ExprKind::Reduce)
    return;
  for (Expr argument : expr->arguments)
    collectContractions(argument, found);
  for (auto &[term, factor] : expr->terms)
    collectContractions(term, found);
}

// Whether `op` looks elements of a product up by numbers of another tensor, as biases of relative positions are that a query and an embedding give.
static bool looksUpProducts(Operation *op) {
  return isa<linalg::GenericOp>(op) &&
         op->walk([](tensor::ExtractOp extract) {
             Operation *source = extract.getTensor().getDefiningOp();
             bool isNumbered = llvm::any_of(extract.getIndices(), [](Value index) {
               while (auto cast = index.getDefiningOp<arith::IndexCastOp>())
                 index = cast.getIn();
               return bool(index.getDefiningOp<tensor::ExtractOp>());
             });
             return source && isContraction(source) && isNumbered ? WalkResult::interrupt() : WalkResult::advance();
           }).wasInterrupted();
}

// Products that are looked up are no scores and hide nothing: they are taken as they are, since buckets of distances make large diagrams.
void AttentionMatcher::stopAtLookups(ElementTrace &at) {
  SetVector<Operation *> behind;
  BackwardSliceOptions options;
  options.omitBlockArguments = true;
  options.filter = [&](Operation *op) {
    return !isContraction(op) && op->getBlock() == softmax->getBlock() && behind.size() < 256;
  };
  if (failed(getBackwardSlice(input, &behind, options)))
    return;
  for (Operation *op : behind)
    if (looksUpProducts(op))
      at.stopAt(op->getResult(0));
}

// Where the softmax has one more logit than there are keys, in which no product is. Asked in a context of its own: the order in which nodes
// are made decides that of decisions.
AttentionMatcher::SinkColumn AttentionMatcher::findSinkColumn() {
  ExprContext own;
  ElementTrace columns(own);
  stopAtLookups(columns);
  SmallVector<Expr> indices = columns.indexSymbols(input, firstProbe);
  Expr place = indices[keyAxis];
  if (place->kind != ExprKind::Symbol)
    return SinkColumn::None;
  auto holdsContraction = [&](Expr column) {
    SmallVector<Expr> products;
    indices[keyAxis] = column;
    collectContractions(columns.element(input, indices), products);
    return !products.empty();
  };
  Expr last = own.sub(columns.size(input, keyAxis), own.constant(1));
  Expr others = own.symbol(place->dimension, last);
  if (!holdsContraction(last))
    return holdsContraction(others) ? SinkColumn::Last : SinkColumn::None;
  if (holdsContraction(own.constant(0)) || !holdsContraction(own.add(others, own.constant(1))))
    return SinkColumn::None;
  return SinkColumn::First;
}

// How many elements a product sums.
Expr AttentionMatcher::contractedSize(Contraction product) {
  AffineExpr summed = b.getAffineDimExpr(product.contracted);
  for (unsigned operand : {0u, 1u})
    for (auto [d, place] :
         llvm::enumerate(product.op.getMatchingIndexingMap(product.op.getDpsInputOperand(operand)).getResults()))
      if (place == summed)
        return trace.size(product.input(operand), d);
  return nullptr;
}

// What the two operands of a product are at its element, whose axis of its own is the depth; empty if they are not plain.
SmallVector<Expr> AttentionMatcher::operandElements(Contraction product, Expr element) {
  SmallVector<Expr> loops(product.op.getNumLoops());
  for (auto [loop, index] : llvm::zip_equal(product.outLoops, element->arguments))
    loops[loop] = index;
  loops[product.contracted] = exprs.symbol(depthSymbol, contractedSize(product));
  SmallVector<Expr> elements;
  for (unsigned operand : {0u, 1u}) {
    SmallVector<Expr> indices = product.indices(operand, loops);
    if (indices.empty())
      return {};
    elements.push_back(layout.element(product.input(operand), indices));
  }
  return elements;
}

// Of several products that are added, the one of queries and keys: the others, of positions, are a bias. A key is the same for every query,
// so that its operand does not depend on the last dimension that the query has; then, batch and heads are common to both.
Expr AttentionMatcher::queryByKey(ArrayRef<Expr> products, ArrayRef<Expr> probe) {
  Expr best = nullptr;
  std::tuple<bool, size_t, int64_t> bestRank;
  for (Expr product : products) {
    std::optional<Contraction> contraction = Contraction::of(product->value.getDefiningOp());
    SmallVector<Expr> elements = contraction ? operandElements(*contraction, product) : SmallVector<Expr>();
    if (elements.empty())
      continue;
    bool isFirst = exprs.contains(elements[0], probe[keyAxis]);
    if (isFirst == exprs.contains(elements[1], probe[keyAxis]))
      continue;
    Expr ofKey = elements[isFirst ? 0 : 1], ofQuery = elements[isFirst ? 1 : 0];
    int64_t row = -1, firstShared = probe.size();
    size_t shared = 0;
    for (int64_t d = probe.size() - 1; d >= 0; --d) {
      if (d == keyAxis || !exprs.contains(ofQuery, probe[d]))
        continue;
      row = row < 0 ? d : row;
      if (exprs.contains(ofKey, probe[d])) {
        ++shared;
        firstShared = d;
      }
    }
    std::tuple<bool, size_t, int64_t> rank{row >= 0 && !exprs.contains(ofKey, probe[row]), shared, -firstShared};
    if (!best || rank > bestRank) {
      best = product;
      bestRank = rank;
    }
  }
  return best;
}

// What is taken off every score of a row, as its greatest, cancels.
void AttentionMatcher::dropShift() {
  ExprContext own;
  ElementTrace moves(own, TraceDepth::Moves);
  while (auto sub = input.getDefiningOp<arith::SubFOp>()) {
    SmallVector<Expr> indices = moves.indexSymbols(sub.getRhs());
    if (own.contains(moves.element(sub.getRhs(), indices), indices[keyAxis]))
      return;
    input = sub.getLhs();
  }
}

bool AttentionMatcher::findScores() {
  int64_t rank = shaped(input).getRank();
  keyAxis = softmax.getDimension();
  dropShift();
  if (rank < 2) {
    silent = true;
    return because("its input has one dimension");
  }
  stopAtLookups(trace);
  SmallVector<Expr> probe = trace.indexSymbols(input, firstProbe);
  keys = trace.size(input, keyAxis);
  sinkColumn = findSinkColumn();
  firstKey = exprs.constant(sinkColumn == SinkColumn::First);
  if (hasSinks()) {
    keys = exprs.sub(keys, exprs.constant(1));
    probe[keyAxis] = exprs.symbol(probe[keyAxis]->dimension, keys);
  }
  SmallVector<Expr> columns(probe);
  columns[keyAxis] = exprs.add(probe[keyAxis], firstKey);
  Expr element = trace.element(input, columns);
  if (exprs.exhausted())
    return because("its scores are too large an expression");
  SmallVector<Expr> products;
  collectContractions(element, products);
  llvm::erase_if(products, [&](Expr product) { return !exprs.contains(product, probe[keyAxis]); });
  silent = products.empty();
  if (products.empty())
    return because("its input holds no product of queries and keys");
  score = products.size() == 1 ? products[0] : queryByKey(products, probe);
  if (!score)
    return because("its input adds " + std::to_string(products.size()) + " products, none of queries and keys");
  scores = Contraction::of(score->value.getDefiningOp());
  if (!scores)
    return because(describe(score->value.getDefiningOp()) + " is no matmul over one axis that starts at 0");
  dimensions = probe;
  return true;
}

// Which dimension of the softmax is what: keys are its own, queries the one that only the query operand depends on, and the
// others batch and heads.
bool AttentionMatcher::assignAxes() {
  SmallVector<Expr> probe = dimensions;
  int64_t rank = probe.size();
  SmallVector<Expr> elements = operandElements(*scores, score);
  if (elements.empty())
    return because(describe(scores->op) + " is no plain product");
  headDim = contractedSize(*scores);
  bool keyIsFirst = exprs.contains(elements[0], probe[keyAxis]);
  if (keyIsFirst == exprs.contains(elements[1], probe[keyAxis]))
    return because("both or neither operand of " + describe(scores->op) + " depend on the softmax's dimension");
  queryOperand = keyIsFirst ? 1 : 0;
  Expr ofQuery = elements[queryOperand], ofKey = elements[1 - queryOperand];
  int64_t row = -1;
  for (int64_t d = rank - 1; d >= 0 && row < 0; --d)
    if (d != keyAxis && exprs.contains(ofQuery, probe[d]) && !exprs.contains(ofKey, probe[d]))
      row = d;
  if (row < 0) // a single query
    row = keyAxis == rank - 1 ? rank - 2 : rank - 1;
  SmallVector<int64_t> outer;
  for (int64_t d = 0; d < rank; ++d)
    if (d != row && d != keyAxis)
      outer.push_back(d);

  auto extent = [&](int64_t d) { return trace.size(input, d); };
  Expr one = exprs.constant(1);
  batchSize = numHeads = one;
  SmallVector<Expr> split; // heads, from several dimensions
  if (outer.size() == 1) {
    Expr divisor = divisorOf(ofQuery, probe[outer[0]]);
    if (!divisor)
      divisor = divisorOf(ofKey, probe[outer[0]]);
    if (divisor) {
      numHeads = divisor;
      batchSize = exprs.floorDiv(extent(outer[0]), divisor);
    } else {
      (extent(outer[0])->isConstant() ? numHeads : batchSize) = extent(outer[0]);
    }
  } else if (outer.size() >= 2) {
    batchSize = extent(outer[0]);
    for (int64_t d : ArrayRef(outer).drop_front())
      numHeads = exprs.mul(numHeads, extent(d));
  }
  if (!numHeads->isConstant())
    return because("its number of heads is dynamic");
  queries = extent(row);
  batch = exprs.symbol(batchSymbol, batchSize);
  head = exprs.symbol(headSymbol, numHeads);
  query = exprs.symbol(querySymbol, queries);
  key = exprs.symbol(keySymbol, keys);
  depth = exprs.symbol(depthSymbol, headDim);
  dimensions[row] = query;
  dimensions[keyAxis] = exprs.add(key, firstKey);
  if (outer.size() == 1) {
    dimensions[outer[0]] = exprs.add(exprs.mul(batch, numHeads), head);
  } else if (!outer.empty()) {
    dimensions[outer[0]] = batch;
    Expr rest = head;
    for (int64_t d : llvm::reverse(ArrayRef(outer).drop_front())) {
      bool isFirst = d == outer[1];
      dimensions[d] = isFirst ? rest : exprs.remainder(rest, extent(d));
      rest = exprs.floorDiv(rest, extent(d));
    }
  }
  return true;
}

//===- scale, softcap, mask -----------------------------------------------===//

// An end of the diagram is cap * tanh(factor * score) + rest, or factor * score + rest.
bool AttentionMatcher::splitTerminal(Expr end, double &factor, double &cap, Expr &rest) {
  Expr found = nullptr;
  double outside = 0;
  for (auto &[term, coefficient] : termsOf(end))
    if (exprs.contains(term, score)) {
      if (found)
        return because("the scores appear twice in its input");
      found = term;
      outside = coefficient;
    }
  assert(found && "only ends that hold the score are split");
  rest = exprs.sub(end, exprs.mul(exprs.constant(outside), found));
  factor = outside;
  cap = 0;
  Expr ofRow = exprs.constant(1);
  if (found->kind == ExprKind::Call && found->name == "tanh") {
    SmallVector<std::pair<Expr, double>> inner = termsOf(found->arguments[0]);
    if (inner.size() != 1 || constantOf(found->arguments[0]) != 0 || inner[0].first != score)
      return because("what its tanh reads is not the scaled scores");
    cap = outside;
    factor = inner[0].second * outside;
  } else if (found != score) {
    ofRow = exprs.div(found, score);
    if (exprs.contains(ofRow, score) || exprs.contains(ofRow, key))
      return because("its scores pass through " + inWords(found));
  }
  if (rowScale && rowScale != ofRow)
    return because("its scale differs from key to key");
  rowScale = ofRow;
  return true;
}

// Takes scale and softcap from every end that is not hidden; all must agree.
bool AttentionMatcher::collectEnds(Expr expr) {
  if (expr->kind == ExprKind::Choice && exprs.contains(expr->atom(), score))
    return because("its mask depends on the scores");
  if (expr->kind == ExprKind::Choice)
    return collectEnds(expr->high()) && collectEnds(expr->low());
  if (!exprs.contains(expr, score)) {
    if (hides(expr))
      return true;
    return because("where its mask is off, the scores are replaced by " + inWords(expr));
  }
  double factor, cap;
  Expr rest;
  if (!splitTerminal(expr, factor, cap, rest))
    return false;
  if (std::isnan(constantOf(rest)))
    return because("what is added to its scores is no number, as 0 times infinity");
  if (hides(rest))
    return true;
  if (scale != 0 && (scale != factor || softcap != cap))
    return because("its scale differs from key to key");
  scale = factor;
  softcap = cap;
  return true;
}

// A number that hides a score by taking its place, as one that hides it where it is added: a row of which every key is replaced is their
// average, whatever the scores were, so that the number has to absorb those that attention adds it to. Larger numbers stay larger.
static double absorbing(double hiding) {
  return std::abs(hiding) < 0x1p64 ? hiding * 0x1p50 : hiding;
}

// What is added to the scores: the diagram with its ends freed of them.
Expr AttentionMatcher::addedOf(Expr expr) {
  return exprs.mapEnds(expr, [&](Expr end) {
    if (!exprs.contains(end, score))
      return end->isConstant() ? exprs.constant(absorbing(end->constant)) : end;
    double factor, cap;
    Expr rest;
    splitTerminal(end, factor, cap, rest);
    return rest;
  });
}

// Names the op between the first product and the softmax after which the scores are those of no attention any more.
void AttentionMatcher::nameBlockingOp() {
  std::string why = reason;
  SetVector<Operation *> path;
  BackwardSliceOptions options;
  options.omitBlockArguments = options.inclusive = true;
  options.filter = [&](Operation *op) { return op != scores->op && op->getBlock() == softmax->getBlock(); };
  if (failed(getBackwardSlice(input, &path, options)))
    return;
  for (Operation *op : path) {
    if (op->getNumResults() != 1 || !isa<RankedTensorType>(op->getResult(0).getType()))
      continue;
    Expr element =
        resolveConstants(exprs, trace.element(op->getResult(0), trace.indexSymbols(op->getResult(0), firstProbe)));
    SmallVector<Expr> products;
    collectContractions(element, products);
    llvm::erase_if(products, [&](Expr product) { return product->value != scores->op->getResult(0); });
    if (products.empty())
      continue;
    score = products[0];
    scale = softcap = 0;
    rowScale = nullptr;
    reason.clear();
    if (collectEnds(element) && scale != 0 && rowScale->isConstant(1))
      continue;
    reason = describe(op) + ": " + why;
    return;
  }
  reason = why;
}

static bool holdsReduction(Expr expr, DenseSet<Expr> &seen) {
  if (expr->kind == ExprKind::Reduce || !seen.insert(expr).second)
    return expr->kind == ExprKind::Reduce;
  return llvm::any_of(expr->arguments, [&](Expr part) { return holdsReduction(part, seen); }) ||
         llvm::any_of(expr->terms, [&](auto &term) { return holdsReduction(term.first, seen); });
}

// The extra logit of each head. What is taken off every logit of a row, its greatest, cancels.
bool AttentionMatcher::readSinks() {
  SmallVector<Expr> indices(dimensions);
  indices[keyAxis] = sinkColumn == SinkColumn::First ? exprs.constant(0) : keys;
  sink = trace.element(input, indices);
  Expr shift = exprs.constant(0);
  for (auto &[term, factor] : termsOf(sink))
    if (term->kind == ExprKind::Reduce)
      shift = exprs.add(shift, exprs.mul(exprs.constant(factor), term));
  sink = firstOfEqual(exprs, exprs.sub(sink, shift)); // exporters repeat it for all rows of a known number
  total = exprs.mapEnds(total, [&](Expr end) { return exprs.sub(end, shift); });
  for (Expr other : {batch, query, key})
    if (!other->isConstant() && exprs.contains(sink, other))
      return because("its softmax has one more logit than it has keys, which is no sink of a head");
  return true;
}

// Takes from the scores what is one reduction for all keys of a row, as their greatest: it cancels.
void AttentionMatcher::dropShifts() {
  std::optional<SmallVector<std::pair<Expr, double>>> common;
  forEachEnd(total, [&](Expr end) {
    if (!exprs.contains(end, score))
      return;
    SmallVector<std::pair<Expr, double>> terms = termsOf(end);
    if (!common)
      common = terms;
    llvm::erase_if(*common, [&](auto &term) {
      DenseSet<Expr> seen;
      return !llvm::is_contained(terms, term) || exprs.contains(term.first, key) || exprs.contains(term.first, score) ||
             !holdsReduction(term.first, seen);
    });
  });
  if (!common || common->empty())
    return;
  total = exprs.mapEnds(total, [&](Expr end) {
    if (exprs.contains(end, score))
      for (auto &[term, factor] : *common)
        end = exprs.sub(end, exprs.mul(exprs.constant(factor), term));
    return end;
  });
}

// Scores that are no lower than the lowest number (XGLM): without this floor, except below minus infinity.
Expr AttentionMatcher::withoutFloor(Expr end) {
  if (end->kind != ExprKind::Call || end->name != "max")
    return end;
  for (unsigned i : {0u, 1u})
    if (Expr floor = end->arguments[i], other = end->arguments[1 - i];
        floor->isConstant() && std::isfinite(floor->constant) && floor->constant <= lowestValue)
      return constantOf(other) == -INFINITY ? floor : other;
  return end;
}

bool AttentionMatcher::readScores() {
  total = resolveConstants(exprs, trace.element(input, dimensions));
  bool hasFloor = false; // a diagram of buckets is large: it is written anew only where that changes something
  forEachEnd(total, [&](Expr end) { hasFloor |= withoutFloor(end) != end; });
  if (hasFloor)
    total = exprs.mapEnds(total, [&](Expr end) { return withoutFloor(end); });
  if (hasSinks() && !readSinks())
    return false;
  SmallVector<Expr> products;
  collectContractions(total, products);
  llvm::erase_if(products, [&](Expr product) { return product->value != scores->op->getResult(0); });
  if (products.size() != 1)
    return because("its input reads its products in more than one way");
  score = products[0];
  if (!collectEnds(total)) {
    nameBlockingOp();
    return false;
  }
  if (scale == 0)
    return because("its mask hides every key");
  DenseSet<Expr> seen;
  if (hasSinks() && holdsReduction(addedOf(total), seen))
    return because("what is taken off its scores is not taken off its sink");
  dropShifts();
  mask = proveMask(exprs, addedOf(total), query, key, queries, keys);
  return true;
}

// Whether the softmax is of no row that is minus infinity throughout: NaN in the source, 0 in attention. Every other number that hides is
// added to the scores as it is. A key that each row provably sees is looked for at the ends of the keys, where a decision turns, and where
// the query itself stands.
bool AttentionMatcher::everyRowSees() {
  Expr seen =
      exprs.mapEnds(addedOf(total), [&](Expr end) { return exprs.constant(constantOf(end) == -INFINITY ? 0 : 1); });
  if (hasSinks() || isGuarded || exprs.reduce("max", key, seen)->isConstant(1))
    return true;
  Expr behind = exprs.sub(keys, queries);
  DenseMap<Expr, Expr> itself{{key, exprs.add(query, behind)}};
  if (exprs.isNotBelowZero(behind) == true && exprs.substitute(seen, itself)->isConstant(1))
    return true;
  return because("a row of which minus infinity hides every key is NaN here, and 0 in attention");
}

std::string AttentionMatcher::run() {
  if (findScores() && assignAxes() && readScores() && findValues() && everyRowSees() && emit())
    return "";
  return reason.empty() ? "its form is not known" : reason;
}
