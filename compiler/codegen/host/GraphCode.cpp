// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What is a graph's own on the way to the `llvm` dialect (HostCode.h): inputs, outputs and memory of heddle_graph_call, and checks of what
// data may ask for.

#include "compiler/codegen/host/GraphCode.h"

#include "compiler/codegen/host/Buffers.h"
#include "compiler/codegen/host/GraphLauncher.h"
#include "compiler/codegen/host/GraphLoops.h"
#include "compiler/codegen/host/GraphMemory.h"
#include "compiler/codegen/host/GraphRuntime.h"
#include "compiler/codegen/host/HostCode.h"
#include "runtime/model/ModelAbi.h"

#include "mlir/Conversion/BufferizationToMemRef/BufferizationToMemRef.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/Pipelines/Passes.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

#include <cstddef>

using namespace mlir;
using namespace heddle;

namespace {

class GraphLowering : public HostLowering {
public:
  GraphLowering(func::FuncOp source, StringRef symbol, KernelLibrary &kernels, const Target &target)
      : HostLowering(source->getParentOfType<ModuleOp>(), kernels, target),
        graph(code->lookupSymbol<func::FuncOp>(source.getSymName())), symbol(symbol), b(code->getContext()) {}

private:
  LogicalResult bind() override;
  LogicalResult releaseBuffers() override;
  std::unique_ptr<KernelLauncher> launcherOf(func::FuncOp) override {
    return std::make_unique<GraphLauncher>(graph, kernels);
  }
  LogicalResult shareLoops() override {
    loops = heddle::shareLoops(graph, target.cpu);
    return success();
  }
  void callRuntime() override;
  void storeOutputs();
  void guardAllocations();
  void guardDivisions();
  void lowerAssertions();
  void lowerAllocations();

  func::FuncOp graph;
  StringRef symbol;
  OpBuilder b;
  SmallVector<func::FuncOp> loops; // of `graph`, which threads share
};

} // namespace

//===- the call -----------------------------------------------------------===//

static Value tensorAt(RawBuilder &b, Value list, unsigned index) {
  return b.at(list, int64_t(index) * int64_t(sizeof(heddle_graph_tensor)));
}

// @symbol(call) → outputs. The constants of all entries stay: those of others are not emitted, since nothing reads them.
LogicalResult GraphLowering::bind() {
  for (auto func : llvm::make_early_inc_range(code->getOps<func::FuncOp>()))
    if (func != graph)
      func.erase();
  graph.setName(symbol);
  RawBuilder atBegin(graph.getLoc(), graph.getContext());
  atBegin.setInsertionPointToStart(&graph.front());
  auto field = [&](size_t offset) {
    return atBegin.load(atBegin.pointerType(), atBegin.at(graph.getArgument(0), offset));
  };
  (void)graph.insertArgument(0, atBegin.pointerType(), {}, graph.getLoc());
  Value inputs = field(offsetof(heddle_graph_call, inputs));
  while (graph.getNumArguments() > 1) {
    BlockArgument input = graph.getArguments().back();
    auto type = cast<MemRefType>(input.getType());
    Value tensor = tensorAt(atBegin, inputs, graph.getNumArguments() - 2);
    Value data = atBegin.load(atBegin.pointerType(), atBegin.at(tensor, offsetof(heddle_graph_tensor, data)));
    Value dims = atBegin.load(atBegin.pointerType(), atBegin.at(tensor, offsetof(heddle_graph_tensor, dims)));
    SmallVector<Value> sizes;
    for (auto [axis, size] : llvm::enumerate(type.getShape()))
      if (ShapedType::isDynamic(size))
        sizes.push_back(atBegin.load(atBegin.getI64Type(), atBegin.at(dims, int64_t(axis * sizeof(int64_t)))));
    input.replaceAllUsesWith(bufferAt(atBegin, data, type, sizes));
    (void)graph.eraseArgument(graph.getNumArguments() - 1);
  }
  bindWeights(graph, field(offsetof(heddle_graph_call, weights)));
  return success();
}

