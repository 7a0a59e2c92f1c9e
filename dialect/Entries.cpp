// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Entries are told apart by name and visibility alone, so a module in text needs no attribute to say what its functions are.

#include "dialect/Entries.h"

#include "dialect/HeddleDialect.h"

using namespace mlir;
using namespace heddle;

static constexpr StringRef raggedNames[] = {"step", "forward", "encode", "forward_encoder"};

func::FuncOp heddle::raggedEntry(ModuleOp module) {
  for (StringRef name : raggedNames)
    if (auto entry = module.lookupSymbol<func::FuncOp>(name))
      return entry;
  return {};
}

SmallVector<func::FuncOp> heddle::raggedEntries(ModuleOp module) {
  SmallVector<func::FuncOp> entries;
  for (StringRef name : raggedNames)
    if (auto entry = module.lookupSymbol<func::FuncOp>(name))
      entries.push_back(entry);
  return entries;
}

bool heddle::isEncoderDecoder(ModuleOp module) {
  return raggedEntries(module).size() > 1;
}

bool heddle::isEncoder(ModuleOp module) {
  func::FuncOp entry = raggedEntry(module);
  if (isEncoderDecoder(module))
    return false;
  if (!entry || entry.getSymName() != "forward")
    return entry && entry.getSymName() != "step";
  return module
      .walk([](AttentionOp op) {
        return op.getMask().getCausal() || isInGraphEntry(op) ? WalkResult::advance() : WalkResult::interrupt();
      })
      .wasInterrupted();
}

bool heddle::keepsKeys(AttentionOp attention) {
  return attention.getMask().getCausal() && !isEncoder(attention->getParentOfType<ModuleOp>());
}

bool heddle::isGraphEntry(func::FuncOp func) {
  return func.isPublic() && !func.isExternal() && !llvm::is_contained(raggedNames, func.getSymName());
}

bool heddle::isInGraphEntry(Operation *op) {
  auto func = dyn_cast<func::FuncOp>(op);
  func = func ? func : op->getParentOfType<func::FuncOp>();
  return func && isGraphEntry(func);
}

SmallVector<func::FuncOp> heddle::graphEntries(ModuleOp module) {
  return llvm::filter_to_vector(module.getOps<func::FuncOp>(), isGraphEntry);
}

func::FuncOp heddle::onlyGraph(ModuleOp module) {
  SmallVector<func::FuncOp> graphs = graphEntries(module);
  return graphs.size() == 1 && !raggedEntry(module) ? graphs.front() : func::FuncOp();
}
