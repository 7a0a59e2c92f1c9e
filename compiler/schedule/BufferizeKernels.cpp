// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/schedule/Passes.h"

#include "mlir/Dialect/Bufferization/IR/BufferizableOpInterface.h"
#include "mlir/Dialect/Bufferization/Transforms/OneShotAnalysis.h"
#include "mlir/Dialect/Bufferization/Transforms/OneShotModuleBufferize.h"
#include "mlir/Dialect/Bufferization/Transforms/Passes.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

namespace heddle {
#define GEN_PASS_DEF_BUFFERIZEKERNELS
#include "compiler/schedule/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

namespace {
struct BufferizeKernels : heddle::impl::BufferizeKernelsBase<BufferizeKernels> {
  void getDependentDialects(DialectRegistry &registry) const override {
    BufferizeKernelsBase::getDependentDialects(registry);
    registry.insert<HeddleDialect>();
  }

  // Kernel bodies say what is computed, on tensors: they step aside while the functions that call them change.
  LogicalResult bufferize(ModuleOp module) {
    SmallVector<func::FuncOp> kernels;
    for (auto func : llvm::make_early_inc_range(module.getOps<func::FuncOp>()))
      if (func->hasAttr("heddle.kernel")) {
        func->remove();
        kernels.push_back(func);
      }
    bufferization::OneShotBufferizationOptions options;
    options.bufferizeFunctionBoundaries = true;
    options.allowUnknownOps = true;
    options.setFunctionBoundaryTypeConversion(bufferization::LayoutMapOption::IdentityLayoutMap);
    bufferization::BufferizationState state;
    LogicalResult result = bufferization::runOneShotModuleBufferize(module, options, state);
    for (func::FuncOp kernel : kernels)
      module.push_back(kernel);
    return result;
  }

  void runOnOperation() override {
    OpPassManager cleanUp(ModuleOp::getOperationName());
    cleanUp.addPass(bufferization::createDropEquivalentBufferResultsPass());
    cleanUp.addNestedPass<func::FuncOp>(createCSEPass());
    cleanUp.addNestedPass<func::FuncOp>(createCanonicalizerPass());
    if (failed(bufferize(getOperation())) || failed(runPipeline(cleanUp, getOperation())))
      return signalPassFailure();
    // What bufferization could not prove to be in place would be a copy at run time.
    WalkResult copies = getOperation().walk([](memref::CopyOp copy) {
      copy.emitError("a buffer is copied: its value is still read after it is written");
      return WalkResult::interrupt();
    });
    if (copies.wasInterrupted())
      signalPassFailure();
  }
};
} // namespace
