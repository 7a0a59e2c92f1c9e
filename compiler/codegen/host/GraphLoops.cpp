// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The loops of a graph become functions, which all threads run together where there is work enough. Neighbouring ops that walk the
// same rows share their outer loops: a softmax, a norm, or whatever else reduces rows and computes with what it got, reads a row from
// memory once and finds it in cache for each of its steps. Which ops join follows from their indexing maps alone.

#include "compiler/codegen/host/GraphLoops.h"

#include "compiler/codegen/host/Buffers.h"
#include "compiler/codegen/host/GraphRows.h"
#include "compiler/codegen/host/GraphRuntime.h"
#include "compiler/codegen/host/LoopForms.h"
#include "compiler/codegen/kernel/RawBuilder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Interfaces/ViewLikeInterface.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace heddle;

// Simple ops that waking the threads pays for; a function of `math` counts as several.
static constexpr double fewestShared = 1 << 18;
static constexpr int64_t mathCost = 8;

// Fewer elements than this, if their number is known, stay where they are.
static constexpr int64_t fewestElements = 16;

// Ops that share their outer loops: bounds the size of one function.
static constexpr size_t mostInGroup = 16;

// Whether loop `loop` is parallel and moves every output along.
static bool isWrittenAlong(linalg::GenericOp op, unsigned loop) {
  AffineExpr dim = getAffineDimExpr(loop, op.getContext());
  return op.getIteratorTypesArray()[loop] == utils::IteratorType::parallel &&
         llvm::all_of(op.getDpsInitsMutable(), [&](OpOperand &output) {
           return op.getMatchingIndexingMap(&output).getResultPosition(dim).has_value();
         });
}

// An assertion ends the call, which a thread of its own cannot.
static bool isQuiet(linalg::GenericOp op) {
  auto isQuietOp = [](Operation &inner) { return isMemoryEffectFree(&inner) || isa<memref::LoadOp>(inner); };
  return op.hasPureBufferSemantics() && llvm::all_of(*op.getBody(), isQuietOp);
}

bool heddle::canShareLoops(linalg::GenericOp op) {
  SmallVector<int64_t> ranges = op.getStaticLoopRanges();
  auto isCut = [&](unsigned loop) { return ranges[loop] != 1 && isWrittenAlong(op, loop); };
  return isQuiet(op) && llvm::any_of(llvm::seq<unsigned>(0, op.getNumLoops()), isCut);
}

// Whether the loops of `op` become a function.
static bool isTask(linalg::GenericOp op) {
  if (op.getNumLoops() == 0 || !isQuiet(op))
    return false;
  int64_t elements = 1;
  for (int64_t range : op.getStaticLoopRanges()) {
    if (ShapedType::isDynamic(range))
      return true;
    elements = llvm::SaturatingMultiply<uint64_t>(elements, range);
  }
  return elements >= fewestElements;
}

static int64_t costOfElement(linalg::GenericOp op) {
  int64_t cost = 0;
  for (Operation &inner : *op.getBody())
    cost += isa<math::MathDialect>(inner.getDialect()) ? mathCost : 1;
  return cost;
}

namespace {

// Ops of one block, in order, whose first `shared` loops are the same and run as one.
struct LoopGroup {
  SmallVector<linalg::GenericOp> ops;
  unsigned shared = 0;
};

} // namespace

// The buffer that `value` is a view of.
static Value rootOf(Value value) {
  while (Operation *made = value.getDefiningOp()) {
    if (auto view = dyn_cast<ViewLikeOpInterface>(made))
      value = view.getViewSource();
    else if (auto cast = dyn_cast<memref::CastOp>(made))
      value = cast.getSource();
    else
      break;
  }
  return value;
}

// Whether no other root is the same memory: it was just allocated, or is the call's (a cast of an address), whose inputs and weights are only
// read.
static bool isOwnRoot(Value root) {
  return isa_and_nonnull<memref::AllocOp, memref::GetGlobalOp, UnrealizedConversionCastOp>(root.getDefiningOp());
}

