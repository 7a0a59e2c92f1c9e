// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/schedule/Passes.h"

namespace heddle {
#define GEN_PASS_DEF_PLANMEMORY
#include "compiler/schedule/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

namespace {

// A buffer from its first to its last use, both by index of op in the block.
struct Lifetime {
  memref::AllocOp alloc;
  unsigned begin, end;
  int64_t bytes;      // per row
  int64_t offset = 0; // per row
};

} // namespace

static int64_t rowBytesOf(MemRefType type) {
  int64_t bytes = type.getElementType().getIntOrFloatBitWidth() / 8;
  for (int64_t size : type.getShape().drop_front())
    bytes *= size;
  return llvm::alignTo(bytes, 64); // keeps every offset aligned, whatever the rows
}

// The last op that uses the buffer or a view of it.
static unsigned lastUse(Value buffer, const DenseMap<Operation *, unsigned> &index) {
  unsigned last = 0;
  for (Operation *user : buffer.getUsers()) {
    last = std::max(last, index.lookup(user));
    if (isa<memref::SubViewOp, memref::CastOp>(user))
      last = std::max(last, lastUse(user->getResult(0), index));
  }
  return last;
}

// First fit by decreasing size; returns the bytes per row that all take together.
static int64_t place(SmallVectorImpl<Lifetime> &lifetimes) {
  llvm::stable_sort(lifetimes, [](const Lifetime &a, const Lifetime &b) { return a.bytes > b.bytes; });
  int64_t total = 0;
  for (size_t i = 0; i < lifetimes.size(); ++i) {
    Lifetime &current = lifetimes[i];
    SmallVector<std::pair<int64_t, int64_t>> taken;
    for (size_t j = 0; j < i; ++j)
      if (lifetimes[j].begin <= current.end && current.begin <= lifetimes[j].end)
        taken.push_back({lifetimes[j].offset, lifetimes[j].offset + lifetimes[j].bytes});
    llvm::sort(taken);
    for (auto [begin, end] : taken) {
      if (current.offset + current.bytes <= begin)
        break;
      current.offset = std::max(current.offset, end);
    }
    total = std::max(total, current.offset + current.bytes);
  }
  return total;
}

static FailureOr<int64_t> planFunction(func::FuncOp func, int64_t base) {
  DenseMap<Operation *, unsigned> index;
  for (Operation &op : func.front())
    index[&op] = index.size();
  SmallVector<Lifetime> lifetimes;
  for (auto alloc : func.getOps<memref::AllocOp>()) {
    MemRefType type = alloc.getType();
    if (!type.hasRank() || type.getRank() == 0 || type.getNumDynamicDims() != 1 || !type.isDynamicDim(0))
      return alloc.emitError("buffer ") << type << " does not consist of rows";
    lifetimes.push_back({alloc, index[alloc], lastUse(alloc, index), rowBytesOf(type)});
  }
  int64_t total = place(lifetimes);
  Builder b(func.getContext());
  for (Lifetime &lifetime : lifetimes)
    lifetime.alloc->setAttr(rowOffsetAttr, b.getI64IntegerAttr(base + lifetime.offset));
  return base + total;
}

namespace {
struct PlanMemory : heddle::impl::PlanMemoryBase<PlanMemory> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto step = module.lookupSymbol<func::FuncOp>("step");
    if (!step) {
      module.emitError("has no function @step");
      return signalPassFailure();
    }
    FailureOr<int64_t> stepBytes = planFunction(step, 0);
    if (failed(stepBytes))
      return signalPassFailure();
    int64_t total = *stepBytes;
    for (auto func : module.getOps<func::FuncOp>()) {
      if (func == step || func->hasAttr("heddle.kernel"))
        continue;
      FailureOr<int64_t> layerBytes = planFunction(func, *stepBytes);
      if (failed(layerBytes))
        return signalPassFailure();
      total = std::max(total, *layerBytes);
    }
    module->setAttr(rowBytesAttr, Builder(&getContext()).getI64IntegerAttr(total));
  }
};
} // namespace
