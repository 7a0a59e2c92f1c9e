// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/host/GraphRuntime.h"

#include "compiler/codegen/kernel/RawBuilder.h"
#include "runtime/model/ModelAbi.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <cstddef>

using namespace mlir;
using namespace heddle;

static Value loadAt(OpBuilder &b, Location loc, Type type, Value base, int64_t offset) {
  return LLVM::LoadOp::create(b, loc, type, addressAt(b, loc, base, offset));
}

static size_t offsetOf(RuntimeCall callback) {
  switch (callback) {
  case RuntimeCall::Allocate:
    return offsetof(heddle_graph_call, allocate);
  case RuntimeCall::Release:
    return offsetof(heddle_graph_call, release);
  case RuntimeCall::Fail:
    return offsetof(heddle_graph_call, fail);
  case RuntimeCall::Parallel:
    return offsetof(heddle_graph_call, parallel);
  case RuntimeCall::Observe:
    return offsetof(heddle_graph_call, observe);
  }
  llvm_unreachable("no other callback");
}

Value heddle::callRuntime(OpBuilder &b, Location loc, Value call, RuntimeCall callback, ValueRange arguments) {
  auto pointer = LLVM::LLVMPointerType::get(b.getContext());
  bool returns = callback == RuntimeCall::Allocate;
  SmallVector<Value> operands = {loadAt(b, loc, pointer, call, offsetOf(callback)), call};
  llvm::append_range(operands, arguments);
  Type result = returns ? Type(pointer) : Type(LLVM::LLVMVoidType::get(b.getContext()));
  auto type = LLVM::LLVMFunctionType::get(result, llvm::to_vector(TypeRange(ValueRange(operands).drop_front())));
  auto made = LLVM::CallOp::create(b, loc, type, operands);
  return returns ? made.getResult() : Value();
}

// A private function of pointers and what else `types` lists, which @graph calls instead of branching: a straight line of calls is
// compiled in a time that grows with its length.
static func::FuncOp helper(func::FuncOp graph, StringRef name, ArrayRef<Type> types,
                           function_ref<void(OpBuilder &, ValueRange)> body) {
  auto module = graph->getParentOfType<ModuleOp>();
  if (auto known = module.lookupSymbol<func::FuncOp>(name))
    return known;
  Location loc = graph.getLoc();
  OpBuilder b = OpBuilder::atBlockEnd(module.getBody());
  auto function = func::FuncOp::create(b, loc, name, b.getFunctionType(types, {}));
  function.setPrivate();
  function->setAttr("passthrough", b.getStrArrayAttr({"noinline"}));
  b.setInsertionPointToStart(function.addEntryBlock());
  auto end = func::ReturnOp::create(b, loc);
  b.setInsertionPoint(end);
  body(b, function.getArguments());
  return function;
}

static Value constantI64(OpBuilder &b, Location loc, int64_t value) {
  return arith::ConstantIntOp::create(b, loc, b.getI64Type(), value);
}

// Calls the observer of `call`, if there is one.
static void observe(OpBuilder &b, Location loc, Value call, Value kernel, Value work, bool ended) {
  Value observer = loadAt(b, loc, call.getType(), call, offsetOf(RuntimeCall::Observe));
  Value none = LLVM::ZeroOp::create(b, loc, call.getType());
  Value isThere = LLVM::ICmpOp::create(b, loc, LLVM::ICmpPredicate::ne, observer, none);
  auto branch = scf::IfOp::create(b, loc, isThere);
  OpBuilder then = OpBuilder::atBlockBegin(branch.thenBlock());
  callRuntime(then, loc, call, RuntimeCall::Observe, {kernel, work, constantI64(then, loc, ended)});
}

void heddle::runTask(OpBuilder &b, Location loc, func::FuncOp graph, func::FuncOp task, Value memory, Value isShared,
                     const ObservedTask &observed) {
  Type pointer = memory.getType();
  // heddle_run(call, task, memory, is_shared, kernel, work)
  func::FuncOp run =
      helper(graph, "heddle_run", {pointer, pointer, pointer, b.getI1Type(), b.getI64Type(), b.getF64Type()},
             [&](OpBuilder &b, ValueRange arguments) {
               Value kernel = arguments[4], work = arguments[5];
               observe(b, loc, arguments[0], kernel, work, /*ended=*/false);
               auto branch = scf::IfOp::create(b, loc, arguments[3], /*withElseRegion=*/true);
               b.setInsertionPointToStart(branch.thenBlock());
               callRuntime(b, loc, arguments[0], RuntimeCall::Parallel, arguments.slice(1, 2));
               b.setInsertionPointToStart(branch.elseBlock());
               Value first = constantI64(b, loc, 0), alone = constantI64(b, loc, 1);
               auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b.getContext()),
                                                       {pointer, b.getI64Type(), b.getI64Type()});
               LLVM::CallOp::create(b, loc, type, ValueRange{arguments[1], arguments[2], first, alone});
               b.setInsertionPointAfter(branch);
               observe(b, loc, arguments[0], kernel, work, /*ended=*/true);
             });
  Value function = func::ConstantOp::create(b, loc, task.getFunctionType(), task.getName());
  Value address = UnrealizedConversionCastOp::create(b, loc, pointer, function).getResult(0);
  Value kernel = constantI64(b, loc, observed.kernel);
  Value work = observed.work ? observed.work : arith::ConstantOp::create(b, loc, b.getF64FloatAttr(0)).getResult();
  func::CallOp::create(b, loc, run, ValueRange{graph.getArgument(0), address, memory, isShared, kernel, work});
}

void heddle::requireInGraph(OpBuilder &b, Location loc, func::FuncOp graph, Value condition, Value message) {
  Type pointer = message.getType();
  // heddle_require(call, condition, message)
  func::FuncOp require =
      helper(graph, "heddle_require", {pointer, b.getI1Type(), pointer}, [&](OpBuilder &b, ValueRange arguments) {
        auto branch = scf::IfOp::create(b, loc, arguments[1], /*withElseRegion=*/true);
        b.setInsertionPointToStart(branch.elseBlock());
        callRuntime(b, loc, arguments[0], RuntimeCall::Fail, arguments[2]);
      });
  func::CallOp::create(b, loc, require, ValueRange{graph.getArgument(0), condition, message});
}
