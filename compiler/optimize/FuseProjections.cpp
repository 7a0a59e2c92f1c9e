// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/optimize/Passes.h"

#include "dialect/Locations.h"

#include "mlir/IR/Dominance.h"

namespace heddle {
#define GEN_PASS_DEF_FUSEPROJECTIONS
#include "compiler/optimize/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

// Stored type: what must agree for weights to be packed into one matrix.
static std::pair<Type, Attribute> storedType(LinearOp op) {
  auto type = cast<RankedTensorType>(op.getWeights().front().getType());
  return {type.getElementType(), type.getEncoding()};
}

static bool fits(LinearOp first, LinearOp other) {
  return first->getBlock() == other->getBlock() && storedType(first) == storedType(other) &&
         first.getBiases().empty() == other.getBiases().empty();
}

// An encode's results are written where its caller says, each whole: a slice of a product would have to be copied there.
static bool isResultOfEncode(LinearOp op) {
  auto func = op->getParentOfType<func::FuncOp>();
  return func && func.isPublic() && func.getSymName() == "encode" &&
         llvm::any_of(op->getUsers(), llvm::IsaPred<func::ReturnOp>);
}

// One product for all of `group`, placed at the first: weights are there from the start, arguments or ops without operands.
static void fuse(ArrayRef<LinearOp> group) {
  LinearOp first = group.front();
  OpBuilder b(first);
  SmallVector<Value> weights, biases;
  SmallVector<Location> locations;
  int64_t width = 0;
  for (LinearOp op : group) {
    locations.push_back(op.getLoc());
    for (Value operand : llvm::concat<Value>(SmallVector<Value>(op.getWeights()), SmallVector<Value>(op.getBiases())))
      // One that is there already may have readers before the first product: equal weights of a graph are one.
      if (Operation *def = operand.getDefiningOp(); def && first->isBeforeInBlock(def))
        def->moveBefore(first);
    llvm::append_range(weights, op.getWeights());
    llvm::append_range(biases, op.getBiases());
    width += cast<RankedTensorType>(op.getResult().getType()).getShape().back();
  }
  auto type = cast<RankedTensorType>(first.getResult().getType());
  SmallVector<int64_t> shape(type.getShape());
  shape.back() = width;
  Location loc = mergedLocation(b.getContext(), locations);
  Value fused = LinearOp::create(b, loc, type.clone(shape), first.getInput(), weights, biases);
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, loc, fused);
  SmallVector<OpFoldResult> offsets(sizes.size(), b.getIndexAttr(0)), strides(sizes.size(), b.getIndexAttr(1));
  int64_t begin = 0;
  for (LinearOp op : group) {
    auto sliceType = cast<RankedTensorType>(op.getResult().getType());
    offsets.back() = b.getIndexAttr(begin);
    sizes.back() = b.getIndexAttr(sliceType.getShape().back());
    begin += sliceType.getShape().back();
    op.replaceAllUsesWith(
        tensor::ExtractSliceOp::create(b, op.getLoc(), sliceType, fused, offsets, sizes, strides).getResult());
  }
  for (LinearOp op : group)
    op.erase();
}

namespace {
struct FuseProjections : heddle::impl::FuseProjectionsBase<FuseProjections> {
  void runInStage() override {
    SmallVector<SmallVector<LinearOp>> groups;
    size_t closed = 0; // groups that take no more
    getOperation().walk([&](Operation *any) {
      // What is appended to a cache needs no room behind it: one product of all that is appended would hold it all at once.
      if (isa<KvAppendOp>(any))
        closed = groups.size();
      auto op = dyn_cast<LinearOp>(any);
      if (!op || isResultOfEncode(op))
        return;
      for (SmallVector<LinearOp> &group : MutableArrayRef(groups).drop_front(closed))
        if (group.front().getInput() == op.getInput() && fits(group.front(), op)) {
          group.push_back(op);
          return;
        }
      groups.push_back({op});
    });
    for (ArrayRef<LinearOp> group : groups)
      if (group.size() > 1)
        fuse(group);
  }
};
} // namespace
