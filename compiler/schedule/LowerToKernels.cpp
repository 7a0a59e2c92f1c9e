// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Model ops that a kernel computes become that kernel; what it reads of the model becomes a `pack` of the weights as they are stored.
// This pass decides layouts and formats: which weights one kernel reads together, and as what type. Places are the matter of
// pack-weights, which needs the whole module, where this one sees a function.

#include "compiler/schedule/ActivationOf.h"
#include "compiler/schedule/Passes.h"
#include "compiler/schedule/ScheduleTable.h"
#include "compiler/weights/CodedMatrix.h"
#include "compiler/weights/PackedLayout.h"
#include "dialect/Entries.h"
#include "dialect/Locations.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace heddle {
#define GEN_PASS_DEF_LOWERTOKERNELS
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

// The same of a matrix of the model, which may be one of codes.
static std::string formatOf(Value matrix) {
  auto weight = matrix.getDefiningOp<WeightOp>();
  if (std::optional<Codes> codes = weight ? Codes::of(weight) : std::nullopt; codes && weight.getStorage())
    return packedFormatOf(*codes, weight.getStorage().getTransposed(), typeOf(matrix).getDimSize(1)).str();
  return formatOf(typeOf(matrix));
}

// What matrices that one product reads are packed as: their stored type. Where types differ, numbers are stored as they are: no
// block format holds those of another, and none is ever quantised again.
static std::string commonFormat(ValueRange matrices) {
  std::string first = formatOf(matrices.front());
  bool isCommon = llvm::all_of(matrices, [&](Value matrix) { return formatOf(matrix) == first; });
  return isCommon ? first : "f32";
}

namespace {

struct GatedProduct;

class KernelLowering {
public:
  // `gates`: products of a gate and an up projection take what joins them.
  KernelLowering(func::FuncOp func, bool gates) : func(func), gates(gates), b(func.getContext()) {}
  LogicalResult run();

private:
  LogicalResult lower(Operation *op);
  LogicalResult lowerLinear(LinearOp op);
  LogicalResult lowerGated(LinearOp op, GatedProduct product);
  LogicalResult lowerIntegerLinear(IntegerLinearOp op);
  LogicalResult lowerEmbedding(EmbeddingOp op);
  LogicalResult lowerMoe(MoeOp op);
  LogicalResult lowerConv(CausalConvOp op);
  LogicalResult lowerLinearAttention(LinearAttentionOp op);
  RouteExpertsOp routeExperts(MoeOp op, Value rows);
  Value emptyRows(Location loc, OpFoldResult rows, int64_t width, Type element);
  LogicalResult packLatentAttention(OnlineLatentAttentionOp op);
  FailureOr<PackOp> packMatrices(Operation *user, ValueRange matrices, const std::string &format,
                                 PackingLayout layout = PackingLayout::Stacked, int64_t group = 0,
                                 bool transposed = false, bool manyRows = false);
  Value packVectors(Operation *user, ValueRange vectors);

  func::FuncOp func;
  bool gates;
  OpBuilder b;
};

} // namespace

// What a transposed matrix is packed as: blocks of a quantised one lie along its rows, so its numbers are stored as they are,
// never quantised again.
static std::string transposedFormat(RankedTensorType type) {
  return type.getEncoding() ? "f32" : formatOf(type);
}

// Before `user`: `matrices` as one packed tensor of `format`. `group`: of interleaved ones, those whose panels lie in turn.
FailureOr<PackOp> KernelLowering::packMatrices(Operation *user, ValueRange matrices, const std::string &format,
                                               PackingLayout layout, int64_t group, bool transposed, bool manyRows) {
  std::optional<PackedLayout> panels = layoutNamed(format);
  if (!panels)
    return user->emitError("no packed layout holds weights of type '") << format << "'";
  int64_t k = typeOf(matrices.front()).getDimSize(transposed ? 0 : 1), rows = 0, bytes = 0;
  for (Value matrix : matrices) {
    int64_t n = typeOf(matrix).getDimSize(transposed ? 1 : 0);
    rows += n;
    bytes += panels->bytes(n, k);
  }
  // What is stacked is padded as a whole, interleaved matrices each for itself.
  if (layout == PackingLayout::Stacked)
    bytes = panels->bytes(rows, k);
  b.setInsertionPoint(user);
  return PackOp::create(b, user->getLoc(), RankedTensorType::get({bytes}, b.getI8Type()), matrices, layout, format,
                        group, transposed, manyRows);
}