static bool hasOwnRoots(linalg::GenericOp op) {
  return llvm::all_of(op->getOperands(),
                      [](Value operand) { return !isa<MemRefType>(operand.getType()) || isOwnRoot(rootOf(operand)); });
}

// Loops, from the outermost, that write every output along, or take one step.
static unsigned writtenPrefix(linalg::GenericOp op) {
  unsigned loops = 0;
  SmallVector<int64_t> ranges = op.getStaticLoopRanges();
  while (loops < op.getNumLoops() && (isWrittenAlong(op, loops) || ranges[loops] == 1))
    ++loops;
  return loops;
}

// The index expressions of `operand` as those of the buffer that it is a view of; null where a dimension of that buffer is no dimension
// of the view. Views that only add or drop dimensions of size 1 keep all.
static SmallVector<AffineExpr> rootIndices(OpOperand &operand) {
  auto op = cast<linalg::GenericOp>(operand.getOwner());
  SmallVector<AffineExpr> indices(op.getMatchingIndexingMap(&operand).getResults());
  for (Value value = operand.get(); Operation *made = value.getDefiningOp();) {
    auto view = dyn_cast<ViewLikeOpInterface>(made);
    if (!view)
      return indices;
    value = view.getViewSource();
    if (isa<memref::CastOp>(made))
      continue;
    auto type = cast<MemRefType>(value.getType());
    SmallVector<AffineExpr> before(type.getRank());
    if (auto expand = dyn_cast<memref::ExpandShapeOp>(made)) {
      for (auto [dim, group] : llvm::enumerate(expand.getReassociationIndices())) {
        auto isWide = [&](int64_t d) { return expand.getResultType().getDimSize(d) != 1; };
        if (llvm::count_if(group, isWide) == 1)
          before[dim] = indices[*llvm::find_if(group, isWide)];
      }
    } else if (auto collapse = dyn_cast<memref::CollapseShapeOp>(made)) {
      for (auto [dim, group] : llvm::enumerate(collapse.getReassociationIndices())) {
        auto isWide = [&](int64_t d) { return type.getDimSize(d) != 1; };
        if (llvm::count_if(group, isWide) == 1)
          before[*llvm::find_if(group, isWide)] = indices[dim];
      }
    }
    indices = before;
  }
  return indices;
}

// Whether both operands are of one buffer and step k of each of `shared` loops touches the same part of it in both ops.
static bool touchSameParts(OpOperand &x, OpOperand &y, unsigned shared) {
  auto isSingleStep = [](OpOperand &operand, unsigned loop) {
    return cast<linalg::GenericOp>(operand.getOwner()).getStaticLoopRanges()[loop] == 1;
  };
  SmallVector<AffineExpr> indicesX = rootIndices(x), indicesY = rootIndices(y);
  for (unsigned loop = 0; loop < shared; ++loop) {
    AffineExpr dim = getAffineDimExpr(loop, x.getOwner()->getContext());
    auto isDim = [&](auto pair) { return std::get<0>(pair) == dim && std::get<1>(pair) == dim; };
    if (!(isSingleStep(x, loop) && isSingleStep(y, loop)) && llvm::none_of(llvm::zip(indicesX, indicesY), isDim))
      return false;
  }
  return true;
}

// What tells the length of loop `loop`: sizes, known as numbers or as values, and dimensions of buffers. Two loops that have one of
// these in common are of one length.
static SmallVector<std::pair<void *, int64_t>> lengthsOf(linalg::GenericOp op, unsigned loop) {
  SmallVector<std::pair<void *, int64_t>> lengths;
  if (int64_t size = op.getStaticLoopRanges()[loop]; !ShapedType::isDynamic(size))
    return {{nullptr, size}};
  AffineExpr dim = getAffineDimExpr(loop, op.getContext());
  for (OpOperand &operand : op->getOpOperands()) {
    if (!isa<MemRefType>(operand.get().getType()))
      continue;
    Value root = rootOf(operand.get());
    SmallVector<AffineExpr> indices = rootIndices(operand);
    for (auto [at, index] : llvm::enumerate(indices)) {
      if (index != dim)
        continue;
      lengths.push_back({root.getAsOpaquePointer(), int64_t(at)});
      auto alloc = root.getDefiningOp<memref::AllocOp>();
      if (!alloc || !alloc.getType().isDynamicDim(at))
        continue;
      Value size = alloc.getDynamicSizes()[alloc.getType().getDynamicDimIndex(at)];
      lengths.push_back({size.getAsOpaquePointer(), -1});
      if (auto of = size.getDefiningOp<memref::DimOp>(); of && of.getConstantIndex())
        lengths.push_back({of.getSource().getAsOpaquePointer(), *of.getConstantIndex()});
    }
  }
  return lengths;
}

