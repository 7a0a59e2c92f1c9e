// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Calls, loops and branches.

#include "compiler/interpreter/Frame.h"

#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace heddle;

static SmallVector<RuntimeValue> valuesOf(Frame &frame, ValueRange operands) {
  return llvm::map_to_vector(operands, [&](Value operand) { return frame.value(operand); });
}

static LogicalResult call(Frame &frame, func::CallOp op) {
  auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(op, op.getCalleeAttr());
  if (!callee)
    return op.emitOpError("calls '") << op.getCallee() << "', which is no function of this module";
  Interpreter &interpreter = frame.getInterpreter();
  interpreter.calls.push_back(op);
  FailureOr<SmallVector<RuntimeValue>> results = interpreter.call(callee, valuesOf(frame, op.getOperands()));
  interpreter.calls.pop_back();
  if (failed(results))
    return failure();
  for (auto [result, value] : llvm::zip_equal(op.getResults(), *results))
    frame.set(result, value);
  return success();
}

static LogicalResult loop(Frame &frame, scf::ForOp op) {
  int64_t step = frame.integer(op.getStep());
  if (step <= 0)
    return op.emitOpError("has step ") << step << ", which must be positive";
  SmallVector<RuntimeValue> carried = valuesOf(frame, op.getInitArgs());
  int64_t end = frame.integer(op.getUpperBound());
  for (int64_t i = frame.integer(op.getLowerBound()); i < end; i += step) {
    SmallVector<RuntimeValue> arguments{makeValue(Tensor::scalar(op.getInductionVar().getType(), {0, i}))};
    llvm::append_range(arguments, carried);
    carried.clear();
    if (failed(frame.run(*op.getBody(), arguments, carried)))
      return failure();
  }
  for (auto [result, value] : llvm::zip_equal(op.getResults(), carried))
    frame.set(result, value);
  return success();
}

static LogicalResult repeat(Frame &frame, scf::WhileOp op) {
  SmallVector<RuntimeValue> carried = valuesOf(frame, op.getInits());
  while (true) {
    SmallVector<RuntimeValue> passed;
    if (failed(frame.run(*op.getBeforeBody(), carried, passed)))
      return failure();
    bool goesOn = std::get<TensorRef>(passed.front())->integers[0];
    passed.erase(passed.begin());
    if (!goesOn) {
      for (auto [result, value] : llvm::zip_equal(op.getResults(), passed))
        frame.set(result, value);
      return success();
    }
    carried.clear();
    if (failed(frame.run(*op.getAfterBody(), passed, carried)))
      return failure();
  }
}

static LogicalResult branch(Frame &frame, scf::IfOp op) {
  Region &region = frame.integer(op.getCondition()) ? op.getThenRegion() : op.getElseRegion();
  SmallVector<RuntimeValue> results;
  if (!region.empty() && failed(frame.run(region.front(), {}, results)))
    return failure();
  for (auto [result, value] : llvm::zip_equal(op.getResults(), results))
    frame.set(result, value);
  return success();
}

static LogicalResult check(Frame &frame, cf::AssertOp op) {
  if (!frame.integer(op.getArg()))
    return op.emitOpError("does not hold: ") << op.getMsg();
  return success();
}

void heddle::addControlFlowHandlers(HandlerTable &table) {
  table.add<func::CallOp>(call);
  table.add<scf::ForOp>(loop);
  table.add<scf::IfOp>(branch);
  table.add<scf::WhileOp>(repeat);
  table.add<cf::AssertOp>(check);
}