// Before `user`: `vectors` as f32, one after the other.
Value KernelLowering::packVectors(Operation *user, ValueRange vectors) {
  int64_t size = 0;
  for (Value vector : vectors)
    size += typeOf(vector).getDimSize(0);
  b.setInsertionPoint(user);
  return PackOp::create(b, user->getLoc(), RankedTensorType::get({size}, b.getF32Type()), vectors,
                        PackingLayout::Vector, "f32", 0, /*transposed=*/false, /*many_rows=*/false);
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

namespace {

// A gate, an up projection and what joins them, where the two are one product that nothing else reads.
struct GatedProduct {
  GluOp glu;
  tensor::ExtractSliceOp gate, up;
  // Of the product: the gate's first.
  SmallVector<Value, 2> weights;
};

} // namespace

// Columns [`begin`, `begin` + `width`) of every row of `value`.
static bool isColumns(tensor::ExtractSliceOp slice, int64_t begin, int64_t width) {
  return slice.getStaticOffsets() == ArrayRef<int64_t>({0, begin}) && slice.getStaticSizes().size() == 2 &&
         slice.getStaticSizes()[1] == width && slice.hasUnitStride() && slice.getType().getRank() == 2;
}

static FailureOr<GatedProduct> gatedProductOf(LinearOp op) {
  if (op.getWeights().size() != 2 || !op.getBiases().empty() || typeOf(op.getResult()).getRank() != 2)
    return failure();
  int64_t n = typeOf(op.getWeights()[0]).getDimSize(0);
  if (n != typeOf(op.getWeights()[1]).getDimSize(0) || n % PackedLayout::panelRows)
    return failure();
  std::array<tensor::ExtractSliceOp, 2> parts;
  for (Operation *user : op->getUsers()) {
    auto slice = dyn_cast<tensor::ExtractSliceOp>(user);
    if (!slice && !isa<tensor::DimOp>(user))
      return failure();
    if (!slice)
      continue;
    if (!slice->hasOneUse() || !(isColumns(slice, 0, n) || isColumns(slice, n, n)))
      return failure();
    parts[isColumns(slice, n, n)] = slice;
  }
  if (!parts[0] || !parts[1] || parts[0].getType() != parts[1].getType())
    return failure();
  auto glu = dyn_cast<GluOp>(*parts[0]->user_begin());
  if (!glu || glu.getOperation() != *parts[1]->user_begin())
    return failure();
  size_t first = glu.getGate() == parts[0].getResult() ? 0 : 1;
  return GatedProduct{glu, parts[first], parts[1 - first], {op.getWeights()[first], op.getWeights()[1 - first]}};
}

// `rows`: a number where it is known, as the types of a graph may say it.
// What has as many rows as `x` and is no part of a kernel that rows are computed in one by one: its size outlives what is outlined.
static Value rowsBefore(Value x) {
  while (Operation *def = x.getDefiningOp()) {
    if (!isa<RmsNormOp, LayerNormOp, GluOp, SoftcapOp>(def) && !OpTrait::hasElementwiseMappableTraits(def))
      break;
    x = def->getOperand(0);
  }
  return x;
}

Value KernelLowering::emptyRows(Location loc, OpFoldResult rows, int64_t width, Type element) {
  return tensor::EmptyOp::create(b, loc, {rows, b.getIndexAttr(width)}, element);
}

// `op`, or the addition of its result, gives way to the product that computes it.
static void replaceWithMatmul(Operation *op, arith::AddFOp add, Value product) {
  (add ? add.getOperation() : op)->getResult(0).replaceAllUsesWith(product);
  if (add)
    add.erase();
  op->erase();
}

// activation(x Wgate^T) * (x Wup^T)
LogicalResult KernelLowering::lowerGated(LinearOp op, GatedProduct product) {
  FailureOr<PackOp> weights =
      packMatrices(op, product.weights, commonFormat(product.weights), PackingLayout::Interleaved, 2);
  if (failed(weights))
    return failure();
  GluOp glu = product.glu;
  RankedTensorType type = typeOf(glu.getResult());
  b.setInsertionPoint(op);
  Value init = emptyRows(op.getLoc(), tensor::getMixedSize(b, op.getLoc(), rowsBefore(op.getInput()), 0),
                         type.getDimSize(1), type.getElementType());
  auto matmul = PackedMatmulOp::create(
      b, mergedLocation(b.getContext(), {op.getLoc(), glu.getLoc()}), TypeRange{type}, op.getInput(), Value(), Value(),
      Value(), weights->getResult(), Value(), Value(), init, b.getI64IntegerAttr(type.getDimSize(1)),
      b.getI64IntegerAttr(typeOf(op.getInput()).getDimSize(1)), weights->getFormatAttr(), glu.getActivationAttr(),
      FloatAttr(), FloatAttr(), /*gated=*/b.getUnitAttr(), /*accumulate=*/UnitAttr(), /*int16=*/UnitAttr(),
      /*rounded_above=*/IntegerAttr());
  glu.getResult().replaceAllUsesWith(matmul.getResult(0));
  for (Operation *user : llvm::make_early_inc_range(op->getUsers()))
    if (auto dim = dyn_cast<tensor::DimOp>(user)) // of the rows
      dim.getSourceMutable().assign(op.getInput());
  for (Operation *dead :
       {glu.getOperation(), product.gate.getOperation(), product.up.getOperation(), op.getOperation()})
    dead->erase();
  return success();
}

LogicalResult KernelLowering::lowerLinear(LinearOp op) {
  if (FailureOr<GatedProduct> product = gatedProductOf(op); gates && succeeded(product))
    return lowerGated(op, *product);
  FailureOr<PackOp> weights = packMatrices(op, op.getWeights(), commonFormat(op.getWeights()));
  if (failed(weights))
    return failure();
  Value bias = op.getBiases().empty() ? Value() : packVectors(op, op.getBiases());
  Value residual;
  arith::AddFOp add = residualOf(op, residual);
  ActivationKindAttr activation;
  if (GluOp glu = activationOf(op))
    activation = takeActivation(glu);
  b.setInsertionPoint(op);
  auto type = typeOf(op.getResult());
  Value init = residual;
  if (!add) {
    init = emptyRows(op.getLoc(), tensor::getMixedSize(b, op.getLoc(), rowsBefore(op.getInput()), 0),
                     type.getDimSize(1), type.getElementType());
  }
  auto matmul = PackedMatmulOp::create(
      b, op.getLoc(), TypeRange{type}, op.getInput(), Value(), Value(), Value(), weights->getResult(), bias, Value(),
      init, b.getI64IntegerAttr(type.getDimSize(1)), b.getI64IntegerAttr(typeOf(op.getInput()).getDimSize(1)),
      weights->getFormatAttr(), activation, FloatAttr(), FloatAttr(), /*gated=*/UnitAttr(),
      add ? b.getUnitAttr() : UnitAttr(),
      /*int16=*/UnitAttr(), /*rounded_above=*/IntegerAttr());
  replaceWithMatmul(op, add, matmul.getResult(0));
  return success();
}

LogicalResult KernelLowering::lowerIntegerLinear(IntegerLinearOp op) {
  auto weight = op.getWeight().getDefiningOp<WeightOp>();
  std::optional<Codes> codes = weight ? Codes::of(weight) : std::nullopt;
  RankedTensorType type = typeOf(op.getResult());
  int64_t k = typeOf(op.getInput()).getDimSize(1);
  if (!codes || !weight.getStorage() || !isOfBytes(*codes, weight.getStorage().getTransposed(), k))
    return op.emitError(
        "has a kernel for a stored weight of codes of 8 bits without scales, one zero point for each row");
  FailureOr<PackOp> weights = packMatrices(op, op.getWeight(), "bytes");
  if (failed(weights))
    return failure();
  b.setInsertionPoint(op);
  Value init = emptyRows(op.getLoc(), tensor::getMixedSize(b, op.getLoc(), rowsBefore(op.getInput()), 0),
                         type.getDimSize(1), type.getElementType());
  auto matmul =
      IntegerMatmulOp::create(b, op.getLoc(), TypeRange{type}, op.getInput(), weights->getResult(), op.getZero(), init,
                              b.getI64IntegerAttr(type.getDimSize(1)), b.getI64IntegerAttr(k), op.getIsUnsignedAttr());
  op.getResult().replaceAllUsesWith(matmul.getResult(0));
  op.erase();
  return success();
}

// The router's product and what follows from it: whose rows an expert computes.
RouteExpertsOp KernelLowering::routeExperts(MoeOp op, Value rows) {
  FailureOr<PackOp> router = packMatrices(op, op.getRouter(), formatOf(typeOf(op.getRouter())));
  if (failed(router))
    return {};
  Value bias = op.getRouterBias() ? packVectors(op, op.getRouterBias()) : Value();
  Location loc = op.getLoc();
  int64_t topK = op.getTopK(), experts = typeOf(op.getRouter()).getDimSize(0);
  Type f32 = b.getF32Type(), i32 = b.getI32Type();
  Value logits = emptyRows(loc, rows, experts, f32);
  logits = PackedMatmulOp::create(b, loc, TypeRange{logits.getType()}, op.getRoutedRows(), Value(), Value(), Value(),
                                  router->getResult(), bias, Value(), logits, b.getI64IntegerAttr(experts),
                                  b.getI64IntegerAttr(typeOf(op.getRoutedRows()).getDimSize(1)),
                                  router->getFormatAttr(), ActivationKindAttr(), FloatAttr(), FloatAttr(), UnitAttr(),
                                  UnitAttr(), UnitAttr(), IntegerAttr())
               .getResult(0);
  Value correction = op.getCorrection() ? packVectors(op, op.getCorrection()) : Value();
  Value scales = op.getScales() ? packVectors(op, op.getScales()) : Value();
  SmallVector<Value> inits = {emptyRows(loc, rows, topK, i32), emptyRows(loc, rows, topK, f32),
                              emptyRows(loc, rows, experts + 1, i32), emptyRows(loc, rows, topK, i32),
                              emptyRows(loc, rows, topK, f32)};
  return RouteExpertsOp::create(b, loc, TypeRange(ValueRange(inits)), logits, correction, scales, inits,
                                b.getI64IntegerAttr(experts), op.getTopKAttr(), op.getNormalizeAttr(),
                                op.getRoutingAttr());
}

LogicalResult KernelLowering::lowerMoe(MoeOp op) {
  // One kernel serves all experts of a role.
  bool alternates = op.alternates(), isUngated = op.isUngated(),
       scalesInput = op.getRouting() && op.getRouting()->getScalesInput();
  auto inTurn = [](ValueRange gates, ValueRange ups) {
    SmallVector<Value> values;
    for (size_t e = 0; e < gates.size(); ++e) {
      values.push_back(gates[e]);
      if (!ups.empty())
        values.push_back(ups[e]);
    }
    return values;
  };
  if (op.getGateBiases().empty() != (op.getUps().empty() ? op.getGateBiases() : op.getUpBiases()).empty())
    return op.emitError("has kernels for biases of gates and ups, or of neither");
  int64_t width = typeOf(op.getInput()).getDimSize(1), intermediate = typeOf(op.getDowns()[0]).getDimSize(1),
          topK = op.getTopK();
  if (alternates && intermediate % PackedLayout::panelRows)
    return op.emitError("has kernels for rows of gates and ups in turn of an intermediate size (")
           << intermediate << ") that is a multiple of " << PackedLayout::panelRows;
  SmallVector<Value> gatesAndUps = inTurn(op.getGates(), op.getUps()),
                     gateUpBiases = inTurn(op.getGateBiases(), op.getUpBiases());
  std::string gateUpFormat = commonFormat(gatesAndUps), downFormat = commonFormat(op.getDowns());
  for (const auto &[role, matrices, format] : {std::tuple("gate and up", ValueRange(gatesAndUps), gateUpFormat),
                                               std::tuple("down", ValueRange(op.getDowns()), downFormat)})
    if (format != formatOf(typeOf(matrices.front())))
      op.emitRemark("experts' ") << role << " matrices are of several stored types: packed as " << format;
  FailureOr<PackOp> gateUp = packMatrices(op, gatesAndUps, gateUpFormat, PackingLayout::Interleaved,
                                          op.getUps().empty() ? 1 : 2),
                    down = packMatrices(op, op.getDowns(), downFormat, PackingLayout::Interleaved, 1);
  if (failed(gateUp) || failed(down))
    return failure();
  Value gateUpBias = gateUpBiases.empty() ? Value() : packVectors(op, gateUpBiases),
        downBias = op.getDownBiases().empty() ? Value() : packVectors(op, op.getDownBiases());
  Location loc = op.getLoc();
  b.setInsertionPoint(op);
  Value rows = tensor::DimOp::create(b, loc, op.getInput(), 0);
  RouteExpertsOp route = routeExperts(op, rows);
  if (!route)
    return failure();
  auto product = [&](Value input, Value weights, Value bias, Value init, int64_t n, int64_t k, StringRef format,
                     ActivationKindAttr activation, bool accumulate) {
    return ExpertMatmulOp::create(
               b, loc, TypeRange{init.getType()}, input, Value(), Value(), Value(), route.getResult(2),
               route.getResult(3), route.getResult(4), weights, bias, init, route.getNumExpertsAttr(),
               route.getTopKAttr(), b.getI64IntegerAttr(n), b.getI64IntegerAttr(k), b.getStringAttr(format), activation,
               activation ? op.getGatingAttr() : GatingAttr(), activation && alternates ? b.getUnitAttr() : UnitAttr(),
               activation && isUngated ? b.getUnitAttr() : UnitAttr(), scalesInput ? b.getUnitAttr() : UnitAttr(),
               accumulate ? b.getUnitAttr() : UnitAttr(), UnitAttr())
        .getResult(0);
  };
  Value hidden = emptyRows(loc, rows, topK * intermediate, b.getF32Type());
  hidden = product(op.getInput(), gateUp->getResult(), gateUpBias, hidden, intermediate, width, gateUpFormat,
                   op.getActivationAttr(), false);
  Value init;
  arith::AddFOp add = residualOf(op, init);
  if (!add)
    init = emptyRows(loc, rows, width, b.getF32Type());
  replaceWithMatmul(op, add,
                    product(hidden, down->getResult(), downBias, init, width, intermediate, downFormat, {}, bool(add)));
  return success();
}

// Behind the rows of a ragged batch lie the states that a cache holds; a graph has neither.
template <typename Op> static LogicalResult checkIsOfStep(Op op) {
  return op.getCache() ? success()
                       : LogicalResult(op.emitError("has a kernel in a step alone, whose cache holds states"));
}

LogicalResult KernelLowering::lowerConv(CausalConvOp op) {
  if (failed(checkIsOfStep(op)))
    return failure();
  Value weight = packVectors(op, op.getWeight()), bias = op.getBias() ? packVectors(op, op.getBias()) : Value();
  b.setInsertionPoint(op);
  Value init =
      emptyRows(op.getLoc(), tensor::getMixedSize(b, op.getLoc(), op.getInput(), 0), op.getChannels(), b.getF32Type());
  auto conv = RaggedConvOp::create(b, op.getLoc(), TypeRange{init.getType()}, op.getInput(), weight, bias,
                                   op.getCache(), op.getLayer(), init, op.getOffsetAttr(), op.getActivationAttr());
  op.getResult().replaceAllUsesWith(conv.getResult(0));
  op.erase();
  return success();
}

LogicalResult KernelLowering::lowerLinearAttention(LinearAttentionOp op) {
  if (failed(checkIsOfStep(op)))
    return failure();
  b.setInsertionPoint(op);
  Value init = emptyRows(op.getLoc(), tensor::getMixedSize(b, op.getLoc(), op.getValue(), 0),
                         typeOf(op.getResult()).getDimSize(1), b.getF32Type());
  auto attention = RaggedLinearAttentionOp::create(b, op.getLoc(), TypeRange{init.getType()}, op.getQuery(),
                                                   op.getKey(), op.getValue(), op.getDecay(), op.getBeta(),
                                                   op.getCache(), op.getLayer(), init, op.getNumHeadsAttr(),
                                                   op.getNumKeyHeadsAttr(), op.getScaleAttr(), op.getOffsetAttr());
  op.getResult().replaceAllUsesWith(attention.getResult(0));
  op.erase();
  return success();
}

// Each head's matrices are packed for themselves: the bodies take them head by head.
LogicalResult KernelLowering::packLatentAttention(OnlineLatentAttentionOp op) {
  bool rebuilds = op.getForm() != LatentForm::Absorbed, folds = op.getForm() != LatentForm::Materialised;
  RankedTensorType keyType = typeOf(op.getKeyUps().front()), valueType = typeOf(op.getValueUps().front());
  for (OperandRange ups : {op.getKeyUps(), op.getValueUps()})
    for (Value up : ups)
      if (up.getType() != ups.front().getType())
        return op.emitError("up-projections must be stored alike: ") << ups.front().getType() << ", " << up.getType();
  auto pack = [&](ValueRange ups, const std::string &format, bool transposed, bool manyRows) {
    return packMatrices(op, ups, format, PackingLayout::Interleaved, 1, transposed, manyRows);
  };
  auto keyUps = llvm::to_vector(op.getKeyUps()), valueUps = llvm::to_vector(op.getValueUps());
  op.getKeyUpsMutable().clear();
  op.setKeyFormat(formatOf(keyType));
  if (rebuilds) {
    FailureOr<PackOp> keys = pack(keyUps, formatOf(keyType), /*transposed=*/false, /*manyRows=*/folds);
    if (failed(keys))
      return failure();
    op.getKeyUpsMutable().assign(keys->getResult());
  }
  if (folds) {
    FailureOr<PackOp> folded = pack(keyUps, transposedFormat(keyType), /*transposed=*/true, /*manyRows=*/false);
    if (failed(folded))
      return failure();
    op.getKeyFoldsMutable().assign(folded->getResult());
    op.setFoldFormat(transposedFormat(keyType));
  }
  FailureOr<PackOp> values = pack(valueUps, formatOf(valueType), /*transposed=*/false, /*manyRows=*/false);
  if (failed(values))
    return failure();
  op.getValueUpsMutable().assign(values->getResult());
  op.setValueFormat(formatOf(valueType));
  return success();
}

LogicalResult KernelLowering::lowerEmbedding(EmbeddingOp op) {
  FailureOr<PackOp> table = packMatrices(op, op.getTable(), formatOf(op.getTable()));
  if (failed(table))
    return failure();
  auto type = typeOf(op.getResult()), tableType = typeOf(op.getTable());
  Value init = emptyRows(op.getLoc(), tensor::getMixedSize(b, op.getLoc(), op.getIds(), 0), type.getDimSize(1),
                         type.getElementType());
  auto dequantize =
      DequantizeOp::create(b, op.getLoc(), TypeRange{type}, op.getIds(), table->getResult(), op.getGiven(), init,
                           b.getI64IntegerAttr(tableType.getDimSize(0)), b.getI64IntegerAttr(tableType.getDimSize(1)),
                           table->getFormatAttr(), op.getScaleAttr());
  op.getResult().replaceAllUsesWith(dequantize.getResult(0));
  op.erase();
  return success();
}

// Whether `value` comes from the model file. Arguments of a function that others call are rows or weights, by their shape.
static bool isWeight(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    auto func = dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp());
    return func && func.isPrivate() && cast<RankedTensorType>(argument.getType()).hasStaticShape();
  }
  return value.getDefiningOp<WeightOp>() != nullptr;
}

