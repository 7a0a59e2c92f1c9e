// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A contraction is read from its indexing maps: which operands a loop moves says what it does.

#include "compiler/codegen/kernel/ContractionLoops.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace heddle;

// The kernel finds its place among the outer loops with a division for each.
static constexpr size_t mostOuter = 6;

int64_t ContractionLoops::position(Operand x, unsigned loop) const {
  std::optional<unsigned> at = map(x).getResultPosition(getAffineDimExpr(loop, maps.front().getContext()));
  return at ? int64_t(*at) : -1;
}

// out + a * b, whichever way round.
static bool isMultiplyAdd(linalg::GenericOp op) {
  Block &body = *op.getBody();
  auto yield = cast<linalg::YieldOp>(body.getTerminator());
  auto sum = yield.getValues()[0].getDefiningOp<arith::AddFOp>();
  if (!sum || body.getOperations().size() != 3)
    return false;
  BlockArgument out = body.getArgument(2);
  Value term = sum.getLhs() == out ? sum.getRhs() : sum.getRhs() == out ? sum.getLhs() : Value();
  auto product = term ? term.getDefiningOp<arith::MulFOp>() : arith::MulFOp();
  Value a = body.getArgument(0), b = body.getArgument(1);
  return product &&
         ((product.getLhs() == a && product.getRhs() == b) || (product.getLhs() == b && product.getRhs() == a));
}

static bool sumsF32Products(linalg::GenericOp op) {
  if (op.getNumDpsInputs() != 2 || op.getNumDpsInits() != 1 || op.getNumResults() != 0)
    return false;
  for (auto [operand, map] : llvm::zip(op->getOperands(), op.getIndexingMapsArray())) {
    auto type = dyn_cast<MemRefType>(operand.getType());
    if (!type || !type.getElementType().isF32() || !map.isProjectedPermutation() || !type.isStrided())
      return false;
  }
  return isMultiplyAdd(op);
}

// Puts loop `loop` of `kind` behind the last group if both run as one, else into a group of its own.
static void addLoop(const ContractionLoops &loops, std::vector<ContractionLoops::Group> &groups, unsigned loop) {
  auto runsOn = [&](ContractionLoops::Operand x) {
    int64_t before = loops.position(x, groups.back().back()), at = loops.position(x, loop);
    return (before < 0 && at < 0) || (before >= 0 && at == before + 1 && loops.type(x).getLayout().isIdentity());
  };
  if (!groups.empty() && runsOn(ContractionLoops::A) && runsOn(ContractionLoops::B) && runsOn(ContractionLoops::C))
    groups.back().push_back(loop);
  else
    groups.push_back({loop});
}

FailureOr<ContractionLoops> heddle::contractionLoopsOf(linalg::GenericOp op) {
  constexpr auto a = ContractionLoops::A, b = ContractionLoops::B, c = ContractionLoops::C;
  if (!sumsF32Products(op))
    return failure();
  ContractionLoops loops{op, op.getIndexingMapsArray(), {0, 1, 2}, {}, {}, {}, {}};
  AffineMap outMap = loops.map(c);
  // Columns of c are those of the operand that has them: B, or both exchange places.
  if (outMap.getNumResults() &&
      loops.map(a).isFunctionOfDim(cast<AffineDimExpr>(outMap.getResults().back()).getPosition()))
    std::swap(loops.operands[a], loops.operands[b]);
  // In the order of memory, so that loops meet those that they run as one with.
  SmallVector<unsigned> order;
  for (ContractionLoops::Operand x : {c, a, b})
    for (AffineExpr index : loops.map(x).getResults())
      if (unsigned loop = cast<AffineDimExpr>(index).getPosition(); !llvm::is_contained(order, loop))
        order.push_back(loop);
  for (unsigned loop : order) {
    bool inA = loops.position(a, loop) >= 0, inB = loops.position(b, loop) >= 0, inC = loops.position(c, loop) >= 0;
    if (inA + inB + inC < 2)
      return failure();
    addLoop(loops, !inC ? loops.depth : inA && inB ? loops.repeats : inA ? loops.rows : loops.columns, loop);
  }
  auto [strides, offset] = loops.type(c).getStridesAndOffset();
  bool hasColumns =
      outMap.getNumResults() == 0 || (!loops.columns.empty() && strides.back() == 1 &&
                                      loops.position(c, loops.columns.back().back()) + 1 == int64_t(strides.size()));
  size_t outer =
      loops.repeats.size() + std::max<size_t>(loops.rows.size(), 1) + std::max<size_t>(loops.columns.size(), 1) - 2;
  if (!hasColumns || loops.depth.size() != 1 || outer > mostOuter)
    return failure();
  return loops;
}

bool heddle::isKernelContraction(linalg::GenericOp op) {
  return succeeded(contractionLoopsOf(op));
}
