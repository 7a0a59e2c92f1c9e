// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A mistake that a pass could make, and what plants it.
#ifndef HEDDLE_TEST_VERIFY_SEEDEDBUGS_BUG_H
#define HEDDLE_TEST_VERIFY_SEEDEDBUGS_BUG_H

#include "dialect/HeddleDialect.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"

namespace heddle {

struct Bug {
  const char *name, *what;
  bool (*plant)(mlir::ModuleOp module); // false: found no place
};

// Of mixtures of experts, of the cache, and of what a step hands from one function to the next.
llvm::ArrayRef<Bug> routingAndCacheBugs();

// The first op of a kind that `fits`; null if there is none.
template <typename Op> Op find(mlir::ModuleOp module, llvm::function_ref<bool(Op)> fits = [](Op) { return true; }) {
  Op found;
  module.walk([&](Op op) {
    if (!fits(op))
      return mlir::WalkResult::advance();
    found = op;
    return mlir::WalkResult::interrupt();
  });
  return found;
}

inline bool setReal(mlir::Operation *op, llvm::StringRef name, double value) {
  if (op)
    op->setAttr(name, mlir::Builder(op->getContext()).getF64FloatAttr(value));
  return op;
}

inline bool swapOperands(mlir::Operation *op, unsigned a, unsigned b) {
  if (!op || op->getOperand(a).getType() != op->getOperand(b).getType() || op->getOperand(a) == op->getOperand(b))
    return false;
  mlir::Value first = op->getOperand(a);
  op->setOperand(a, op->getOperand(b));
  op->setOperand(b, first);
  return true;
}

inline bool replace(mlir::Operation *op, mlir::Value by) {
  op->getResult(0).replaceAllUsesWith(by);
  op->erase();
  return true;
}

} // namespace heddle

#endif
