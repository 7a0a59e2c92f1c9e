// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/host/GraphEntry.h"

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

void heddle::runTask(OpBuilder &b, Location loc, func::FuncOp graph, func::FuncOp task, Value memory, Value isShared) {
  Type pointer = memory.getType();
  // heddle_run(call, task, memory, is_shared)
  func::FuncOp run =
      helper(graph, "heddle_run", {pointer, pointer, pointer, b.getI1Type()}, [&](OpBuilder &b, ValueRange arguments) {
        auto branch = scf::IfOp::create(b, loc, arguments[3], /*withElseRegion=*/true);
        b.setInsertionPointToStart(branch.thenBlock());
        callRuntime(b, loc, arguments[0], RuntimeCall::Parallel, arguments.slice(1, 2));
        b.setInsertionPointToStart(branch.elseBlock());
        Value first = arith::ConstantIntOp::create(b, loc, b.getI64Type(), 0),
              alone = arith::ConstantIntOp::create(b, loc, b.getI64Type(), 1);
        auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b.getContext()),
                                                {pointer, b.getI64Type(), b.getI64Type()});
        LLVM::CallOp::create(b, loc, type, ValueRange{arguments[1], arguments[2], first, alone});
      });
  Value function = func::ConstantOp::create(b, loc, task.getFunctionType(), task.getName());
  Value address = UnrealizedConversionCastOp::create(b, loc, pointer, function).getResult(0);
  func::CallOp::create(b, loc, run, ValueRange{graph.getArgument(0), address, memory, isShared});
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

namespace {

// Writes the entry.
class EntryBuilder {
public:
  EntryBuilder(ModuleOp code, LLVM::LLVMFuncOp graph)
      : code(code), graph(graph), b(code.getContext()), loc(graph.getLoc()) {}
  void run(StringRef symbol, ArrayRef<MemRefType> inputs, ArrayRef<MemRefType> outputs);

private:
  Value constant(int64_t value) { return LLVM::ConstantOp::create(b, loc, b.getI64IntegerAttr(value)); }
  Value multiply(Value x, Value y) { return LLVM::MulOp::create(b, loc, x, y); }
  // Where tensor `index` of the call's inputs or outputs lies.
  Value tensorAt(size_t list, unsigned index) {
    return addressAt(b, loc, loadAt(b, loc, pointer(), call, list), int64_t(index) * sizeof(heddle_graph_tensor));
  }
  void addInput(MemRefType type, Value tensor);
  void storeOutput(MemRefType type, Value descriptor, Value tensor);
  Type pointer() { return LLVM::LLVMPointerType::get(b.getContext()); }

  ModuleOp code;
  LLVM::LLVMFuncOp graph;
  OpBuilder b;
  Location loc;
  Value call;
  SmallVector<Value> arguments;
};

} // namespace

// A memref's parts: allocated and aligned pointer, offset, sizes, strides.
void EntryBuilder::addInput(MemRefType type, Value tensor) {
  Value data = loadAt(b, loc, pointer(), tensor, offsetof(heddle_graph_tensor, data));
  Value dims = loadAt(b, loc, pointer(), tensor, offsetof(heddle_graph_tensor, dims));
  SmallVector<Value> sizes, strides(type.getRank());
  for (auto [axis, size] : llvm::enumerate(type.getShape()))
    sizes.push_back(ShapedType::isDynamic(size) ? loadAt(b, loc, b.getI64Type(), dims, axis * sizeof(int64_t))
                                                : constant(size));
  Value stride = constant(1);
  for (int64_t axis = type.getRank() - 1; axis >= 0; --axis) {
    strides[axis] = stride;
    stride = multiply(stride, sizes[axis]);
  }
  arguments.append({data, data, constant(0)});
  arguments.append(sizes);
  arguments.append(strides);
}

