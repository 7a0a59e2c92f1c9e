// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/schedule/Passes.h"
#include "compiler/schedule/ScheduleTable.h"
#include "dialect/Entries.h"
#include "dialect/HeddleDialect.h"

namespace heddle {
#define GEN_PASS_DEF_PLANMEMORY
#include "compiler/schedule/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

namespace {

// A buffer from its first to its last use, both by index of op in the function's block.
struct Lifetime {
  memref::AllocOp alloc;
  unsigned begin, end;
  int64_t bytes;      // per row, or of all
  int64_t offset = 0; // likewise
};

// The buffers of a function: those whose size is a multiple of the rows of a step, and those of one size.
struct Buffers {
  SmallVector<Lifetime> rows, fixed;
};

// Bytes that buffers take: arena = rows * perRow + fixed.
struct Size {
  int64_t perRow = 0, fixed = 0;
};

} // namespace

// Rounded up, bytes keep every offset aligned, whatever the rows.
static int64_t bytesOf(MemRefType type) {
  int64_t rows = type.getRank() && !type.isDynamicDim(0) ? type.getDimSize(0) : 1;
  return llvm::alignTo(rows * bytesOfRow(type), 64);
}

// Gives rows that kernels alone read and write a line more, if they lie a multiple of 1 KiB apart.
static void spread(Value rows, bool isRounded) {
  constexpr int64_t line = 64, apart = 1024;
  auto alloc = rows.getDefiningOp<memref::AllocOp>();
  if (!alloc || !llvm::all_of(alloc->getUsers(), llvm::IsaPred<PackedMatmulOp, KernelCallOp>))
    return;
  MemRefType type = alloc.getType();
  bool isRows = type.getRank() == 2 && type.isDynamicDim(0) && type.getLayout().isIdentity();
  bool isOfType = isRounded ? type.getElementType().isBF16() : type.getElementType().isF32();
  if (!isRows || !isOfType || bytesOfRow(type) % apart)
    return;
  int64_t stride = type.getDimSize(1) + line * type.getDimSize(1) / bytesOfRow(type);
  auto layout = StridedLayoutAttr::get(type.getContext(), 0, {stride, 1});
  alloc.getResult().setType(MemRefType::get(type.getShape(), type.getElementType(), layout));
}

// Products of blocks of rows read a line of 16 rounded rows at a time, and write two lines of 32 rows. Where rows lie a multiple of 1 KiB apart, these
// lines fall into few sets of a cache, which holds no more of them than it has ways.
static void spreadRows(ModuleOp module) {
  module.walk([&](PackedMatmulOp op) {
    auto schedule = op->getAttrOfType<ScheduleAttr>(scheduleAttrName);
    if (!schedule || !schedule.getScratchBytes())
      return;
    spread(op.getInputRounded() ? op.getInputRounded() : op.getInput(), /*isRounded=*/true);
    for (Value out : op.getInits())
      spread(out, /*isRounded=*/getElementTypeOrSelf(out).isBF16());
  });
}

// Ops inside a branch count as the branch.
static unsigned indexOf(Operation *op, const DenseMap<Operation *, unsigned> &index) {
  while (op && !index.contains(op))
    op = op->getParentOp();
  return index.lookup(op);
}

// The last op that uses the buffer or a view of it.
static unsigned lastUse(Value buffer, const DenseMap<Operation *, unsigned> &index) {
  unsigned last = 0;
  for (Operation *user : buffer.getUsers()) {
    last = std::max(last, indexOf(user, index));
    if (isa<memref::SubViewOp, memref::CastOp>(user))
      last = std::max(last, lastUse(user->getResult(0), index));
  }
  return last;
}

// First fit by decreasing size; returns the bytes that all take together.
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

static FailureOr<Buffers> buffersOf(func::FuncOp func) {
  DenseMap<Operation *, unsigned> index;
  for (Operation &op : func.front())
    index[&op] = index.size();
  Buffers buffers;
  WalkResult walked = func.walk([&](memref::AllocOp alloc) {
    MemRefType type = alloc.getType();
    Lifetime lifetime{alloc, indexOf(alloc, index), lastUse(alloc, index), 0};
    if (type.hasStaticShape()) {
      lifetime.bytes = bytesOf(type);
      buffers.fixed.push_back(lifetime);
    } else if (type.getNumDynamicDims() == 1 && type.isDynamicDim(0)) {
      lifetime.bytes = bytesOf(type);
      buffers.rows.push_back(lifetime);
    } else {
      alloc.emitError("buffer ") << type << " does not consist of rows";
      return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return walked.wasInterrupted() ? FailureOr<Buffers>(failure()) : buffers;
}

// Gives the buffers of a function their places behind `base`; returns where the next may begin.
static FailureOr<Size> planFunction(func::FuncOp func, Size base) {
  FailureOr<Buffers> buffers = buffersOf(func);
  if (failed(buffers))
    return failure();
  Builder b(func.getContext());
  Size total{base.perRow + place(buffers->rows), base.fixed + place(buffers->fixed)};
  for (Lifetime &lifetime : buffers->rows)
    lifetime.alloc->setAttr(rowOffsetAttr, b.getI64IntegerAttr(base.perRow + lifetime.offset));
  for (Lifetime &lifetime : buffers->fixed)
    lifetime.alloc->setAttr(offsetAttr, b.getI64IntegerAttr(base.fixed + lifetime.offset));
  return total;
}

namespace {
struct PlanMemory : heddle::impl::PlanMemoryBase<PlanMemory> {
  void runInStage() override {
    ModuleOp module = getOperation();
    func::FuncOp entry = raggedEntry(module);
    if (!entry && !graphEntries(module).empty()) // whose buffers have sizes that only a call knows
      return;
    if (!entry || entry.getSymName() == "forward") { // whose batch is not flat yet
      module.emitError("has no function @step or @encode");
      return signalPassFailure();
    }
    spreadRows(module);
    // Entries run one at a time, in one arena; a layer's buffers lie behind those of whichever calls it.
    Size ofEntries, total;
    auto widen = [](Size &size, const Size &other) {
      size = {std::max(size.perRow, other.perRow), std::max(size.fixed, other.fixed)};
    };
    for (func::FuncOp each : raggedEntries(module)) {
      FailureOr<Size> size = planFunction(each, Size());
      if (failed(size))
        return signalPassFailure();
      widen(ofEntries, *size);
    }
    total = ofEntries;
    for (auto func : module.getOps<func::FuncOp>()) {
      if (func.isPublic() || func->hasAttr("heddle.kernel"))
        continue;
      FailureOr<Size> layerSize = planFunction(func, ofEntries);
      if (failed(layerSize))
        return signalPassFailure();
      widen(total, *layerSize);
    }
    int64_t perThread = 0;
    module.walk([&](Operation *op) {
      if (auto schedule = op->getAttrOfType<ScheduleAttr>(scheduleAttrName))
        perThread = std::max(perThread, schedule.getScratchBytes());
    });
    Builder b(&getContext());
    if (perThread)
      module->setAttr(threadBytesAttr, b.getI64IntegerAttr(perThread));
    module->setAttr(rowBytesAttr, b.getI64IntegerAttr(total.perRow));
    module->setAttr(fixedBytesAttr, b.getI64IntegerAttr(total.fixed));
  }
};
} // namespace
