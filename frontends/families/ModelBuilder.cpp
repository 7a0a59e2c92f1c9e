// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "frontends/families/ModelBuilder.h"
#include "frontends/Architectures.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include <cmath>

using namespace mlir;
using namespace heddle;

static constexpr int64_t dynamic = ShapedType::kDynamic;

static RankedTensorType typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

// Element type and encoding of a stored tensor.
static RankedTensorType storedType(MLIRContext *context, const TensorInfo &tensor) {
  Builder b(context);
  const char *name = tensorTypeInfo(tensor.type).name;
  if (tensor.type == heddle::TensorType::F16 || tensor.type == heddle::TensorType::BF16)
    return RankedTensorType::get(tensor.shape,
                                 tensor.type == heddle::TensorType::F16 ? b.getF16Type() : (Type)b.getBF16Type());
  if (auto kind = symbolizeQuantKind(name))
    return RankedTensorType::get(tensor.shape, b.getF32Type(), QuantKindAttr::get(context, *kind));
  return RankedTensorType::get(tensor.shape, b.getF32Type());
}

ModelBuilder::ModelBuilder(MLIRContext &context, const Model &model)
    : model(model), b(&context), loc(NameLoc::get(b.getStringAttr(model.config.architecture))) {
  const Architecture *architecture = findArchitecture(config().architecture);
  assert(architecture && "every family has a row");
  Status listed =
      forEachTensor(*architecture, config(), [&](const TensorRule &rule, int64_t layer, int64_t expert) -> Status {
        weightNames.insert(tensorName(rule.name, layer, expert));
        return Status();
      });
  assert(listed.isOk());
  module = ModuleOp::create(b, loc);
  b.setInsertionPointToEnd(module->getBody());
  auto grid = RankedTensorType::get({dynamic, dynamic}, b.getI32Type());
  auto logits = RankedTensorType::get({dynamic, dynamic, config().vocabSize}, b.getF32Type());
  forward = func::FuncOp::create(b, loc, "forward", b.getFunctionType({grid, grid}, {logits}));
  Block *entry = forward.addEntryBlock();
  ids = entry->getArgument(0);
  positions = entry->getArgument(1);
  b.setInsertionPointToEnd(entry);
}

RankedTensorType ModelBuilder::activations(int64_t width) {
  return RankedTensorType::get({dynamic, dynamic, width}, b.getF32Type());
}

RankedTensorType ModelBuilder::partType(const WeightPart &part) {
  const TensorInfo *tensor = model.checkpoint.find(part.name);
  assert(tensor && "readers check that every weight is there");
  RankedTensorType type = storedType(b.getContext(), *tensor);
  if (!part.rows)
    return type;
  if (!part.transposed)
    return RankedTensorType::get({part.rows, type.getDimSize(1)}, type.getElementType(), type.getEncoding());
  // Blocks of a quantised matrix lie along its rows: seen as columns they are numbers without a format.
  return RankedTensorType::get({type.getDimSize(1), part.rows}, type.getElementType());
}

Value ModelBuilder::weightOp(const WeightPart &part) {
  const TensorInfo *tensor = model.checkpoint.find(part.name);
  assert(tensor && "readers check that every weight is there");
  std::string name = part.name;
  uint64_t offset = tensor->offset;
  if (part.rows) {
    name += "[" + std::to_string(part.begin) + ":" + std::to_string(part.begin + part.rows) + "]";
    offset += tensor->bytes / tensor->shape[0] * part.begin;
  }
  auto storage = StorageAttr::get(b.getContext(), b.getStringAttr(tensorTypeInfo(tensor->type).name), tensor->file,
                                  offset, part.transposed != tensor->transposed);
  return WeightOp::create(b, NameLoc::get(b.getStringAttr(name)), partType(part), name, storage);
}

// Outside layers a weight is an op where it is used; inside, an argument that the caller fills.
Value ModelBuilder::weight(WeightPart part) {
  if (!layerFunc)
    return weightOp(part);
  std::string name = part.name.substr(prefix.size());
  layerWeights.push_back(part);
  return layerFunc.front().addArgument(partType(part), NameLoc::get(b.getStringAttr(name)));
}

Value ModelBuilder::weightRows(const std::string &name, int64_t begin, int64_t rows, bool transposed) {
  return weight(WeightPart{prefix + name, begin, rows, transposed});
}

Value ModelBuilder::embedTokens(const std::string &name) {
  Value table = weight(name);
  return EmbeddingOp::create(b, loc, activations(typeOf(table).getDimSize(1)), ids, table,
                             b.getF64FloatAttr(config().embeddingScale));
}

