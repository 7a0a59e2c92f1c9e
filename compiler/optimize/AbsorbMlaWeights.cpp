// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/optimize/Passes.h"
#include "dialect/Codes.h"
#include "dialect/Entries.h"
#include "frontends/Checkpoint.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace heddle {
#define GEN_PASS_DEF_ABSORBMLAWEIGHTS
#include "compiler/optimize/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

namespace {

// Heads that a product computes from `latent`: rows [first + g * stride, + rows) of `weight` are KV head g's matrix.
struct UpProjection {
  Value latent; // (batch, sequence, rank)
  Value weight; // (out_features, rank)
  int64_t first = 0, stride = 0, rows = 0, heads = 0;
};

// What attention must read to be latent.
struct Match {
  UpProjection keys, values;
  Value keyRope; // (batch, 1, sequence, qk_rope_head_dim), or none
  Value query;
  RopeOp queryRope; // where not null, the query is still to be rotated, from ropeBegin on
  int64_t ropeBegin = 0;
};

// Why an attention is left alone: the op that is in the way.
struct Obstacle {
  Operation *op = nullptr;
  std::string reason;
};

} // namespace

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}
static int64_t lastDim(Value value) {
  return typeOf(value).getShape().back();
}

// A slice of the last dimension alone: its source, and where it begins.
static Value sliceOfColumns(Value value, int64_t &begin) {
  auto slice = value.getDefiningOp<tensor::ExtractSliceOp>();
  if (!slice || slice.getSourceType().getRank() != slice.getType().getRank() ||
      ShapedType::isDynamic(slice.getStaticOffsets().back()) || slice.getStaticStrides().back() != 1)
    return {};
  for (int64_t axis = 0; axis + 1 < slice.getType().getRank(); ++axis)
    if (slice.getStaticOffsets()[axis] != 0 || slice.getStaticStrides()[axis] != 1 ||
        slice.getType().getDimSize(axis) != slice.getSourceType().getDimSize(axis))
      return {};
  begin = slice.getStaticOffsets().back();
  return slice.getSource();
}

// What a latent is made by: a product whose result is narrow, perhaps sliced and normalised.
static bool isLowRank(Value latent) {
  int64_t begin;
  while (true) {
    if (Value source = sliceOfColumns(latent, begin))
      latent = source;
    else if (auto norm = latent.getDefiningOp<RmsNormOp>())
      latent = norm.getInput();
    else if (auto norm = latent.getDefiningOp<LayerNormOp>())
      latent = norm.getInput();
    else
      return latent.getDefiningOp<LinearOp>() != nullptr;
  }
}

// The product that (batch, heads, sequence, head_dim) `value` shows; the obstacle where it shows none.
static FailureOr<UpProjection> traceHeads(Value value, Obstacle &obstacle) {
  UpProjection found;
  found.rows = lastDim(value);
  found.heads = typeOf(value).getDimSize(1);
  auto fail = [&](Value at, const char *reason) {
    obstacle = {at.getDefiningOp(), reason};
    return failure();
  };
  int64_t begin = 0;
  auto skipSlice = [&] {
    int64_t offset;
    if (Value source = sliceOfColumns(value, offset)) {
      begin += offset;
      value = source;
    }
  };
  skipSlice();
  auto transpose = value.getDefiningOp<linalg::TransposeOp>();
  if (!transpose || transpose.getPermutation() != ArrayRef<int64_t>{0, 2, 1, 3})
    return fail(value, isa_and_present<RopeOp>(value.getDefiningOp()) ? "makes the key depend on its position"
                                                                      : "is no transposition of heads");
  value = transpose.getInput();
  skipSlice();
  auto expand = value.getDefiningOp<tensor::ExpandShapeOp>();
  SmallVector<ReassociationIndices> groups = {{0}, {1}, {2, 3}};
  if (!expand || expand.getReassociationIndices() != groups)
    return fail(value, "does not split rows into heads");
  found.stride = lastDim(value);
  found.first = begin;
  begin = 0;
  value = expand.getSrc();
  skipSlice();
  auto linear = value.getDefiningOp<LinearOp>();
  if (!linear)
    return fail(value, "is no product with a weight");
  if (!linear.getBiases().empty())
    return fail(value, "adds a bias");
  found.latent = linear.getInput();
  for (Value weight : linear.getWeights()) {
    int64_t rows = typeOf(weight).getDimSize(0);
    if (begin >= 0 && begin + found.heads * found.stride <= rows) {
      found.weight = weight;
      found.first += begin;
      return found;
    }
    begin -= rows;
  }
  return fail(value, "has the heads in several weights");
}

