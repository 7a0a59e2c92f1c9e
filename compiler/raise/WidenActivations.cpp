// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/raise/WidenActivations.h"

#include "dialect/HeddleDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace heddle;

static bool isNarrow(Type type) {
  Type element = getElementTypeOrSelf(type);
  return isa<FloatType>(element) && element.getIntOrFloatBitWidth() == 16;
}

static Type widened(Type type) {
  if (!isNarrow(type))
    return type;
  Type wide = Float32Type::get(type.getContext());
  auto shaped = dyn_cast<ShapedType>(type);
  return shaped ? Type(shaped.clone(wide)) : wide;
}

static APFloat widened(APFloat number) {
  bool lossy;
  number.convert(APFloat::IEEEsingle(), APFloat::rmNearestTiesToEven, &lossy);
  return number;
}

// The same numbers; null for a constant that is not held as numbers.
static TypedAttr widened(TypedAttr value) {
  Type type = widened(value.getType());
  if (auto number = dyn_cast<FloatAttr>(value))
    return FloatAttr::get(type, widened(number.getValue()));
  if (auto elements = dyn_cast<DenseFPElementsAttr>(value))
    return elements.mapValues(getElementTypeOrSelf(type),
                              [](const APFloat &number) { return widened(number).bitcastToAPInt(); });
  return {};
}

// Whether every op of the graph means the same on f32.
static bool canWiden(func::FuncOp graph) {
  WalkResult walk = graph.walk([](Operation *op) {
    bool readsBits = isa<arith::BitcastOp, tensor::BitcastOp>(op) &&
                     (isNarrow(op->getOperand(0).getType()) || isNarrow(op->getResult(0).getType()));
    auto constant = dyn_cast<arith::ConstantOp>(op);
    bool isOpaque = constant && isNarrow(constant.getType()) && !widened(constant.getValue());
    return readsBits || isOpaque ? WalkResult::interrupt() : WalkResult::advance();
  });
  return !walk.wasInterrupted();
}

void heddle::widenActivations(func::FuncOp graph) {
  if (!canWiden(graph))
    return;
  SmallVector<Operation *> casts;
  graph.walk([&](Operation *op) {
    if (isa<arith::ExtFOp, arith::TruncFOp>(op))
      casts.push_back(op);
    if (auto constant = dyn_cast<arith::ConstantOp>(op); constant && isNarrow(constant.getType())) {
      graph->setAttr(widenedAttr, TypeAttr::get(getElementTypeOrSelf(constant.getType())));
      constant.setValueAttr(widened(constant.getValue()));
    }
    if (!isa<WeightOp>(op))
      for (Value result : op->getResults())
        result.setType(widened(result.getType()));
    for (Region &region : op->getRegions())
      for (Block &block : region)
        for (BlockArgument argument : block.getArguments())
          argument.setType(widened(argument.getType()));
  });
  // What is stored stays so.
  graph.walk([](WeightOp weight) {
    if (!isNarrow(weight.getType()))
      return;
    OpBuilder b(weight->getContext());
    b.setInsertionPointAfter(weight);
    Value wide = arith::ExtFOp::create(b, weight.getLoc(), widened(weight.getType()), weight.getResult());
    weight.getResult().replaceAllUsesExcept(wide, wide.getDefiningOp());
  });
  for (Operation *cast : casts)
    if (cast->getOperand(0).getType() == cast->getResult(0).getType()) {
      cast->getResult(0).replaceAllUsesWith(cast->getOperand(0));
      cast->erase();
    }
  auto results = llvm::map_to_vector(graph.getResultTypes(), [](Type type) { return widened(type); });
  graph.setFunctionType(FunctionType::get(graph.getContext(), graph.getArgumentTypes(), results));
}