LogicalResult KernelLowering::lower(Operation *op) {
  if (auto linear = dyn_cast<LinearOp>(op))
    return lowerLinear(linear);
  if (auto linear = dyn_cast<IntegerLinearOp>(op))
    return lowerIntegerLinear(linear);
  if (auto moe = dyn_cast<MoeOp>(op))
    return lowerMoe(moe);
  if (auto latent = dyn_cast<OnlineLatentAttentionOp>(op))
    return packLatentAttention(latent);
  if (auto conv = dyn_cast<CausalConvOp>(op))
    return lowerConv(conv);
  if (auto attention = dyn_cast<LinearAttentionOp>(op))
    return lowerLinearAttention(attention);
  if (auto embedding = dyn_cast<EmbeddingOp>(op); embedding && isWeight(embedding.getTable()))
    return lowerEmbedding(embedding);
  if (auto embedding = dyn_cast<EmbeddingOp>(op)) // of rows that were computed
    return embedding.getGiven() ? embedding.emitOpError("takes given rows beside a table of the model alone")
                                : LogicalResult(success());
  for (OpOperand &operand : op->getOpOperands()) {
    auto type = dyn_cast<RankedTensorType>(operand.get().getType());
    if (!type || type.getRank() != 1)
      continue;
    // A vector of the model, or several, one behind the other.
    auto join = operand.get().getDefiningOp<tensor::ConcatOp>();
    SmallVector<Value> vectors(join ? ValueRange(join.getInputs()) : ValueRange(operand.get()));
    if (llvm::all_of(vectors, isWeight))
      operand.set(packVectors(op, vectors));
    if (join && join->use_empty())
      join.erase();
  }
  return success();
}

LogicalResult KernelLowering::run() {
  // Only those: lowering a product may erase the addition behind it.
  SmallVector<Operation *> ops;
  func.walk([&](Operation *op) {
    if (isa<LinearOp, IntegerLinearOp, MoeOp, OnlineLatentAttentionOp, EmbeddingOp, RmsNormOp, LayerNormOp,
            OnlineAttentionOp, CombineSplitsOp, RaggedAttentionOp, CausalConvOp, LinearAttentionOp>(op))
      ops.push_back(op);
  });
  return success(llvm::all_of(ops, [&](Operation *op) { return succeeded(lower(op)); }));
}

namespace {
struct LowerToKernels : heddle::impl::LowerToKernelsBase<LowerToKernels> {
  using LowerToKernelsBase::LowerToKernelsBase;

  // Gates are joined as the step's target has kernels for.
  void runInStage() override {
    func::FuncOp func = getOperation();
    bool isElsewhere = isGraphEntry(func) && func->getParentOp()->hasAttr(graphTargetAttrName);
    if (failed(KernelLowering(func, gates && !isElsewhere).run()))
      signalPassFailure();
  }
};
} // namespace
