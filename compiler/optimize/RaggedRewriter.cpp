// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Nothing but attention needs to know which sequence a row belongs to: everything else is computed for each row alone, and loses its
// batch dimension. Attention reads a cache, or is told the sequences.

#include "compiler/optimize/RaggedRewriter.h"

#include "dialect/Transposed.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace heddle;

static constexpr int64_t dynamic = ShapedType::kDynamic;

bool heddle::runsAttention(func::CallOp call) {
  auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(call, call.getCalleeAttr());
  return callee && llvm::any_of(callee.getOps(), [](Operation &op) { return readsPast(&op); });
}

// A weight of four dimensions knows all of them.
bool heddle::isHeads(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.getRank() == 4 && !tensor.isDynamicDim(1) && tensor.isDynamicDim(2) &&
         !tensor.isDynamicDim(3);
}

bool heddle::isGivenHeads(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  return argument && argument.getArgNumber() >= 2 && isHeads(argument.getType());
}

static SmallVector<Value> headsBehind(ValueRange values, unsigned first) {
  SmallVector<Value> heads;
  for (auto [index, value] : llvm::enumerate(values))
    if (index >= first && isHeads(value.getType()))
      heads.push_back(value);
  return heads;
}

SmallVector<Value> heddle::headsPassed(func::CallOp call) {
  return headsBehind(call.getOperands(), 2);
}

SmallVector<Value> heddle::headsIn(ValueRange results) {
  return headsBehind(results, 1);
}

