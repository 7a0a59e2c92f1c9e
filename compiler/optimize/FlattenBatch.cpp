// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The mask decides what a model is: where all attention is causal, tokens are computed step by step behind a cache; where none is, a
// token needs those ahead of it, and all of a sequence is computed at once. An encoder-decoder is one of each, and a cache between them. An
// encoder alone, which its name tells, computes all of a sequence at once whatever its masks are.

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

// `entry` and the functions that it calls.
static DenseSet<Operation *> functionsOf(func::FuncOp entry) {
  DenseSet<Operation *> functions = {entry};
  for (auto call : entry.getOps<func::CallOp>())
    if (auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(call, call.getCalleeAttr()))
      functions.insert(callee);
  return functions;
}

namespace {

struct FlattenBatch : heddle::impl::FlattenBatchBase<FlattenBatch> {
  using FlattenBatchBase::FlattenBatchBase;

  // Whether `op` attends to a source, where there is an encoder: its keys and values are arguments of the layer.
  bool attendsToSource(Operation *op) {
    auto attention = dyn_cast<AttentionOp>(op);
    return hasSources && attention && isGivenHeads(attention.getKey());
  }

  // Of what is cached.
  FailureOr<Type> storedType() {
    Type element = llvm::StringSwitch<Type>(elementType)
                       .Case("f32", Float32Type::get(&getContext()))
                       .Case("bf16", BFloat16Type::get(&getContext()))
                       .Case("f16", Float16Type::get(&getContext()))
                       .Case("q8_0", IntegerType::get(&getContext(), 8))
                       .Default({});
    if (!element)
      return getOperation().emitError("element-type must be f32, bf16, f16 or q8_0, got '") << elementType << "'";
    return element;
  }

  // What a layer caches: num_kv_heads, head_dim, and how much of it is a latent, 0 where it is keys and values; or numbers of a state.
  struct CachedShape {
    int64_t heads = 1, headDim = 0, latent = 0;
    bool isState = false;

    auto tie() const { return std::tie(heads, headDim, latent, isState); }
    bool operator==(const CachedShape &other) const { return tie() == other.tie(); }
  };

  static std::string textOf(const CachedShape &shape) {
    if (shape.isState)
      return "a state of " + std::to_string(shape.headDim);
    return "(" + std::to_string(shape.heads) + ", " + std::to_string(shape.headDim) +
           (shape.latent ? ", latent " + std::to_string(shape.latent) : "") + ")";
  }

  std::optional<CachedShape> cachedShape(Operation *op) {
    if (attendsToSource(op) || isInGraphEntry(op))
      return std::nullopt;
    if (auto attention = dyn_cast<AttentionOp>(op))
      return CachedShape{attention.getNumKvHeads(), attention.getHeadDim()};
    if (auto latent = dyn_cast<LatentAttentionOp>(op))
      return CachedShape{1, latent.getDims().cachedDim(), latent.getDims().rank};
    int64_t size = stateSize(op);
    return size ? std::optional(CachedShape{1, size, 0, /*isState=*/true}) : std::nullopt;
  }

  // f32 numbers that `op` keeps; 0 where it is no op with a state.
  static int64_t stateSize(Operation *op) {
    if (auto conv = dyn_cast<CausalConvOp>(op))
      return conv.getStateSize();
    auto attention = dyn_cast<LinearAttentionOp>(op);
    return attention ? attention.getStateSize() : 0;
  }

  // What each function that attends or keeps a state has in the caches, in the order of its ops.
  using ShapesOf = llvm::MapVector<Operation *, SmallVector<CachedShape, 2>>;

  // Ops with a state are parts of one, one behind the other; attention of a layer is of one shape.
  LogicalResult addShape(Operation *op, const CachedShape &shape, ShapesOf &shapesOf, RaggedCaches &caches) {
    SmallVector<CachedShape, 2> &known = shapesOf[op->getParentOfType<func::FuncOp>()];
    auto *same = llvm::find_if(known, [&](const CachedShape &other) { return other.isState == shape.isState; });
    if (same == known.end()) {
      known.push_back(shape);
    } else if (shape.isState) {
      caches.stateOffsets[op] = same->headDim;
      same->headDim += shape.headDim;
    } else if (!(*same == shape)) {
      return op->emitError("a layer must have one num_kv_heads and head_dim: ")
             << textOf(shape) << " after " << textOf(*same);
    }
    return success();
  }