// (batch, 1, sequence, d), repeated for every head.
static Value sharedHead(Value value) {
  auto collapse = value.getDefiningOp<tensor::CollapseShapeOp>();
  SmallVector<ReassociationIndices> groups = {{0}, {1, 2}, {3}, {4}};
  if (!collapse || collapse.getReassociationIndices() != groups)
    return {};
  auto broadcast = collapse.getSrc().getDefiningOp<linalg::BroadcastOp>();
  bool isOne =
      broadcast && broadcast.getDimensions() == ArrayRef<int64_t>{2} && typeOf(broadcast.getInput()).getDimSize(1) == 1;
  return isOne ? broadcast.getInput() : Value();
}

// Where a head's rows of a weight come from.
struct WeightSource {
  WeightOp stored;   // null: rows are slices of the weight's value
  func::CallOp call; // that passes it to a layer function, whose argument the weight is
};

static const TensorTypeInfo *storedType(WeightOp op) {
  std::optional<heddle::TensorType> type = tensorTypeNamed(op.getStorage().getTypeInFile());
  return type ? &tensorTypeInfo(*type) : nullptr;
}

// The stored matrices behind a weight: one, or one for each call of the layer function that takes it as an argument. Failure
// where rows of a stored one cannot be taken apart: blocks of a transposed one lie across them, scales of codes lie elsewhere.
static FailureOr<SmallVector<WeightSource>> sourcesOf(Value weight, ModuleOp module) {
  auto hasRows = [](WeightOp op) {
    const TensorTypeInfo *type = storedType(op);
    return type && !op->hasAttr(Codes::attrName) && (!op.getStorage().getTransposed() || type->blockValues == 1);
  };
  SmallVector<WeightSource> sources;
  if (auto op = weight.getDefiningOp<WeightOp>()) {
    sources.push_back({op, func::CallOp()});
    if (!hasRows(op))
      return failure();
    return sources;
  }
  auto argument = dyn_cast<BlockArgument>(weight);
  auto func = argument ? dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp()) : func::FuncOp();
  if (!func || !func.isPrivate())
    return SmallVector<WeightSource>{{}};
  WalkResult walk = module.walk([&](func::CallOp call) {
    if (call.getCallee() != func.getSymName())
      return WalkResult::advance();
    auto op = call.getOperand(argument.getArgNumber()).getDefiningOp<WeightOp>();
    if (!op || !hasRows(op))
      return WalkResult::interrupt();
    sources.push_back({op, call});
    return WalkResult::advance();
  });
  if (walk.wasInterrupted() || sources.empty())
    return failure();
  return sources;
}

static WeightOp rowsOf(WeightOp op, int64_t begin, int64_t rows) {
  OpBuilder b(op);
  auto type = RankedTensorType::get({rows, typeOf(op.getResult()).getDimSize(1)},
                                    typeOf(op.getResult()).getElementType(), typeOf(op.getResult()).getEncoding());
  StorageAttr storage = op.getStorage();
  const TensorTypeInfo &stored = *storedType(op);
  int64_t columns = typeOf(op.getResult()).getDimSize(1), stride = storage.getStride();
  int64_t rowBytes = (stride ? stride : columns) / stored.blockValues * stored.blockBytes;
  if (storage.getTransposed()) { // a row is a column of what is stored
    rowBytes = stored.blockBytes;
    stride = stride ? stride : typeOf(op.getResult()).getDimSize(0);
  }
  StorageAttr part = storage.getPart(storage.getOffset() + begin * rowBytes, storage.getTransposed(), stride);
  std::string name = (op.getName() + "[" + Twine(begin) + ":" + Twine(begin + rows) + "]").str();
  return WeightOp::create(b, op.getLoc(), type, name, part);
}

// The same of a matrix that is no weight of the model's file.
static Value rowsOf(AttentionOp op, Value matrix, int64_t begin, int64_t rows) {
  OpBuilder b(op);
  auto size = [&](int64_t value) -> OpFoldResult { return b.getIndexAttr(value); };
  SmallVector<OpFoldResult> offsets = {size(begin), size(0)}, sizes = {size(rows), size(lastDim(matrix))},
                            strides(2, size(1));
  return tensor::ExtractSliceOp::create(b, op.getLoc(), matrix, offsets, sizes, strides);
}