Value ModelBuilder::embedPositions(const std::string &name) {
  Value table = weight(name);
  return EmbeddingOp::create(b, loc, activations(typeOf(table).getDimSize(1)), positions, table,
                             b.getF64FloatAttr(1.0));
}

Value ModelBuilder::layer(int64_t index, const std::string &scope, Value x, function_ref<Value(Value)> body) {
  OpBuilder::InsertPoint caller = b.saveInsertionPoint();
  Value callerPositions = positions;
  b.setInsertionPoint(forward);
  std::string symbol = "layer_" + std::to_string(index);
  layerFunc =
      func::FuncOp::create(b, loc, symbol, b.getFunctionType({x.getType(), positions.getType()}, {x.getType()}));
  layerFunc.setPrivate();
  Block *entry = layerFunc.addEntryBlock();
  b.setInsertionPointToEnd(entry);
  layerIndex = index;
  prefix = scope;
  positions = entry->getArgument(1);
  Value result = body(entry->getArgument(0));
  func::ReturnOp::create(b, loc, result);
  layerFunc.setType(b.getFunctionType(entry->getArgumentTypes(), {x.getType()}));

  b.restoreInsertionPoint(caller);
  positions = callerPositions;
  SmallVector<Value> arguments = {x, positions};
  for (const WeightPart &part : layerWeights)
    arguments.push_back(weightOp(part));
  func::FuncOp callee = layerFunc;
  layerFunc = {};
  layerWeights.clear();
  prefix.clear();
  layerIndex = -1;
  return func::CallOp::create(b, loc, callee, arguments).getResult(0);
}

Value ModelBuilder::linear(Value x, const std::string &name) {
  Value matrix = weight(name + ".weight");
  SmallVector<Value> biases;
  if (has(name + ".bias"))
    biases.push_back(weight(name + ".bias"));
  return LinearOp::create(b, loc, activations(typeOf(matrix).getDimSize(0)), x, ValueRange{matrix}, biases);
}

Value ModelBuilder::rmsNorm(Value x, const std::string &name, double eps) {
  return RmsNormOp::create(b, loc, x.getType(), x, weight(name + ".weight"),
                           b.getF64FloatAttr(eps ? eps : config().normEps),
                           b.getF64FloatAttr(config().normWeightOffset));
}

Value ModelBuilder::layerNorm(Value x, const std::string &name) {
  Value scale = weight(name + ".weight");
  Value bias = has(name + ".bias") ? weight(name + ".bias") : Value();
  return LayerNormOp::create(b, loc, x.getType(), x, scale, bias, b.getF64FloatAttr(config().normEps));
}

Value ModelBuilder::add(Value a, Value c) {
  return arith::AddFOp::create(b, loc, a, c);
}

Value ModelBuilder::glu(Value gate, Value up) {
  auto kind = static_cast<ActivationKind>(config().activation);
  return GluOp::create(b, loc, gate.getType(), gate, up, ActivationKindAttr::get(b.getContext(), kind));
}

Value ModelBuilder::columns(Value x, int64_t begin, int64_t end) {
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, loc, x);
  SmallVector<OpFoldResult> offsets(sizes.size(), b.getIndexAttr(0)), strides(sizes.size(), b.getIndexAttr(1));
  offsets.back() = b.getIndexAttr(begin);
  sizes.back() = b.getIndexAttr(end - begin);
  return tensor::ExtractSliceOp::create(b, loc, activations(end - begin), x, offsets, sizes, strides);
}

Value ModelBuilder::splitHeads(Value x, int64_t heads) {
  int64_t headDim = typeOf(x).getDimSize(2) / heads;
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, loc, x);
  SmallVector<OpFoldResult> split = {sizes[0], sizes[1], b.getIndexAttr(heads), b.getIndexAttr(headDim)};
  auto expandedType = RankedTensorType::get({dynamic, dynamic, heads, headDim}, b.getF32Type());
  SmallVector<ReassociationIndices> groups = {{0}, {1}, {2, 3}};
  Value expanded = tensor::ExpandShapeOp::create(b, loc, expandedType, x, groups, split);
  Value init = tensor::EmptyOp::create(b, loc, {split[0], split[2], split[1], split[3]}, b.getF32Type());
  return linalg::TransposeOp::create(b, loc, expanded, init, ArrayRef<int64_t>{0, 2, 1, 3}).getResult()[0];
}

