// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Upstream's ownership-based deallocation is exact in branches and loops, but releases at the end of a block, which for a graph is the
// end of the run, and compares every buffer of a block with every other there. Nearly all buffers of a graph need neither: they are
// allocated and used in one block, under names that are views of one another. Their last use is known from the uses of these names,
// in a time that grows with the number of uses.

#include "compiler/codegen/host/GraphMemory.h"

#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Interfaces/ViewLikeInterface.h"

using namespace mlir;
using namespace heddle;

namespace {

// Where a buffer is used, as places in its block.
struct Life {
  bool isKnown = true; // else something hands the buffer on
  Operation *first = nullptr, *last = nullptr;
};

class MemoryPlan {
public:
  explicit MemoryPlan(func::FuncOp graph) : graph(graph) {}
  void run();

private:
  Life lifeOf(memref::AllocOp alloc);
  bool writeInPlace(memref::AllocOp alloc);
  void countOps();

  func::FuncOp graph;
  DenseMap<Operation *, unsigned> order; // of ops in their block
};

} // namespace

void MemoryPlan::countOps() {
  graph.walk<WalkOrder::PreOrder>([&](Block *block) {
    for (auto [i, op] : llvm::enumerate(*block))
      order[&op] = i;
  });
}

Life MemoryPlan::lifeOf(memref::AllocOp alloc) {
  Life life;
  Block *block = alloc->getBlock();
  SmallVector<Value> names = {alloc.getResult()};
  while (!names.empty()) {
    Value name = names.pop_back_val();
    for (OpOperand &use : name.getUses()) {
      Operation *user = use.getOwner(), *inBlock = block->findAncestorOpInBlock(*user);
      auto view = dyn_cast<ViewLikeOpInterface>(user);
      bool isView = (view && view.getViewSource() == name) || isa<memref::CastOp, memref::ReshapeOp>(user);
      bool handsOn = llvm::any_of(user->getResultTypes(), llvm::IsaPred<BaseMemRefType>);
      // A terminator passes the buffer to whatever comes next, a store keeps its address.
      if (!inBlock || (!isView && handsOn) || user->hasTrait<OpTrait::IsTerminator>() || isa<CallOpInterface>(user) ||
          isa<RegionBranchOpInterface>(user) ||
          isa_and_nonnull<BaseMemRefType>(isa<memref::StoreOp>(user) ? user->getOperand(0).getType() : Type())) {
        life.isKnown = false;
        return life;
      }
      if (isView && use.getOperandNumber() == 0)
        names.push_back(user->getResult(0));
      if (!life.first || order[inBlock] < order[life.first])
        life.first = inBlock;
      if (!life.last || order[inBlock] > order[life.last])
        life.last = inBlock;
    }
  }
  return life;
}

// Whether each step of `op` reads of `input` only what it then writes to `output`.
static bool areSameElements(linalg::GenericOp op, OpOperand &input, OpOperand &output) {
  AffineMap map = op.getMatchingIndexingMap(&input);
  return map == op.getMatchingIndexingMap(&output) && map.isPermutation() && map.getNumDims() == map.getNumResults() &&
         llvm::count(op->getOperands(), input.get()) == 1;
}

// Gives the op that first writes `alloc` the buffer of a dying operand in its place.
bool MemoryPlan::writeInPlace(memref::AllocOp alloc) {
  Life life = lifeOf(alloc);
  auto writer = dyn_cast_or_null<linalg::GenericOp>(life.first);
  // A body may load from buffers that are no operands.
  if (!life.isKnown || !writer ||
      !llvm::all_of(*writer.getBody(), [](Operation &op) { return isMemoryEffectFree(&op); }))
    return false;
  OpOperand *output = nullptr;
  for (OpOperand &init : writer.getDpsInitsMutable())
    if (init.get() == alloc.getResult())
      output = &init;
  if (!output || llvm::count(writer->getOperands(), alloc.getResult()) != 1 ||
      writer.payloadUsesValueFromOperand(output))
    return false;
  for (OpOperand *input : writer.getDpsInputOperands()) {
    auto source = input->get().getDefiningOp<memref::AllocOp>();
    if (!source || source.getType() != alloc.getType() || source->getBlock() != alloc->getBlock() ||
        source.getDynamicSizes() != alloc.getDynamicSizes() || !areSameElements(writer, *input, *output))
      continue;
    Life old = lifeOf(source);
    if (!old.isKnown || old.last != writer)
      continue;
    alloc.getResult().replaceAllUsesWith(source.getResult());
    return true;
  }
  return false;
}

void MemoryPlan::run() {
  countOps();
  SmallVector<memref::AllocOp> allocs;
  graph.walk([&](memref::AllocOp alloc) { allocs.push_back(alloc); });
  // In the order of the ops, so that a chain of them passes one buffer along.
  llvm::erase_if(allocs, [&](memref::AllocOp alloc) {
    if (!writeInPlace(alloc))
      return false;
    alloc.erase();
    return true;
  });
  OpBuilder b(graph.getContext());
  StringRef byHand = bufferization::BufferizationDialect::kManualDeallocation;
  for (memref::AllocOp alloc : allocs) {
    Life life = lifeOf(alloc);
    if (!life.isKnown || !life.last)
      continue;
    b.setInsertionPointAfter(life.last);
    auto release = memref::DeallocOp::create(b, alloc.getLoc(), alloc);
    alloc->setAttr(byHand, b.getUnitAttr());
    release->setAttr(byHand, b.getUnitAttr());
  }
}

void heddle::releaseAtLastUse(func::FuncOp graph) {
  MemoryPlan(graph).run();
}
