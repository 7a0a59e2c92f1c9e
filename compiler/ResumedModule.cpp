// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "compiler/ResumedModule.h"

#include "compiler/schedule/ScheduleTable.h"
#include "dialect/HeddleDialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringExtras.h"

#include <set>

using namespace mlir;
using namespace heddle;

static std::string entryNames(ModuleOp module) {
  std::vector<std::string> names;
  for (auto func : module.getOps<func::FuncOp>())
    if (func.isPublic())
      names.push_back(("@" + func.getSymName()).str());
  llvm::sort(names);
  return llvm::join(names, ", ");
}

// An entry of `module` that takes or gives others than that of `other`; "" where there is none.
static std::string otherEntry(ModuleOp module, ModuleOp other) {
  for (auto func : module.getOps<func::FuncOp>()) {
    auto twin = func.isPublic() ? other.lookupSymbol<func::FuncOp>(func.getSymName()) : nullptr;
    if (twin && twin.getFunctionType() != func.getFunctionType())
      return ("@" + func.getSymName()).str();
  }
  return "";
}

// A weight of `module` whose bytes are none of a tensor of its type in the checkpoint, and so of another model; null where there is none.
static StorageAttr foreignStorage(ModuleOp module, const Checkpoint &checkpoint) {
  std::set<std::tuple<uint32_t, uint64_t, uint64_t, StringRef>> tensors; // by where they end
  for (auto &[name, tensor] : checkpoint.tensors)
    tensors.emplace(tensor.file, tensor.offset + tensor.bytes, tensor.offset, tensorTypeInfo(tensor.type).name);
  StorageAttr foreign;
  module.walk([&](Operation *op) {
    op->getAttrDictionary().walk([&](StorageAttr storage) {
      uint64_t offset = storage.getOffset();
      auto found = tensors.lower_bound({uint32_t(storage.getFile()), offset + 1, 0, ""});
      bool isWithin = found != tensors.end() && std::get<0>(*found) == storage.getFile() &&
                      std::get<2>(*found) <= offset && std::get<3>(*found) == storage.getTypeInFile();
      if (!isWithin && !foreign)
        foreign = storage;
    });
  });
  return foreign;
}

std::string heddle::whyOfAnotherModel(ModuleOp resumed, ModuleOp own, const Checkpoint &checkpoint, Stage stage,
                                      const std::string &targetName) {
  std::string ownEntries = entryNames(own), entries = entryNames(resumed);
  if (ownEntries != entries)
    return "the module has " + (entries.empty() ? "no entry" : "the entries " + entries) + ", the model after stage " +
           stageName(stage).str() + " " + ownEntries;
  if (own->getAttr(targetAttrName) != resumed->getAttr(targetAttrName))
    return "the module was scheduled for another target than " + targetName;
  if (std::string entry = otherEntry(resumed, own); !entry.empty())
    return "the module's " + entry + " takes or gives other types than the model's after stage " +
           stageName(stage).str() + ": it is of another model, or was made with other options";
  StorageAttr foreign = checkpoint.tensors.empty() ? StorageAttr() : foreignStorage(resumed, checkpoint);
  if (!foreign)
    return "";
  return "the module has a weight of type " + foreign.getTypeInFile().str() + " at byte " +
         std::to_string(foreign.getOffset()) + " of file " + std::to_string(foreign.getFile()) +
         ", where the model has none: it is of another model";
}
