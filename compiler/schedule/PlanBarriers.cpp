// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where the threads of a step need not wait for each other.
//
// Every thread runs every launch on its share: rows for row-wise ops, else panels of columns or tiles. Between two launches all wait,
// unless no memory that one writes is memory that the other touches on another thread. A step of one row, which is what generating
// is, has two more ways: a row-wise op is computed by every thread for itself where its result would be waited for, and what only
// many rows read is left out.

#include "compiler/schedule/Passes.h"
#include "compiler/schedule/ScheduleTable.h"
#include "dialect/Entries.h"
#include "dialect/ScheduleAttrs.h"

#include "llvm/ADT/TypeSwitch.h"

namespace heddle {
#define GEN_PASS_DEF_PLANBARRIERS
#include "compiler/schedule/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

namespace {

// What an op does with a buffer.
struct Access {
  Value root;            // the allocation, or an argument
  int64_t offset, bytes; // of a row in the arena's rows; bytes 0: not there
  int64_t rowBytes;      // from a row to the next
  bool isWrite, byRows;  // byRows: the thread that has the row

  bool isSameRegion(const Access &other) const {
    return bytes && other.bytes ? offset == other.offset && rowBytes == other.rowBytes : root == other.root;
  }
  bool overlaps(const Access &other) const {
    return bytes && other.bytes ? offset < other.offset + other.bytes && other.offset < offset + bytes
                                : root == other.root;
  }
};
using Accesses = SmallVector<Access>;

// How one kind of step runs: the accesses since all threads last met.
struct Meeting {
  bool ofOneRow;
  Accesses since = {};

  // One row is thread 0's, in whichever buffer.
  bool areOrdered(const Access &before, const Access &after) const {
    return before.byRows && after.byRows && (ofOneRow || before.isSameRegion(after));
  }
  bool conflicts(ArrayRef<Access> next) const {
    return llvm::any_of(since, [&](const Access &before) {
      return llvm::any_of(next, [&](const Access &after) {
        return (before.isWrite || after.isWrite) && before.overlaps(after) && !areOrdered(before, after);
      });
    });
  }
};

class FunctionPlan {
public:
  explicit FunctionPlan(func::FuncOp func) : func(func) {}
  // The waits of a step of one row.
  int64_t run();

private:
  void plan(Operation *op);
  void meet(Meeting &meeting);
  bool keepsPrivate(Operation *op);

