// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/codegen/cpu/PackedLayout.h"
#include "compiler/schedule/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

#include <numeric>

namespace heddle {
#define GEN_PASS_DEF_PACKWEIGHTS
#include "compiler/schedule/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

// The stored type's name, as layouts and #heddle.storage know it.
static std::string formatOf(RankedTensorType type) {
  if (auto quant = dyn_cast_if_present<QuantKindAttr>(type.getEncoding()))
    return stringifyQuantKind(quant.getValue()).str();
  return type.getElementType().isBF16() ? "bf16" : type.getElementType().isF16() ? "f16" : "f32";
}

// What matrices that one product reads are packed as: their stored type. Where types differ, numbers are stored as they are: no
// block format holds those of another, and none is ever quantised again.
static std::string commonFormat(ValueRange matrices) {
  std::string first = formatOf(typeOf(matrices.front()));
  bool isCommon = llvm::all_of(matrices, [&](Value matrix) { return formatOf(typeOf(matrix)) == first; });
  return isCommon ? first : "f32";
}

static FailureOr<heddle::TensorType> tensorType(Location loc, StringRef format) {
  if (std::optional<heddle::TensorType> type = tensorTypeNamed(format))
    return *type;
  return emitError(loc) << "no tensor type is called '" << format << "'";
}

namespace {

// Weights that one packed tensor takes the place of: matrices stacked along out_features, or vectors one after the other.
struct PackedGroup {
  SmallVector<Value> sources;
  std::string format; // "vector", or the stored type of the matrices
  int64_t n = 0, k = 0;
  // 0: all sources are stacked. Else each run of so many is packed for itself, their panels interleaved: an expert's.
  int64_t interleave = 0;
  bool transposed = false; // of each source, what is packed is its transpose
  bool manyRows = false;   // only a body for many rows reads it
};

class Packer {
public:
  explicit Packer(ModuleOp module) : module(module), b(module.getContext()) {}
  LogicalResult run();

private:
  LogicalResult packFunction(func::FuncOp func);
  LogicalResult packLinear(LinearOp op);
  LogicalResult packEmbedding(EmbeddingOp op);
  LogicalResult packMoe(MoeOp op);
  RouteExpertsOp routeExperts(MoeOp op, Value rows);
  Value emptyRows(Location loc, Value rows, int64_t width, Type element);
  LogicalResult packLatentAttention(OnlineLatentAttentionOp op);
  FailureOr<Value> packed(Operation *user, ValueRange matrices, int64_t interleave = 0, bool transposed = false,
                          bool manyRows = false);
  FailureOr<Value> packedVector(Operation *user, ValueRange vectors);
  FailureOr<Value> place(Operation *user, PackedGroup group, RankedTensorType type);
  FailureOr<Value> placeInSection(Operation *user, PackedGroup group, RankedTensorType type);
  LogicalResult updateCalls(func::FuncOp func);