namespace {

struct AbsorbMlaWeights : heddle::impl::AbsorbMlaWeightsBase<AbsorbMlaWeights> {
  using AbsorbMlaWeightsBase::AbsorbMlaWeightsBase;

  FailureOr<Match> match(AttentionOp op, Obstacle &obstacle);
  LogicalResult matchRope(AttentionOp op, Match &match, Value &key, Obstacle &obstacle);
  SmallVector<Value> headMatrices(AttentionOp op, const UpProjection &up);
  void replace(AttentionOp op, const Match &match);
  void eraseUnused(func::FuncOp func);
  void runInStage() override;
};

} // namespace

// key = [k_nope | rope, the same for every head] and query = [q_nope | rope(q_rope)], both parts of one value.
LogicalResult AbsorbMlaWeights::matchRope(AttentionOp op, Match &match, Value &key, Obstacle &obstacle) {
  auto keys = key.getDefiningOp<tensor::ConcatOp>(), queries = op.getQuery().getDefiningOp<tensor::ConcatOp>();
  if (!keys)
    return success();
  auto isPair = [](tensor::ConcatOp concat) {
    return concat && concat.getDim() == 3 && concat.getInputs().size() == 2;
  };
  match.keyRope = isPair(keys) ? sharedHead(keys.getInputs()[1]) : Value();
  if (!match.keyRope) {
    obstacle = {keys, "joins keys with what is not one head for all"};
    return failure();
  }
  key = keys.getInputs()[0];
  // The rotation of a part of a head is one of the whole, from where the part begins.
  auto rope = isPair(queries) ? queries.getInputs()[1].getDefiningOp<RopeOp>() : RopeOp();
  int64_t nopeBegin = 0, ropeBegin = 0;
  Value whole = rope ? sliceOfColumns(rope.getInput(), ropeBegin) : Value();
  if (!whole || sliceOfColumns(queries.getInputs()[0], nopeBegin) != whole || nopeBegin != 0 ||
      ropeBegin != lastDim(queries.getInputs()[0]) || lastDim(whole) != lastDim(queries) || rope.getOffset() != 0)
    return success();
  match.query = whole;
  match.queryRope = rope;
  match.ropeBegin = ropeBegin;
  return success();
}

FailureOr<Match> AbsorbMlaWeights::match(AttentionOp op, Obstacle &obstacle) {
  auto fail = [&](Operation *at, std::string reason) {
    obstacle = {at, std::move(reason)};
    return failure();
  };
  if (op.getBias() || op.getSinks() || op.getSoftcap().convertToDouble() != 0)
    return fail(op, "has a bias, sinks or a softcap");
  Match match;
  match.query = op.getQuery();
  Value key = op.getKey();
  FailureOr<UpProjection> values = traceHeads(op.getValue(), obstacle);
  if (failed(values))
    return failure();
  if (!isLowRank(values->latent))
    return fail(values->latent.getDefiningOp(), "is no product of low rank");
  if (failed(matchRope(op, match, key, obstacle)))
    return failure();
  FailureOr<UpProjection> keys = traceHeads(key, obstacle);
  if (failed(keys))
    return failure();
  if (keys->latent != values->latent)
    return fail(op, "has keys and values of different latents");
  int64_t cached = lastDim(keys->latent) + (match.keyRope ? lastDim(match.keyRope) : 0);
  int64_t whole = keys->heads * (lastDim(op.getKey()) + values->rows);
  if (cached >= whole)
    return fail(op,
                "caches " + std::to_string(whole) + " values per token, its latent would be " + std::to_string(cached));
  for (const UpProjection &up : {*keys, *values}) {
    if (failed(sourcesOf(up.weight, getOperation())))
      return fail(op, "has an up-projection whose blocks lie across its rows in the model's file");
  }
  match.keys = *keys;
  match.values = *values;
  return match;
}

// One weight per head, made where the whole one is: at the calls of a layer function, which then takes it as an argument.
SmallVector<Value> AbsorbMlaWeights::headMatrices(AttentionOp op, const UpProjection &up) {
  SmallVector<WeightSource> sources = *sourcesOf(up.weight, getOperation());
  auto argument = dyn_cast<BlockArgument>(up.weight);
  SmallVector<Value> matrices;
  for (int64_t head = 0; head < up.heads; ++head) {
    int64_t begin = up.first + head * up.stride;
    Value matrix;
    for (auto [stored, call] : sources) {
      matrix = stored ? rowsOf(stored, begin, up.rows).getResult() : rowsOf(op, up.weight, begin, up.rows);
      if (call)
        call->insertOperands(call->getNumOperands(), matrix);
    }
    if (sources.front().call)
      matrix = argument.getOwner()->addArgument(matrix.getType(), up.weight.getLoc());
    matrices.push_back(matrix);
  }
  if (sources.front().call) {
    auto func = cast<func::FuncOp>(argument.getOwner()->getParentOp());
    func.setType(FunctionType::get(&getContext(), func.front().getArgumentTypes(), func.getResultTypes()));
  }
  return matrices;
}

