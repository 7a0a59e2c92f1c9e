// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Entries are told apart by name and visibility alone, so a module in text needs no attribute to say what its functions are.

#include "dialect/Entries.h"

using namespace mlir;
using namespace heddle;

static bool isStepName(StringRef name) {
  return name == "step" || name == "forward";
}

func::FuncOp heddle::stepEntry(ModuleOp module) {
  auto step = module.lookupSymbol<func::FuncOp>("step");
  return step ? step : module.lookupSymbol<func::FuncOp>("forward");
}

bool heddle::isGraphEntry(func::FuncOp func) {
  return func.isPublic() && !func.isExternal() && !isStepName(func.getSymName());
}

bool heddle::isInGraphEntry(Operation *op) {
  auto func = dyn_cast<func::FuncOp>(op);
  func = func ? func : op->getParentOfType<func::FuncOp>();
  return func && isGraphEntry(func);
}

SmallVector<func::FuncOp> heddle::graphEntries(ModuleOp module) {
  return llvm::filter_to_vector(module.getOps<func::FuncOp>(), isGraphEntry);
}
