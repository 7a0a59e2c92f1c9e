// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Nothing but attention needs to know which sequence a row belongs to: everything else is computed for each row alone, and loses its
// batch dimension. Attention reads a cache, or is told the sequences.

#include "compiler/optimize/RaggedRewriter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace heddle;

static constexpr int64_t dynamic = ShapedType::kDynamic;

bool heddle::runsAttention(func::CallOp call) {
  auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(call, call.getCalleeAttr());
  return callee && !(callee.getOps<AttentionOp>().empty() && callee.getOps<LatentAttentionOp>().empty());
}

bool heddle::isOfSource(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.getRank() == 4;
}

bool heddle::isOfSource(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  return argument && argument.getArgNumber() >= 2 && isOfSource(argument.getType());
}

// The type of a (batch, sequence, …) or (batch, heads, sequence, head_dim) tensor when rows take the place of both: (rows, …),
// and (1, heads, rows, head_dim).
static RankedTensorType raggedType(RankedTensorType type) {
  SmallVector<int64_t> shape(type.getShape());
  if (type.getRank() >= 2 && shape[0] == dynamic && shape[1] == dynamic && type.getRank() <= 3)
    shape.erase(shape.begin());
  else if (type.getRank() == 4 && shape[0] == dynamic)
    shape[0] = 1;
  return type.clone(shape);
}

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

LogicalResult RaggedRewriter::beginAttention(Operation *op) {
  if (hasAttention)
    return op->emitError("a layer function may hold one attention");
  if (!layer)
    return op->emitError("attention must lie in a layer function that @forward calls");
  hasAttention = true;
  return success();
}

