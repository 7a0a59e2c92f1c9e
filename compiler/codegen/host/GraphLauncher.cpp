// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The runtime hands one pointer to every thread, so calls lie in memory: what a launch writes, the task of its kernel reads.

#include "compiler/codegen/host/GraphLauncher.h"

#include "compiler/codegen/host/GraphRuntime.h"
#include "compiler/weights/PackedLayout.h"
#include "dialect/HeddleDialect.h"
#include "runtime/model/ModelAbi.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace heddle;

// Multiply-adds that waking the threads pays for.
static constexpr double fewestShared = 1 << 18;

static constexpr int64_t slotBytes = 8;

//===- tasks --------------------------------------------------------------===//

// One part of `count` parts.
struct Part {
  Value number, count;
};

// The begin of a part of `items` that come in whole units of `width`, of which there are `units`; where the part behind it begins is its end.
static Value beginOf(RawBuilder &b, Value number, Value count, Value items, Value units, Value width) {
  return b.min(items, b.mul(b.divide(b.mul(units, number), count), width));
}

// Items [begin, end) of one part, in whole tiles of the kernel if there are two for each thread: what fills no tile costs more, but not as much
// as a thread without work.
static std::pair<Value, Value> itemsOf(RawBuilder &b, Part part, Value items, int64_t tile) {
  Value tiles = b.divideUp(items, tile), tooFew = b.lessThan(b.mul(tiles, HEDDLE_PARTS_PER_THREAD / 2), part.count);
  Value width = b.select(tooFew, b.constant(1), b.constant(tile)), units = b.select(tooFew, items, tiles);
  return {beginOf(b, part.number, part.count, items, units, width),
          beginOf(b, b.add(part.number, 1), part.count, items, units, width)};
}

// Leaves `call`, a product of many rows, some of the rows, and returns which part of the columns is computed for them. Rows stay so with the thread that
// computed what they are made of, whose cache has them, and each part reads all of the weights: so many rows pay for that. Fewer are divided where
// there are fewer tiles of columns than parts. Of such products the bits of a row depend on no other.
template <typename Call>
static Part shareRows(RawBuilder &b, CallOperands &call, Part part, const TaskDivision &division) {
  constexpr int64_t manyRows = 128, fewestRows = 64, unit = 8;
  auto at = [&](Value Call::*member) -> Value & { return call.values[positionOf(member)]; };
  Value &rows = at(&Call::rows), all = rows, units = b.divideUp(all, unit), one = b.constant(1);
  Value tiles = b.divideUp(at(&Call::panelEnd), division.tile);
  Value ofMany = b.min(part.count, b.divide(all, b.constant(manyRows)));
  Value ofFew = b.min(b.divide(part.count, tiles), b.divideUp(all, fewestRows));
  Value columnParts = b.divideUp(part.count, b.max(one, b.max(ofMany, ofFew)));
  Value rowParts = b.divide(part.count, columnParts), rowPart = b.divide(part.number, columnParts);
  auto rowOf = [&](Value number) { return beginOf(b, number, rowParts, all, units, b.constant(unit)); };
  Value begin = rowOf(rowPart);
  rows = b.sub(rowOf(b.add(rowPart, 1)), begin);
  auto move = [&](Value Call::*pointer, Value Call::*stride, int64_t elementBytes) {
    at(pointer) = b.at(at(pointer), b.mul(begin, at(stride)), elementBytes);
  };
  move(&Call::act, &Call::actStride, division.actBytes);
  move(&Call::out, &Call::outStride, sizeof(float));
  return {b.sub(part.number, b.mul(rowPart, columnParts)), columnParts};
}

// Adds to `code` a function of a TaskCall: the kernel on one part. An item is in one part, so no bit depends on their number.
static void buildTask(ModuleOp code, StringRef name, func::FuncOp kernel, ArrayRef<ParameterKind> parameters,
                      const TaskDivision &division) {
  RawBuilder b(code.getLoc(), code.getContext());
  auto task = argumentsOf<TaskCall>(beginFunction(b, code, name, parameterTypes<TaskCall>(b.getContext())));
  CallOperands call;
  for (auto [index, kind] : llvm::enumerate(parameters)) {
    call.kinds.push_back(kind);
    Type type = parameterType(b.getContext(), kind);
    if (kind == ParameterKind::Thread || kind == ParameterKind::NumThreads)
      call.values.push_back(
          arith::TruncIOp::create(b, type, kind == ParameterKind::Thread ? task.part : task.numParts));
    else if (kind == ParameterKind::PartBegin)
      call.values.push_back(Value());
    else
      call.values.push_back(b.load(type, b.at(task.call, int64_t(index) * slotBytes)));
  }
  auto callKernel = [&] { func::CallOp::create(b, kernel, call.values); };
  if (call.has(ParameterKind::PartEnd)) {
    Part part = {task.part, task.numParts};
    if (division.rows == SharedRows::OfPackedMatmul)
      part = shareRows<MatmulCall>(b, call, part, division);
    else if (division.rows == SharedRows::OfIntegerMatmul)
      part = shareRows<IntegerMatmulCall>(b, call, part, division);
    Value &begin = call.at(ParameterKind::PartBegin), &end = call.at(ParameterKind::PartEnd);
    std::tie(begin, end) = itemsOf(b, part, end, division.tile);
    auto callWithItems = [&] { b.ifThen(b.lessThan(begin, end), callKernel); };
    size_t rows = division.rows == SharedRows::OfIntegerMatmul ? positionOf(&IntegerMatmulCall::rows)
                                                               : positionOf(&MatmulCall::rows);
    if (division.rows != SharedRows::None)
      b.ifThen(b.lessThan(b.constant(0), call.values[rows]), callWithItems);
    else
      callWithItems();
  } else {
    callKernel();
  }
  func::ReturnOp::create(b);
}