Value ModelBuilder::mergeHeads(Value x) {
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, loc, x);
  Value init = tensor::EmptyOp::create(b, loc, {sizes[0], sizes[2], sizes[1], sizes[3]}, b.getF32Type());
  Value rows = linalg::TransposeOp::create(b, loc, x, init, ArrayRef<int64_t>{0, 2, 1, 3}).getResult()[0];
  SmallVector<ReassociationIndices> groups = {{0}, {1}, {2, 3}};
  return tensor::CollapseShapeOp::create(b, loc, activations(typeOf(x).getDimSize(1) * typeOf(x).getDimSize(3)), rows,
                                         groups);
}

Value ModelBuilder::rope(Value x, int64_t offset) {
  int64_t table = config().layerRope[layerIndex];
  float factor = 1.0f;
  std::vector<float> frequencies = config().ropes[table].inverseFrequency(false, factor, config().contextLength);
  auto attr = RopeAttr::get(b.getContext(), config().ropes[table].interleaved, table, b.getF64FloatAttr(factor),
                            b.getDenseF32ArrayAttr(frequencies));
  return RopeOp::create(b, loc, x.getType(), x, positions, Value(), attr, b.getI64IntegerAttr(offset));
}

Value ModelBuilder::attention(Value q, Value k, Value v) {
  double scale = config().attentionScale ? config().attentionScale : 1.0 / std::sqrt(double(typeOf(q).getDimSize(3)));
  if (config().scaleByLayer)
    scale /= double(layerIndex + 1);
  auto mask = MaskAttr::get(b.getContext(), true, config().layerWindow[layerIndex]);
  return AttentionOp::create(b, loc, q.getType(), q, k, v, Value(), Value(), mask, b.getF64FloatAttr(scale),
                             b.getF64FloatAttr(config().attentionSoftcap));
}

Value ModelBuilder::latentAttention(Value q, Value latent, Value keyRope, ValueRange keyUps, ValueRange valueUps) {
  auto mask = MaskAttr::get(b.getContext(), true, config().layerWindow[layerIndex]);
  auto type = typeOf(q).clone({dynamic, typeOf(q).getDimSize(1), dynamic, typeOf(valueUps.front()).getDimSize(0)});
  return LatentAttentionOp::create(b, loc, type, q, latent, keyRope, keyUps, valueUps, mask,
                                   b.getF64FloatAttr(config().attentionScale),
                                   LatentFormAttr::get(b.getContext(), LatentForm::Materialised));
}

Value ModelBuilder::moe(Value x, const std::string &router, const std::string &experts, const char *gate,
                        const char *up, const char *down) {
  SmallVector<Value> gates, ups, downs;
  Value routerWeight = weight(router + ".weight");
  for (int64_t e = 0; e < config().moe.numExperts; ++e) {
    std::string expert = experts + "." + std::to_string(e) + ".";
    gates.push_back(weight(expert + gate + ".weight"));
    ups.push_back(weight(expert + up + ".weight"));
    downs.push_back(weight(expert + down + ".weight"));
  }
  const MoeConfig &moe = config().moe;
  Value correction = moe.hasCorrection ? weight(router + ".e_score_correction_bias") : Value();
  RoutingAttr routing;
  if (moe.sigmoidScores || moe.numGroups > 1 || moe.routedScale != 1.0)
    routing = RoutingAttr::get(b.getContext(), moe.sigmoidScores, moe.numGroups, moe.topGroups,
                               b.getF64FloatAttr(moe.routedScale));
  auto kind = static_cast<ActivationKind>(config().activation);
  return MoeOp::create(b, loc, x.getType(), x, routerWeight, correction, gates, ups, downs,
                       b.getI64IntegerAttr(moe.expertsPerToken), b.getBoolAttr(moe.normTopkProb), routing,
                       ActivationKindAttr::get(b.getContext(), kind));
}

void ModelBuilder::finish(Value x, const std::string &head) {
  Value matrix = weight(head);
  Value logits =
      LinearOp::create(b, loc, activations(typeOf(matrix).getDimSize(0)), x, ValueRange{matrix}, ValueRange{});
  if (config().finalSoftcap > 0)
    logits = SoftcapOp::create(b, loc, logits, b.getF64FloatAttr(config().finalSoftcap));
  func::ReturnOp::create(b, loc, logits);
}

OwningOpRef<ModuleOp> heddle::importModel(MLIRContext &context, const Model &model) {
  for (const Family &family : families()) {
    if (model.config.architecture != family.architecture)
      continue;
    ModelBuilder builder(context, model);
    family.build(builder);
    return builder.take();
  }
  emitError(UnknownLoc::get(&context)) << "no family builds architecture '" << model.config.architecture << "'";
  return {};
}
