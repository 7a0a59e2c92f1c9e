// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Puts tensors into buffers. The step and its layers work on rows in a planned arena, where a copy would be an error; a graph may be any
// tensor program, which copies where it must and never writes to what its caller owns. The bodies of kernels say what is computed and
// stay on tensors.

#include "compiler/schedule/Passes.h"
#include "dialect/Entries.h"

#include "mlir/Dialect/Bufferization/Transforms/OneShotAnalysis.h"
#include "mlir/Dialect/Bufferization/Transforms/OneShotModuleBufferize.h"
#include "mlir/Dialect/Bufferization/Transforms/Passes.h"
#include "mlir/Dialect/Bufferization/Transforms/Transforms.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "mlir/Transforms/Passes.h"

namespace heddle {
#define GEN_PASS_DEF_BUFFERIZE
#include "compiler/schedule/Passes.h.inc"
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

// The first of several parts that are computed where they stand in one tensor begins that tensor: it takes a room of its own, as the parts
// behind it would else be written into what another op, which asked for a room of that size, still holds.
static void separateParts(ModuleOp module) {
  SmallVector<tensor::InsertSliceOp> firsts;
  module.walk([&](tensor::InsertSliceOp insert) {
    if (insert.getDest().getDefiningOp<tensor::EmptyOp>())
      firsts.push_back(insert);
  });
  for (tensor::InsertSliceOp insert : firsts) {
    Value room = insert.getDest();
    auto part = dyn_cast_or_null<DestinationStyleOpInterface>(insert.getSource().getDefiningOp());
    if (!part)
      continue;
    auto standsIn = [&](Value init) {
      auto place = init.getDefiningOp<tensor::ExtractSliceOp>();
      return place && place.getSource() == room;
    };
    if (!llvm::any_of(part.getDpsInits(), standsIn)) // it is copied, and the room may be younger
      continue;
    OpBuilder b(part);
    Value own = b.clone(*room.getDefiningOp())->getResult(0);
    insert.getDestMutable().set(own);
    for (OpOperand &init : part.getDpsInitsMutable())
      if (auto place = init.get().getDefiningOp<tensor::ExtractSliceOp>(); place && place.getSource() == room) {
        IRMapping map;
        map.map(room, own);
        init.set(b.clone(*place, map)->getResult(0));
        if (place->use_empty())
          place->erase();
      }
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

// Where strides are known to the run alone, a part of a tensor may be cast to a whole one, whose rows would lie elsewhere: it is copied instead.
static void copyParts(ModuleOp module) {
  SmallVector<memref::CastOp> casts;
  module.walk([&](memref::CastOp cast) {
    auto part = dyn_cast<MemRefType>(cast.getSource().getType()), whole = dyn_cast<MemRefType>(cast.getType());
    if (part && whole && !part.getLayout().isIdentity() && whole.getLayout().isIdentity())
      casts.push_back(cast);
  });
  for (memref::CastOp cast : casts) {
    OpBuilder b(cast);
    auto type = llvm::cast<MemRefType>(cast.getType());
    SmallVector<Value> sizes;
    for (int64_t i = 0; i < type.getRank(); ++i)
      if (type.isDynamicDim(unsigned(i)))
        sizes.push_back(memref::DimOp::create(b, cast.getLoc(), cast.getSource(), i));
    Value whole = memref::AllocOp::create(b, cast.getLoc(), type, sizes);
    memref::CopyOp::create(b, cast.getLoc(), cast.getSource(), whole);
    cast.replaceAllUsesWith(whole);
    cast.erase();
  }
}

namespace {

// Functions that are out of the module as long as this lives.
class FunctionsAside {
public:
  FunctionsAside(ModuleOp module, function_ref<bool(func::FuncOp)> leaves) : module(module) {
    for (auto func : llvm::make_early_inc_range(module.getOps<func::FuncOp>()))
      if (leaves(func)) {
        next.push_back(func->getNextNode());
        func->remove();
        functions.push_back(func);
      }
  }
  // Each back to where it stood.
  ~FunctionsAside() {
    Block::OpListType &ops = module.getBody()->getOperations();
    for (auto [func, before] : llvm::reverse(llvm::zip_equal(functions, next)))
      ops.insert(before ? before->getIterator() : ops.end(), func);
  }

private:
  ModuleOp module;
  SmallVector<func::FuncOp> functions;
  SmallVector<Operation *> next; // what stood behind each
};

struct Bufferize : heddle::impl::BufferizeBase<Bufferize> {
  void getDependentDialects(DialectRegistry &registry) const override {
    BufferizeBase::getDependentDialects(registry);
    registry.insert<HeddleDialect>();
  }

  static LogicalResult bufferize(ModuleOp module, bool allocatesInLoops) {
    bufferization::OneShotBufferizationOptions options;
    options.bufferizeFunctionBoundaries = true;
    options.allowReturnAllocsFromLoops = allocatesInLoops;
    options.allowUnknownOps = true;
    options.setFunctionBoundaryTypeConversion(bufferization::LayoutMapOption::IdentityLayoutMap);
    // Weights and tables lie whole and in order, wherever they come from.
    options.unknownTypeConverterFn = [](TensorType type, Attribute space, const bufferization::BufferizationOptions &) {
      return bufferization::getMemRefTypeWithStaticIdentityLayout(type, space);
    };
    bufferization::BufferizationState state;
    return bufferization::runOneShotModuleBufferize(module, options, state);
  }

  LogicalResult bufferizeStep(ModuleOp module) {
    {
      FunctionsAside graphs(module,
                            [](func::FuncOp func) { return isGraphEntry(func) || func->hasAttr("heddle.kernel"); });
      separateParts(module);
      if (failed(bufferize(module, /*allocatesInLoops=*/false)) ||
          failed(bufferization::dropEquivalentBufferResults(module)))
        return failure();
    }
    OpPassManager cleanUp(func::FuncOp::getOperationName());
    cleanUp.addPass(createCSEPass());
    cleanUp.addPass(createCanonicalizerPass());
    for (auto func : module.getOps<func::FuncOp>())
      if (!isGraphEntry(func) && failed(runPipeline(cleanUp, func)))
        return failure();
    // What bufferization could not prove to be in place would be a copy at run time.
    WalkResult copies = module.walk([](memref::CopyOp copy) {
      if (isInGraphEntry(copy))
        return WalkResult::advance();
      copy.emitError("a buffer is copied: its value is still read after it is written");
      return WalkResult::interrupt();
    });
    return failure(copies.wasInterrupted());
  }

  LogicalResult bufferizeGraphs(ModuleOp module) {
    {
      FunctionsAside others(module, [](func::FuncOp func) { return !isGraphEntry(func); });
      // The caller's tensors may lie in a file that is mapped read-only.
      StringRef writable = bufferization::BufferizationDialect::kWritableAttrName;
      for (auto func : module.getOps<func::FuncOp>())
        for (unsigned i = 0; i < func.getNumArguments(); ++i)
          func.setArgAttr(i, writable, BoolAttr::get(&getContext(), false));
      separatePlaces(module);
      IRRewriter rewriter(&getContext());
      // A value that is inserted into another is computed where it goes.
      if (failed(bufferization::eliminateEmptyTensors(rewriter, module)) ||
          failed(bufferize(module, /*allocatesInLoops=*/true)))
        return failure();
      copyParts(module);
      nameCarriedBuffers(module);
    }
    // Not canonicalised: that would turn a load from a weight's buffer back into an extract from its tensor.
    OpPassManager cleanUp(func::FuncOp::getOperationName());
    cleanUp.addPass(createCSEPass());
    for (func::FuncOp graph : graphEntries(module))
      if (failed(runPipeline(cleanUp, graph)))
        return failure();
    return success();
  }

  void runInStage() override {
    if (failed(bufferizeStep(getOperation())) || failed(bufferizeGraphs(getOperation())))
      signalPassFailure();
  }
};

} // namespace
