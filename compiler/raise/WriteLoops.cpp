// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/raise/WriteLoops.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace heddle;

// Perfectly nested loops over whole dimensions, which hand what they carry on; empty where `value` is no result of such loops.
static SmallVector<scf::ForOp> nestOf(Value value) {
  SmallVector<scf::ForOp> loops;
  for (auto loop = value.getDefiningOp<scf::ForOp>(); loop;) {
    if (!isConstantIntValue(loop.getLowerBound(), 0) || !isConstantIntValue(loop.getStep(), 1))
      return {};
    loops.push_back(loop);
    Block &body = *loop.getBody();
    auto inner = dyn_cast<scf::ForOp>(&body.front());
    bool isPerfect = inner && inner->getNextNode() == body.getTerminator() &&
                     llvm::equal(inner.getInitArgs(), loop.getRegionIterArgs()) &&
                     llvm::equal(body.getTerminator()->getOperands(), inner.getResults());
    loop = isPerfect ? inner : scf::ForOp();
  }
  return loops;
}

// Whether the nest visits every element of `tensor`, in row-major order; a loop over one element may be none.
static bool visitsAll(ArrayRef<scf::ForOp> nest, Value tensor, ValueRange indices) {
  ExprContext exprs;
  ElementTrace trace(exprs);
  for (auto [d, index] : llvm::enumerate(indices)) {
    Expr size = trace.size(tensor, d);
    if (isConstantIntValue(index, 0) && size->isConstant(1))
      continue;
    scf::ForOp loop = nest.empty() ? scf::ForOp() : nest.front();
    if (!loop || index != loop.getInductionVar() || trace.element(loop.getUpperBound()) != size)
      return false;
    nest = nest.drop_front();
  }
  return nest.empty();
}

static Value withoutIndexCast(Value value) {
  auto cast = value.getDefiningOp<arith::IndexCastOp>();
  return cast ? cast.getIn() : value;
}

// Whether `inserted` is `list` with `place` written into column `count`, dimension by dimension.
static bool insertsPlace(Value inserted, Value list, Value count, ValueRange place) {
  for (int64_t d = place.size() - 1; d >= 0; --d) {
    auto insert = inserted.getDefiningOp<tensor::InsertOp>();
    if (!insert || insert.getIndices().size() != 2 || !isConstantIntValue(insert.getIndices()[0], d) ||
        insert.getIndices()[1] != count)
      return false;
    Value number = withoutIndexCast(insert.getScalar());
    if (number != place[d] && !(isConstantIntValue(number, 0) && isConstantIntValue(place[d], 0)))
      return false;
    inserted = insert.getDest();
  }
  return inserted == list;
}

Value heddle::listedMask(Value value) {
  SmallVector<scf::ForOp> nest = nestOf(value);
  if (nest.empty() || cast<OpResult>(value).getResultNumber() != 0 || nest.front().getNumResults() != 2 ||
      !isConstantIntValue(nest.front().getInitArgs()[1], 0))
    return {};
  Value list = nest.back().getRegionIterArg(0), count = nest.back().getRegionIterArg(1);
  ValueRange next = nest.back().getBody()->getTerminator()->getOperands();
  auto branch = next[0].getDefiningOp<scf::IfOp>();
  if (!branch || branch.getElseRegion().empty() || !llvm::equal(branch.getResults(), next))
    return {};
  ValueRange kept = branch.elseYield().getOperands(), more = branch.thenYield().getOperands();
  auto flag = branch.getCondition().getDefiningOp<tensor::ExtractOp>();
  auto counted = more[1].getDefiningOp<arith::AddIOp>();
  bool isList = flag && counted && kept[0] == list && kept[1] == count && counted.getLhs() == count &&
                isConstantIntValue(counted.getRhs(), 1) && insertsPlace(more[0], list, count, flag.getIndices()) &&
                visitsAll(nest, flag.getTensor(), flag.getIndices());
  return isList ? flag.getTensor() : Value();
}

std::optional<WrittenElements> heddle::writtenElements(Value value) {
  SmallVector<scf::ForOp> nest = nestOf(value);
  if (nest.empty() || nest.front().getNumResults() != 1)
    return std::nullopt;
  Value before = nest.back().getRegionIterArg(0);
  auto insert = nest.back().getBody()->getTerminator()->getOperand(0).getDefiningOp<tensor::InsertOp>();
  if (!insert || insert.getDest() != before)
    return std::nullopt;
  auto update = insert.getScalar().getDefiningOp<tensor::ExtractOp>();
  auto sum = insert.getScalar().getDefiningOp<arith::AddFOp>();
  for (unsigned old : {0u, 1u})
    if (auto there = sum ? sum->getOperand(old).getDefiningOp<tensor::ExtractOp>() : tensor::ExtractOp();
        there && there.getTensor() == before && llvm::equal(there.getIndices(), insert.getIndices()))
      update = sum->getOperand(1 - old).getDefiningOp<tensor::ExtractOp>();
  if (!update || update.getTensor() == before || !visitsAll(nest, update.getTensor(), update.getIndices()))
    return std::nullopt;
  return WrittenElements{nest.front().getInitArgs()[0], update.getTensor(), llvm::to_vector(update.getIndices()),
                         llvm::to_vector(insert.getIndices()), bool(sum)};
}

// Symbols of the loops of updates are numbered from here.
static constexpr int64_t firstUpdateSymbol = 7000;

Expr heddle::writtenElement(ElementTrace &trace, Value value, ArrayRef<Expr> indices) {
  std::optional<WrittenElements> written = writtenElements(value);
  if (!written || written->adds || written->indices.size() != indices.size())
    return nullptr;
  ExprContext &exprs = trace.context();
  SmallVector<Expr> loops = trace.indexSymbols(written->updates, firstUpdateSymbol), from;
  DenseMap<Expr, Expr> inLoop;
  for (auto [index, symbol] : llvm::zip_equal(written->indices, loops))
    inLoop[exprs.leaf(index, {})] = symbol;
  Expr isWritten = exprs.constant(1), zero = exprs.constant(0);
  for (auto [d, place] : llvm::enumerate(written->places)) {
    Expr first = exprs.sub(exprs.substitute(trace.element(place), inLoop), loops[d]);
    if (!first->isConstant())
      return nullptr;
    from.push_back(exprs.sub(indices[d], first));
    Expr behind = exprs.sub(exprs.sub(trace.size(written->updates, d), exprs.constant(1)), from.back());
    isWritten = exprs.mul(isWritten, exprs.mul(exprs.notBelow(from.back(), zero), exprs.notBelow(behind, zero)));
  }
  return exprs.select(isWritten, trace.element(written->updates, from), trace.element(written->init, indices));
}
