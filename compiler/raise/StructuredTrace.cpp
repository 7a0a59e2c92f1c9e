// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Elements of what linalg ops compute: their loops, reductions and bodies.

#include "compiler/raise/ElementTrace.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace heddle;

// Symbols of reductions are numbered from here by nesting, so that equal reductions are equal expressions.
static constexpr int64_t firstReductionSymbol = 1000;

Expr ElementTrace::affine(AffineExpr expr, ArrayRef<Expr> loops) {
  if (auto value = dyn_cast<AffineConstantExpr>(expr))
    return exprs.constant(value.getValue());
  if (auto dim = dyn_cast<AffineDimExpr>(expr))
    return loops[dim.getPosition()];
  auto binary = dyn_cast<AffineBinaryOpExpr>(expr);
  if (!binary)
    return nullptr;
  Expr a = affine(binary.getLHS(), loops), b = affine(binary.getRHS(), loops);
  if (!a || !b)
    return nullptr;
  switch (expr.getKind()) {
  case AffineExprKind::Add:
    return exprs.add(a, b);
  case AffineExprKind::Mul:
    return exprs.mul(a, b);
  case AffineExprKind::FloorDiv:
    return exprs.floorDiv(a, b);
  case AffineExprKind::Mod:
    return exprs.remainder(a, b);
  default:
    return nullptr;
  }
}

Expr ElementTrace::loopExtent(linalg::LinalgOp op, unsigned loop) {
  for (OpOperand &operand : op->getOpOperands()) {
    AffineMap map = op.getMatchingIndexingMap(&operand);
    for (auto [d, expr] : llvm::enumerate(map.getResults()))
      if (expr == getAffineDimExpr(loop, op.getContext()))
        return size(operand.get(), d);
  }
  return nullptr;
}

// Any of booleans is the greatest of 0 and 1, all of them the least.
static StringRef reductionName(Operation *op) {
  if (op->getResult(0).getType().isInteger(1))
    return isa<arith::OrIOp>(op) ? "max" : isa<arith::AndIOp>(op) ? "min" : "";
  return isa<arith::AddFOp, arith::AddIOp>(op)                                          ? "sum"
         : isa<arith::MaximumFOp, arith::MaxNumFOp, arith::MaxSIOp, arith::MaxUIOp>(op) ? "max"
         : isa<arith::MinimumFOp, arith::MinNumFOp, arith::MinSIOp, arith::MinUIOp>(op) ? "min"
                                                                                        : "";
}

// The op of a reduction's body that combines `argument`, the running value, with another, and that other.
static std::pair<StringRef, Value> combiner(Value yielded, Value argument) {
  Operation *op = yielded.getDefiningOp();
  if (!op || op->getNumOperands() != 2 || op->getNumResults() != 1 || !argument.hasOneUse())
    return {};
  StringRef name = reductionName(op);
  if (name.empty())
    return {};
  if (op->getOperand(0) == argument)
    return {name, op->getOperand(1)};
  if (op->getOperand(1) == argument)
    return {name, op->getOperand(0)};
  return {};
}

// Whether a maximum or minimum starts at its neutral element, so that its start can be left out.
static bool isNeutral(Expr start, StringRef name, bool isBool) {
  if (isBool)
    return start->isConstant(name == "min");
  return start->isConstant() && (name == "max" ? start->constant <= -1e30 : start->constant >= 1e30);
}

// Whether an operand of a product is one number for all that is summed, so that the product is a sum of the other operand: a product with
// ones, or the column of ones behind the values. Asked in a context of its own, as nearly every product is none.
static bool isPlainSum(linalg::LinalgOp op, unsigned result, ArrayRef<Expr> indices) {
  ExprContext exprs;
  ElementTrace moves(exprs, TraceDepth::Moves);
  SmallVector<Expr> loops(op.getNumLoops(), nullptr);
  for (auto [expr, index] :
       llvm::zip_equal(op.getMatchingIndexingMap(op.getDpsInitOperand(result)).getResults(), indices))
    if (index->isConstant())
      loops[cast<AffineDimExpr>(expr).getPosition()] = exprs.constant(index->constant);
  return llvm::any_of(op.getDpsInputOperands(), [&](OpOperand *operand) {
    SmallVector<Expr> places = moves.indexSymbols(operand->get());
    for (auto [place, expr] : llvm::zip_equal(places, op.getMatchingIndexingMap(operand).getResults())) {
      auto dim = dyn_cast<AffineDimExpr>(expr);
      if (dim && loops[dim.getPosition()])
        place = loops[dim.getPosition()];
    }
    return moves.element(operand->get(), places)->isConstant();
  });
}