static bool areOfOneLength(linalg::GenericOp x, linalg::GenericOp y, unsigned shared) {
  for (unsigned loop = 0; loop < shared; ++loop) {
    auto lengths = lengthsOf(x, loop);
    if (llvm::none_of(lengthsOf(y, loop), [&](auto length) { return llvm::is_contained(lengths, length); }))
      return false;
  }
  return true;
}

// Whether `op` may run within the outer loops of `group`, `shared` of them: what one of them writes and another touches, they touch at
// the same step.
static bool canJoin(LoopGroup &group, linalg::GenericOp op, unsigned shared) {
  for (linalg::GenericOp other : group.ops)
    for (OpOperand &x : other->getOpOperands())
      for (OpOperand &y : op->getOpOperands())
        if (isa<MemRefType>(x.get().getType()) && isa<MemRefType>(y.get().getType()) &&
            rootOf(x.get()) == rootOf(y.get()) && (other.isDpsInit(&x) || op.isDpsInit(&y)) &&
            !touchSameParts(x, y, shared))
          return false;
  return llvm::any_of(group.ops, [&](linalg::GenericOp other) { return areOfOneLength(other, op, shared); });
}

// Loads in a body read what no operand names.
static bool loadsBuffers(linalg::GenericOp op) {
  return llvm::any_of(*op.getBody(), [](Operation &inner) { return isa<memref::LoadOp>(inner); });
}

// Puts `op` behind the others if it walks their rows. The rows are as narrow as the narrowest op has them, but each keeps a loop of
// its own to run in vectors, unless it computes one number per row.
static bool join(LoopGroup &group, linalg::GenericOp op) {
  if (group.ops.empty() || group.ops.size() >= mostInGroup || loadsBuffers(op) || loadsBuffers(group.ops.back()) ||
      !hasOwnRoots(op) || !hasOwnRoots(group.ops.front()))
    return false;
  unsigned loops = op.getNumLoops();
  for (linalg::GenericOp other : group.ops)
    loops = std::max(loops, other.getNumLoops());
  unsigned shared = std::min({group.shared, writtenPrefix(op), loops - 1});
  if (shared == 0 || !canJoin(group, op, shared))
    return false;
  group.ops.push_back(op);
  group.shared = shared;
  return true;
}

// The groups of a block. Between ops of one group stand only ops that may as well run before all of it, and releases of memory, which
// move behind it.
static void collectGroups(Block &block, std::vector<LoopGroup> &groups) {
  LoopGroup group;
  auto finish = [&] {
    if (!group.ops.empty())
      groups.push_back(std::move(group));
    group = {};
  };
  for (Operation &op : block) {
    if (auto loops = dyn_cast<linalg::GenericOp>(op); loops && isTask(loops)) {
      if (join(group, loops))
        continue;
      finish();
      group = {{loops}, writtenPrefix(loops)};
    } else if (!isa<memref::AllocOp, memref::DeallocOp, cf::AssertOp>(op) &&
               !(isMemoryEffectFree(&op) && op.getNumRegions() == 0)) {
      finish();
    }
  }
  finish();
}

static void moveReleasesBehind(LoopGroup &group) {
  Operation *last = group.ops.back(), *behind = last;
  for (Operation *op = group.ops.front(); op != last;) {
    Operation *next = op->getNextNode();
    if (isa<memref::DeallocOp>(op)) {
      op->moveAfter(behind);
      behind = op;
    }
    op = next;
  }
}

