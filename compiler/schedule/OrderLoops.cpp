// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/schedule/Passes.h"
#include "dialect/Entries.h"

#include "mlir/Dialect/Linalg/Transforms/Transforms.h"

namespace heddle {
#define GEN_PASS_DEF_ORDERLOOPS
#include "compiler/schedule/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

// Whether one step of loop `dim` moves by one element: it is the last index, or is added to it.
static bool isContiguous(AffineMap map, unsigned dim) {
  ArrayRef<AffineExpr> indices = map.getResults();
  for (AffineExpr index : indices.drop_back())
    if (index.isFunctionOfDim(dim))
      return false;
  AffineExpr last = indices.back(), zero = getAffineConstantExpr(0, map.getContext()),
             one = getAffineConstantExpr(1, map.getContext());
  auto step =
      dyn_cast<AffineConstantExpr>(simplifyAffineExpr(last.replace(getAffineDimExpr(dim, map.getContext()), one) -
                                                          last.replace(getAffineDimExpr(dim, map.getContext()), zero),
                                                      map.getNumDims(), 0));
  return step && step.getValue() == 1;
}

// What a step of the innermost loop costs: nothing for an operand that stays, little for one that moves on, a cache line for
// one that jumps. A reduction is no loop to vectorise: its terms keep their order.
static int innermostCost(linalg::GenericOp op, unsigned dim) {
  constexpr int contiguous = 1, jump = 16, reduction = 8;
  int cost = op.getIteratorTypesArray()[dim] == utils::IteratorType::reduction ? reduction : 0;
  for (AffineMap map : op.getIndexingMapsArray())
    if (map.isFunctionOfDim(dim))
      cost += isContiguous(map, dim) ? contiguous : jump;
  return cost;
}

namespace {
struct OrderLoops : heddle::impl::OrderLoopsBase<OrderLoops> {
  void runInStage() override {
    IRRewriter rewriter(&getContext());
    getOperation().walk([&](linalg::GenericOp op) {
      if (!isInGraphEntry(op))
        return;
      unsigned loops = op.getNumLoops(), best = loops;
      for (unsigned dim = 0; dim < loops; ++dim)
        if (best == loops || innermostCost(op, dim) <= innermostCost(op, best))
          best = dim;
      if (best + 1 >= loops)
        return;
      SmallVector<unsigned> order;
      for (unsigned dim = 0; dim < loops; ++dim)
        if (dim != best)
          order.push_back(dim);
      order.push_back(best);
      rewriter.setInsertionPoint(op);
      (void)linalg::interchangeGenericOp(rewriter, op, order);
    });
  }
};
} // namespace