  // A cache for the layers of each shape, one behind the other in a page, with a place for each call of a layer: equal layers may be one
  // function already. `others`: functions that do not use them.
  LogicalResult findCaches(func::FuncOp forward, Type element, const DenseSet<Operation *> &others,
                           RaggedCaches &caches) {
    ShapesOf shapesOf;
    WalkResult walk = getOperation().walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (others.contains(op))
        return WalkResult::skip();
      std::optional<CachedShape> shape = cachedShape(op);
      return shape && failed(addShape(op, *shape, shapesOf, caches)) ? WalkResult::interrupt() : WalkResult::advance();
    });
    if (walk.wasInterrupted())
      return failure();
    SmallVector<std::pair<CachedShape, int64_t>> layersOf;
    auto layersWith = [&](const CachedShape &shape) {
      auto *known = llvm::find_if(layersOf, [&](const auto &layers) { return layers.first == shape; });
      return known == layersOf.end() ? &layersOf.emplace_back(shape, 0) : known;
    };
    for (const auto &[func, shapes] : shapesOf)
      for (const CachedShape &shape : shapes)
        layersWith(shape);
    if (hasSources && layersOf.size() > 1)
      return forward.emitError("all layers behind an encoder must have the same num_kv_heads and head_dim: ")
             << textOf(layersOf[1].first) << " after " << textOf(layersOf.front().first);
    for (auto call : forward.getOps<func::CallOp>())
      for (const CachedShape &shape : shapesOf.lookup(getOperation().lookupSymbol(call.getCallee())))
        layersWith(shape)->second += shape.isState || !sharedFrom(call);
    int64_t begin = 0;
    for (const auto &[shape, layers] : layersOf) {
      // What nobody calls is refused, or dead; its type is a type all the same.
      auto type = KvCacheType::get(&getContext(), std::max<int64_t>(1, layers), shape.heads, shape.headDim,
                                   shape.isState ? Float32Type::get(&getContext()) : element, shape.latent,
                                   /*cross=*/false, begin, shape.isState);
      begin = type.getEndBytes();
      caches.own.push_back(type);
    }
    for (const auto &[func, shapes] : shapesOf)
      for (const CachedShape &shape : shapes)
        caches.ofLayer[func].push_back(caches.own[layersWith(shape) - layersOf.begin()]);
    return success();
  }

  // What the encoder gives is what its decoder takes: keys and values of each layer that attends to the source.
  FailureOr<KvCacheType> crossType(func::FuncOp encoder, func::FuncOp forward, Type element) {
    SmallVector<Type> given = llvm::filter_to_vector(encoder.getResultTypes(), [](Type type) { return isHeads(type); });
    SmallVector<Type> taken(forward.getArgumentTypes().drop_front(2));
    if (given.empty() || given.size() % 2 || given != taken || !llvm::all_equal(given))
      return forward.emitError("takes ") << taken.size() << " keys and values of a source, and @"
                                         << encoder.getSymName() << " gives " << given.size()
                                         << ": expected a pair of one shape for each layer that attends to it";
    auto type = cast<RankedTensorType>(given.front());
    return KvCacheType::get(&getContext(), given.size() / 2, type.getDimSize(1), type.getDimSize(3), element,
                            /*latent=*/0, /*cross=*/true, /*begin=*/0, /*state=*/false);
  }

  // Tokens that a layer's attention sees; 0: all.
  int64_t reachOf(func::FuncOp layer) {
    int64_t reach = 0;
    layer.walk([&](AttentionOp op) {
      if (!attendsToSource(op))
        reach = op.getMask().getReach();
    });
    return reach;
  }

  // Tokens that each layer sees, in the order of a page, 0: all; nothing where no layer has a window.
  void noteWindows(func::FuncOp forward, const RaggedCaches &caches) {
    llvm::MapVector<KvCacheType, SmallVector<int64_t>> windowsOf;
    for (KvCacheType cache : caches.own)
      windowsOf[cache] = {};
    DenseMap<Operation *, size_t> places; // of the layers that append, in the windows of their cache
    for (auto call : forward.getOps<func::CallOp>()) {
      auto callee = getOperation().lookupSymbol<func::FuncOp>(call.getCallee());
      for (KvCacheType cache : caches.ofLayer.lookup(callee)) {
        SmallVector<int64_t> &windows = windowsOf[cache];
        if (cache.isState()) {
          windows.push_back(stateReach);
          continue;
        }
        int64_t reach = reachOf(callee);
        if (auto place = places.find(sharedFrom(call)); place != places.end()) {
          int64_t &window = windows[place->second];
          window = window && reach ? std::max(window, reach) : 0;
          continue;
        }
        places[call] = windows.size();
        windows.push_back(reach);
      }
    }
    SmallVector<int64_t> windows;
    for (const auto &[cache, ofCache] : windowsOf)
      llvm::append_range(windows, ofCache);
    if (llvm::any_of(windows, [](int64_t window) { return window != 0; }))
      getOperation()->setAttr(kvWindowsAttr, DenseI64ArrayAttr::get(&getContext(), windows));
  }

  // Whether all attention is causal, or none is; one of each has no entry that computes both. `others`: functions of another entry.
  FailureOr<bool> attendsCausally(const DenseSet<Operation *> &others) {
    std::optional<bool> isCausal;
    WalkResult walk = getOperation().walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (others.contains(op))
        return WalkResult::skip();
      auto attention = dyn_cast<AttentionOp>(op);
      auto latent = dyn_cast<LatentAttentionOp>(op);
      if (isInGraphEntry(op) || !readsPast(op) || attendsToSource(op))
        return WalkResult::advance();
      bool causal = attention ? attention.getMask().getCausal() : !latent || latent.getMask().getCausal();
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

  // Tokens that one with a state sees: itself, and the one whose state it continues.
  static constexpr int64_t stateReach = 2;

  void runInStage() override {
    ModuleOp module = getOperation();
    auto forward = module.lookupSymbol<func::FuncOp>("forward");
    auto encoder = module.lookupSymbol<func::FuncOp>("forward_encoder");
    if (!forward && !encoder && !graphEntries(module).empty())
      return;
    if (!forward && !encoder) {
      module.emitError("has no function @forward");
      return signalPassFailure();
    }
    bool isAlone = !forward;
    if (isAlone)
      forward = std::exchange(encoder, {});
    hasSources = bool(encoder);
    DenseSet<Operation *> ofEncoder;
    if (encoder)
      ofEncoder = functionsOf(encoder);
    FailureOr<bool> isStep = isAlone ? FailureOr<bool>(false) : attendsCausally(ofEncoder);
    if (failed(isStep))
      return signalPassFailure();
    if (encoder && !*isStep) {
      forward.emitError("attends to tokens ahead, which the decoder of an encoder-decoder does not");
      return signalPassFailure();
    }
    RaggedCaches ofForward, ofOthers;
    LinearOp head;
    if (*isStep) {
      FailureOr<Type> element = storedType();
      if (failed(element))
        return signalPassFailure();
      if (failed(findCaches(forward, *element, ofEncoder, ofForward)))
        return signalPassFailure();
      if (encoder) {
        FailureOr<KvCacheType> cross = crossType(encoder, forward, *element);
        if (failed(cross))
          return signalPassFailure();
        ofForward.cross = ofOthers.cross = *cross;
      }
      noteWindows(forward, ofForward);
      head = findHead(forward);
    }
    // Once rows are flat, types do not say any more what they belong to.
    func::FuncOp encode = encoder ? encoder : *isStep ? func::FuncOp() : forward;
    SmallVector<EncodeOutput> outputs;
    if (encode)
      outputs = outputsOf(encode);
    for (auto func : llvm::make_early_inc_range(module.getOps<func::FuncOp>())) {
      bool isEntry = func == forward || func == encoder;
      const RaggedCaches &caches = ofEncoder.contains(func) ? ofOthers : ofForward;
      if (!isGraphEntry(func) && failed(RaggedRewriter(func, caches, head).run(isEntry)))
        return signalPassFailure();
    }
    if (encode)
      setOutputs(encode, ArrayRef(outputs).take_front(encode.getNumResults()));
    forward.setName(*isStep ? "step" : "encode");
    if (encoder)
      encoder.setName("encode");
  }

  bool hasSources = false;
};

} // namespace