  func::FuncOp func;
  Meeting many{/*ofOneRow=*/false}, one{/*ofOneRow=*/true};
  Operation *last = nullptr; // the launch behind which a wait could be left out
  DenseSet<Value> privates;
  int64_t privateBytes = 0, waits = 0;
};

} // namespace

// Of the stack of a thread.
static constexpr int64_t maxPrivateBytes = 128 << 10;

static Value rootOf(Value buffer) {
  while (Operation *op = buffer.getDefiningOp()) {
    if (auto view = dyn_cast<ViewLikeOpInterface>(op))
      buffer = view.getViewSource();
    else
      break;
  }
  return buffer;
}

int64_t heddle::bytesOfRow(MemRefType type) {
  auto [strides, offset] = type.getStridesAndOffset();
  return (strides.empty() ? 1 : strides.front()) * type.getElementType().getIntOrFloatBitWidth() / 8;
}

static Access accessOf(Value buffer, bool isWrite, bool byRows) {
  Access access{rootOf(buffer), 0, 0, 0, isWrite, byRows};
  if (auto alloc = access.root.getDefiningOp<memref::AllocOp>())
    if (auto offset = alloc->getAttrOfType<IntegerAttr>(rowOffsetAttr)) {
      access.rowBytes = bytesOfRow(alloc.getType());
      access.bytes = llvm::alignTo(access.rowBytes, 64);
      access.offset = offset.getInt();
    }
  return access;
}

// Whether an op computes a row of its results from that row of `operand`, on the thread that has the row.
static bool isByRows(Operation *op, OpOperand &operand) {
  auto type = dyn_cast<MemRefType>(operand.get().getType());
  if (!type || !type.getRank() || !type.isDynamicDim(0))
    return false;
  if (auto call = dyn_cast<KernelCallOp>(op)) {
    auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(op, call.getCalleeAttr());
    unsigned index = operand.getOperandNumber();
    return !(callee && index < callee.getNumArguments() && callee.getArgAttr(index, "heddle.whole"));
  }
  if (auto rows = dyn_cast<DequantizeOp>(op); rows && operand.get() == rows.getGiven())
    return false;
  return isa<DequantizeOp, KvAppendOp>(op);
}

static Accesses accessesOf(Operation *op) {
  Accesses accesses;
  auto destinations = dyn_cast<DestinationStyleOpInterface>(op);
  for (OpOperand &operand : op->getOpOperands()) {
    Type type = operand.get().getType();
    // A state is its op's alone.
    if (isa<KvCacheType>(type) && !isa<RaggedConvOp, RaggedLinearAttentionOp>(op))
      accesses.push_back({operand.get(), 0, 0, 0, /*isWrite=*/isa<KvAppendOp>(op), /*byRows=*/false});
    else if (isa<MemRefType>(type))
      accesses.push_back(
          accessOf(operand.get(), destinations && destinations.isDpsInit(&operand), isByRows(op, operand)));
  }
  return accesses;
}

static bool isLaunch(Operation *op) {
  return isa<DestinationStyleOpInterface, KvAppendOp>(op);
}

// An op whose kernel is one launch: what follows may begin before all threads are done with it.
static bool isOneLaunch(Operation *op) {
  return isa<KernelCallOp, DequantizeOp, KvAppendOp, PackedMatmulOp>(op);
}

// Whether only products of many rows read the results: the input that is rounded for them.
static bool isOfManyRowsOnly(Operation *op) {
  auto call = dyn_cast<KernelCallOp>(op);
  return call && llvm::all_of(call.getInits(), [&](Value init) {
           auto alloc = init.getDefiningOp<memref::AllocOp>();
           return alloc && !alloc->hasOneUse() && llvm::all_of(alloc->getUsers(), [&](Operation *user) {
                    return user == op || llvm::TypeSwitch<Operation *, bool>(user)
                                             .Case<PackedMatmulOp, ExpertMatmulOp>([&](auto matmul) {
                                               return matmul.getInputRounded() == init && matmul.getInput() != init;
                                             })
                                             .Default([](Operation *) { return false; });
                  });
         });
}

void FunctionPlan::meet(Meeting &meeting) {
  meeting.since.clear();
  waits += meeting.ofOneRow;
}

// Whether each thread can have a copy: of row-wise results in the arena that nothing else writes and that lie in none of the inputs.
bool FunctionPlan::keepsPrivate(Operation *op) {
  auto call = dyn_cast<KernelCallOp>(op);
  if (!call)
    return false;
  int64_t bytes = 0;
  for (Value init : call.getInits()) {
    auto alloc = init.getDefiningOp<memref::AllocOp>();
    if (!alloc || !alloc->hasAttr(rowOffsetAttr))
      return false;
    bool isWrittenElsewhere = llvm::any_of(alloc->getUsers(), [&](Operation *user) {
      auto destinations = dyn_cast<DestinationStyleOpInterface>(user);
      return user != op && !(destinations && !llvm::is_contained(destinations.getDpsInits(), init)) &&
             !isa<memref::DimOp>(user);
    });
    Access result = accessOf(init, true, true);
    bool isRead = llvm::any_of(call.getInputs(), [&](Value input) {
      return isa<MemRefType>(input.getType()) && accessOf(input, false, true).overlaps(result);
    });
    if (isWrittenElsewhere || isRead)
      return false;
    bytes += result.bytes;
  }
  if (privateBytes + bytes > maxPrivateBytes)
    return false;
  privateBytes += bytes;
  return true;
}

// Every thread reads the inputs, and no other sees the results.
static Accesses asPrivate(ArrayRef<Access> accesses) {
  Accesses reads;
  for (Access access : accesses)
    if (!access.isWrite) {
      access.byRows = false;
      reads.push_back(access);
    }
  return reads;
}

void FunctionPlan::plan(Operation *op) {
  Builder b(op->getContext());
  Accesses accesses = accessesOf(op), ofOneRow;
  for (const Access &access : accesses)
    if (!privates.contains(access.root))
      ofOneRow.push_back(access);
  if (isOfManyRowsOnly(op)) {
    op->setAttr(ofManyRowsAttr, b.getUnitAttr());
    ofOneRow.clear();
  }
  // Is this op's result waited for by the next one? Then each thread computes it.
  Operation *next = op->getNextNode();
  while (next && (!isLaunch(next) || isOfManyRowsOnly(next)) && !isa<func::CallOp>(next) && !next->getNumRegions())
    next = next->getNextNode();
  bool isWaitedFor =
      next && isLaunch(next) && !next->getNumRegions() && Meeting{true, ofOneRow}.conflicts(accessesOf(next));
  if (isWaitedFor && !ofOneRow.empty()) {
    Accesses reads = asPrivate(ofOneRow);
    bool costsWait = one.conflicts(reads) && !one.conflicts(ofOneRow);
    if (!costsWait && keepsPrivate(op)) {
      op->setAttr(privateAttr, b.getUnitAttr());
      for (Value init : cast<KernelCallOp>(op).getInits()) {
        init.getDefiningOp()->setAttr(privateAttr, b.getUnitAttr());
        privates.insert(init);
      }
      ofOneRow = std::move(reads);
    }
  }
  // The wait behind the launch before.
  if (last) {
    if (many.conflicts(accesses))
      meet(many);
    else
      last->setAttr(runsOnAttr, b.getUnitAttr());
    if (one.conflicts(ofOneRow))
      meet(one);
    else
      last->setAttr(runsOnOfOneRowAttr, b.getUnitAttr());
  }
  llvm::append_range(many.since, accesses);
  llvm::append_range(one.since, ofOneRow);
  last = op;
  if (isOneLaunch(op))
    return;
  last = nullptr;
  meet(many);
  meet(one);
}

int64_t FunctionPlan::run() {
  auto end = [&] {
    if (!last)
      return;
    last = nullptr;
    meet(many);
    meet(one);
  };
  for (Operation &op : llvm::make_early_inc_range(func.front())) {
    bool isBranch = op.getNumRegions() && !isLaunch(&op);
    if (isBranch || isa<func::CallOp, func::ReturnOp>(op)) {
      end();
      // Of branches, the one that most sequences take: the shortest.
      int64_t shortest = -1;
      for (Region &region : op.getRegions()) {
        int64_t launches = 0;
        region.walk([&](DestinationStyleOpInterface) { ++launches; });
        shortest = shortest < 0 ? launches : std::min(shortest, launches);
      }
      waits += std::max<int64_t>(shortest, 0);
    } else if (isLaunch(&op)) {
      plan(&op);
    }
  }
  end();
  return waits;
}

namespace {
struct PlanBarriers : heddle::impl::PlanBarriersBase<PlanBarriers> {
  void runInStage() override {
    ModuleOp module = getOperation();
    func::FuncOp entry = raggedEntry(module);
    auto target = module->getAttrOfType<TargetAttr>(targetAttrName);
    // A graph's tasks are waited for one by one, and a device's queue keeps their order.
    if (!entry || (target && target.getDevice() != TargetDevice::Cpu))
      return;
    llvm::StringMap<int64_t> waits;
    for (auto func : module.getOps<func::FuncOp>())
      if (!isGraphEntry(func) && !func->hasAttr("heddle.kernel"))
        waits[func.getSymName()] = FunctionPlan(func).run();
    int64_t total = waits.lookup(entry.getSymName());
    entry.walk([&](func::CallOp call) { total += waits.lookup(call.getCallee()); });
    module->setAttr(waitsAttr, Builder(&getContext()).getI64IntegerAttr(total));
  }
};
} // namespace
