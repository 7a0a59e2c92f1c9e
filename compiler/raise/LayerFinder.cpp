// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/raise/LayerFinder.h"

#include "compiler/raise/ElementTrace.h"
#include "compiler/raise/Weights.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace heddle;

static RankedTensorType shaped(Value value) {
  return cast<RankedTensorType>(value.getType());
}

bool heddle::isData(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type || type.getRank() < 2)
    return false;
  if (value.getDefiningOp<arith::CmpFOp>())
    return true;
  return isa<FloatType>(type.getElementType()) && !isStored(value) && !value.getDefiningOp<tensor::EmptyOp>();
}

std::optional<double> heddle::numberEverywhere(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type || !isa<FloatType>(type.getElementType()) ||
      !isa_and_nonnull<arith::ConstantOp, linalg::FillOp, linalg::BroadcastOp, tensor::SplatOp, tensor::CastOp>(
          value.getDefiningOp()))
    return std::nullopt;
  ExprContext exprs;
  ElementTrace trace(exprs);
  Expr element = trace.element(value, trace.indexSymbols(value));
  return element->isConstant() ? std::optional(element->constant) : std::nullopt;
}

// What follows from positions alone is made where it is read, and so are constants.
static bool isDataOp(Operation &op) {
  return op.getNumResults() == 1 && isData(op.getResult(0)) && !isa<PositionBiasOp>(op) &&
         !numberEverywhere(op.getResult(0));
}

LayerFinder::LayerFinder(func::FuncOp graph) {
  for (Operation &op : graph.front())
    if (isDataOp(op)) {
      index[op.getResult(0)] = ops.size();
      ops.push_back(&op);
    }
  findCuts();
}

// (batch, sequence, hidden) of floats, as layers give to each other.
static bool holdsRows(Value value) {
  return shaped(value).getRank() == 3 && isa<FloatType>(shaped(value).getElementType());
}

void LayerFinder::findCuts() {
  size_t read = 0; // the last reader of what came before
  for (size_t i = 0; i < ops.size(); ++i) {
    isCut.push_back(read <= i && holdsRows(ops[i]->getResult(0)));
    for (Operation *user : ops[i]->getUsers())
      if (isDataOp(*user))
        read = std::max(read, index.lookup(user->getResult(0)));
  }
}

std::optional<size_t> LayerFinder::lastCut(size_t begin, size_t end) {
  for (size_t i = end; i-- > begin;)
    if (isCut[i])
      return i;
  return std::nullopt;
}

// The last layer ends where the one before would, or else before the final norm and head.
std::optional<size_t> LayerFinder::lastBoundary(ArrayRef<size_t> attentions, ArrayRef<size_t> found, LinearOp head) {
  if (attentions.size() > 1) {
    size_t end = attentions.back() + found.back() - attentions[attentions.size() - 2];
    if (end < ops.size() && isCut[end] && ops[end]->getName() == ops[found.back()]->getName())
      return end;
  }
  Value input = head.getInput();
  if (isa_and_nonnull<RmsNormOp, LayerNormOp>(input.getDefiningOp()))
    input = input.getDefiningOp()->getOperand(0);
  auto place = index.find(input);
  if (place == index.end() || !isCut[place->second])
    return std::nullopt;
  return place->second;
}

SmallVector<Value> LayerFinder::run(LinearOp head) {
  SmallVector<size_t> attentions, boundaries;
  for (auto [i, op] : llvm::enumerate(ops))
    if (isa<AttentionOp>(op))
      attentions.push_back(i);
  size_t begin = 0;
  for (size_t attention : attentions) {
    std::optional<size_t> cut = lastCut(begin, attention);
    if (!cut)
      return {};
    boundaries.push_back(*cut);
    begin = attention;
  }
  std::optional<size_t> last = lastBoundary(attentions, boundaries, head);
  if (!last || *last <= attentions.back())
    return {};
  boundaries.push_back(*last);
  return llvm::map_to_vector(boundaries, [&](size_t i) -> Value { return ops[i]->getResult(0); });
}
