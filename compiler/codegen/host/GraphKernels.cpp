// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A kernel op of a graph becomes a *task*: a function (call, thread, num_threads) that reads what its kernel is called with from memory and
// runs it on this thread's share. The graph fills that memory and hands the task to the runtime, which runs it on
// every thread; where the work is too small to wake them, the graph calls it as the one thread that there is.

#include "compiler/codegen/host/GraphKernels.h"

#include "compiler/codegen/host/GraphTask.h"
#include "compiler/codegen/kernel/RawBuilder.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace heddle;

// Of a parameter in the memory that a task reads.
static constexpr size_t slotBytes = 8;

//===- operands -----------------------------------------------------------===//

static bool hasAdjacentColumns(Value buffer) {
  auto [strides, offset] = cast<MemRefType>(buffer.getType()).getStridesAndOffset();
  return strides.back() == 1;
}

void heddle::gatherKernelOperands(func::FuncOp graph) {
  graph.walk([&](PackedMatmulOp op) {
    if (hasAdjacentColumns(op.getInput()))
      return;
    OpBuilder b(op);
    auto type = cast<MemRefType>(op.getInput().getType());
    SmallVector<Value> sizes;
    for (auto [axis, size] : llvm::enumerate(type.getShape()))
      if (ShapedType::isDynamic(size))
        sizes.push_back(memref::DimOp::create(b, op.getLoc(), op.getInput(), axis));
    auto dense = MemRefType::get(type.getShape(), type.getElementType());
    Value copy = memref::AllocOp::create(b, op.getLoc(), dense, sizes);
    memref::CopyOp::create(b, op.getLoc(), op.getInput(), copy);
    op.getInputMutable().assign(copy);
  });
}

//===- tasks --------------------------------------------------------------===//

// A function of a TaskCall: the kernel on this thread's share of the parts that the call counts in its `end`. A part is one thread's, so no
// bit depends on their number.
template <typename Call> static void buildTask(ModuleOp code, StringRef name, func::FuncOp kernel) {
  RawBuilder b(code.getLoc(), code.getContext());
  auto task = argumentsOf<TaskCall>(beginFunction(b, code, name, parameterTypes<TaskCall>(b.getContext())));
  Call call;
  for (auto [index, parameter] : llvm::enumerate(Call::parameters))
    if (parameter.isOf(0) && parameter.value != Call::begin)
      call.*parameter.value =
          b.load(parameterType(b.getContext(), parameter.kind), b.at(task.call, int64_t(index * slotBytes)));
  Value parts = call.*Call::end;
  call.*Call::begin = b.divide(b.mul(parts, task.thread), task.numThreads);
  call.*Call::end = b.divide(b.mul(parts, b.add(task.thread, 1)), task.numThreads);
  b.ifThen(b.lessThan(call.*Call::begin, call.*Call::end),
           [&] { func::CallOp::create(b, kernel, operandsOf(b, b.getLoc(), call)); });
  func::ReturnOp::create(b);
}

// The function of that name in the graph's module, without a body.
static func::FuncOp declareTask(func::FuncOp graph, StringRef name) {
  auto module = graph->getParentOfType<ModuleOp>();
  if (auto known = module.lookupSymbol<func::FuncOp>(name))
    return known;
  OpBuilder b(graph);
  auto task =
      func::FuncOp::create(b, graph.getLoc(), name, b.getFunctionType(parameterTypes<TaskCall>(b.getContext()), {}));
  task.setPrivate();
  return task;
}

//===- calls --------------------------------------------------------------===//

// Parameter i of a call lies in slot i of the memory that a task reads.
template <typename Call> static void storeCall(GraphTask &task, const Call &call) {
  for (auto [index, parameter] : llvm::enumerate(Call::parameters))
    if (Value value = call.*parameter.value)
      task.store(index * slotBytes, value);
    else if (parameter.isOf(0) && parameter.kind == ParameterKind::Pointer)
      task.store(index * slotBytes, task.number(0));
}

// `op`, of which a row takes `each` multiply-adds, becomes a call of the task of its kernel.
template <typename Op, typename Call>
static LogicalResult lowerOp(Op op, Value Call::*rows, double each, func::FuncOp graph, Value memory,
                             KernelLibrary &kernels) {
  FailureOr<ArrayRef<func::FuncOp>> emitted = kernels.kernels(op);
  if (failed(emitted))
    return failure();
  func::FuncOp kernel = emitted->front();
  std::string name = ("heddle_task_" + kernel.getSymName()).str();
  if (!kernels.code().lookupSymbol(name)) {
    buildTask<Call>(kernels.code(), name, kernel);
    kernels.addEntry(name);
  }
  kernels.record(kernel, op, 1);
  GraphTask task(op, graph, memory);
  Call call = callOf(op, task);
  task.counted(call.*rows);
  storeCall(task, call);
  task.run(declareTask(graph, name), each);
  return success();
}

LogicalResult heddle::lowerKernels(func::FuncOp graph, KernelLibrary &kernels) {
  SmallVector<Operation *> ops;
  graph.walk([&](Operation *op) {
    if (isa<PackedMatmulOp, DequantizeOp>(op))
      ops.push_back(op);
  });
  if (ops.empty())
    return success();
  Value memory =
      taskMemory(graph, slotBytes * std::max(std::size(MatmulCall::parameters), std::size(EmbeddingCall::parameters)));
  for (Operation *op : ops) {
    auto matmul = dyn_cast<PackedMatmulOp>(op);
    auto lookup = dyn_cast<DequantizeOp>(op);
    if (failed(matmul ? lowerOp(matmul, &MatmulCall::rows, double(matmul.getN()) * double(matmul.getK()), graph, memory,
                                kernels)
                      : lowerOp(lookup, &EmbeddingCall::rowEnd, double(lookup.getK()), graph, memory, kernels)))
      return failure();
  }
  return success();
}