// What is appended, and seen again, is the latent and the rotary key.
LogicalResult RaggedRewriter::rewriteLatentAttention(LatentAttentionOp op) {
  if (!isStep())
    return op.emitError("latent attention is computed over a cache, which an encode has not");
  if (failed(beginAttention(op)))
    return failure();
  Location loc = op.getLoc();
  Value latent = map.lookup(op.getLatent()), rope = op.getKeyRope() ? map.lookup(op.getKeyRope()) : Value();
  KvAppendOp::create(b, loc, cache, toRows(loc, latent), rope ? toRows(loc, rope) : Value(), layer);
  auto viewType = [&](int64_t width) {
    return RankedTensorType::get({1, 1, dynamic, width}, cacheType.getValueType());
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

AttentionOp RaggedRewriter::attend(AttentionOp op, Value keys, Value values) {
  Value sinks = op.getSinks() ? map.lookup(op.getSinks()) : Value();
  // What depends on the distance alone is computed where a sequence's keys are met; no other bias has rows.
  auto distances = op.getBias() ? op.getBias().getDefiningOp<PositionBiasOp>() : PositionBiasOp();
  Value given = distances ? distances.getTable() : op.getPositions();
  Value positions = given ? map.lookup(given) : Value();
  DenseI64ArrayAttr starts = op.getStartsAttr(), rows = op.getRowsAttr();
  if (distances) {
    starts = distances.getStartsAttr();
    rows = distances.getRowsAttr();
  }
  Value globals = op.getGlobals() ? map.lookup(op.getGlobals()) : Value();
  auto globalOperands = llvm::map_to_vector(op.getGlobalOperands(), [&](Value heads) { return map.lookup(heads); });
  auto attention = AttentionOp::create(b, op.getLoc(), raggedType(op.getResult().getType()), map.lookup(op.getQuery()),
                                       keys, values, Value(), positions, sinks, sequences, globals, globalOperands,
                                       op.getMaskAttr(), op.getScaleAttr(), op.getSoftcapAttr(), starts, rows);
  map.map(op.getResult(), attention.getResult());
  return attention;
}

// Keys and values of the layer.
KvViewOp RaggedRewriter::view(Location loc, KvCacheType type, Value cache) {
  auto viewType = RankedTensorType::get({1, type.getNumKvHeads(), dynamic, type.getHeadDim()}, type.getValueType());
  return KvViewOp::create(b, loc, viewType, viewType, cache, layer);
}

LogicalResult RaggedRewriter::rewriteAttention(AttentionOp op) {
  if (isStep() && crossType && isOfSource(op.getKey()))
    return rewriteCrossAttention(op);
  if (op.getBias() && !op.getBias().getDefiningOp<PositionBiasOp>())
    return op.emitError("a bias of scores has no form on the rows of a ragged batch unless it is a position_bias");
  Location loc = op.getLoc();
  Value k = map.lookup(op.getKey()), v = map.lookup(op.getValue());
  if (!isStep()) {
    attend(op, k, v);
    return success();
  }
  if (op.getPositions())
    return op.emitError("reads what tokens give for distances, which those in a cache have not given");
  if (op.getGlobals())
    return op.emitError(
        "has global tokens, which see all: some are not there yet where tokens are computed step by step");
  if (failed(beginAttention(op)))
    return failure();
  KvAppendOp::create(b, loc, cache, toRows(loc, k), toRows(loc, v), layer);
  KvViewOp seen = view(loc, cacheType, cache);
  attend(op, seen.getKey(), seen.getValue());
  return success();
}

// A source was encoded whole: a token sees all of it.
LogicalResult RaggedRewriter::rewriteCrossAttention(AttentionOp op) {
  auto values = isOfSource(op.getValue()) ? cast<BlockArgument>(op.getValue()) : BlockArgument();
  if (!values || values.getArgNumber() != cast<BlockArgument>(op.getKey()).getArgNumber() + 1)
    return op.emitError("keys of a source go with the values behind them");
  if (op.getMask().getCausal() || op.getMask().getWindow() || op.getBias())
    return op.emitError("a source is seen whole, without a mask or a bias");
  if (attendsToSource || !layer)
    return op.emitError("a layer function, and only one, may hold one attention to a source");
  attendsToSource = true;
  KvViewOp seen = view(op.getLoc(), crossType, cross);
  attend(op, seen.getKey(), seen.getValue());
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
static int64_t layerIndex(func::CallOp op) {
  int64_t index = 0;
  for (Operation &before : *op->getBlock()) {
    if (&before == op)
      break;
    if (auto call = dyn_cast<func::CallOp>(before))
      index += runsAttention(call);
  }
  return index;
}

// The keys and values that a call passes are in the cache of sources: those of the layer's index.
static LogicalResult checkSources(func::CallOp op, int64_t layer) {
  for (Value operand : op.getOperands().drop_front(2)) {
    if (!isOfSource(operand.getType()))
      continue;
    if (!isOfSource(operand))
      return op.emitError("passes keys or values of a source that are no argument of @forward");
    int64_t number = cast<BlockArgument>(operand).getArgNumber() - 2; // behind ids and positions
    if (number / 2 != layer)
      return op.emitError("runs attention layer ")
             << layer << " with keys or values " << number / 2 << " of the source: expected those of its index";
  }
  return success();
}

LogicalResult RaggedRewriter::rewriteCall(func::CallOp op) {
  SmallVector<Value> operands;
  int64_t index = layerIndex(op);
  if (crossType && isStep() && failed(checkSources(op, index)))
    return failure();
  for (Value operand : op.getOperands())
    if (!isCached(operand))
      operands.push_back(map.lookup(operand));
  SmallVector<Value> extra = {sequences};
  if (isStep()) {
    extra = {cache, arith::ConstantIndexOp::create(b, op.getLoc(), index)};
    if (cross)
      extra.push_back(cross);
  }
  operands.insert(operands.begin() + 2, extra.begin(), extra.end());
  SmallVector<Type> results;
  for (Type type : op.getResultTypes())
    results.push_back(raggedType(cast<RankedTensorType>(type)));
  auto call = func::CallOp::create(b, op.getLoc(), op.getCallee(), results, operands);
  map.map(op.getResults(), call.getResults());
  return success();
}

void RaggedRewriter::rewriteRope(RopeOp op) {
  Value positions = map.lookup(op.getPositions());
  auto grid = RankedTensorType::get({1, dynamic}, b.getI32Type());
  SmallVector<OpFoldResult> sizes = {b.getIndexAttr(1),
                                     tensor::DimOp::create(b, op.getLoc(), positions, 0).getResult()};
  Value expanded =
      tensor::ExpandShapeOp::create(b, op.getLoc(), grid, positions, SmallVector<ReassociationIndices>{{0, 1}}, sizes);
  Value input = map.lookup(op.getInput());
  map.map(op.getResult(),
          RopeOp::create(b, op.getLoc(), input.getType(), input, expanded, Value(), op.getRope(), op.getOffset())
              .getResult());
}

// One number for every element of a (batch, sequence, features) tensor, whose sizes it was made with: as many as that has rows.
void RaggedRewriter::rewriteSplat(tensor::SplatOp op) {
  auto size = op.getDynamicSizes().front().getDefiningOp<tensor::DimOp>();
  Value rows = tensor::DimOp::create(b, op.getLoc(), map.lookup(size.getSource()), 0);
  SmallVector<OpFoldResult> sizes = {rows, b.getIndexAttr(op.getType().getShape().back())};
  map.map(op.getResult(),
          tensor::SplatOp::create(b, op.getLoc(), map.lookupOrDefault(op.getInput()), sizes).getResult());
}

void RaggedRewriter::rewriteColumns(tensor::ExtractSliceOp op) {
  Value input = map.lookup(op.getSource());
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, op.getLoc(), input), offsets = op.getMixedOffsets();
  sizes.back() = op.getMixedSizes().back();
  offsets.erase(offsets.begin());
  SmallVector<OpFoldResult> strides(sizes.size(), b.getIndexAttr(1));
  map.map(op.getResult(),
          tensor::ExtractSliceOp::create(b, op.getLoc(), raggedType(op.getType()), input, offsets, sizes, strides)
              .getResult());
}

// The first token of every sequence, (batch, features): an encode names these rows.
LogicalResult RaggedRewriter::rewriteFirstTokens(tensor::ExtractSliceOp op) {
  if (isStep() || !outputRows || op.isDynamicOffset(1) || op.getStaticOffset(1) != 0 ||
      op.getType().getShape().back() != op.getSourceType().getShape().back())
    return op.emitError("takes some tokens out of their sequences: only an encode can, and only whole first ones");
  Value rows = map.lookup(op.getSource());
  map.map(op.getResult(),
          EmbeddingOp::create(b, op.getLoc(), op.getType(), outputRows, rows, b.getF64FloatAttr(1.0)).getResult());
  return success();
}

LogicalResult RaggedRewriter::rewrite(Operation *op) {
  if (isa<tensor::EmptyOp, tensor::DimOp>(op))
    return success(); // made anew where they are needed
  if (isa<PositionBiasOp>(op)) {
    if (!llvm::all_of(op->getUsers(), llvm::IsaPred<AttentionOp>))
      return op->emitError("is computed in attention alone, where rows are those of a ragged batch");
    return success();
  }
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
    rewriteRope(rope);
    return success();
  }
  if (auto splat = dyn_cast<tensor::SplatOp>(op)) {
    rewriteSplat(splat);
    return success();
  }
  if (auto concat = dyn_cast<tensor::ConcatOp>(op); concat && concat.getType().getRank() == 3) {
    auto parts = llvm::map_to_vector(concat.getInputs(), [&](Value part) { return map.lookup(part); });
    if (concat.getDim() != 2)
      return op->emitError("puts tokens behind one another, which are those of a sequence");
    map.map(op->getResult(0), tensor::ConcatOp::create(b, op->getLoc(), raggedType(concat.getType()), 1, parts));
    return success();
  }
  if (auto slice = dyn_cast<tensor::ExtractSliceOp>(op)) {
    if (slice.getSourceType().getRank() == 3 && slice.getType().getRank() == 2)
      return rewriteFirstTokens(slice);
    rewriteColumns(slice);
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

// The arguments that attention needs come behind the first two, what is computed on and positions. Those of a source are in a cache.
Block *RaggedRewriter::beginBlock(bool isEntry, SmallVectorImpl<Type> &inputs) {
  Block &old = func.front();
  Block *block = b.createBlock(&func.getBody(), func.getBody().end());
  auto add = [&](Type type) { return block->addArgument(type, func.getLoc()); };
  for (BlockArgument argument : old.getArguments()) {
    if (argument.getArgNumber() == 2)
      addExtra(isEntry, add);
    if (!isCached(argument))
      map.map(argument, add(raggedType(cast<RankedTensorType>(argument.getType()))));
  }
  if (old.getNumArguments() == 2)
    addExtra(isEntry, add);
  llvm::append_range(inputs, block->getArgumentTypes());
  return block;
}

void RaggedRewriter::addExtra(bool isEntry, function_ref<Value(Type)> add) {
  if (isEntry)
    outputRows = add(RankedTensorType::get({dynamic}, b.getI32Type()));
  if (!isStep())
    sequences = add(RankedTensorType::get({dynamic, 2}, b.getI32Type()));
  else
    cache = add(cacheType);
  if (isStep() && !isEntry)
    layer = add(b.getIndexType());
  if (crossType && (isEntry || isStep()))
    cross = add(crossType);
}

// Keys and values of the source are no results of an encode: it appends them, each pair once it is there.
void RaggedRewriter::appendSources(Operation *end) {
  SmallVector<Value> kept, ofSource;
  for (Value result : end->getOperands())
    (isOfSource(result.getType()) ? ofSource : kept).push_back(result);
  for (size_t layer = 0; layer < ofSource.size() / 2; ++layer) {
    Value key = ofSource[2 * layer], value = ofSource[2 * layer + 1];
    bool isValueLast = key.getDefiningOp()->isBeforeInBlock(value.getDefiningOp());
    b.setInsertionPointAfterValue(isValueLast ? value : key);
    Location loc = key.getLoc();
    Value keyRows = toRows(loc, key), valueRows = toRows(value.getLoc(), value);
    KvAppendOp::create(b, loc, cross, keyRows, valueRows, arith::ConstantIndexOp::create(b, loc, layer));
  }
  end->setOperands(kept);
}

LogicalResult RaggedRewriter::run(bool isEntry) {
  Block &old = func.front();
  if (old.getNumArguments() < 2)
    return func.emitError("takes ") << old.getNumArguments()
                                    << " arguments, expected at least 2: what it computes on and positions";
  for (Type type : old.getArgumentTypes())
    if (!isa<RankedTensorType>(type))
      return func.emitError("arguments must be ranked tensors, got ") << type;
  SmallVector<Type> inputs;
  Block *block = beginBlock(isEntry, inputs);
  bool hasLogits = isEntry && isStep();
  for (Operation &op : old) {
    if (hasLogits && &op == head && failed(selectOutputs()))
      return failure();
    if (failed(rewrite(&op)))
      return failure();
  }
  if (hasLogits && !lastHiddenState)
    return func.emitError("has no head that computes logits: a product behind the last layer");
  if (hasLogits)
    block->getTerminator()->insertOperands(1, lastHiddenState);
  else if (isEntry && crossType)
    appendSources(block->getTerminator());
  func.setType(b.getFunctionType(inputs, block->getTerminator()->getOperandTypes()));
  old.erase();
  return success();
}