  ModuleOp module;
  OpBuilder b;
  struct NewArgument {
    PackedGroup group; // of the old arguments
    Value argument;
  };
  llvm::MapVector<Operation *, SmallVector<NewArgument>> newArguments; // by function
  llvm::StringMap<int64_t> offsets; // of packed weights already placed, by their sources
  int64_t sectionSize = 0;
};

} // namespace

// What a transposed matrix is packed as: blocks of a quantised one lie along its rows, so its numbers are stored as they are,
// never quantised again.
static std::string transposedFormat(RankedTensorType type) {
  return type.getEncoding() ? "f32" : formatOf(type);
}

FailureOr<Value> Packer::packed(Operation *user, ValueRange matrices, int64_t interleave, bool transposed,
                                bool manyRows) {
  RankedTensorType first = typeOf(matrices.front());
  PackedGroup group{SmallVector<Value>(matrices), transposed ? transposedFormat(first) : commonFormat(matrices)};
  for (Value matrix : matrices)
    group.n += typeOf(matrix).getDimSize(transposed ? 1 : 0);
  group.interleave = interleave;
  group.transposed = transposed;
  group.manyRows = manyRows;
  group.k = first.getDimSize(transposed ? 0 : 1);
  FailureOr<heddle::TensorType> type = tensorType(user->getLoc(), group.format);
  if (failed(type))
    return failure();
  std::optional<PackedLayout> layout = layoutFor(*type);
  if (!layout)
    return user->emitError("no packed layout holds weights of type ") << group.format;
  int64_t rows = first.getDimSize(transposed ? 1 : 0);
  int64_t bytes = interleave ? matrices.size() * layout->bytes(rows, group.k) : layout->bytes(group.n, group.k);
  return place(user, std::move(group), RankedTensorType::get({bytes}, b.getI8Type()));
}

FailureOr<Value> Packer::packedVector(Operation *user, ValueRange vectors) {
  PackedGroup group{SmallVector<Value>(vectors), "vector"};
  for (Value vector : vectors)
    group.n += typeOf(vector).getDimSize(0);
  return place(user, std::move(group), RankedTensorType::get({group.n}, b.getF32Type()));
}

// Inside a layer function the packed weight is an argument, filled at the calls; elsewhere it is placed at once.
FailureOr<Value> Packer::place(Operation *user, PackedGroup group, RankedTensorType type) {
  if (!isa<BlockArgument>(group.sources.front()))
    return placeInSection(user, std::move(group), type);
  auto func = user->getParentOfType<func::FuncOp>();
  for (NewArgument &known : newArguments[func])
    if (known.group.sources == group.sources && known.group.interleave == group.interleave &&
        known.group.transposed == group.transposed && known.argument.getType() == type)
      return known.argument;
  Value argument = func.front().addArgument(type, group.sources.front().getLoc());
  newArguments[func].push_back({std::move(group), argument});
  return argument;
}

FailureOr<Value> Packer::placeInSection(Operation *user, PackedGroup group, RankedTensorType type) {
  std::string key, name;
  SmallVector<Attribute> sources, names, rows;
  for (Value source : group.sources) {
    auto weight = source.getDefiningOp<WeightOp>();
    if (!weight)
      return user->emitError("operand is no weight of the model");
    StorageAttr storage = weight.getStorage();
    if (group.transposed)
      storage = storage.getTurned();
    llvm::raw_string_ostream(key) << storage << " " << typeOf(source) << ";";
    name += (name.empty() ? "" : "+") + weight.getName().str();
    sources.push_back(storage);
    names.push_back(weight.getNameAttr());
    rows.push_back(b.getI64IntegerAttr(typeOf(source).getDimSize(group.transposed ? 1 : 0)));
  }
  auto [entry, isNew] =
      offsets.try_emplace(key + group.format + std::to_string(group.interleave), llvm::alignTo(sectionSize, 64));
  // The section ends with its last weight, whatever its size.
  if (isNew)
    sectionSize = entry->second + type.getNumElements() * type.getElementType().getIntOrFloatBitWidth() / 8;
  b.setInsertionPoint(user);
  auto storage = StorageAttr::get(b.getContext(), b.getStringAttr("packed"), 0, entry->second, false);
  auto op = WeightOp::create(b, group.sources.front().getLoc(), type, name, storage);
  op->setAttr("heddle.format", b.getStringAttr(group.format));
  op->setAttr("heddle.shape", b.getDenseI64ArrayAttr({group.n, group.k}));
  op->setAttr("heddle.sources", b.getArrayAttr(sources));
  op->setAttr("heddle.source_names", b.getArrayAttr(names));
  op->setAttr("heddle.source_rows", b.getArrayAttr(rows));
  if (group.transposed)
    op->setAttr("heddle.transposed", b.getUnitAttr());
  if (group.manyRows)
    op->setAttr("heddle.many_rows", b.getUnitAttr());
  if (group.interleave)
    op->setAttr("heddle.interleave", b.getI64IntegerAttr(group.interleave));
  return op.getResult();
}

// The value that `op`'s result is added to, if nothing else reads either afterwards: the product is then added in place.
static arith::AddFOp residualOf(Operation *op, Value &residual) {
  if (!op->hasOneUse())
    return {};
  auto add = dyn_cast<arith::AddFOp>(*op->user_begin());
  if (!add || add->getBlock() != op->getBlock())
    return {};
  residual = add.getLhs() == op->getResult(0) ? add.getRhs() : add.getLhs();
  bool isLastUse = llvm::all_of(residual.getUsers(), [&](Operation *user) {
    return user == add || (user->getBlock() == op->getBlock() && user->isBeforeInBlock(op));
  });
  Operation *def = residual.getDefiningOp();
  bool isThere = !def || (def->getBlock() == op->getBlock() && def->isBeforeInBlock(op));
  // What a slice or a view shows belongs to another value.
  bool isWhole = !def || isa<DestinationStyleOpInterface, func::CallOp, arith::AddFOp, EmbeddingOp>(def);
  return isLastUse && isThere && isWhole ? add : arith::AddFOp();
}

Value Packer::emptyRows(Location loc, Value rows, int64_t width, Type element) {
  return tensor::EmptyOp::create(b, loc, {rows, b.getIndexAttr(width)}, element);
}

// `op`, or the addition of its result, gives way to the product that computes it.
static void replaceWithProduct(Operation *op, arith::AddFOp add, Value product) {
  (add ? add.getOperation() : op)->getResult(0).replaceAllUsesWith(product);
  if (add)
    add.erase();
  op->erase();
}

LogicalResult Packer::packLinear(LinearOp op) {
  FailureOr<Value> weights = packed(op, op.getWeights());
  FailureOr<Value> bias = op.getBiases().empty() ? FailureOr<Value>(Value()) : packedVector(op, op.getBiases());
  if (failed(weights) || failed(bias))
    return failure();
  Value residual;
  arith::AddFOp add = residualOf(op, residual);
  b.setInsertionPoint(op);
  auto type = typeOf(op.getResult());
  Value init = residual;
  if (!add) {
    Value rows = tensor::DimOp::create(b, op.getLoc(), op.getInput(), 0);
    init = emptyRows(op.getLoc(), rows, type.getDimSize(1), type.getElementType());
  }
  std::string format = commonFormat(op.getWeights());
  auto matmul = PackedMatmulOp::create(b, op.getLoc(), TypeRange{type}, op.getInput(), Value(), Value(), *weights,
                                       *bias, init, b.getI64IntegerAttr(type.getDimSize(1)),
                                       b.getI64IntegerAttr(typeOf(op.getInput()).getDimSize(1)),
                                       b.getStringAttr(format), add ? b.getUnitAttr() : UnitAttr());
  replaceWithProduct(op, add, matmul.getResult(0));
  return success();
}

// The router's product and what follows from it: whose rows an expert computes.
RouteExpertsOp Packer::routeExperts(MoeOp op, Value rows) {
  FailureOr<Value> router = packed(op, op.getRouter());
  if (failed(router))
    return {};
  b.setInsertionPoint(op);
  Location loc = op.getLoc();
  int64_t topK = op.getTopK(), experts = typeOf(op.getRouter()).getDimSize(0);
  Type f32 = b.getF32Type(), i32 = b.getI32Type();
  Value logits = emptyRows(loc, rows, experts, f32);
  logits = PackedMatmulOp::create(b, loc, TypeRange{logits.getType()}, op.getInput(), Value(), Value(), *router,
                                  Value(), logits, b.getI64IntegerAttr(experts),
                                  b.getI64IntegerAttr(typeOf(op.getInput()).getDimSize(1)),
                                  b.getStringAttr(formatOf(typeOf(op.getRouter()))), UnitAttr())
               .getResult(0);
  Value correction;
  if (op.getCorrection()) {
    FailureOr<Value> vector = packedVector(op, op.getCorrection());
    if (failed(vector))
      return {};
    correction = *vector;
    b.setInsertionPoint(op);
  }
  SmallVector<Value> inits = {emptyRows(loc, rows, topK, i32), emptyRows(loc, rows, topK, f32),
                              emptyRows(loc, rows, experts + 1, i32), emptyRows(loc, rows, topK, i32),
                              emptyRows(loc, rows, topK, f32)};
  return RouteExpertsOp::create(b, loc, TypeRange(ValueRange(inits)), logits, correction, inits,
                                b.getI64IntegerAttr(experts), op.getTopKAttr(), op.getNormalizeAttr(),
                                op.getRoutingAttr());
}

LogicalResult Packer::packMoe(MoeOp op) {
  // One kernel serves all experts of a role.
  SmallVector<Value> gatesAndUps;
  for (auto [gate, up] : llvm::zip(op.getGates(), op.getUps()))
    gatesAndUps.append({gate, up});
  std::string gateUpFormat = commonFormat(gatesAndUps), downFormat = commonFormat(op.getDowns());
  for (auto [role, matrices, format] : {std::tuple("gate and up", ValueRange(gatesAndUps), gateUpFormat),
                                        std::tuple("down", ValueRange(op.getDowns()), downFormat)})
    if (format != formatOf(typeOf(matrices.front())))
      op.emitRemark("experts' ") << role << " matrices are of several stored types: packed as " << format;
  FailureOr<Value> gateUp = packed(op, gatesAndUps, 2), down = packed(op, op.getDowns(), 1);
  if (failed(gateUp) || failed(down))
    return failure();
  Location loc = op.getLoc();
  b.setInsertionPoint(op);
  Value rows = tensor::DimOp::create(b, loc, op.getInput(), 0);
  RouteExpertsOp route = routeExperts(op, rows);
  if (!route)
    return failure();
  int64_t width = typeOf(op.getInput()).getDimSize(1), intermediate = typeOf(op.getGates()[0]).getDimSize(0),
          topK = op.getTopK();
  auto product = [&](Value input, Value weights, Value init, int64_t n, int64_t k, StringRef format,
                     ActivationKindAttr activation, bool accumulate) {
    return ExpertMatmulOp::create(b, loc, TypeRange{init.getType()}, input, Value(), Value(), route.getResult(2),
                                  route.getResult(3), route.getResult(4), weights, init, route.getNumExpertsAttr(),
                                  route.getTopKAttr(), b.getI64IntegerAttr(n), b.getI64IntegerAttr(k),
                                  b.getStringAttr(format), activation, accumulate ? b.getUnitAttr() : UnitAttr())
        .getResult(0);
  };
  Value hidden = emptyRows(loc, rows, topK * intermediate, b.getF32Type());
  hidden = product(op.getInput(), *gateUp, hidden, intermediate, width, gateUpFormat, op.getActivationAttr(), false);
  Value init;
  arith::AddFOp add = residualOf(op, init);
  if (!add)
    init = emptyRows(loc, rows, width, b.getF32Type());
  replaceWithProduct(op, add, product(hidden, *down, init, width, intermediate, downFormat, {}, bool(add)));
  return success();
}

// Each head's matrices are packed for themselves: the bodies take them head by head.
LogicalResult Packer::packLatentAttention(OnlineLatentAttentionOp op) {
  bool rebuilds = op.getForm() != LatentForm::Absorbed, folds = op.getForm() != LatentForm::Materialised;
  RankedTensorType keyType = typeOf(op.getKeyUps().front()), valueType = typeOf(op.getValueUps().front());
  for (OperandRange ups : {op.getKeyUps(), op.getValueUps()})
    for (Value up : ups)
      if (up.getType() != ups.front().getType())
        return op.emitError("up-projections must be stored alike: ") << ups.front().getType() << ", " << up.getType();
  FailureOr<Value> keys = rebuilds ? packed(op, op.getKeyUps(), 1, false, folds) : FailureOr<Value>(Value());
  FailureOr<Value> folded = folds ? packed(op, op.getKeyUps(), 1, /*transposed=*/true) : FailureOr<Value>(Value());
  FailureOr<Value> values = packed(op, op.getValueUps(), 1);
  if (failed(keys) || failed(folded) || failed(values))
    return failure();
  op.getKeyUpsMutable().assign(rebuilds ? ValueRange(*keys) : ValueRange());
  op.getValueUpsMutable().assign(*values);
  op.setKeyFormat(formatOf(keyType));
  op.setValueFormat(formatOf(valueType));
  if (folds) {
    op.getKeyFoldsMutable().assign(*folded);
    op.setFoldFormat(transposedFormat(keyType));
  }
  return success();
}

LogicalResult Packer::packEmbedding(EmbeddingOp op) {
  FailureOr<Value> table = packed(op, op.getTable());
  if (failed(table))
    return failure();
  b.setInsertionPoint(op);
  auto type = typeOf(op.getResult()), tableType = typeOf(op.getTable());
  Value rows = tensor::DimOp::create(b, op.getLoc(), op.getIds(), 0);
  Value init =
      tensor::EmptyOp::create(b, op.getLoc(), {rows, b.getIndexAttr(type.getDimSize(1))}, type.getElementType());
  auto dequantize = DequantizeOp::create(
      b, op.getLoc(), TypeRange{type}, op.getIds(), *table, init, b.getI64IntegerAttr(tableType.getDimSize(0)),
      b.getI64IntegerAttr(tableType.getDimSize(1)), b.getStringAttr(formatOf(tableType)), op.getScaleAttr());
  op.getResult().replaceAllUsesWith(dequantize.getResult(0));
  op.erase();
  return success();
}

// Whether `value` comes from the model file.
static bool isWeight(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value))
    return cast<RankedTensorType>(argument.getType()).hasStaticShape();
  return value.getDefiningOp<WeightOp>() != nullptr;
}

