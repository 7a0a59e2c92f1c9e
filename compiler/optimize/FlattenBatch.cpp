// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/optimize/Passes.h"
#include "dialect/Entries.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"

namespace heddle {
#define GEN_PASS_DEF_MATERIALIZEKVCACHE
#include "compiler/optimize/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

namespace {

constexpr int64_t dynamic = ShapedType::kDynamic;

// Whether the call runs a layer that needs its place in the cache.
bool runsAttention(func::CallOp call) {
  auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(call, call.getCalleeAttr());
  return callee && !(callee.getOps<AttentionOp>().empty() && callee.getOps<LatentAttentionOp>().empty());
}

// The first product behind the last layer: with it logits begin, also where a second product or a softcap follows.
LinearOp findHead(func::FuncOp forward) {
  LinearOp head;
  for (Operation &op : forward.front()) {
    if (auto call = dyn_cast<func::CallOp>(op); call && runsAttention(call))
      head = {};
    else if (!head)
      head = dyn_cast<LinearOp>(op);
  }
  return head;
}

// The type of a (batch, sequence, …) or (batch, heads, sequence, head_dim) tensor when rows take the place of both: (rows, …),
// and (1, heads, rows, head_dim).
RankedTensorType raggedType(RankedTensorType type) {
  SmallVector<int64_t> shape(type.getShape());
  if (type.getRank() >= 2 && shape[0] == dynamic && shape[1] == dynamic && type.getRank() <= 3)
    shape.erase(shape.begin());
  else if (type.getRank() == 4 && shape[0] == dynamic)
    shape[0] = 1;
  return type.clone(shape);
}

// Rewrites one function; the layer functions get the cache and their layer index after the positions.
class RaggedRewriter {
public:
  // `head`: where @forward starts to compute logits.
  RaggedRewriter(func::FuncOp func, KvCacheType cacheType, LinearOp head)
      : func(func), b(func.getContext()), cacheType(cacheType), head(head) {}

  LogicalResult run(bool isStep);

private:
  LogicalResult rewrite(Operation *op);
  // Checks that `op` can be computed step by step; it is then the layer's one attention.
  LogicalResult beginAttention(Operation *op, MaskAttr mask, bool hasBias);
  LogicalResult rewriteAttention(AttentionOp op);
  LogicalResult rewriteLatentAttention(LatentAttentionOp op);
  LogicalResult rewriteCall(func::CallOp op);
  void rewriteExpand(tensor::ExpandShapeOp op);
  void rewriteCollapse(tensor::CollapseShapeOp op);
  Value transpose(Location loc, Value input, ArrayRef<int64_t> permutation);
  // (1, heads, rows, head_dim) -> (rows, heads * head_dim)
  Value toRows(Location loc, Value heads);
  LogicalResult selectOutputs();

  func::FuncOp func;
  OpBuilder b;
  KvCacheType cacheType;
  LinearOp head;
  IRMapping map;
  Value cache, layer, outputRows, lastHiddenState;
  bool hasAttention = false;
};

} // namespace

Value RaggedRewriter::transpose(Location loc, Value input, ArrayRef<int64_t> permutation) {
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, loc, input), permuted;
  for (int64_t axis : permutation)
    permuted.push_back(sizes[axis]);
  Value init = tensor::EmptyOp::create(b, loc, permuted, cast<RankedTensorType>(input.getType()).getElementType());
  return linalg::TransposeOp::create(b, loc, input, init, permutation).getResult()[0];
}

Value RaggedRewriter::toRows(Location loc, Value heads) {
  Value rows = transpose(loc, heads, {0, 2, 1, 3});
  auto type = cast<RankedTensorType>(rows.getType());
  auto flat = type.clone({dynamic, type.getDimSize(2) * type.getDimSize(3)});
  return tensor::CollapseShapeOp::create(b, loc, flat, rows, SmallVector<ReassociationIndices>{{0, 1}, {2, 3}});
}

LogicalResult RaggedRewriter::beginAttention(Operation *op, MaskAttr mask, bool hasBias) {
  if (!mask.getCausal() || hasBias)
    return op->emitError("only causal attention without bias can be computed step by step");
  if (hasAttention)
    return op->emitError("a layer function may hold one attention");
  if (!layer)
    return op->emitError("attention must lie in a layer function that @forward calls");
  hasAttention = true;
  return success();
}