static bool holdsReduction(Expr expr, DenseSet<Expr> &seen) {
  if (expr->kind == ExprKind::Reduce || !seen.insert(expr).second)
    return expr->kind == ExprKind::Reduce;
  return llvm::any_of(expr->arguments, [&](Expr part) { return holdsReduction(part, seen); }) ||
         llvm::any_of(expr->terms, [&](auto &term) { return holdsReduction(term.first, seen); });
}

Expr ElementTrace::structured(linalg::LinalgOp op, unsigned result, ArrayRef<Expr> indices) {
  Value value = op->getResult(result);
  Expr unknown = exprs.leaf(value, indices);
  if (!op.hasPureTensorSemantics())
    return unknown;
  AffineMap outMap = op.getMatchingIndexingMap(op.getDpsInitOperand(result));
  if (!outMap.isProjectedPermutation())
    return unknown;
  if (isContraction(op) && (depth != TraceDepth::Everything || !isPlainSum(op, result, indices)))
    return unknown;
  SmallVector<Expr> loops(op.getNumLoops(), nullptr), reductionSymbols;
  for (auto [d, expr] : llvm::enumerate(outMap.getResults()))
    loops[cast<AffineDimExpr>(expr).getPosition()] = indices[d];
  bool reduces = llvm::is_contained(loops, nullptr);
  if (reduces && depth != TraceDepth::Everything)
    return unknown;
  unsigned outer = nesting;
  for (auto [l, loop] : llvm::enumerate(loops)) {
    if (loop)
      continue;
    Expr extent = loopExtent(op, l);
    if (!extent)
      return unknown;
    loop = exprs.symbol(firstReductionSymbol + nesting++, extent);
    reductionSymbols.push_back(loop);
  }
  Block *body = op.getBlock();
  DenseMap<Value, Expr> bound;
  bool failed = false;
  for (OpOperand &operand : op->getOpOperands()) {
    BlockArgument argument = op.getMatchingBlockArgument(&operand);
    if (argument.use_empty() || op.isDpsInit(&operand))
      continue;
    SmallVector<Expr> inner;
    for (AffineExpr expr : op.getMatchingIndexingMap(&operand).getResults()) {
      inner.push_back(affine(expr, loops));
      failed |= !inner.back();
    }
    if (!failed)
      bound[argument] =
          isa<RankedTensorType>(operand.get().getType()) ? element(operand.get(), inner) : element(operand.get());
  }
  OpOperand *init = op.getDpsInitOperand(result);
  BlockArgument running = op.getMatchingBlockArgument(init);
  Value yielded = body->getTerminator()->getOperand(result);
  Expr answer = unknown;
  if (!failed && reduces) {
    auto [name, part] = combiner(yielded, running);
    Expr start = element(init->get(), indices);
    if (part && (name == "sum" || isNeutral(start, name, part.getType().isInteger(1)))) {
      answer = scalar(part, bound, loops);
      for (Expr symbol : llvm::reverse(reductionSymbols))
        answer = exprs.reduce(name, symbol, answer);
      if (name == "sum")
        answer = exprs.add(start, answer);
      // Counts of what the input says (documents, padding) have no closed form; whoever writes them reads the tensor that is there.
      DenseSet<Expr> seen;
      if (answer->isInteger && holdsReduction(answer, seen))
        answer = unknown;
    }
  } else if (!failed) {
    if (!running.use_empty())
      bound[running] = element(init->get(), indices);
    answer = scalar(yielded, bound, loops);
  }
  nesting = outer;
  return answer;
}

Expr ElementTrace::scalar(Value value, DenseMap<Value, Expr> &bound, ArrayRef<Expr> loops) {
  if (Expr known = bound.lookup(value))
    return known;
  Operation *op = value.getDefiningOp();
  Expr result = nullptr;
  if (isa_and_nonnull<linalg::IndexOp>(op) && !loops.empty()) {
    result = loops[cast<linalg::IndexOp>(op).getDim()];
  } else if (auto extract = op ? dyn_cast<tensor::ExtractOp>(op) : nullptr) {
    SmallVector<Expr> inner;
    for (Value index : extract.getIndices())
      inner.push_back(scalar(index, bound, loops));
    result = element(extract.getTensor(), inner);
  } else if (op && op->getNumRegions() == 0 && op->getNumResults() == 1 && op->getNumOperands() &&
             op->getBlock()->getParentOp()->getNumRegions() && !isa<func::FuncOp>(op->getBlock()->getParentOp())) {
    result = opElement(op, [&](Value operand) { return scalar(operand, bound, loops); });
  } else {
    result = element(value);
  }
  if (!result)
    result = exprs.leaf(value, loops);
  return bound[value] = result;
}