LogicalResult Packer::packFunction(func::FuncOp func) {
  SmallVector<Operation *> ops;
  func.walk([&](Operation *op) { ops.push_back(op); });
  for (Operation *op : ops) {
    if (auto linear = dyn_cast<LinearOp>(op)) {
      if (failed(packLinear(linear)))
        return failure();
      continue;
    }
    if (auto moe = dyn_cast<MoeOp>(op)) {
      if (failed(packMoe(moe)))
        return failure();
      continue;
    }
    if (auto latent = dyn_cast<OnlineLatentAttentionOp>(op)) {
      if (failed(packLatentAttention(latent)))
        return failure();
      continue;
    }
    if (auto embedding = dyn_cast<EmbeddingOp>(op); embedding && isWeight(embedding.getTable())) {
      if (failed(packEmbedding(embedding)))
        return failure();
      continue;
    }
    if (!isa<RmsNormOp, LayerNormOp, OnlineAttentionOp>(op))
      continue;
    for (OpOperand &operand : op->getOpOperands()) {
      auto type = dyn_cast<RankedTensorType>(operand.get().getType());
      if (!type || type.getRank() != 1 || !isWeight(operand.get()))
        continue;
      FailureOr<Value> vector = packedVector(op, operand.get());
      if (failed(vector))
        return failure();
      operand.set(*vector);
    }
  }
  return success();
}