// What is appended, and seen again, is the latent and the rotary key.
LogicalResult RaggedRewriter::rewriteLatentAttention(LatentAttentionOp op) {
  if (failed(beginAttention(op, op.getMask(), false)))
    return failure();
  Location loc = op.getLoc();
  Value latent = map.lookup(op.getLatent()), rope = op.getKeyRope() ? map.lookup(op.getKeyRope()) : Value();
  KvAppendOp::create(b, loc, cache, toRows(loc, latent), rope ? toRows(loc, rope) : Value(), layer);
  auto viewType = [&](int64_t width) {
    return RankedTensorType::get({1, 1, dynamic, width}, cacheType.getElementType());
  };
  auto view =
      KvViewOp::create(b, loc, viewType(cacheType.getKeyDim()), viewType(cacheType.getValueDim()), cache, layer);
  auto lookUp = [&](OperandRange values) {
    return llvm::map_to_vector(values, [&](Value value) { return map.lookup(value); });
  };
  auto attention = LatentAttentionOp::create(b, loc, raggedType(cast<RankedTensorType>(op.getResult().getType())),
                                             map.lookup(op.getQuery()), view.getKey(), rope ? view.getValue() : Value(),
                                             lookUp(op.getKeyUps()), lookUp(op.getValueUps()), op.getMaskAttr(),
                                             op.getScaleAttr(), op.getFormAttr());
  map.map(op.getResult(), attention.getResult());
  return success();
}

LogicalResult RaggedRewriter::rewriteAttention(AttentionOp op) {
  if (failed(beginAttention(op, op.getMask(), bool(op.getBias()))))
    return failure();
  Location loc = op.getLoc();
  Value q = map.lookup(op.getQuery()), k = map.lookup(op.getKey()), v = map.lookup(op.getValue());
  KvAppendOp::create(b, loc, cache, toRows(loc, k), toRows(loc, v), layer);
  auto viewType = RankedTensorType::get({1, cacheType.getNumKvHeads(), dynamic, cacheType.getHeadDim()},
                                        cacheType.getElementType());
  auto view = KvViewOp::create(b, loc, viewType, viewType, cache, layer);
  Value sinks = op.getSinks() ? map.lookup(op.getSinks()) : Value();
  auto attention = AttentionOp::create(b, loc, raggedType(op.getResult().getType()), q, view.getKey(), view.getValue(),
                                       Value(), sinks, op.getMaskAttr(), op.getScaleAttr(), op.getSoftcapAttr());
  map.map(op.getResult(), attention.getResult());
  return success();
}

void RaggedRewriter::rewriteExpand(tensor::ExpandShapeOp op) {
  // (batch, sequence, heads * head_dim) -> (batch, sequence, heads, head_dim)
  Value input = map.lookup(op.getSrc());
  auto type = cast<RankedTensorType>(op.getResult().getType());
  Value rows = tensor::DimOp::create(b, op.getLoc(), input, 0);
  SmallVector<OpFoldResult> sizes = {b.getIndexAttr(1), rows, b.getIndexAttr(type.getDimSize(2)),
                                     b.getIndexAttr(type.getDimSize(3))};
  Value expanded = tensor::ExpandShapeOp::create(b, op.getLoc(), raggedType(type), input,
                                                 SmallVector<ReassociationIndices>{{0, 1}, {2, 3}}, sizes);
  map.map(op.getResult(), expanded);
}

void RaggedRewriter::rewriteCollapse(tensor::CollapseShapeOp op) {
  Value collapsed =
      tensor::CollapseShapeOp::create(b, op.getLoc(), raggedType(cast<RankedTensorType>(op.getResult().getType())),
                                      map.lookup(op.getSrc()), SmallVector<ReassociationIndices>{{0, 1}, {2, 3}});
  map.map(op.getResult(), collapsed);
}

