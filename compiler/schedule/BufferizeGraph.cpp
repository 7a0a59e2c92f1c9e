// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/schedule/GraphPasses.h"

#include "mlir/Dialect/Bufferization/IR/BufferizableOpInterface.h"
#include "mlir/Dialect/Bufferization/Transforms/OneShotAnalysis.h"
#include "mlir/Dialect/Bufferization/Transforms/OneShotModuleBufferize.h"
#include "mlir/Dialect/Bufferization/Transforms/Transforms.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace heddle {
#define GEN_PASS_DEF_BUFFERIZEGRAPH
#include "compiler/schedule/GraphPasses.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

// The value of `place` as one of its own, made where `b` stands: rooms, and what only fills them, are made again.
static Value ownPlace(OpBuilder &b, Value place) {
  Operation *made = place.getDefiningOp();
  auto fill = dyn_cast_or_null<linalg::GenericOp>(made);
  bool isFill = fill && fill.getNumResults() == 1 &&
                llvm::none_of(fill.getInputs(), [](Value input) { return isa<ShapedType>(input.getType()); });
  if (!isFill && !isa_and_nonnull<tensor::EmptyOp>(made))
    return place;
  IRMapping map;
  if (isFill)
    map.map(fill.getOutputs()[0], ownPlace(b, fill.getOutputs()[0]));
  return b.clone(*made, map)->getResult(0);
}

// Which values may share a place is decided by comparing all that are written into it, so ops that share one for no other reason
// than that it looks alike take one each.
static void separatePlaces(ModuleOp module) {
  SmallVector<linalg::GenericOp> ops;
  module.walk([&](linalg::GenericOp op) { ops.push_back(op); });
  for (linalg::GenericOp op : ops) {
    OpBuilder b(op);
    for (OpOperand &init : op.getDpsInitsMutable())
      if (!init.get().hasOneUse())
        init.set(ownPlace(b, init.get()));
  }
}

// Loops that carry a buffer through all of their steps name it as it is: its last use is then known, and its sizes.
static void nameCarriedBuffers(ModuleOp module) {
  SmallVector<Operation *> loops;
  module.walk([&](scf::ForOp loop) { loops.push_back(loop); });
  RewritePatternSet patterns(module.getContext());
  scf::ForOp::getCanonicalizationPatterns(patterns, module.getContext());
  (void)applyOpPatternsGreedily(loops, std::move(patterns));
}

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
    separatePlaces(module);
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
    nameCarriedBuffers(module);
  }
};
} // namespace
