// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/schedule/GraphPasses.h"

#include "mlir/Dialect/Bufferization/IR/BufferizableOpInterface.h"
#include "mlir/Dialect/Bufferization/Transforms/OneShotAnalysis.h"
#include "mlir/Dialect/Bufferization/Transforms/OneShotModuleBufferize.h"
#include "mlir/Dialect/Bufferization/Transforms/Transforms.h"

namespace heddle {
#define GEN_PASS_DEF_BUFFERIZEGRAPH
#include "compiler/schedule/GraphPasses.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

namespace {
struct BufferizeGraph : heddle::impl::BufferizeGraphBase<BufferizeGraph> {
  void getDependentDialects(DialectRegistry &registry) const override {
    BufferizeGraphBase::getDependentDialects(registry);
    registry.insert<HeddleDialect>();
  }

  void runOnOperation() override {
    ModuleOp module = getOperation();
    // The caller's tensors may lie in a file that is mapped read-only.
    StringRef writable = bufferization::BufferizationDialect::kWritableAttrName;
    for (auto func : module.getOps<func::FuncOp>())
      for (unsigned i = 0; func.isPublic() && i < func.getNumArguments(); ++i)
        func.setArgAttr(i, writable, BoolAttr::get(&getContext(), false));
    IRRewriter rewriter(&getContext());
    // A value that is inserted into another is computed where it goes.
    if (failed(bufferization::eliminateEmptyTensors(rewriter, module)))
      return signalPassFailure();
    bufferization::OneShotBufferizationOptions options;
    options.bufferizeFunctionBoundaries = true;
    options.allowReturnAllocsFromLoops = true;
    options.allowUnknownOps = true;
    options.setFunctionBoundaryTypeConversion(bufferization::LayoutMapOption::IdentityLayoutMap);
    // Weights lie whole and in order.
    options.unknownTypeConverterFn = [](TensorType type, Attribute space, const bufferization::BufferizationOptions &) {
      return bufferization::getMemRefTypeWithStaticIdentityLayout(type, space);
    };
    bufferization::BufferizationState state;
    if (failed(bufferization::runOneShotModuleBufferize(module, options, state)))
      return signalPassFailure();
  }
};
} // namespace