namespace {

// Makes a function (values, part, num_parts) of a group of loops, which runs one part of them.
class LoopTask {
public:
  LoopTask(LoopGroup &group, func::FuncOp graph, int64_t lanes)
      : group(group), graph(graph), b(graph.getContext()), loc(group.ops.back().getLoc()), lanes(lanes) {}
  func::FuncOp build();
  // Calls `task`, which may be that of an equal group, in place of the ops.
  void call(func::FuncOp task);

private:
  Value index(int64_t value) { return arith::ConstantIndexOp::create(b, loc, value); }
  SmallVector<LoopBounds> wholeBounds(linalg::GenericOp op);
  void cut(func::FuncOp task, MutableArrayRef<LoopBounds> bounds);
  void emitGroup(ArrayRef<LoopBounds> shared);
  void load(func::FuncOp task);
  Value store();
  Value isEnoughWork();
  bool isSingle() { return group.ops.size() == 1; }
  // Loops of the first op that threads may divide among them.
  SmallVector<unsigned> cuttableLoops();
  Type storedType(Value value) {
    auto type = dyn_cast<MemRefType>(value.getType());
    return type ? descriptorType(type) : value.getType().isIndex() ? b.getI64Type() : value.getType();
  }
  // Bytes that a value takes in the memory of a task: its size, or more.
  size_t bytesOf(Value value) {
    auto type = dyn_cast<MemRefType>(value.getType());
    return type ? (3 + 2 * type.getRank()) * sizeof(int64_t) : sizeof(int64_t);
  }

  LoopGroup &group;
  func::FuncOp graph;
  OpBuilder b;
  Location loc;
  int64_t lanes;
  SmallVector<Value> values; // what the loops read from around them
};

} // namespace

SmallVector<LoopBounds> LoopTask::wholeBounds(linalg::GenericOp op) {
  SmallVector<LoopBounds> bounds;
  for (Range range : cast<linalg::LinalgOp>(op.getOperation()).createLoopRanges(b, op.getLoc()))
    bounds.push_back({index(0), getValueOrCreateConstantIndexOp(b, loc, range.size)});
  return bounds;
}

SmallVector<unsigned> LoopTask::cuttableLoops() {
  linalg::GenericOp first = group.ops.front();
  SmallVector<int64_t> ranges = first.getStaticLoopRanges();
  SmallVector<unsigned> loops;
  unsigned end = first.getNumLoops();
  for (linalg::GenericOp op : group.ops)
    end = std::min(end, writtenOutFrom(op));
  for (unsigned loop = 0; loop < end; ++loop)
    if (ranges[loop] != 1 && (loop < group.shared || (isSingle() && isWrittenAlong(first, loop))))
      loops.push_back(loop);
  return loops;
}

// Cuts one of the cuttable loops in parts: the outermost with a step for each part, else the longest.
void LoopTask::cut(func::FuncOp task, MutableArrayRef<LoopBounds> bounds) {
  SmallVector<unsigned> loops = cuttableLoops();
  if (loops.empty())
    return;
  Value part = arith::IndexCastOp::create(b, loc, b.getIndexType(), task.getArgument(1));
  Value parts = arith::IndexCastOp::create(b, loc, b.getIndexType(), task.getArgument(2));
  auto isLess = [&](Value x, Value y) -> Value {
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, x, y);
  };
  Value chosen = index(loops.back()), longest = bounds[loops.back()].end;
  for (unsigned loop : llvm::reverse(ArrayRef(loops).drop_back())) {
    Value size = bounds[loop].end;
    Value isWorse = arith::AndIOp::create(b, loc, isLess(size, parts), isLess(size, longest));
    chosen = arith::SelectOp::create(b, loc, isWorse, chosen, index(loop));
    longest = arith::SelectOp::create(b, loc, isWorse, longest, size);
  }
  Value next = arith::AddIOp::create(b, loc, part, index(1));
  for (unsigned loop : loops) {
    Value size = bounds[loop].end;
    auto beginOf = [&](Value index) -> Value {
      return arith::DivUIOp::create(b, loc, arith::MulIOp::create(b, loc, size, index), parts);
    };
    Value isCut = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, chosen, index(loop));
    if (loops.size() == 1)
      bounds[loop] = {beginOf(part), beginOf(next)};
    else
      bounds[loop] = {arith::SelectOp::create(b, loc, isCut, beginOf(part), index(0)),
                      arith::SelectOp::create(b, loc, isCut, beginOf(next), size)};
  }
}