// What @symbol returns lies in the outputs of the call.
void GraphLowering::storeOutputs() {
  auto end = cast<func::ReturnOp>(graph.front().getTerminator());
  RawBuilder atEnd(end.getLoc(), end);
  Value outputs = atEnd.load(atEnd.pointerType(), atEnd.at(graph.getArgument(0), offsetof(heddle_graph_call, outputs)));
  for (auto [index, output] : llvm::enumerate(end.getOperands())) {
    Value tensor = tensorAt(atEnd, outputs, index);
    atEnd.store(addressOf(atEnd, output), atEnd.at(tensor, offsetof(heddle_graph_tensor, data)));
    Value dims = atEnd.load(atEnd.pointerType(), atEnd.at(tensor, offsetof(heddle_graph_tensor, dims)));
    for (int64_t axis = 0; axis < cast<MemRefType>(output.getType()).getRank(); ++axis)
      atEnd.store(sizeOf(atEnd, output, axis), atEnd.at(dims, axis * int64_t(sizeof(int64_t))));
  }
  end->setOperands({});
  graph.setType(b.getFunctionType(graph.getArgumentTypes(), {}));
}

//===- memory -------------------------------------------------------------===//

LogicalResult GraphLowering::releaseBuffers() {
  releaseAtLastUse(graph);
  if (failed(runPasses([](OpPassManager &pm) {
        bufferization::buildBufferDeallocationPipeline(pm);
        // Deallocation clones what is returned twice, or returned as it came.
        pm.addPass(createConvertBufferizationToMemRefPass());
      })))
    return failure();
  storeOutputs();
  guardAllocations();
  return success();
}

// A size that a graph computes may be negative, and a product of sizes may wrap: both are refused before memory is asked for.
// The product in f64 is exact enough for a bound.
void GraphLowering::guardAllocations() {
  constexpr double mostBytes = 1ull << 47; // more than an address space of today's machines
  graph.walk([&](memref::AllocOp op) {
    if (op.getDynamicSizes().empty())
      return;
    b.setInsertionPoint(op);
    Location loc = op.getLoc();
    auto type = cast<MemRefType>(op.getType());
    auto fixed = double(bytesOfElement(type));
    for (int64_t size : type.getShape())
      fixed *= ShapedType::isDynamic(size) ? 1 : double(size);
    Value product = arith::ConstantOp::create(b, loc, b.getF64FloatAttr(fixed));
    Value zero = arith::ConstantIndexOp::create(b, loc, 0), isValid;
    for (Value size : op.getDynamicSizes()) {
      Value wide = arith::IndexCastOp::create(b, loc, b.getI64Type(), size);
      product = arith::MulFOp::create(b, loc, product, arith::SIToFPOp::create(b, loc, b.getF64Type(), wide));
      Value isSize = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sge, size, zero);
      isValid = isValid ? Value(arith::AndIOp::create(b, loc, isValid, isSize)) : isSize;
    }
    Value limit = arith::ConstantOp::create(b, loc, b.getF64FloatAttr(mostBytes));
    Value fits = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OLE, product, limit);
    cf::AssertOp::create(b, loc, arith::AndIOp::create(b, loc, isValid, fits),
                         "a tensor would have a negative or an impossible size");
  });
}

// memref.alloc → call->allocate(call, bytes), memref.dealloc → call->release(call, memory).
void GraphLowering::lowerAllocations() {
  Value call = graph.getArgument(0);
  graph.walk([&](memref::AllocOp op) {
    RawBuilder b(op.getLoc(), op);
    auto type = cast<MemRefType>(op.getType());
    SmallVector<Value> sizes;
    int64_t fixed = bytesOfElement(type);
    for (int64_t size : type.getShape())
      fixed *= ShapedType::isDynamic(size) ? 1 : size;
    Value bytes = b.constant(fixed);
    for (Value size : op.getDynamicSizes()) {
      sizes.push_back(toInteger(b, size));
      bytes = b.mul(bytes, sizes.back());
    }
    Value memory = heddle::callRuntime(b, op.getLoc(), call, RuntimeCall::Allocate, bytes);
    op.replaceAllUsesWith(bufferAt(b, memory, type, sizes));
    op.erase();
  });
  graph.walk([&](memref::DeallocOp op) {
    RawBuilder b(op.getLoc(), op);
    heddle::callRuntime(b, op.getLoc(), call, RuntimeCall::Release, addressOf(b, op.getMemref()));
    op.erase();
  });
}

