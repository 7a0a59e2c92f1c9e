// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A kernel op of a graph becomes a *task*: a function (call, thread, num_threads) that reads its operands from a struct and runs the
// kernel on this thread's share of the output columns. The graph fills the struct and hands the task to the runtime, which runs it on
// every thread; where the work is too small to wake them, the graph calls it as the one thread that there is.

#include "compiler/codegen/GraphKernels.h"

#include "compiler/codegen/GraphTask.h"
#include "compiler/codegen/RawBuilder.h"
#include "compiler/weights/PackedLayout.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

#include <cstddef>

using namespace mlir;
using namespace heddle;

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

// void task(const MatmulCall *, int64_t thread, int64_t num_threads): the kernel on panels [begin, end) of 16 output columns. A column
// is one thread's, so no bit depends on their number.
static void buildMatmulTask(ModuleOp code, StringRef name, func::FuncOp kernel, int64_t n) {
  RawBuilder b(code.getLoc(), code.getContext());
  Type i64 = b.getI64Type();
  func::FuncOp task = beginFunction(b, code, name, {b.pointerType(), i64, i64});
  Value call = task.getArgument(0), thread = task.getArgument(1), threads = task.getArgument(2);
  auto pointer = [&](size_t offset) { return b.load(b.pointerType(), b.at(call, int64_t(offset))); };
  auto number = [&](size_t offset) { return b.load(i64, b.at(call, int64_t(offset))); };
  Value panels = b.constant(llvm::divideCeil(n, PackedLayout::panelRows));
  Value begin = b.divide(b.mul(panels, thread), threads), end = b.divide(b.mul(panels, b.add(thread, 1)), threads);
  Value none = LLVM::ZeroOp::create(b, b.pointerType());
  b.ifThen(b.lessThan(begin, end), [&] {
    func::CallOp::create(b, kernel,
                         ValueRange{pointer(offsetof(MatmulCall, act)), none, none,
                                    pointer(offsetof(MatmulCall, weights)), pointer(offsetof(MatmulCall, bias)),
                                    pointer(offsetof(MatmulCall, out)), number(offsetof(MatmulCall, rows)),
                                    number(offsetof(MatmulCall, actStride)), number(offsetof(MatmulCall, outStride)),
                                    begin, end});
  });
  func::ReturnOp::create(b);
}

// void task(const LookupCall *, int64_t thread, int64_t num_threads): rows [begin, end).
static void buildLookupTask(ModuleOp code, StringRef name, func::FuncOp kernel) {
  RawBuilder b(code.getLoc(), code.getContext());
  Type i64 = b.getI64Type();
  func::FuncOp task = beginFunction(b, code, name, {b.pointerType(), i64, i64});
  Value call = task.getArgument(0), thread = task.getArgument(1), threads = task.getArgument(2);
  auto pointer = [&](size_t offset) { return b.load(b.pointerType(), b.at(call, int64_t(offset))); };
  Value rows = b.load(i64, b.at(call, int64_t(offsetof(LookupCall, rows))));
  Value begin = b.divide(b.mul(rows, thread), threads), end = b.divide(b.mul(rows, b.add(thread, 1)), threads);
  func::CallOp::create(b, kernel,
                       ValueRange{pointer(offsetof(LookupCall, ids)), pointer(offsetof(LookupCall, table)),
                                  pointer(offsetof(LookupCall, out)), begin, end,
                                  b.load(i64, b.at(call, int64_t(offsetof(LookupCall, outStride))))});
  func::ReturnOp::create(b);
}

// The function of that name in the graph's module, without a body.
static func::FuncOp declareTask(func::FuncOp graph, StringRef name) {
  auto module = graph->getParentOfType<ModuleOp>();
  if (auto known = module.lookupSymbol<func::FuncOp>(name))
    return known;
  OpBuilder b(graph);
  auto pointer = LLVM::LLVMPointerType::get(b.getContext());
  auto task =
      func::FuncOp::create(b, graph.getLoc(), name, b.getFunctionType({pointer, b.getI64Type(), b.getI64Type()}, {}));
  task.setPrivate();
  return task;
}

//===- calls --------------------------------------------------------------===//

static LogicalResult lowerMatmul(PackedMatmulOp op, func::FuncOp graph, Value memory, ModuleOp kernelCode,
                                 KernelLibrary &kernels) {
  FailureOr<func::FuncOp> kernel = kernels.matmul(op);
  if (failed(kernel))
    return failure();
  std::string name = ("heddle_task_" + kernel->getSymName()).str();
  if (!kernelCode.lookupSymbol(name))
    buildMatmulTask(kernelCode, name, *kernel, op.getN());
  GraphTask call(op, graph, memory);
  Value out = op.getInits()[0], rows = call.counted(call.size(op.getInput(), 0));
  call.storePointer(offsetof(MatmulCall, act), op.getInput());
  call.storePointer(offsetof(MatmulCall, weights), op.getWeights());
  call.storePointer(offsetof(MatmulCall, bias), op.getBias());
  call.storePointer(offsetof(MatmulCall, out), out);
  call.store(offsetof(MatmulCall, rows), rows);
  call.store(offsetof(MatmulCall, actStride), call.stride(op.getInput(), 0));
  call.store(offsetof(MatmulCall, outStride), call.stride(out, 0));
  call.run(declareTask(graph, name), double(op.getN()) * double(op.getK()));
  return success();
}

static LogicalResult lowerLookup(DequantizeOp op, func::FuncOp graph, Value memory, ModuleOp kernelCode,
                                 KernelLibrary &kernels) {
  FailureOr<func::FuncOp> kernel = kernels.embedding(op);
  if (failed(kernel))
    return failure();
  std::string name = ("heddle_task_" + kernel->getSymName()).str();
  if (!kernelCode.lookupSymbol(name))
    buildLookupTask(kernelCode, name, *kernel);
  GraphTask call(op, graph, memory);
  Value out = op.getInits()[0], rows = call.counted(call.size(out, 0));
  call.storePointer(offsetof(LookupCall, ids), op.getIds());
  call.storePointer(offsetof(LookupCall, table), op.getWeights());
  call.storePointer(offsetof(LookupCall, out), out);
  call.store(offsetof(LookupCall, rows), rows);
  call.store(offsetof(LookupCall, outStride), call.stride(out, 0));
  call.run(declareTask(graph, name), double(cast<MemRefType>(out.getType()).getDimSize(1)));
  return success();
}

LogicalResult heddle::lowerKernels(func::FuncOp graph, ModuleOp kernelCode, KernelLibrary &kernels) {
  SmallVector<Operation *> ops;
  graph.walk([&](Operation *op) {
    if (isa<PackedMatmulOp, DequantizeOp>(op))
      ops.push_back(op);
  });
  if (ops.empty())
    return success();
  Value memory = taskMemory(graph, std::max(sizeof(MatmulCall), sizeof(LookupCall)));
  for (Operation *op : ops) {
    auto matmul = dyn_cast<PackedMatmulOp>(op);
    if (failed(matmul ? lowerMatmul(matmul, graph, memory, kernelCode, kernels)
                      : lowerLookup(cast<DequantizeOp>(op), graph, memory, kernelCode, kernels)))
      return failure();
  }
  return success();
}
