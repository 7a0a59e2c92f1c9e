// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The mask decides what a model is: where all attention is causal, tokens are computed step by step behind a cache; where none is, a
// token needs those ahead of it, and all of a sequence is computed at once.

#include "compiler/optimize/Passes.h"
#include "compiler/optimize/RaggedRewriter.h"
#include "dialect/EncodeOutputs.h"
#include "dialect/Entries.h"

namespace heddle {
#define GEN_PASS_DEF_FLATTENBATCH
#include "compiler/optimize/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

// The first product behind the last layer: with it logits begin, also where a second product or a softcap follows.
static LinearOp findHead(func::FuncOp forward) {
  LinearOp head;
  for (Operation &op : forward.front()) {
    if (auto call = dyn_cast<func::CallOp>(op); call && runsAttention(call))
      head = {};
    else if (!head)
      head = dyn_cast<LinearOp>(op);
  }
  return head;
}

namespace {

struct FlattenBatch : heddle::impl::FlattenBatchBase<FlattenBatch> {
  using FlattenBatchBase::FlattenBatchBase;

  // The cache has a place for each call of a layer: equal layers may be one function already.
  FailureOr<KvCacheType> cacheType(func::FuncOp forward) {
    ModuleOp module = getOperation();
    Type element = llvm::StringSwitch<Type>(elementType)
                       .Case("f32", Float32Type::get(&getContext()))
                       .Case("bf16", BFloat16Type::get(&getContext()))
                       .Case("f16", Float16Type::get(&getContext()))
                       .Case("q8_0", IntegerType::get(&getContext(), 8))
                       .Default({});
    if (!element)
      return module.emitError("element-type must be f32, bf16, f16 or q8_0, got '") << elementType << "'";
    // num_kv_heads, head_dim, and how much of it is a latent: 0 where keys and values are cached.
    using Shape = std::tuple<int64_t, int64_t, int64_t>;
    Shape shape{0, 0, 0};
    auto text = [](Shape shape) {
      auto [heads, headDim, latent] = shape;
      return "(" + std::to_string(heads) + ", " + std::to_string(headDim) +
             (latent ? ", latent " + std::to_string(latent) : "") + ")";
    };
    WalkResult walk = module.walk([&](Operation *op) {
      Shape wanted;
      if (auto attention = dyn_cast<AttentionOp>(op))
        wanted = {attention.getNumKvHeads(), attention.getHeadDim(), 0};
      else if (auto latent = dyn_cast<LatentAttentionOp>(op))
        wanted = {1, latent.getDims().cachedDim(), latent.getDims().rank};
      else
        return WalkResult::advance();
      if (shape != Shape{0, 0, 0} && shape != wanted) {
        op->emitError("all layers must have the same num_kv_heads and head_dim: ")
            << text(wanted) << " after " << text(shape);
        return WalkResult::interrupt();
      }
      shape = wanted;
      return WalkResult::advance();
    });
    if (walk.wasInterrupted())
      return failure();
    auto [heads, headDim, latent] = shape;
    int64_t layers = llvm::count_if(forward.getOps<func::CallOp>(), runsAttention);
    return KvCacheType::get(&getContext(), layers, heads, headDim, element, latent);
  }

  // Tokens that each layer of the cache sees, 0: all; nothing where no layer has a window.
  void noteWindows(func::FuncOp forward) {
    SmallVector<int64_t> windows;
    for (auto call : forward.getOps<func::CallOp>()) {
      if (!runsAttention(call))
        continue;
      windows.push_back(0);
      getOperation().lookupSymbol<func::FuncOp>(call.getCallee()).walk([&](AttentionOp op) {
        windows.back() = op.getMask().getWindow();
      });
    }
    if (llvm::any_of(windows, [](int64_t window) { return window != 0; }))
      getOperation()->setAttr(kvWindowsAttr, DenseI64ArrayAttr::get(&getContext(), windows));
  }

  // Whether all attention is causal, or none is; one of each has no entry that computes both.
  FailureOr<bool> attendsCausally() {
    std::optional<bool> isCausal;
    WalkResult walk = getOperation().walk([&](Operation *op) {
      auto attention = dyn_cast<AttentionOp>(op);
      auto latent = dyn_cast<LatentAttentionOp>(op);
      if (isInGraphEntry(op) || (!attention && !latent))
        return WalkResult::advance();
      bool causal = attention ? attention.getMask().getCausal() : latent.getMask().getCausal();
      if (isCausal && *isCausal != causal) {
        op->emitError("attends ") << (causal ? "causally, where attention before it does not"
                                             : "to tokens ahead, where attention before it is causal");
        return WalkResult::interrupt();
      }
      isCausal = causal;
      return WalkResult::advance();
    });
    if (walk.wasInterrupted())
      return failure();
    if (!isCausal)
      return getOperation().emitError("has no attention: a sequence is what its tokens attend to");
    return *isCausal;
  }

  void runInStage() override {
    ModuleOp module = getOperation();
    auto forward = module.lookupSymbol<func::FuncOp>("forward");
    if (!forward && !graphEntries(module).empty())
      return;
    if (!forward) {
      module.emitError("has no function @forward");
      return signalPassFailure();
    }
    FailureOr<bool> isStep = attendsCausally();
    if (failed(isStep))
      return signalPassFailure();
    KvCacheType cache;
    LinearOp head;
    if (*isStep) {
      FailureOr<KvCacheType> type = cacheType(forward);
      if (failed(type))
        return signalPassFailure();
      cache = *type;
      noteWindows(forward);
      head = findHead(forward);
    }
    // Once rows are flat, types do not say any more what they belong to.
    SmallVector<EncodeOutput> outputs = outputsOf(forward);
    for (auto func : llvm::make_early_inc_range(module.getOps<func::FuncOp>()))
      if (!isGraphEntry(func) && failed(RaggedRewriter(func, cache, head).run(func == forward)))
        return signalPassFailure();
    if (!*isStep)
      setOutputs(forward, outputs);
    forward.setName(*isStep ? "step" : "encode");
  }
};

} // namespace