func::CallOp heddle::sharedFrom(func::CallOp call) {
  SmallVector<Value> heads = headsPassed(call);
  return heads.empty() ? func::CallOp() : heads.front().getDefiningOp<func::CallOp>();
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

Value RaggedRewriter::toRows(Location loc, Value heads) {
  Value rows = transposed(b, loc, heads, {0, 2, 1, 3});
  auto type = cast<RankedTensorType>(rows.getType());
  auto flat = type.clone({dynamic, type.getDimSize(2) * type.getDimSize(3)});
  return tensor::CollapseShapeOp::create(b, loc, flat, rows, SmallVector<ReassociationIndices>{{0, 1}, {2, 3}});
}

LogicalResult RaggedRewriter::beginAttention(Operation *op) {
  if (hasAttention)
    return op->emitError("a layer function may hold one attention");
  if (!isLayer)
    return op->emitError("attention must lie in a layer function that @forward calls");
  hasAttention = true;
  return success();
}

RaggedRewriter::CachePlace RaggedRewriter::placeOf(bool state) const {
  const auto *place = llvm::find_if(places, [&](const CachePlace &own) { return own.type().isState() == state; });
  assert(place != places.end() && "each op that reads the past has a cache");
  return *place;
}

// What is appended, and seen again, is the latent and the rotary key.
LogicalResult RaggedRewriter::rewriteLatentAttention(LatentAttentionOp op) {
  if (!isStep())
    return op.emitError("latent attention is computed over a cache, which an encode has not");
  if (failed(beginAttention(op)))
    return failure();
  Location loc = op.getLoc();
  Value latent = map.lookup(op.getLatent()), rope = op.getKeyRope() ? map.lookup(op.getKeyRope()) : Value();
  CachePlace place = placeOf(/*state=*/false);
  KvAppendOp::create(b, loc, place.cache, toRows(loc, latent), rope ? toRows(loc, rope) : Value(), place.layer);
  KvCacheType type = place.type();
  auto viewType = [&](int64_t width) { return RankedTensorType::get({1, 1, dynamic, width}, type.getValueType()); };
  auto view =
      KvViewOp::create(b, loc, viewType(type.getKeyDim()), viewType(type.getValueDim()), place.cache, place.layer);
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

// The ops of a layer share its state, in which each has its part.
template <typename Op> LogicalResult RaggedRewriter::rewriteState(Op op) {
  if (!isStep())
    return op.emitError("keeps a state of the tokens before, which an encode has not");
  if (!isLayer)
    return op.emitError("a state must be kept in a layer function that @forward calls");
  auto rows = cast<Op>(b.clone(*op, map));
  rows.getResult().setType(raggedType(cast<RankedTensorType>(op.getResult().getType())));
  CachePlace place = placeOf(/*state=*/true);
  rows.getCacheMutable().assign(place.cache);
  rows.getLayerMutable().assign(place.layer);
  rows.setOffset(caches.stateOffsets.lookup(op));
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
KvViewOp RaggedRewriter::view(Location loc, const CachePlace &place) {
  KvCacheType type = place.type();
  auto viewType = RankedTensorType::get({1, type.getNumKvHeads(), dynamic, type.getHeadDim()}, type.getValueType());
  return KvViewOp::create(b, loc, viewType, viewType, place.cache, place.layer);
}

LogicalResult RaggedRewriter::rewriteAttention(AttentionOp op) {
  if (isStep() && isGivenHeads(op.getKey()))
    return crossType ? rewriteCrossAttention(op) : rewriteSharedAttention(op);
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
  CachePlace place = placeOf(/*state=*/false);
  KvAppendOp::create(b, loc, place.cache, toRows(loc, k), toRows(loc, v), place.layer);
  KvViewOp seen = view(loc, place);
  attend(op, seen.getKey(), seen.getValue());
  return success();
}

// Whether keys and values that a function takes are a pair.
static bool areGivenTogether(AttentionOp op) {
  return isGivenHeads(op.getValue()) &&
         cast<BlockArgument>(op.getValue()).getArgNumber() == cast<BlockArgument>(op.getKey()).getArgNumber() + 1;
}

LogicalResult RaggedRewriter::rewriteSharedAttention(AttentionOp op) {
  if (!areGivenTogether(op))
    return op.emitError("keys of an earlier layer go with the values behind them");
  if (failed(beginAttention(op)))
    return failure();
  KvViewOp seen = view(op.getLoc(), placeOf(/*state=*/false));
  attend(op, seen.getKey(), seen.getValue());
  return success();
}

// A source was encoded whole: a token sees all of it.
LogicalResult RaggedRewriter::rewriteCrossAttention(AttentionOp op) {
  if (!areGivenTogether(op))
    return op.emitError("keys of a source go with the values behind them");
  if (op.getMask().getCausal() || op.getMask().getWindow() || op.getBias())
    return op.emitError("a source is seen whole, without a mask or a bias");
  if (attendsToSource || !isLayer)
    return op.emitError("a layer function, and only one, may hold one attention to a source");
  attendsToSource = true;
  KvViewOp seen = view(op.getLoc(), {cross, places.front().layer});
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

static Operation *calleeOf(func::CallOp call) {
  return SymbolTable::lookupNearestSymbolFrom(call, call.getCalleeAttr());
}

// A layer's index in a cache is the number of layers called before it that append to it, or that of the one whose keys it attends to.
int64_t RaggedRewriter::layerIndex(func::CallOp op, KvCacheType cache) const {
  auto isShared = [&](func::CallOp call) { return !cache.isState() && sharedFrom(call); };
  if (isShared(op))
    return layerIndex(sharedFrom(op), cache);
  int64_t index = 0;
  for (Operation &before : *op->getBlock()) {
    if (&before == op)
      break;
    if (auto call = dyn_cast<func::CallOp>(before))
      index += !isShared(call) && llvm::is_contained(caches.ofLayer.lookup(calleeOf(call)), cache);
  }
  return index;
}

// Keys and values that a call passes are those of one earlier layer, which has appended them itself.
static LogicalResult checkShared(func::CallOp op) {
  func::CallOp from = sharedFrom(op);
  SmallVector<Value> heads = headsPassed(op);
  if (!heads.empty() && (!from || headsIn(from.getResults()) != heads || sharedFrom(from)))
    return op.emitError("passes keys and values that are not those of one earlier layer, in its order");
  return success();
}

// The keys and values that a call passes are in the cache of sources: those of the layer's index.
static LogicalResult checkSources(func::CallOp op, int64_t layer) {
  for (Value operand : headsPassed(op)) {
    if (!isGivenHeads(operand))
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
  SmallVector<KvCacheType> own = isStep() ? cachesOf(calleeOf(op)) : SmallVector<KvCacheType>();
  if (isStep() && failed(crossType ? checkSources(op, layerIndex(op, own.front())) : checkShared(op)))
    return failure();
  SmallVector<Value> passed = cached(headsPassed(op)), given = cached(headsIn(op.getResults()));
  for (auto [number, operand] : llvm::enumerate(op.getOperands()))
    if (number < 2 || !llvm::is_contained(passed, operand))
      operands.push_back(map.lookup(operand));
  SmallVector<Value> extra;
  if (!isStep())
    extra.push_back(sequences);
  for (KvCacheType type : own) {
    const auto *place = llvm::find_if(places, [&](const CachePlace &known) { return known.type() == type; });
    if (place == places.end())
      return op.emitError("is of a layer whose cache has the shape of other layers");
    extra.push_back(place->cache);
    extra.push_back(arith::ConstantIndexOp::create(b, op.getLoc(), layerIndex(op, type)));
  }
  if (isStep() && cross)
    extra.push_back(cross);
  operands.insert(operands.begin() + 2, extra.begin(), extra.end());
  SmallVector<Value> kept;
  for (Value result : op.getResults())
    if (!llvm::is_contained(given, result))
      kept.push_back(result);
  SmallVector<Type> results =
      llvm::map_to_vector(kept, [](Value v) -> Type { return raggedType(cast<RankedTensorType>(v.getType())); });
  auto call = func::CallOp::create(b, op.getLoc(), op.getCallee(), results, operands);
  map.map(kept, call.getResults());
  return success();
}

// Keys and values that a layer gives to later ones are those that it has appended.
LogicalResult RaggedRewriter::rewriteReturn(func::ReturnOp op) {
  SmallVector<Value> kept, given = cached(headsIn(op.getOperands()));
  for (auto [number, operand] : llvm::enumerate(op.getOperands()))
    if (number < 1 || !llvm::is_contained(given, operand))
      kept.push_back(operand);
  auto isAppended = [&](AttentionOp attention) {
    return given.size() == 2 && given[0] == attention.getKey() && given[1] == attention.getValue() &&
           !isGivenHeads(given[0]);
  };
  if (!given.empty() && llvm::none_of(func.getOps<AttentionOp>(), isAppended))
    return op.emitError("gives ") << given.size() << " keys and values, expected the pair that the layer attends to";
  func::ReturnOp::create(b, op.getLoc(), llvm::map_to_vector(kept, [&](Value value) { return map.lookup(value); }));
  return success();
}

// Loops over (batch, sequence, …), of which rows take the place of the first two; what has no such dimensions stays.
LogicalResult RaggedRewriter::rewriteGeneric(linalg::GenericOp op) {
  MLIRContext *context = op.getContext();
  SmallVector<AffineMap> maps;
  SmallVector<AffineExpr> dims = {b.getAffineConstantExpr(0)};
  for (unsigned loop = 1; loop < op.getNumLoops(); ++loop)
    dims.push_back(b.getAffineDimExpr(loop - 1));
  Value ofTokens;
  for (OpOperand &operand : op->getOpOperands()) {
    AffineMap map = op.getMatchingIndexingMap(&operand);
    bool hasTokens = map.getNumResults() >= 2 && map.getResult(0) == b.getAffineDimExpr(0) &&
                     map.getResult(1) == b.getAffineDimExpr(1);
    ArrayRef<AffineExpr> rest = map.getResults().drop_front(hasTokens ? 1 : 0);
    if ((!hasTokens && map.isFunctionOfDim(1)) ||
        llvm::any_of(rest, [](AffineExpr index) { return index.isFunctionOfDim(0); }))
      return op.emitError("does not walk tokens in their order, which rows of a ragged batch have alone");
    if (hasTokens && op.isDpsInput(&operand))
      ofTokens = operand.get();
    auto flat = AffineMap::get(map.getNumDims(), 0, rest, context);
    maps.push_back(flat.replaceDimsAndSymbols(dims, {}, op.getNumLoops() - 1, 0));
  }
  SmallVector<utils::IteratorType> kinds = op.getIteratorTypesArray();
  bool walksTokens =
      kinds.size() >= 2 && kinds[0] == utils::IteratorType::parallel && kinds[1] == utils::IteratorType::parallel;
  if (!ofTokens || !walksTokens || !op.getBody()->getOps<linalg::IndexOp>().empty())
    return op.emitError("asks for more than the elements of tokens, which rows of a ragged batch have alone");
  Value rows = tensor::DimOp::create(b, op.getLoc(), map.lookup(ofTokens), 0);
  SmallVector<Value> inputs, inits;
  for (Value input : op.getInputs())
    inputs.push_back(map.lookup(input));
  for (OpOperand &operand : op.getDpsInitsMutable()) {
    Value init = operand.get();
    if (op.payloadUsesValueFromOperand(&operand) && !init.getDefiningOp<linalg::FillOp>())
      return op.emitError("adds to numbers that were computed, which rows of a ragged batch do not");
    auto type = raggedType(cast<RankedTensorType>(init.getType()));
    Value room = tensor::EmptyOp::create(b, op.getLoc(), type, rows);
    if (auto fill = init.getDefiningOp<linalg::FillOp>())
      room = linalg::FillOp::create(b, op.getLoc(), map.lookup(fill.getInputs()[0]), room).getResult(0);
    inits.push_back(room);
  }
  SmallVector<utils::IteratorType> loops(llvm::drop_begin(kinds));
  auto generic = linalg::GenericOp::create(b, op.getLoc(), ValueRange(inits).getTypes(), inputs, inits, maps, loops);
  op.getRegion().cloneInto(&generic.getRegion(), map);
  map.map(op.getResults(), generic.getResults());
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

// The token of one place in every sequence, (batch, features): an encode names the rows of the first ones, behind which the others are.
LogicalResult RaggedRewriter::rewriteTokensAt(tensor::ExtractSliceOp op) {
  if (isStep() || !outputRows || op.isDynamicOffset(1) ||
      op.getType().getShape().back() != op.getSourceType().getShape().back())
    return op.emitError("takes some tokens out of their sequences: only an encode can, and only whole ones of one "
                        "place");
  Value rows = map.lookup(op.getSource()), chosen = outputRows;
  if (int64_t place = op.getStaticOffset(1)) {
    auto type = cast<RankedTensorType>(outputRows.getType());
    Value behind = arith::ConstantOp::create(b, op.getLoc(), b.getIntegerAttr(type.getElementType(), place));
    SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, op.getLoc(), outputRows);
    chosen = arith::AddIOp::create(b, op.getLoc(), outputRows,
                                   tensor::SplatOp::create(b, op.getLoc(), behind, sizes).getResult());
  }
  map.map(op.getResult(),
          EmbeddingOp::create(b, op.getLoc(), op.getType(), chosen, rows, b.getF64FloatAttr(1.0)).getResult());
  return success();
}

LogicalResult RaggedRewriter::rewrite(Operation *op) {
  if (isa<tensor::EmptyOp, tensor::DimOp, linalg::FillOp>(op))
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
  if (auto conv = dyn_cast<CausalConvOp>(op))
    return rewriteState(conv);
  if (auto attention = dyn_cast<LinearAttentionOp>(op))
    return rewriteState(attention);
  if (auto call = dyn_cast<func::CallOp>(op))
    return rewriteCall(call);
  if (auto end = dyn_cast<func::ReturnOp>(op))
    return rewriteReturn(end);
  if (auto loops = dyn_cast<linalg::GenericOp>(op))
    return rewriteGeneric(loops);
  if (auto expand = dyn_cast<tensor::ExpandShapeOp>(op)) {
    rewriteExpand(expand);
    return success();
  }
  if (auto collapse = dyn_cast<tensor::CollapseShapeOp>(op)) {
    rewriteCollapse(collapse);
    return success();
  }
  if (auto transposed = dyn_cast<linalg::TransposeOp>(op)) {
    map.map(op->getResult(0),
            heddle::transposed(b, op->getLoc(), map.lookup(transposed.getInput()), transposed.getPermutation()));
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
      return rewriteTokensAt(slice);
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
    if (!isStep() || !isGivenHeads(argument))
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
  isLayer = isStep() && !isEntry;
  SmallVector<KvCacheType> types = isLayer ? cachesOf(func) : caches.own;
  for (KvCacheType type : types) {
    Value cache = add(type);
    places.push_back({cache, isLayer ? add(b.getIndexType()) : Value()});
  }
  if (crossType && (isEntry || isStep()))
    cross = add(crossType);
}

// Keys and values of the source are no results of an encode: it appends them, each pair once it is there.
void RaggedRewriter::appendSources(Operation *end) {
  SmallVector<Value> kept, ofSource;
  for (Value result : end->getOperands())
    (isHeads(result.getType()) ? ofSource : kept).push_back(result);
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
