// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Passes that move what a small model has to the addresses of a large one. They run after stage schedule, when every packed weight
// and every activation has its place: what stands between is never written, so files stay small on the disk and memory stays free.

#include "compiler/schedule/Passes.h"
#include "dialect/HeddleDialect.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Tools/Plugins/PassPlugin.h"

using namespace mlir;
using namespace heddle;

namespace {

int64_t integerOf(Operation *op, StringRef name) {
  return op->getAttrOfType<IntegerAttr>(name).getInt();
}

void setInteger(Operation *op, StringRef name, int64_t value) {
  op->setAttr(name, IntegerAttr::get(IntegerType::get(op->getContext(), 64), value));
}

// Moves all packed weights by one distance, so that byte `at` of the section lies in the middle of them.
struct SpreadWeights : PassWrapper<SpreadWeights, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(SpreadWeights)
  SpreadWeights() = default;
  SpreadWeights(const SpreadWeights &other) : PassWrapper(other) {}

  StringRef getArgument() const override { return "spread-weights"; }
  StringRef getDescription() const override { return "Moves packed weights to both sides of a byte"; }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    int64_t size = integerOf(module, weightsSizeAttr), distance = (at - size / 2) / 64 * 64;
    module.walk([&](WeightOp op) {
      PackingAttr place = op.getPacking();
      op.setPackingAttr(PackingAttr::get(&getContext(), place.getLayout(), place.getFormat(), place.getShape(),
                                         place.getOffset() + distance, place.getSources(), place.getGroup(),
                                         place.getTransposed(), place.getManyRows()));
    });
    setInteger(module, weightsSizeAttr, size + distance);
  }

  Option<int64_t> at{*this, "at", llvm::cl::desc("The byte of the section"), llvm::cl::init(0)};
};

// Moves all activations by `bytes` for each row of a step, and those that do not depend on the rows as far again.
struct SpreadActivations : PassWrapper<SpreadActivations, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(SpreadActivations)
  SpreadActivations() = default;
  SpreadActivations(const SpreadActivations &other) : PassWrapper(other) {}

  StringRef getArgument() const override { return "spread-activations"; }
  StringRef getDescription() const override { return "Moves activations to higher addresses"; }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    module.walk([&](memref::AllocOp op) {
      for (StringRef name : {rowOffsetAttr, offsetAttr})
        if (op->hasAttr(name))
          setInteger(op, name, integerOf(op, name) + bytes);
    });
    for (StringRef name : {rowBytesAttr, fixedBytesAttr})
      setInteger(module, name, integerOf(module, name) + bytes);
  }

  Option<int64_t> bytes{*this, "bytes", llvm::cl::desc("A multiple of 64"), llvm::cl::init(0)};
};

} // namespace

extern "C" LLVM_ATTRIBUTE_WEAK PassPluginLibraryInfo mlirGetPassPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "spread-offsets", "1", [] {
            PassRegistration<SpreadWeights>();
            PassRegistration<SpreadActivations>();
          }};
}