// The shared loops, and in them what each op has beside them.
void LoopTask::emitGroup(ArrayRef<LoopBounds> first) {
  SmallVector<SmallVector<LoopBounds>> own;
  for (linalg::GenericOp op : group.ops)
    own.push_back(wholeBounds(op));
  llvm::copy(first, own.front().begin());
  unsigned shared = isSingle() ? group.ops.front().getNumLoops() - 1 : group.shared;
  shared = std::min({shared, group.shared, isSingle() ? writtenOutFrom(group.ops.front()) : shared});
  // Its last loop before the terms of sums is left to it.
  if (unsigned terms = isSingle() ? termsFrom(group.ops.front()) : 0; terms > 0 && shared >= terms)
    shared = terms - 1;
  SmallVector<Value> ivs;
  for (unsigned loop = 0; loop < shared; ++loop) {
    auto made = scf::ForOp::create(b, loc, first[loop].begin, first[loop].end, index(1));
    b.setInsertionPointToStart(made.getBody());
    ivs.push_back(made.getInductionVar());
  }
  for (auto [op, bounds] : llvm::zip(group.ops, own))
    emitInnerLoops(b, op, ivs, bounds, lanes);
}

// The function's own copies of what it reads from around it; constants go with it.
void LoopTask::load(func::FuncOp task) {
  llvm::SetVector<Value> outer;
  task.walk([&](Operation *op) {
    for (Value operand : op->getOperands())
      if (!task.getBody().isAncestor(operand.getParentRegion()))
        outer.insert(operand);
  });
  b.setInsertionPointToStart(&task.getBody().front());
  // By walking the function, not the uses: those of a size or a constant are all over the graph.
  IRMapping own;
  size_t offset = 0;
  for (Value value : outer) {
    if (matchPattern(value, m_Constant())) {
      own.map(value, b.clone(*value.getDefiningOp())->getResult(0));
      continue;
    }
    values.push_back(value);
    Type type = storedType(value);
    Value stored = LLVM::LoadOp::create(b, loc, type, addressAt(b, loc, task.getArgument(0), int64_t(offset)));
    own.map(value, type == value.getType()
                       ? stored
                       : UnrealizedConversionCastOp::create(b, loc, value.getType(), stored).getResult(0));
    offset += bytesOf(value);
  }
  task.walk([&](Operation *op) {
    for (OpOperand &operand : op->getOpOperands())
      operand.set(own.lookupOrDefault(operand.get()));
  });
}

func::FuncOp LoopTask::build() {
  auto pointer = LLVM::LLVMPointerType::get(b.getContext());
  b.setInsertionPoint(graph);
  auto task =
      func::FuncOp::create(b, loc, "heddle_loop", b.getFunctionType({pointer, b.getI64Type(), b.getI64Type()}, {}));
  task.setPrivate();
  // Inlined, the loops of a graph would be one function, which takes more time and memory to compile.
  task->setAttr("passthrough", b.getStrArrayAttr({"noinline"}));
  b.setInsertionPointToStart(task.addEntryBlock());
  auto end = func::ReturnOp::create(b, loc);
  b.setInsertionPoint(end);
  SmallVector<LoopBounds> bounds = wholeBounds(group.ops.front());
  cut(task, bounds);
  emitGroup(bounds);
  load(task);
  return task;
}

