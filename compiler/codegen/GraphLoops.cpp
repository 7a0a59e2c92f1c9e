// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/GraphLoops.h"

#include "compiler/codegen/GraphEntry.h"
#include "compiler/codegen/cpu/RawBuilder.h"

#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Transforms/RegionUtils.h"

using namespace mlir;
using namespace heddle;

// Simple ops that waking the threads pays for; a function of `math` counts as several.
static constexpr double fewestShared = 1 << 17;
static constexpr int64_t mathCost = 8;

// A loop is cut where every thread gets at least so many steps, if there is such a loop.
static constexpr int64_t stepsPerThread = 4;

// Loops along which every output is written.
static SmallVector<unsigned> cuttableLoops(linalg::GenericOp op) {
  SmallVector<unsigned> loops;
  SmallVector<int64_t> ranges = op.getStaticLoopRanges();
  for (auto [loop, kind] : llvm::enumerate(op.getIteratorTypesArray())) {
    AffineExpr dim = getAffineDimExpr(loop, op.getContext());
    bool isWritten = llvm::all_of(op.getDpsInitsMutable(), [&](OpOperand &output) {
      return op.getMatchingIndexingMap(&output).getResultPosition(dim).has_value();
    });
    if (kind == utils::IteratorType::parallel && ranges[loop] != 1 && isWritten)
      loops.push_back(loop);
  }
  return loops;
}

bool heddle::canShareLoops(linalg::GenericOp op) {
  // An assertion ends the call, which a thread of its own cannot.
  auto isQuiet = [](Operation &inner) { return isMemoryEffectFree(&inner) || isa<memref::LoadOp>(inner); };
  return op.hasPureBufferSemantics() && llvm::all_of(*op.getBody(), isQuiet) && !cuttableLoops(op).empty();
}

static int64_t costOfElement(linalg::GenericOp op) {
  int64_t cost = 0;
  for (Operation &inner : *op.getBody())
    cost += isa<math::MathDialect>(inner.getDialect()) ? mathCost : 1;
  return cost;
}

// Whether the loops are known to be too little work.
static bool isSmall(linalg::GenericOp op) {
  double work = costOfElement(op);
  for (int64_t range : op.getStaticLoopRanges()) {
    if (ShapedType::isDynamic(range))
      return false;
    work *= double(range);
  }
  return work < fewestShared;
}

namespace {

// Moves the loops of one op into a function (values, thread, num_threads) that runs a thread's part of them.
class LoopTask {
public:
  LoopTask(linalg::GenericOp op, func::FuncOp graph)
      : op(op), graph(graph), b(op), loc(op.getLoc()), converter(op.getContext()) {}
  FailureOr<func::FuncOp> run(unsigned number);

private:
  Value index(int64_t value) { return arith::ConstantIndexOp::create(b, loc, value); }
  Value isEnoughWork();
  void collectOuterValues(Operation *loops);
  Value store();
  void load(func::FuncOp task, Operation *loops);
  void cut(func::FuncOp task, ArrayRef<scf::ForOp> loops);
  Type storedType(Value value) { return converter.convertType(value.getType()); }
  // Bytes that a value takes in the memory of a task: its size, or more.
  size_t bytesOf(Value value) {
    auto type = dyn_cast<MemRefType>(value.getType());
    return type ? (3 + 2 * type.getRank()) * sizeof(int64_t) : sizeof(int64_t);
  }

  linalg::GenericOp op;
  func::FuncOp graph;
  IRRewriter b;
  Location loc;
  LLVMTypeConverter converter;
  SmallVector<Value> values, constants; // what the loops read from around them
};

} // namespace

Value LoopTask::isEnoughWork() {
  Value work = arith::ConstantOp::create(b, loc, b.getF64FloatAttr(double(costOfElement(op))));
  for (Range range : cast<linalg::LinalgOp>(op.getOperation()).createLoopRanges(b, loc)) {
    Value size =
        arith::IndexCastOp::create(b, loc, b.getI64Type(), getValueOrCreateConstantIndexOp(b, loc, range.size));
    work = arith::MulFOp::create(b, loc, work, arith::SIToFPOp::create(b, loc, b.getF64Type(), size));
  }
  Value limit = arith::ConstantOp::create(b, loc, b.getF64FloatAttr(fewestShared));
  return arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OGE, work, limit);
}