void EntryBuilder::storeOutput(MemRefType type, Value descriptor, Value tensor) {
  Value aligned = LLVM::ExtractValueOp::create(b, loc, descriptor, 1),
        offset = LLVM::ExtractValueOp::create(b, loc, descriptor, 2);
  Value bytes = multiply(offset, constant(llvm::divideCeil(type.getElementTypeBitWidth(), 8)));
  Value data = addressAt(b, loc, aligned, bytes);
  LLVM::StoreOp::create(b, loc, data, addressAt(b, loc, tensor, offsetof(heddle_graph_tensor, data)));
  Value dims = loadAt(b, loc, pointer(), tensor, offsetof(heddle_graph_tensor, dims));
  for (int64_t axis = 0; axis < type.getRank(); ++axis)
    LLVM::StoreOp::create(b, loc, LLVM::ExtractValueOp::create(b, loc, descriptor, ArrayRef<int64_t>{3, axis}),
                          addressAt(b, loc, dims, axis * sizeof(int64_t)));
}

void EntryBuilder::run(StringRef symbol, ArrayRef<MemRefType> inputs, ArrayRef<MemRefType> outputs) {
  b.setInsertionPointToEnd(code.getBody());
  auto entry = LLVM::LLVMFuncOp::create(
      b, loc, symbol, LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b.getContext()), {pointer()}));
  b.setInsertionPointToEnd(entry.addEntryBlock(b));
  call = entry.getArgument(0);
  arguments.push_back(call);
  for (auto [index, type] : llvm::enumerate(inputs))
    addInput(type, tensorAt(offsetof(heddle_graph_call, inputs), index));
  Value weights = loadAt(b, loc, pointer(), call, offsetof(heddle_graph_call, weights));
  arguments.append({weights, weights, constant(0), constant(INT64_MAX), constant(1)});
  auto made = LLVM::CallOp::create(b, loc, graph, arguments);
  for (auto [index, type] : llvm::enumerate(outputs)) {
    Value descriptor =
        outputs.size() == 1 ? made.getResult() : LLVM::ExtractValueOp::create(b, loc, made.getResult(), index);
    storeOutput(type, descriptor, tensorAt(offsetof(heddle_graph_call, outputs), index));
  }
  LLVM::ReturnOp::create(b, loc, ValueRange());
}

// aligned_alloc(alignment, size) → call->allocate(call, size), free(memory) → call->release(call, memory).
static LogicalResult redirectAllocations(ModuleOp code, LLVM::LLVMFuncOp graph) {
  OpBuilder b(code.getContext());
  WalkResult walk = code.walk([&](LLVM::CallOp op) {
    StringRef callee = op.getCallee().value_or("");
    bool isAllocation = callee == "aligned_alloc";
    if (!isAllocation && callee != "free")
      return WalkResult::advance();
    if (op->getParentOp() != graph) {
      op.emitError("internal error: memory is managed outside @graph");
      return WalkResult::interrupt();
    }
    b.setInsertionPoint(op);
    Value memory =
        callRuntime(b, op.getLoc(), graph.getArgument(0), isAllocation ? RuntimeCall::Allocate : RuntimeCall::Release,
                    op.getArgOperands()[isAllocation ? 1 : 0]);
    if (isAllocation)
      op.getResult().replaceAllUsesWith(memory);
    op.erase();
    return WalkResult::advance();
  });
  return failure(walk.wasInterrupted());
}

LogicalResult heddle::addGraphEntry(ModuleOp code, StringRef symbol, ArrayRef<MemRefType> inputs,
                                    ArrayRef<MemRefType> outputs) {
  auto graph = code.lookupSymbol<LLVM::LLVMFuncOp>("graph");
  if (failed(redirectAllocations(code, graph)))
    return failure();
  for (const char *name : {"aligned_alloc", "free", "malloc"})
    if (Operation *declaration = code.lookupSymbol(name))
      declaration->erase();
  EntryBuilder(code, graph).run(symbol, inputs, outputs);
  return success();
}