// Room for the values in the graph's frame, filled where the loops stand.
Value LoopTask::store() {
  size_t size = 0;
  for (Value value : values)
    size += bytesOf(value);
  Value memory;
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(&graph.getBody().front());
    Value bytes = arith::ConstantIntOp::create(b, loc, b.getI64Type(), std::max<size_t>(size, 1));
    memory = LLVM::AllocaOp::create(b, loc, LLVM::LLVMPointerType::get(b.getContext()), b.getI8Type(), bytes, 8);
  }
  size_t offset = 0;
  for (Value value : values) {
    Type type = storedType(value);
    Value stored =
        type == value.getType() ? value : UnrealizedConversionCastOp::create(b, loc, type, value).getResult(0);
    LLVM::StoreOp::create(b, loc, stored, addressAt(b, loc, memory, int64_t(offset)));
    offset += bytesOf(value);
  }
  return memory;
}

// Nothing if the answer is known to be no.
Value LoopTask::isEnoughWork() {
  if (cuttableLoops().empty())
    return {};
  double known = 0;
  Value work;
  for (linalg::GenericOp op : group.ops) {
    double cost = double(costOfElement(op)) / (innermostLoopOf(op) == InnermostLoop::Scalar ? 1 : 4);
    Value product;
    for (Range range : cast<linalg::LinalgOp>(op.getOperation()).createLoopRanges(b, loc)) {
      if (std::optional<int64_t> size = getConstantIntValue(range.size)) {
        cost *= double(*size);
        continue;
      }
      Value size = arith::IndexCastOp::create(b, loc, b.getI64Type(), cast<Value>(range.size));
      Value factor = arith::SIToFPOp::create(b, loc, b.getF64Type(), size);
      product = product ? Value(arith::MulFOp::create(b, loc, product, factor)) : factor;
    }
    if (!product) {
      known += cost;
      continue;
    }
    product = arith::MulFOp::create(b, loc, product, arith::ConstantOp::create(b, loc, b.getF64FloatAttr(cost)));
    work = work ? Value(arith::AddFOp::create(b, loc, work, product)) : product;
  }
  if (!work && known < fewestShared)
    return {};
  if (!work)
    return arith::ConstantOp::create(b, loc, b.getBoolAttr(true));
  Value limit = arith::ConstantOp::create(b, loc, b.getF64FloatAttr(fewestShared - known));
  return arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OGE, work, limit);
}

void LoopTask::call(func::FuncOp task) {
  moveReleasesBehind(group);
  b.setInsertionPoint(group.ops.back());
  Value memory = store();
  if (Value isShared = isEnoughWork()) {
    runTask(b, loc, graph, task, memory, isShared);
  } else {
    Value first = arith::ConstantIntOp::create(b, loc, b.getI64Type(), 0),
          alone = arith::ConstantIntOp::create(b, loc, b.getI64Type(), 1);
    func::CallOp::create(b, loc, task, ValueRange{memory, first, alone});
  }
  for (linalg::GenericOp op : group.ops)
    op.erase();
}

// What tells two functions apart, before they have names.
static std::string textOf(func::FuncOp task) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  task->print(stream, OpPrintingFlags().useLocalScope().printGenericOpForm());
  return text;
}

SmallVector<func::FuncOp> heddle::shareLoops(func::FuncOp graph, const CpuTarget &target) {
  std::vector<LoopGroup> groups;
  graph.walk([&](Block *block) {
    if (!isa<linalg::GenericOp>(block->getParentOp()))
      collectGroups(*block, groups);
  });
  SmallVector<func::FuncOp> tasks;
  llvm::StringMap<func::FuncOp> known;
  for (LoopGroup &group : groups) {
    LoopTask loops(group, graph, target.vectorLanes());
    func::FuncOp task = loops.build();
    // The layers of a model have the same loops.
    auto [entry, isNew] = known.try_emplace(textOf(task), task);
    if (isNew) {
      task.setName("heddle_loop_" + std::to_string(tasks.size()));
      tasks.push_back(task);
    } else {
      task.erase();
    }
    loops.call(entry->second);
  }
  return tasks;
}