void LoopTask::collectOuterValues(Operation *loops) {
  llvm::SetVector<Value> outer(loops->operand_begin(), loops->operand_end());
  getUsedValuesDefinedAbove(loops->getRegions(), outer);
  for (Value value : outer)
    (matchPattern(value, m_Constant()) ? constants : values).push_back(value);
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

// The loops, already in the task, read its own copies of the values; constants go with them.
void LoopTask::load(func::FuncOp task, Operation *loops) {
  auto replace = [&](Value value, Value own) {
    value.replaceUsesWithIf(own, [&](OpOperand &use) { return loops->isAncestor(use.getOwner()); });
  };
  size_t offset = 0;
  for (Value value : values) {
    Type type = storedType(value);
    Value stored = LLVM::LoadOp::create(b, loc, type, addressAt(b, loc, task.getArgument(0), int64_t(offset)));
    replace(value, type == value.getType()
                       ? stored
                       : UnrealizedConversionCastOp::create(b, loc, value.getType(), stored).getResult(0));
    offset += bytesOf(value);
  }
  for (Value constant : constants)
    replace(constant, b.clone(*constant.getDefiningOp())->getResult(0));
}

// Gives each thread its part of one of `loops`: the outermost with several steps for each thread, else the longest.
void LoopTask::cut(func::FuncOp task, ArrayRef<scf::ForOp> loops) {
  Value thread = arith::IndexCastOp::create(b, loc, b.getIndexType(), task.getArgument(1));
  Value threads = arith::IndexCastOp::create(b, loc, b.getIndexType(), task.getArgument(2));
  Value enough = arith::MulIOp::create(b, loc, threads, index(stepsPerThread));
  auto isLess = [&](Value x, Value y) -> Value {
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, x, y);
  };
  Value chosen = index(loops.size() - 1), longest = scf::ForOp(loops.back()).getUpperBound();
  for (int64_t i = int64_t(loops.size()) - 2; i >= 0; --i) {
    Value size = scf::ForOp(loops[i]).getUpperBound();
    Value isWorse = arith::AndIOp::create(b, loc, isLess(size, enough), isLess(size, longest));
    chosen = arith::SelectOp::create(b, loc, isWorse, chosen, index(i));
    longest = arith::SelectOp::create(b, loc, isWorse, longest, size);
  }
  Value next = arith::AddIOp::create(b, loc, thread, index(1));
  for (auto [i, loop] : llvm::enumerate(loops)) {
    Value size = scf::ForOp(loop).getUpperBound();
    auto part = [&](Value t) -> Value {
      return arith::DivUIOp::create(b, loc, arith::MulIOp::create(b, loc, size, t), threads);
    };
    Value isCut = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, chosen, index(i));
    scf::ForOp(loop).setLowerBound(arith::SelectOp::create(b, loc, isCut, part(thread), index(0)));
    scf::ForOp(loop).setUpperBound(arith::SelectOp::create(b, loc, isCut, part(next), size));
  }
}

FailureOr<func::FuncOp> LoopTask::run(unsigned number) {
  SmallVector<unsigned> cuttable = cuttableLoops(op);
  Value isShared = isEnoughWork();
  FailureOr<linalg::LinalgLoops> made = linalg::linalgOpToLoops(b, op);
  if (failed(made))
    return failure();
  SmallVector<scf::ForOp> loops =
      llvm::map_to_vector(cuttable, [&](unsigned loop) { return cast<scf::ForOp>((*made)[loop]); });
  Operation *outermost = made->front();
  collectOuterValues(outermost);
  b.setInsertionPoint(outermost);
  Value memory = store();

  auto pointer = LLVM::LLVMPointerType::get(b.getContext());
  b.setInsertionPoint(graph);
  auto task = func::FuncOp::create(b, loc, "heddle_loop_" + std::to_string(number),
                                   b.getFunctionType({pointer, b.getI64Type(), b.getI64Type()}, {}));
  task.setPrivate();
  b.setInsertionPointAfter(outermost);
  runTask(b, loc, graph, task, memory, isShared);

  b.setInsertionPointToStart(task.addEntryBlock());
  auto end = func::ReturnOp::create(b, loc);
  outermost->moveBefore(end);
  b.setInsertionPoint(outermost);
  load(task, outermost);
  cut(task, loops);
  b.eraseOp(op);
  return task;
}

SmallVector<func::FuncOp> heddle::shareLoops(func::FuncOp graph) {
  SmallVector<linalg::GenericOp> ops;
  graph.walk([&](linalg::GenericOp op) {
    if (canShareLoops(op) && !isSmall(op))
      ops.push_back(op);
  });
  SmallVector<func::FuncOp> tasks;
  for (linalg::GenericOp op : ops)
    if (FailureOr<func::FuncOp> task = LoopTask(op, graph).run(tasks.size()); succeeded(task))
      tasks.push_back(*task);
  return tasks;
}