void AbsorbMlaWeights::replace(AttentionOp op, const Match &match) {
  SmallVector<Value> keyUps = headMatrices(op, match.keys), valueUps = headMatrices(op, match.values);
  OpBuilder b(op);
  Location loc = op.getLoc();
  Value latent = match.keys.latent, query = match.query;
  if (RopeOp rope = match.queryRope)
    query = RopeOp::create(b, rope.getLoc(), query.getType(), query, rope.getPositions(), rope.getTable(),
                           rope.getRope(), match.ropeBegin);
  // (batch, sequence, rank) as the one head of (batch, 1, sequence, rank)
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, loc, latent);
  RankedTensorType type = typeOf(latent);
  SmallVector<OpFoldResult> split = {sizes[0], sizes[1], b.getIndexAttr(1), sizes[2]},
                            turned = {sizes[0], b.getIndexAttr(1), sizes[1], sizes[2]};
  auto splitType = type.clone({type.getDimSize(0), type.getDimSize(1), 1, type.getDimSize(2)});
  Value heads = tensor::ExpandShapeOp::create(b, loc, splitType, latent,
                                              SmallVector<ReassociationIndices>{{0}, {1}, {2, 3}}, split);
  Value init = tensor::EmptyOp::create(b, loc, turned, type.getElementType());
  heads = linalg::TransposeOp::create(b, loc, heads, init, ArrayRef<int64_t>{0, 2, 1, 3}).getResult()[0];
  auto attention =
      LatentAttentionOp::create(b, loc, op.getType(), query, heads, match.keyRope, keyUps, valueUps, op.getMaskAttr(),
                                op.getScaleAttr(), LatentFormAttr::get(&getContext(), LatentForm::Materialised));
  op.replaceAllUsesWith(attention.getResult());
  op.erase();
}

// Ops and weight arguments that nothing reads any more.
void AbsorbMlaWeights::eraseUnused(func::FuncOp func) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(func.front())))
    if (isOpTriviallyDead(&op))
      op.erase();
  if (!func.isPrivate())
    return;
  llvm::BitVector unused(func.getNumArguments());
  for (BlockArgument argument : func.getArguments())
    if (auto type = dyn_cast<RankedTensorType>(argument.getType());
        type && type.hasStaticShape() && argument.use_empty())
      unused.set(argument.getArgNumber());
  if (unused.none())
    return;
  getOperation().walk([&](func::CallOp call) {
    if (call.getCallee() == func.getSymName())
      call->eraseOperands(unused);
  });
  if (failed(func.eraseArguments(unused)))
    llvm_unreachable("unused arguments can be erased");
}

void AbsorbMlaWeights::runInStage() {
  LatentForm chosen;
  if (std::optional<LatentForm> known = symbolizeLatentForm(form)) {
    chosen = *known;
  } else {
    getOperation().emitError("form must be automatic, absorbed or materialised, got '") << form << "'";
    return signalPassFailure();
  }
  SmallVector<AttentionOp> ops;
  getOperation().walk([&](AttentionOp op) {
    if (keepsKeys(op) && !(keepsGraphs && isInGraphEntry(op))) // an encoder computes all anew for each sequence
      ops.push_back(op);
  });
  bool replaced = false;
  for (AttentionOp op : ops) {
    Obstacle obstacle;
    FailureOr<Match> found = match(op, obstacle);
    if (succeeded(found)) {
      replace(op, *found);
      replaced = true;
      continue;
    }
    InFlightDiagnostic remark = op.emitRemark("keys and values are cached whole: ");
    if (obstacle.op)
      remark << "'" << obstacle.op->getName() << "' at " << obstacle.op->getLoc() << " ";
    else
      remark << "an argument ";
    remark << obstacle.reason;
  }
  if (replaced)
    for (auto func : getOperation().getOps<func::FuncOp>()) // layers first, then who passes weights to them
      eraseUnused(func);
  getOperation().walk([&](LatentAttentionOp op) {
    op.setForm(chosen);
    op.emitRemark("latent attention, ") << op.getDims().describe(chosen);
  });
}