//===- checks -------------------------------------------------------------===//

// Integer division by zero gives 0 and the smallest number divided by -1 itself, as in numpy: no machine trap ends a graph.
void GraphLowering::guardDivisions() {
  auto isSafe = [](Value divisor) {
    APInt value;
    return matchPattern(divisor, m_ConstantInt(&value)) && !value.isZero() && !value.isAllOnes();
  };
  auto guard = [&](Operation *op) {
    bool isSigned = isa<arith::DivSIOp, arith::RemSIOp>(op), isDivision = isa<arith::DivSIOp, arith::DivUIOp>(op);
    if (!(isSigned || isa<arith::DivUIOp, arith::RemUIOp>(op)) || isSafe(op->getOperand(1)))
      return;
    b.setInsertionPoint(op);
    Location loc = op->getLoc();
    Value dividend = op->getOperand(0), divisor = op->getOperand(1);
    auto constant = [&](int64_t value) -> Value {
      return arith::ConstantOp::create(b, loc, b.getIntegerAttr(divisor.getType(), value));
    };
    auto equal = [&](Value x, Value y) -> Value {
      return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, x, y);
    };
    Value isZero = equal(divisor, constant(0)), isSpecial = isZero, special = constant(0);
    if (isSigned) {
      Value isMinusOne = equal(divisor, constant(-1));
      isSpecial = arith::OrIOp::create(b, loc, isZero, isMinusOne);
      if (isDivision)
        special = arith::SelectOp::create(b, loc, isZero, special, arith::SubIOp::create(b, loc, special, dividend));
    }
    op->setOperand(1, arith::SelectOp::create(b, loc, isSpecial, constant(1), divisor));
    b.setInsertionPointAfter(op);
    auto guarded = arith::SelectOp::create(b, loc, isSpecial, special, op->getResult(0));
    op->getResult(0).replaceAllUsesExcept(guarded, guarded);
  };
  graph.walk(guard);
  for (func::FuncOp loop : loops)
    loop.walk(guard);
}

// cf.assert → call->fail(call, message), which does not return, unless it holds.
void GraphLowering::lowerAssertions() {
  auto pointer = LLVM::LLVMPointerType::get(b.getContext());
  llvm::StringMap<std::string> messages;
  SmallVector<cf::AssertOp> assertions;
  graph.walk([&](cf::AssertOp op) { assertions.push_back(op); });
  for (cf::AssertOp op : assertions) {
    Location loc = op.getLoc();
    auto [entry, isNew] = messages.try_emplace(op.getMsg(), "heddle_message_" + std::to_string(messages.size()));
    if (isNew) {
      b.setInsertionPointToStart(code->getBody());
      std::string text = op.getMsg().str() + std::string(1, '\0');
      LLVM::GlobalOp::create(b, loc, LLVM::LLVMArrayType::get(b.getI8Type(), text.size()), true,
                             LLVM::Linkage::Internal, entry->second, b.getStringAttr(text));
    }
    b.setInsertionPoint(op);
    requireInGraph(b, loc, graph, op.getArg(), LLVM::AddressOfOp::create(b, loc, pointer, entry->second).getResult());
    op.erase();
  }
}

void GraphLowering::callRuntime() {
  guardDivisions();
  lowerAssertions();
  lowerAllocations();
}

FailureOr<OwningOpRef<ModuleOp>> heddle::buildGraphCode(func::FuncOp graph, StringRef symbol, KernelLibrary &kernels,
                                                        const Target &target) {
  return GraphLowering(graph, symbol, kernels, target).run();
}