// Drops the stored weights from the function's arguments, and fills the packed ones at its calls.
LogicalResult Packer::updateCalls(func::FuncOp func) {
  ArrayRef<NewArgument> added = newArguments[func];
  if (added.empty())
    return success();
  llvm::BitVector dropped(func.front().getNumArguments());
  for (const NewArgument &argument : added)
    for (Value source : argument.group.sources)
      dropped.set(cast<BlockArgument>(source).getArgNumber());
  for (unsigned index : dropped.set_bits())
    if (!func.getArgument(index).use_empty())
      return func.emitError("weight argument ") << index << " is used by an op that has no packed form";
  unsigned kept = func.getFunctionType().getNumInputs();
  WalkResult walk = module.walk([&](func::CallOp call) {
    if (call.getCallee() != func.getSymName())
      return WalkResult::advance();
    SmallVector<Value> operands;
    for (unsigned i = 0; i < kept; ++i)
      if (!dropped.test(i))
        operands.push_back(call.getOperand(i));
    for (const NewArgument &argument : added) {
      PackedGroup group = argument.group;
      for (Value &source : group.sources)
        source = call.getOperand(cast<BlockArgument>(source).getArgNumber());
      FailureOr<Value> weight = placeInSection(call, group, cast<RankedTensorType>(argument.argument.getType()));
      if (failed(weight))
        return WalkResult::interrupt();
      operands.push_back(*weight);
    }
    call->setOperands(operands);
    return WalkResult::advance();
  });
  func.front().eraseArguments(dropped);
  func.setType(b.getFunctionType(func.front().getArgumentTypes(), func.getResultTypes()));
  return failure(walk.wasInterrupted());
}

LogicalResult Packer::run() {
  for (auto func : module.getOps<func::FuncOp>())
    if (failed(packFunction(func)))
      return failure();
  for (auto func : module.getOps<func::FuncOp>())
    if (failed(updateCalls(func)))
      return failure();
  module.walk([](WeightOp op) {
    if (op->use_empty())
      op.erase();
  });
  module->setAttr(weightsSizeAttr, b.getI64IntegerAttr(sectionSize));
  return success();
}

namespace {
struct PackWeights : heddle::impl::PackWeightsBase<PackWeights> {
  void runOnOperation() override {
    if (failed(Packer(getOperation()).run()))
      signalPassFailure();
  }
};
} // namespace
