// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The runtime hands one pointer to every thread, so calls lie in memory: what a launch writes, the task of its kernel reads.

#include "compiler/codegen/host/GraphLauncher.h"

#include "compiler/codegen/host/GraphRuntime.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace heddle;

// Multiply-adds that waking the threads pays for.
static constexpr double fewestShared = 1 << 18;

static constexpr int64_t slotBytes = 8;

//===- tasks --------------------------------------------------------------===//

// Adds to `code` a function of a TaskCall: the kernel on this thread's share. A part is one thread's, so no bit depends on their number.
static void buildTask(ModuleOp code, StringRef name, func::FuncOp kernel, ArrayRef<ParameterKind> parameters) {
  RawBuilder b(code.getLoc(), code.getContext());
  auto task = argumentsOf<TaskCall>(beginFunction(b, code, name, parameterTypes<TaskCall>(b.getContext())));
  CallOperands call;
  for (auto [index, kind] : llvm::enumerate(parameters)) {
    call.kinds.push_back(kind);
    Type type = parameterType(b.getContext(), kind);
    if (kind == ParameterKind::Thread || kind == ParameterKind::NumThreads)
      call.values.push_back(
          arith::TruncIOp::create(b, type, kind == ParameterKind::Thread ? task.thread : task.numThreads));
    else if (kind == ParameterKind::PartBegin)
      call.values.push_back(Value());
    else
      call.values.push_back(b.load(type, b.at(task.call, int64_t(index) * slotBytes)));
  }
  auto callKernel = [&] { func::CallOp::create(b, kernel, call.values); };
  if (call.has(ParameterKind::PartEnd)) {
    Value &begin = call.at(ParameterKind::PartBegin), &end = call.at(ParameterKind::PartEnd), parts = end;
    begin = b.divide(b.mul(parts, task.thread), task.numThreads);
    end = b.divide(b.mul(parts, b.add(task.thread, 1)), task.numThreads);
    b.ifThen(b.lessThan(begin, end), callKernel);
  } else {
    callKernel();
  }
  func::ReturnOp::create(b);
}

func::FuncOp GraphLauncher::taskOf(func::FuncOp kernel, ArrayRef<ParameterKind> parameters) {
  std::string name = ("heddle_task_" + kernel.getSymName()).str();
  if (!kernels.code().lookupSymbol(name)) {
    buildTask(kernels.code(), name, kernel, parameters);
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
  for (func::FuncOp kernel : *emitted) {
    kernels.record(kernel, op, 1);
    runTask(b, op->getLoc(), func, taskOf(kernel, call.kinds), memory, isLarge);
  }
  return success();
}