func::FuncOp GraphLauncher::taskOf(func::FuncOp kernel, ArrayRef<ParameterKind> parameters,
                                   const TaskDivision &division) {
  std::string name = ("heddle_task_" + kernel.getSymName()).str();
  if (!kernels.code().lookupSymbol(name)) {
    buildTask(kernels.code(), name, kernel, parameters, division);
    kernels.addEntry(name);
  }
  return kernels.code().lookupSymbol<func::FuncOp>(name);
}

//===- memory -------------------------------------------------------------===//

Value FrameMemory::reserve(size_t bytes) {
  OpBuilder b = OpBuilder::atBlockBegin(&graph.getBody().front());
  if (!address) {
    size = arith::ConstantOp::create(b, graph.getLoc(), b.getI64IntegerAttr(0));
    auto pointer = LLVM::LLVMPointerType::get(b.getContext());
    address = LLVM::AllocaOp::create(b, graph.getLoc(), pointer, b.getI8Type(), size, slotBytes);
  }
  if (cast<IntegerAttr>(size.getValue()).getInt() < int64_t(bytes))
    size.setValueAttr(b.getI64IntegerAttr(bytes));
  return address;
}

Value GraphLauncher::store(const CallOperands &call) {
  Value memory = calls.reserve(call.values.size() * slotBytes);
  for (auto [index, kind, value] : llvm::enumerate(call.kinds, call.values)) {
    bool isMissing = !value && kind == ParameterKind::Pointer;
    if (value || isMissing)
      b.store(isMissing ? b.constant(0) : value, b.at(memory, int64_t(index) * slotBytes));
  }
  return memory;
}

//===- launches -----------------------------------------------------------===//

TaskDivision GraphLauncher::divisionOf(Operation *op) {
  auto tileOf = [&](TileRole role) -> int64_t {
    TileAttr tile = kernels.scheduleOf(op).getTile(role);
    return tile ? tile.getColumns() / PackedLayout::panelRows : 1;
  };
  if (isa<IntegerMatmulOp>(op))
    return {tileOf(TileRole::Int8), SharedRows::OfIntegerMatmul, /*actBytes=*/1};
  auto product = dyn_cast<PackedMatmulOp>(op);
  if (!product)
    return {};
  // Few rows and many are multiplied alike where neither is rounded.
  bool sharesRows = !product.getInt16() && !product.getRoom() && getElementTypeOrSelf(product.getInput()).isF32() &&
                    getElementTypeOrSelf(product.getInits()[0]).isF32();
  return {tileOf(TileRole::ManyRows), sharesRows ? SharedRows::OfPackedMatmul : SharedRows::None, sizeof(float)};
}

LogicalResult GraphLauncher::launch(Operation *op, const CallOperands &call, const LaunchedWork &work) {
  FailureOr<ArrayRef<func::FuncOp>> emitted = kernels.kernels(op);
  if (failed(emitted))
    return failure();
  // In f64, which no sizes wrap.
  Value total;
  for (Value count : work.counts) {
    Value wide = arith::SIToFPOp::create(b, b.getF64Type(), count);
    total = total ? Value(arith::MulFOp::create(b, total, wide)) : wide;
  }
  Value limit = arith::ConstantOp::create(b, b.getF64FloatAttr(fewestShared / work.each));
  Value isLarge = arith::CmpFOp::create(b, arith::CmpFPredicate::OGE, total, limit);
  Value memory = store(call);
  TaskDivision division = divisionOf(op);
  Value each = arith::ConstantOp::create(b, b.getF64FloatAttr(work.each));
  Value multiplyAdds = arith::MulFOp::create(b, total, each);
  for (func::FuncOp kernel : *emitted) {
    unsigned index = kernels.record(kernel, op, 1);
    runTask(b, op->getLoc(), func, taskOf(kernel, call.kinds, division), memory, isLarge, {index, multiplyAdds});
  }
  return success();
}