// A layer's index in the cache is the number of attention layers called before it.
LogicalResult RaggedRewriter::rewriteCall(func::CallOp op) {
  SmallVector<Value> operands;
  for (Value operand : op.getOperands())
    operands.push_back(map.lookup(operand));
  int64_t index = 0;
  for (Operation &before : *op->getBlock()) {
    if (&before == op)
      break;
    if (auto call = dyn_cast<func::CallOp>(before))
      index += runsAttention(call);
  }
  Value indexValue = arith::ConstantIndexOp::create(b, op.getLoc(), index);
  operands.insert(operands.begin() + 2, {cache, indexValue});
  SmallVector<Type> results;
  for (Type type : op.getResultTypes())
    results.push_back(raggedType(cast<RankedTensorType>(type)));
  auto call = func::CallOp::create(b, op.getLoc(), op.getCallee(), results, operands);
  map.map(op.getResults(), call.getResults());
  return success();
}

LogicalResult RaggedRewriter::rewrite(Operation *op) {
  if (isa<tensor::EmptyOp, tensor::DimOp>(op))
    return success(); // made anew where they are needed
  if (auto attention = dyn_cast<AttentionOp>(op))
    return rewriteAttention(attention);
  if (auto attention = dyn_cast<LatentAttentionOp>(op))
    return rewriteLatentAttention(attention);
  if (auto call = dyn_cast<func::CallOp>(op))
    return rewriteCall(call);
  if (auto expand = dyn_cast<tensor::ExpandShapeOp>(op)) {
    rewriteExpand(expand);
    return success();
  }
  if (auto collapse = dyn_cast<tensor::CollapseShapeOp>(op)) {
    rewriteCollapse(collapse);
    return success();
  }
  if (auto transposed = dyn_cast<linalg::TransposeOp>(op)) {
    map.map(op->getResult(0), transpose(op->getLoc(), map.lookup(transposed.getInput()), transposed.getPermutation()));
    return success();
  }
  if (auto rope = dyn_cast<RopeOp>(op)) {
    Value positions = map.lookup(rope.getPositions());
    auto grid = RankedTensorType::get({1, dynamic}, b.getI32Type());
    SmallVector<OpFoldResult> sizes = {b.getIndexAttr(1),
                                       tensor::DimOp::create(b, op->getLoc(), positions, 0).getResult()};
    Value expanded = tensor::ExpandShapeOp::create(b, op->getLoc(), grid, positions,
                                                   SmallVector<ReassociationIndices>{{0, 1}}, sizes);
    Value input = map.lookup(rope.getInput());
    map.map(rope.getResult(),
            RopeOp::create(b, op->getLoc(), input.getType(), input, expanded, Value(), rope.getRope(), rope.getOffset())
                .getResult());
    return success();
  }
  if (auto slice = dyn_cast<tensor::ExtractSliceOp>(op)) {
    Value input = map.lookup(slice.getSource());
    SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, op->getLoc(), input), offsets = slice.getMixedOffsets();
    sizes.back() = slice.getMixedSizes().back();
    offsets.erase(offsets.begin());
    SmallVector<OpFoldResult> strides(sizes.size(), b.getIndexAttr(1));
    map.map(slice.getResult(),
            tensor::ExtractSliceOp::create(b, op->getLoc(), raggedType(slice.getType()), input, offsets, sizes, strides)
                .getResult());
    return success();
  }
  // Everything else works on the last dimension, or on one value at a time.
  Operation *clone = b.clone(*op, map);
  for (OpResult result : clone->getResults())
    if (auto type = dyn_cast<RankedTensorType>(result.getType()))
      result.setType(raggedType(type));
  return success();
}

// From the head on only the wanted rows are computed: whatever was computed before and is read there gives these rows. The head's
// input, for all rows, is the last hidden state.
LogicalResult RaggedRewriter::selectOutputs() {
  lastHiddenState = map.lookup(head.getInput());
  for (Operation *op = head; op; op = op->getNextNode())
    for (Value value : op->getOperands()) {
      Operation *def = value.getDefiningOp();
      bool isBefore = !def || def->isBeforeInBlock(head);
      if (isBefore && isa_and_present<tensor::DimOp>(def))
        return op->emitError("behind the head uses a size from before it, where there are more rows");
      auto type = dyn_cast<RankedTensorType>(value.getType());
      if (!isBefore || !type || raggedType(type) == type)
        continue;
      if (type.getRank() != 3)
        return op->emitError("behind the head uses ") << type << " from before it, of which no rows can be selected";
      Value rows = map.lookup(value);
      if (rows.getDefiningOp<EmbeddingOp>() && cast<EmbeddingOp>(rows.getDefiningOp()).getIds() == outputRows)
        continue;
      auto selected = EmbeddingOp::create(b, head.getLoc(), rows.getType(), outputRows, rows, b.getF64FloatAttr(1.0));
      map.map(value, selected.getResult());
    }
  return success();
}

LogicalResult RaggedRewriter::run(bool isStep) {
  Block &old = func.front();
  if (old.getNumArguments() < 2)
    return func.emitError("takes ") << old.getNumArguments()
                                    << " arguments, expected at least 2: what it computes on and positions";
  SmallVector<Type> inputs, results;
  for (Type type : old.getArgumentTypes()) {
    auto tensorType = dyn_cast<RankedTensorType>(type);
    if (!tensorType)
      return func.emitError("arguments must be ranked tensors, got ") << type;
    inputs.push_back(raggedType(tensorType));
  }
  for (Type type : func.getResultTypes())
    results.push_back(raggedType(cast<RankedTensorType>(type)));
  SmallVector<Type> extra = {cacheType, b.getIndexType()};
  if (isStep)
    extra = {RankedTensorType::get({dynamic}, b.getI32Type()), cacheType};
  inputs.insert(inputs.begin() + 2, extra.begin(), extra.end());

  Block *block =
      b.createBlock(&func.getBody(), func.getBody().end(), inputs, SmallVector<Location>(inputs.size(), func.getLoc()));
  for (BlockArgument argument : old.getArguments())
    map.map(argument, block->getArgument(argument.getArgNumber() + (argument.getArgNumber() < 2 ? 0 : extra.size())));
  cache = block->getArgument(isStep ? 3 : 2);
  (isStep ? outputRows : layer) = block->getArgument(isStep ? 2 : 3);

  for (Operation &op : old) {
    if (isStep && &op == head && failed(selectOutputs()))
      return failure();
    if (failed(rewrite(&op)))
      return failure();
  }
  if (isStep && !lastHiddenState)
    return func.emitError("has no head that computes logits: a product behind the last layer");
  if (isStep) {
    results.push_back(lastHiddenState.getType());
    block->getTerminator()->insertOperands(1, lastHiddenState);
  }
  old.erase();
  func.setType(b.getFunctionType(inputs, results));
  return success();
}

namespace {

struct MaterializeKvCache : heddle::impl::MaterializeKvCacheBase<MaterializeKvCache> {
  using MaterializeKvCacheBase::MaterializeKvCacheBase;

  // The cache has a place for each call of a layer: equal layers may be one function already.
  FailureOr<KvCacheType> cacheType(func::FuncOp forward) {
    ModuleOp module = getOperation();
    Type element = llvm::StringSwitch<Type>(elementType)
                       .Case("f32", Float32Type::get(&getContext()))
                       .Case("bf16", BFloat16Type::get(&getContext()))
                       .Case("f16", Float16Type::get(&getContext()))
                       .Default({});
    if (!element)
      return module.emitError("element-type must be f32, bf16 or f16, got '") << elementType << "'";
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
    if (!heads)
      return module.emitError("has no attention: there is nothing to cache");
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

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto forward = module.lookupSymbol<func::FuncOp>("forward");
    if (!forward && !graphEntries(module).empty())
      return;
    if (!forward) {
      module.emitError("has no function @forward");
      return signalPassFailure();
    }
    FailureOr<KvCacheType> type = cacheType(forward);
    if (failed(type))
      return signalPassFailure();
    noteWindows(forward);
    LinearOp head = findHead(forward);
    for (auto func : llvm::make_early_inc_range(module.getOps<func::FuncOp>()))
      if (!isGraphEntry(func) && failed(RaggedRewriter(func, *type, head).run(func == forward)))
        return signalPassFailure();
    forward.setName("step");
  }
};

} // namespace
