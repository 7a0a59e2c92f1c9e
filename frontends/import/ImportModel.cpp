// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The builder that a family's graph is written with, in MLIR. Values go through the family's file as opaque pointers.

#include "frontends/import/ImportModel.h"

#include "dialect/Codes.h"
#include "dialect/EncodeOutputs.h"
#include "dialect/Entries.h"
#include "dialect/HeddleDialect.h"
#include "dialect/Locations.h"
#include "frontends/Family.h"
#include "frontends/families/ModelBuilder.h"
#include "frontends/import/TokenOps.h"
#include "frontends/peft/KeepAdapters.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/SmallVectorExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

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

static ActivationKind kindOf(Activation activation) {
  switch (activation) {
  case Activation::Silu:
    return ActivationKind::Silu;
  case Activation::Gelu:
    return ActivationKind::Gelu;
  case Activation::GeluTanh:
    return ActivationKind::GeluTanh;
  case Activation::Relu:
  case Activation::SquaredRelu: // relu(x) x
    return ActivationKind::Relu;
  case Activation::QuickGelu:
    return ActivationKind::QuickGelu;
  case Activation::Tanh:
    return ActivationKind::Tanh;
  }
  llvm_unreachable("all activations are listed");
}

namespace {

class ModelImporter final : public ModelBuilder {
public:
  ModelImporter(MLIRContext &context, const Model &model);

  const ModelConfig &config() const override { return model.config; }
  bool has(const std::string &name) const override { return weightNames.contains(prefix + name); }
  void beginEntry(const std::string &name, const std::string &batch) override;
  TensorHandle rows(const std::string &name, const std::string &dim, int64_t width) override;
  TensorHandle keyMask() override;
  TensorHandle endToken(TensorHandle x, std::optional<int64_t> end) override;
  TensorHandle embedTokens(const std::string &name) override;
  TensorHandle embedPositions(const std::string &name) override;
  TensorHandle embedTokenTypes(const std::string &name) override { return embed(name, entry.getArgument(2), 1.0); }
  TensorHandle patches() override;
  TensorHandle pixelPatches() override;
  TensorHandle layer(int64_t index, const std::string &scope, TensorHandle x, const LayerBody &body) override;
  TensorHandle linear(TensorHandle x, const std::string &name) override;
  TensorHandle linear(TensorHandle x, const std::string &weight, const std::string &bias, int64_t begin,
                      int64_t rows) override;
  TensorHandle rmsNorm(TensorHandle x, const std::string &name, double eps) override;
  TensorHandle layerNorm(TensorHandle x, const std::string &name, double eps) override;
  TensorHandle add(TensorHandle a, TensorHandle b) override;
  TensorHandle scale(TensorHandle x, double factor) override;
  TensorHandle clip(TensorHandle x, double limit) override;
  TensorHandle glu(TensorHandle gate, TensorHandle up) override;
  TensorHandle activation(TensorHandle x, Activation kind) override { return gated(x, TensorHandle(), kindOf(kind)); }
  TensorHandle columns(TensorHandle x, int64_t begin, int64_t end) override;
  TensorHandle firstTokens(TensorHandle x) override;
  TensorHandle gatherTokens(TensorHandle x, const std::vector<int32_t> &tokens, int64_t group,
                            const std::string &other) override;
  TensorHandle scaleColumns(TensorHandle x, const std::string &name) override;
  TensorHandle sideBySide(TensorHandle x, TensorHandle y) override;
  TensorHandle unitRows(TensorHandle x) override;
  TensorHandle similarities(TensorHandle x, TensorHandle y, const std::string &scale) override;
  TensorHandle meanToken(TensorHandle x) override;
  TensorHandle addTable(TensorHandle x, const std::string &name) override;
  TensorHandle windowAttention(TensorHandle q, TensorHandle k, TensorHandle v, int64_t heads,
                               const WindowTerms &terms) override;
  TensorHandle splitHeads(TensorHandle x, int64_t heads) override;
  TensorHandle mergeHeads(TensorHandle x) override;
  TensorHandle rope(TensorHandle x, int64_t offset) override;
  TensorHandle attention(TensorHandle q, TensorHandle k, TensorHandle v, const AttentionTerms &terms) override;
  TensorHandle ofSource(const LayerBody &project) override;
  TensorHandle latentAttention(TensorHandle q, TensorHandle latent, TensorHandle keyRope,
                               const std::vector<TensorHandle> &keyUps,
                               const std::vector<TensorHandle> &valueUps) override;
  TensorHandle weightRows(const std::string &name, int64_t begin, int64_t rows, bool transposed) override;
  TensorHandle moe(TensorHandle x, const std::string &block) override;
  TensorHandle gatedExpert(TensorHandle x, const std::string &expert, const std::string &gate) override;
  void finish(TensorHandle x, const std::string &head, const std::string &bias) override;
  void output(const std::string &name, TensorHandle x, bool squeezed) override;
  void beginDecoder(TensorHandle lastHiddenState) override;

  FailureOr<OwningOpRef<ModuleOp>> take();

private:
  // A matrix or vector of the checkpoint, or rows of it.
  struct WeightPart {
    std::string name;
    int64_t begin = 0, rows = 0; // rows 0: all
    bool transposed = false;
    bool isVector = false; // read as one, whatever its shape
  };
  Value weight(const std::string &name) { return weight(WeightPart{prefix + name}); }
  // What the caller of the layer that is being built passes: a weight, or a value of the entry.
  struct LayerOperand {
    WeightPart part;
    Value value; // null: the weight
  };
  // Begins the function of an encoder, or of what generates.
  void beginRagged(llvm::StringRef name, bool isEncoder);
  // The input of that name of the graph that is being built, which is one of its arguments from now on.
  Value input(const std::string &name, RankedTensorType type, ArrayRef<StringRef> dims, bool isMask = false);
  // input_ids or attention_mask, (texts, sequence), whose numbers are all below `limit`.
  Value integers(const std::string &name, int64_t limit, bool isMask = false);
  // Ends the entry with its outputs.
  void endEntry();
  // y, which the weight `name` gave of `x`, plus what the adapters of its tokens add; y itself where none has a part in it. `rows` not 0: y is
  // rows [begin, begin + rows) of the product alone.
  Value adapted(Value y, Value x, const std::string &name, int64_t begin = 0, int64_t rows = 0);
  // Which of the rows of all adapters' A are each token's own: (batch, sequence, R) of 0 and 1.
  Value adapterMask();
  // Fails where an adapter changes a weight that is read in another way.
  LogicalResult checkAdapters();
  Value weight(const WeightPart &part);
  Value weightOp(const WeightPart &part);
  // The parts of a tensor, in the order in which the graph reads its rows.
  SmallVector<Value> orderedRows(const std::string &name);
  RankedTensorType partType(const WeightPart &part);
  RankedTensorType activations(int64_t width);
  // Says what comes next: a part of the layer that is being built, or of the model.
  void enter(const std::string &name);
  TensorHandle embed(const WeightPart &table, Value rows, double scale);
  TensorHandle embed(const std::string &name, Value rows, double scale) { return embed(WeightPart{name}, rows, scale); }
  // (1, num_heads, sequence, sequence); null where there is none.
  Value positionBias(const DistanceBias &positions);
  TensorHandle gated(TensorHandle gate, TensorHandle up, ActivationKind kind);
  Value splat(double number, Value like);
  // Ends the entry, whose type says what it gives.
  void returnAll(ValueRange results);

  const Model &model;
  llvm::StringSet<> weightNames;
  OwningOpRef<ModuleOp> module;
  OpBuilder b;
  Location loc;
  func::FuncOp entry;           // that is being built
  std::string batchName;        // of a graph's: of the first dimension of what it gives
  bool encodes = false;         // whether it is an encoder
  func::FuncOp encoder;         // of an encoder-decoder, once its decoder is being built
  SmallVector<Value> ofEncoder; // what it gives: the last hidden state, then keys and values for the decoder's layers
  Value ids,
      positions; // (batch, sequence); token types are the third argument of an encoder, which of its tokens are global the last
  std::string prefix;     // scope of names while a layer is built
  func::FuncOp layerFunc; // null outside layers
  int64_t layerIndex = -1;
  std::vector<LayerOperand> layerOperands; // behind x and the positions
  Value entryMask, layerMask;              // adapterMask() of the entry, and of the layer that is being built
  llvm::StringSet<> adaptedNames;          // weights that adapted() has met
  SmallVector<Value> outputs;              // of an encoder, with the attributes of each
  SmallVector<Attribute> outputAttributes;
};

} // namespace

static Value unwrap(TensorHandle x) {
  return Value::getFromOpaquePointer(x.value);
}

static TensorHandle wrap(Value value) {
  return {value.getAsOpaquePointer()};
}

static SmallVector<Value> unwrap(const std::vector<TensorHandle> &values) {
  return llvm::map_to_vector(values, [](TensorHandle x) { return unwrap(x); });
}

// Of all tensors that the config asks for.
static llvm::StringSet<> weightNamesOf(const ModelConfig &config) {
  llvm::StringSet<> names;
  [[maybe_unused]] Status listed =
      forEachTensor(config, [&](const TensorRule &rule, int64_t layer, int64_t expert) -> Status {
        names.insert(tensorName(rule.name, layer, expert));
        return Status();
      });
  assert(listed.isOk());
  return names;
}

ModelImporter::ModelImporter(MLIRContext &context, const Model &model)
    : model(model), b(&context), loc(NameLoc::get(b.getStringAttr(model.config.architecture))) {
  weightNames = weightNamesOf(config());
  module = ModuleOp::create(b, loc);
  b.setInsertionPointToEnd(module->getBody());
  const Family &family = *config().family;
  if (!family.isGraph)
    beginRagged(family.isEncoderDecoder ? "forward_encoder" : "forward", family.isEncoder || family.isEncoderDecoder);
}

void ModelImporter::beginRagged(llvm::StringRef name, bool isEncoder) {
  b.setInsertionPointToEnd(module->getBody());
  auto grid = RankedTensorType::get({dynamic, dynamic}, b.getI32Type());
  SmallVector<Type> inputs(isEncoder ? 3 : 2, grid);
  if (isEncoder && config().inputWidth())
    inputs.push_back(activations(config().inputWidth()));
  bool hasAdapters = !isEncoder && model.checkpoint.find(heddle::adapterMask);
  if (config().hasGlobalTokens || hasAdapters) // which are global, or the number of each token's adapter
    inputs.push_back(grid);
  encodes = isEncoder;
  entry = func::FuncOp::create(b, loc, name, b.getFunctionType(inputs, {}));
  Block *block = entry.addEntryBlock();
  ids = block->getArgument(0);
  positions = block->getArgument(1);
  b.setInsertionPointToEnd(block);
  if (hasAdapters)
    entryMask = unwrap(embed(heddle::adapterMask, block->getArgument(2), 1.0));
}

void ModelImporter::beginEntry(const std::string &name, const std::string &batch) {
  endEntry();
  b.setInsertionPointToEnd(module->getBody());
  entry = func::FuncOp::create(b, loc, name, b.getFunctionType({}, {}));
  batchName = batch;
  ids = {};
  b.setInsertionPointToEnd(entry.addEntryBlock());
}

Value ModelImporter::input(const std::string &name, RankedTensorType type, ArrayRef<StringRef> dims, bool isMask) {
  NamedAttrList attributes;
  attributes.set(outputNameAttr, b.getStringAttr(name));
  attributes.set("heddle.dims", b.getStrArrayAttr(dims));
  if (isMask)
    attributes.set("heddle.fill", b.getI64IntegerAttr(1));
  unsigned index = entry.getNumArguments();
  (void)entry.insertArgument(index, type, attributes.getDictionary(b.getContext()), loc);
  return entry.getArgument(index);
}

Value ModelImporter::integers(const std::string &name, int64_t limit, bool isMask) {
  auto type = RankedTensorType::get({dynamic, dynamic}, b.getI64Type());
  return checkedIntegers(b, loc, input(name, type, {batchName, "sequence"}, isMask), name, limit);
}

TensorHandle ModelImporter::rows(const std::string &name, const std::string &dim, int64_t width) {
  return wrap(input(name, RankedTensorType::get({dynamic, width}, b.getF32Type()), {dim, ""}));
}

TensorHandle ModelImporter::embedTokens(const std::string &name) {
  if (config().family->isGraph) {
    enter("input_ids");
    ids = integers("input_ids", config().vocabSize);
  }
  Value x = unwrap(embed(name, ids, config().embeddingScale));
  if (!entryMask || !model.checkpoint.find(name + adapterDown))
    return wrap(x);
  adaptedNames.insert(name);
  Value down = unwrap(embed(name + adapterDown, ids, config().embeddingScale));
  Value own = arith::MulFOp::create(b, loc, down, adapterMask());
  Value delta = LinearOp::create(b, loc, x.getType(), own, ValueRange{weight(name + adapterUp)}, ValueRange{});
  return wrap(arith::AddFOp::create(b, loc, x, delta));
}

Value ModelImporter::adapterMask() {
  if (!layerFunc)
    return entryMask;
  if (!layerMask) {
    layerOperands.push_back({{}, entryMask});
    layerMask = layerFunc.front().addArgument(entryMask.getType(), entryMask.getLoc());
  }
  return layerMask;
}

Value ModelImporter::adapted(Value y, Value x, const std::string &name, int64_t begin, int64_t rows) {
  if (!entryMask || !model.checkpoint.find(prefix + name + adapterDown))
    return y;
  adaptedNames.insert(prefix + name);
  enter(name + adapterDown);
  Value down = weight(name + adapterDown);
  Value ranks = LinearOp::create(b, loc, activations(typeOf(down).getDimSize(0)), x, ValueRange{down}, ValueRange{});
  Value own = arith::MulFOp::create(b, loc, ranks, adapterMask());
  enter(name + adapterUp);
  SmallVector<Value> ups = rows ? SmallVector<Value>{weight(WeightPart{prefix + name + adapterUp, begin, rows})}
                                : orderedRows(name + adapterUp);
  Value delta = LinearOp::create(b, loc, y.getType(), own, ups, ValueRange{});
  return arith::AddFOp::create(b, loc, y, delta);
}

LogicalResult ModelImporter::checkAdapters() {
  for (const auto &[name, tensor] : model.checkpoint.tensors) {
    llvm::StringRef weight = name;
    if (entryMask && weight.consume_back(adapterDown) && !adaptedNames.contains(weight))
      return emitError(tensorLocation(b.getContext(), weight.str()), "--adapter: '")
             << weight << "' is read otherwise than by a linear layer, where adapters are not kept apart: use --lora";
  }
  return success();
}

TensorHandle ModelImporter::keyMask() {
  enter("mask");
  return wrap(biasOfMask(b, loc, integers("attention_mask", 2, /*isMask=*/true)));
}

TensorHandle ModelImporter::endToken(TensorHandle x, std::optional<int64_t> end) {
  enter("end_of_text");
  return wrap(tokenOf(b, loc, unwrap(x), ids, end));
}

// "model.layers.3.self_attn.q_proj (blk.3.attn_q.weight)": the part's name, and its weight's in a file that has another for it.
void ModelImporter::enter(const std::string &name) {
  std::string place = prefix + name;
  const TensorInfo *tensor = model.checkpoint.find(place);
  if (!tensor)
    tensor = model.checkpoint.find(place + ".weight");
  if (llvm::StringRef(place).ends_with(".weight"))
    place.resize(place.size() - strlen(".weight"));
  if (tensor && !tensor->storedAs.empty())
    place += " (" + tensor->storedAs + ")";
  loc = NameLoc::get(b.getStringAttr(place));
}

RankedTensorType ModelImporter::activations(int64_t width) {
  return RankedTensorType::get({dynamic, dynamic, width}, b.getF32Type());
}

RankedTensorType ModelImporter::partType(const WeightPart &part) {
  const TensorInfo *tensor = model.checkpoint.find(part.name);
  assert(tensor && "readers check that every weight is there");
  RankedTensorType type = storedType(b.getContext(), *tensor);
  if (part.isVector)
    return RankedTensorType::get(type.getNumElements(), type.getElementType());
  if (!part.rows)
    return type;
  if (!part.transposed) {
    SmallVector<int64_t> shape(type.getShape());
    shape.front() = part.rows;
    return RankedTensorType::get(shape, type.getElementType(), type.getEncoding());
  }
  // Blocks of a quantised matrix lie along its rows: seen as columns they are numbers without a format.
  return RankedTensorType::get({type.getDimSize(1), part.rows}, type.getElementType());
}

Value ModelImporter::weightOp(const WeightPart &part) {
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
  auto weight = WeightOp::create(b, tensorLocation(b.getContext(), name), partType(part), name, storage);
  if (llvm::StringRef(part.name).ends_with(adapterDown) || llvm::StringRef(part.name).ends_with(adapterUp) ||
      part.name == heddle::adapterMask)
    weight->setAttr(keepsTypeAttr, b.getUnitAttr());
  return weight;
}

// Outside layers a weight is an op where it is used; inside, an argument that the caller fills.
Value ModelImporter::weight(const WeightPart &part) {
  if (!layerFunc)
    return weightOp(part);
  llvm::StringRef name = part.name;
  name.consume_front(prefix);
  layerOperands.push_back({part, Value()});
  return layerFunc.front().addArgument(partType(part), tensorLocation(b.getContext(), name.str()));
}

TensorHandle ModelImporter::weightRows(const std::string &name, int64_t begin, int64_t rows, bool transposed) {
  return wrap(weight(WeightPart{prefix + name, begin, rows, transposed}));
}

SmallVector<Value> ModelImporter::orderedRows(const std::string &name) {
  const TensorInfo *tensor = model.checkpoint.find(prefix + name);
  if (!tensor || !tensor->byKvHead)
    return {weight(name)};
  int64_t group = config().numHeads / config().numKvHeads, dim = config().headDim;
  SmallVector<Value> parts;
  auto take = [&](int64_t before, int64_t heads) {
    for (int64_t kvHead = 0; kvHead < config().numKvHeads; ++kvHead)
      parts.push_back(weight(WeightPart{prefix + name, (kvHead * (group + 2) + before) * dim, heads * dim}));
  };
  take(0, group);     // queries
  take(group, 1);     // keys
  take(group + 1, 1); // values
  return parts;
}

TensorHandle ModelImporter::embed(const WeightPart &part, Value rows, double scale) {
  enter(part.name);
  Value table = weight(part);
  return wrap(
      EmbeddingOp::create(b, loc, activations(typeOf(table).getDimSize(1)), rows, table, b.getF64FloatAttr(scale)));
}

TensorHandle ModelImporter::embedPositions(const std::string &name) {
  int64_t first = config().firstPosition;
  return embed(WeightPart{name, first, first ? config().contextLength : 0}, positions, 1.0);
}

TensorHandle ModelImporter::layer(int64_t index, const std::string &scope, TensorHandle input, const LayerBody &body) {
  if (config().family->isGraph) {
    prefix = scope;
    TensorHandle result = body(input);
    prefix.clear();
    return result;
  }
  Value x = unwrap(input);
  OpBuilder::InsertPoint caller = b.saveInsertionPoint();
  Value callerPositions = positions;
  b.setInsertionPoint(entry);
  Location whole = NameLoc::get(b.getStringAttr(llvm::StringRef(scope).rtrim('.')));
  std::string symbol =
      (encoder || !config().family->isEncoderDecoder ? "layer_" : "encoder_layer_") + std::to_string(index);
  layerFunc =
      func::FuncOp::create(b, whole, symbol, b.getFunctionType({x.getType(), positions.getType()}, {x.getType()}));
  layerFunc.setPrivate();
  Block *block = layerFunc.addEntryBlock();
  b.setInsertionPointToEnd(block);
  layerIndex = index;
  layerMask = {};
  prefix = scope;
  positions = block->getArgument(1);
  Value result = unwrap(body(wrap(block->getArgument(0))));
  func::ReturnOp::create(b, whole, result);
  layerFunc.setType(b.getFunctionType(block->getArgumentTypes(), {result.getType()}));

  b.restoreInsertionPoint(caller);
  positions = callerPositions;
  SmallVector<Value> arguments = {x, positions};
  for (const LayerOperand &operand : layerOperands)
    arguments.push_back(operand.value ? operand.value : weightOp(operand.part));
  func::FuncOp callee = layerFunc;
  layerFunc = {};
  layerOperands.clear();
  prefix.clear();
  layerIndex = -1;
  return wrap(func::CallOp::create(b, whole, callee, arguments).getResult(0));
}

TensorHandle ModelImporter::linear(TensorHandle x, const std::string &name) {
  return linear(x, name + ".weight", has(name + ".bias") ? name + ".bias" : "", 0, 0);
}

TensorHandle ModelImporter::linear(TensorHandle x, const std::string &weightName, const std::string &biasName,
                                   int64_t begin, int64_t rows) {
  enter(weightName);
  auto partOf = [&](const std::string &name) -> SmallVector<Value> {
    if (rows)
      return {weight(WeightPart{prefix + name, begin, rows})};
    return orderedRows(name);
  };
  SmallVector<Value> matrices = partOf(weightName), biases;
  if (!biasName.empty())
    biases = partOf(biasName);
  // (batch, sequence, in) -> (batch, sequence, out), and (batch, in) -> (batch, out)
  SmallVector<int64_t> shape(typeOf(unwrap(x)).getShape());
  shape.back() = 0;
  for (Value matrix : matrices)
    shape.back() += typeOf(matrix).getDimSize(0);
  auto type = RankedTensorType::get(shape, b.getF32Type());
  Value y = LinearOp::create(b, loc, type, unwrap(x), matrices, biases);
  return wrap(adapted(y, unwrap(x), weightName, begin, rows));
}

TensorHandle ModelImporter::rmsNorm(TensorHandle input, const std::string &name, double eps) {
  enter(name);
  Value x = unwrap(input);
  return wrap(RmsNormOp::create(b, loc, x.getType(), x, weight(name + ".weight"),
                                b.getF64FloatAttr(eps ? eps : config().normEps),
                                b.getF64FloatAttr(config().normWeightOffset)));
}

TensorHandle ModelImporter::layerNorm(TensorHandle input, const std::string &name, double eps) {
  enter(name);
  Value x = unwrap(input);
  auto normed = [&](Value scale, Value bias) {
    return LayerNormOp::create(b, loc, x.getType(), x, scale, bias, b.getF64FloatAttr(eps ? eps : config().normEps));
  };
  auto ones = [&]() -> Value {
    auto type = RankedTensorType::get(typeOf(x).getShape().back(), b.getF32Type());
    return arith::ConstantOp::create(b, loc, DenseElementsAttr::get(type, 1.0f));
  };
  if (!has(name + ".weight"))
    return wrap(normed(ones(), Value()));
  Value scale = weight(name + ".weight");
  Value result = normed(scale, has(name + ".bias") ? weight(name + ".bias") : Value());
  if (config().normWeightOffset == 0.0)
    return wrap(result);
  // normalized (weight + offset) + bias, without arithmetic on what is stored
  Value offset = unwrap(this->scale(wrap(normed(ones(), Value())), config().normWeightOffset));
  return wrap(arith::AddFOp::create(b, loc, result, offset));
}

TensorHandle ModelImporter::add(TensorHandle a, TensorHandle c) {
  enter("add");
  return wrap(arith::AddFOp::create(b, loc, unwrap(a), unwrap(c)));
}

// A tensor of the shape of `like`, all of whose elements are `number`.
Value ModelImporter::splat(double number, Value like) {
  Value scalar = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(number));
  return tensor::SplatOp::create(b, loc, scalar, tensor::getMixedSizes(b, loc, like));
}

TensorHandle ModelImporter::scale(TensorHandle x, double factor) {
  if (factor == 1.0)
    return x;
  enter("scale");
  return wrap(arith::MulFOp::create(b, loc, unwrap(x), splat(factor, unwrap(x))));
}

TensorHandle ModelImporter::clip(TensorHandle x, double limit) {
  if (limit == 0.0)
    return x;
  enter("clamp");
  Value below = arith::MinimumFOp::create(b, loc, unwrap(x), splat(limit, unwrap(x)));
  return wrap(arith::MaximumFOp::create(b, loc, below, splat(-limit, unwrap(x))));
}

TensorHandle ModelImporter::glu(TensorHandle gate, TensorHandle up) {
  ActivationKind kind = kindOf(config().activation);
  if (config().activation != Activation::SquaredRelu)
    return gated(gate, up, kind);
  TensorHandle squared = gated(gate, gate, kind);
  return up.value ? wrap(arith::MulFOp::create(b, loc, unwrap(squared), unwrap(up))) : squared;
}

TensorHandle ModelImporter::gated(TensorHandle gate, TensorHandle up, ActivationKind kind) {
  enter("activation");
  return wrap(GluOp::create(b, loc, unwrap(gate).getType(), unwrap(gate), unwrap(up),
                            ActivationKindAttr::get(b.getContext(), kind)));
}

TensorHandle ModelImporter::patches() {
  return {entry.getArgument(3).getAsOpaquePointer()};
}

TensorHandle ModelImporter::columns(TensorHandle input, int64_t begin, int64_t end) {
  enter("columns");
  Value x = unwrap(input);
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, loc, x);
  SmallVector<OpFoldResult> offsets(sizes.size(), b.getIndexAttr(0)), strides(sizes.size(), b.getIndexAttr(1));
  offsets.back() = b.getIndexAttr(begin);
  sizes.back() = b.getIndexAttr(end - begin);
  return wrap(tensor::ExtractSliceOp::create(b, loc, activations(end - begin), x, offsets, sizes, strides));
}

TensorHandle ModelImporter::firstTokens(TensorHandle input) {
  enter("first_tokens");
  Value x = unwrap(input);
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, loc, x);
  SmallVector<OpFoldResult> offsets(sizes.size(), b.getIndexAttr(0)), strides(sizes.size(), b.getIndexAttr(1));
  sizes[1] = b.getIndexAttr(1);
  auto type = RankedTensorType::get({dynamic, typeOf(x).getDimSize(2)}, b.getF32Type());
  return wrap(tensor::ExtractSliceOp::create(b, loc, type, x, offsets, sizes, strides));
}

TensorHandle ModelImporter::pixelPatches() {
  enter("patches");
  const ImageConfig &image = config().image;
  auto type = RankedTensorType::get({dynamic, image.channels, image.size, image.size}, b.getF32Type());
  return wrap(patchesOf(b, loc, input("pixel_values", type, {batchName, "", "", ""}), image.patch));
}

TensorHandle ModelImporter::gatherTokens(TensorHandle x, const std::vector<int32_t> &tokens, int64_t group,
                                         const std::string &other) {
  enter("gather_tokens");
  return wrap(tokensOf(b, loc, unwrap(x), tokens, group, other.empty() ? Value() : weight(other)));
}

TensorHandle ModelImporter::scaleColumns(TensorHandle x, const std::string &name) {
  enter(name);
  return wrap(columnsScaled(b, loc, unwrap(x), weight(name)));
}

TensorHandle ModelImporter::sideBySide(TensorHandle x, TensorHandle y) {
  enter("side_by_side");
  return wrap(tensor::ConcatOp::create(b, loc, 1, {unwrap(x), unwrap(y)}));
}

TensorHandle ModelImporter::unitRows(TensorHandle x) {
  enter("unit_rows");
  return wrap(rowsOfLengthOne(b, loc, unwrap(x)));
}

TensorHandle ModelImporter::similarities(TensorHandle x, TensorHandle y, const std::string &scale) {
  enter("similarities");
  return wrap(scaledProducts(b, loc, unwrap(x), unwrap(y), weight(scale)));
}

TensorHandle ModelImporter::meanToken(TensorHandle x) {
  enter("mean_token");
  return wrap(meanOfTokens(b, loc, unwrap(x)));
}

TensorHandle ModelImporter::addTable(TensorHandle x, const std::string &name) {
  enter(name);
  return wrap(tableAdded(b, loc, unwrap(x), weight(name)));
}

TensorHandle ModelImporter::windowAttention(TensorHandle q, TensorHandle k, TensorHandle v, int64_t heads,
                                            const WindowTerms &terms) {
  enter("attention");
  return wrap(attentionWithin(b, loc, {unwrap(q), unwrap(k), unwrap(v)}, heads, weight(terms.table), terms));
}

TensorHandle ModelImporter::splitHeads(TensorHandle input, int64_t heads) {
  enter("split_heads");
  Value x = unwrap(input);
  int64_t headDim = typeOf(x).getDimSize(2) / heads;
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, loc, x);
  SmallVector<OpFoldResult> split = {sizes[0], sizes[1], b.getIndexAttr(heads), b.getIndexAttr(headDim)};
  auto expandedType = typeOf(x).clone({typeOf(x).getDimSize(0), typeOf(x).getDimSize(1), heads, headDim});
  SmallVector<ReassociationIndices> groups = {{0}, {1}, {2, 3}};
  Value expanded = tensor::ExpandShapeOp::create(b, loc, expandedType, x, groups, split);
  Value init = tensor::EmptyOp::create(b, loc, {split[0], split[2], split[1], split[3]}, b.getF32Type());
  return wrap(linalg::TransposeOp::create(b, loc, expanded, init, ArrayRef<int64_t>{0, 2, 1, 3}).getResult()[0]);
}

TensorHandle ModelImporter::mergeHeads(TensorHandle input) {
  enter("merge_heads");
  Value x = unwrap(input);
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, loc, x);
  Value init = tensor::EmptyOp::create(b, loc, {sizes[0], sizes[2], sizes[1], sizes[3]}, b.getF32Type());
  Value rows = linalg::TransposeOp::create(b, loc, x, init, ArrayRef<int64_t>{0, 2, 1, 3}).getResult()[0];
  SmallVector<ReassociationIndices> groups = {{0}, {1}, {2, 3}};
  return wrap(tensor::CollapseShapeOp::create(b, loc, rows, groups));
}

TensorHandle ModelImporter::rope(TensorHandle input, int64_t offset) {
  int64_t table = config().layerRope[layerIndex];
  if (config().ropes.empty() || table == noRope)
    return input;
  enter("rope");
  Value x = unwrap(input);
  float factor = 1.0f;
  std::vector<float> frequencies = config().ropes[table].inverseFrequency(false, factor, config().contextLength);
  auto attr = RopeAttr::get(b.getContext(), config().ropes[table].interleaved, table, b.getF64FloatAttr(factor),
                            b.getDenseF32ArrayAttr(frequencies));
  return wrap(RopeOp::create(b, loc, x.getType(), x, positions, Value(), attr, b.getI64IntegerAttr(offset)));
}

Value ModelImporter::positionBias(const DistanceBias &bias) {
  bool hasBuckets = !bias.table.empty();
  if (!hasBuckets && bias.slopes.empty())
    return {};
  Value table = hasBuckets ? weight(WeightPart{bias.table}) : Value();
  if (!hasBuckets) {
    auto type = RankedTensorType::get({int64_t(bias.slopes.size())}, b.getF32Type());
    table = arith::ConstantOp::create(b, loc, DenseElementsAttr::get(type, ArrayRef(bias.slopes)));
  }
  auto numbers = [&](const std::vector<int64_t> &list) {
    return hasBuckets ? b.getDenseI64ArrayAttr(list) : DenseI64ArrayAttr();
  };
  Value length = tensor::DimOp::create(b, loc, positions, 1);
  auto type = RankedTensorType::get({1, typeOf(table).getShape().back(), dynamic, dynamic}, b.getF32Type());
  return PositionBiasOp::create(b, loc, type, table, length, length, numbers(bias.starts), numbers(bias.rows));
}

TensorHandle ModelImporter::attention(TensorHandle query, TensorHandle k, TensorHandle v, const AttentionTerms &terms) {
  enter("attention");
  Value q = unwrap(query);
  double scale = config().attentionScale ? config().attentionScale : 1.0 / std::sqrt(double(typeOf(q).getDimSize(3)));
  if (config().scaleByLayer)
    scale /= double(layerIndex + 1);
  // What a layer takes from outside are keys of a source.
  bool isGraph = config().family->isGraph;
  bool seesAll = isGraph ? !terms.causal : encodes || isa<BlockArgument>(unwrap(k));
  int64_t window = isGraph || config().family->isEncoderDecoder ? 0 : config().layerWindow[layerIndex];
  auto mask = MaskAttr::get(b.getContext(), !seesAll, window, /*ahead=*/seesAll ? window : 0);
  Value globals;
  if (!terms.global.empty()) {
    layerOperands.push_back({{}, entry.getArguments().back()});
    globals = layerFunc.front().addArgument(positions.getType(), loc);
  }
  Value bias = terms.bias.value ? unwrap(terms.bias) : positionBias(terms.positions),
        sinks = terms.sinks.empty() ? Value() : weight(terms.sinks);
  return wrap(AttentionOp::create(b, loc, q.getType(), q, unwrap(k), unwrap(v), bias, Value(), sinks, Value(), globals,
                                  unwrap(terms.global), mask, b.getF64FloatAttr(scale),
                                  b.getF64FloatAttr(config().attentionSoftcap), DenseI64ArrayAttr(),
                                  DenseI64ArrayAttr()));
}

// The projection stands in the encoder, which gives its result, and @forward takes that and hands it to the layer.
TensorHandle ModelImporter::ofSource(const LayerBody &project) {
  OpBuilder::InsertPoint inLayer = b.saveInsertionPoint();
  func::FuncOp layer = std::exchange(layerFunc, {});
  b.setInsertionPointToEnd(&encoder.front());
  Value result = unwrap(project(wrap(ofEncoder.front())));
  ofEncoder.push_back(result);
  b.restoreInsertionPoint(inLayer);
  layerFunc = layer;
  layerOperands.push_back({{}, entry.front().addArgument(result.getType(), result.getLoc())});
  return wrap(layerFunc.front().addArgument(result.getType(), result.getLoc()));
}

TensorHandle ModelImporter::latentAttention(TensorHandle query, TensorHandle latent, TensorHandle keyRope,
                                            const std::vector<TensorHandle> &keyUps,
                                            const std::vector<TensorHandle> &valueUps) {
  enter("attention");
  Value q = unwrap(query);
  SmallVector<Value> ups = unwrap(valueUps);
  auto mask = MaskAttr::get(b.getContext(), true, config().layerWindow[layerIndex]);
  auto type = typeOf(q).clone({dynamic, typeOf(q).getDimSize(1), dynamic, typeOf(ups.front()).getDimSize(0)});
  return wrap(LatentAttentionOp::create(b, loc, type, q, unwrap(latent), unwrap(keyRope), unwrap(keyUps), ups, mask,
                                        b.getF64FloatAttr(config().attentionScale),
                                        LatentFormAttr::get(b.getContext(), LatentForm::Materialised)));
}

TensorHandle ModelImporter::moe(TensorHandle input, const std::string &block) {
  Value x = unwrap(input);
  const ExpertNames &names = config().family->experts;
  enter(block + "experts");
  std::string router = block + names.router;
  SmallVector<Value> gates, ups, downs, gateBiases, upBiases, downBiases;
  Value routerWeight = weight(router + ".weight");
  Value routerBias = has(router + ".bias") ? weight(router + ".bias") : Value();
  for (int64_t e = 0; e < config().moe.numExperts; ++e) {
    std::string expert = block + names.expert + std::to_string(e) + ".";
    auto project = [&](const char *name, SmallVector<Value> &matrices, SmallVector<Value> &biases) {
      matrices.push_back(weight(expert + name + ".weight"));
      if (has(expert + name + ".bias"))
        biases.push_back(weight(expert + name + ".bias"));
    };
    // The op calls what is activated a gate, whether something is multiplied with it or not.
    project(names.gateAndUp ? names.gateAndUp : names.gate ? names.gate : names.up, gates, gateBiases);
    if (names.gate && !names.gateAndUp)
      project(names.up, ups, upBiases);
    project(names.down, downs, downBiases);
  }
  const MoeConfig &moe = config().moe;
  Value correction = moe.hasCorrection ? weight(router + ".e_score_correction_bias") : Value();
  RoutingAttr routing;
  if (moe.sigmoidScores || moe.numGroups > 1 || moe.routedScale != 1.0 || moe.capacity || moe.jitter)
    routing = RoutingAttr::get(b.getContext(), moe.sigmoidScores, moe.numGroups, moe.topGroups,
                               b.getF64FloatAttr(moe.routedScale), moe.capacity,
                               moe.jitter ? b.getF64FloatAttr(*moe.jitter) : FloatAttr());
  GatingAttr gating;
  if (moe.gateLimit > 0)
    gating = GatingAttr::get(b.getContext(), b.getF64FloatAttr(moe.gateLimit), b.getF64FloatAttr(moe.gateAlpha),
                             b.getF64FloatAttr(moe.upOffset));
  ActivationKind kind = kindOf(config().activation);
  return wrap(MoeOp::create(b, loc, x.getType(), x, routerWeight, routerBias, correction, gates, ups, downs, gateBiases,
                            upBiases, downBiases, b.getI64IntegerAttr(moe.expertsPerToken),
                            b.getBoolAttr(moe.normTopkProb), routing, gating,
                            ActivationKindAttr::get(b.getContext(), kind)));
}

TensorHandle ModelImporter::gatedExpert(TensorHandle input, const std::string &expert, const std::string &gate) {
  Value x = unwrap(input);
  const ExpertNames &names = config().family->experts;
  enter(expert);
  auto matrix = [&](const char *name) { return weight(expert + "." + name + ".weight"); };
  Value router = weight(gate + ".weight"), gates = matrix(names.gate), ups = matrix(names.up);
  // Of one expert each token chooses that one, by a score that its sigmoid is.
  auto routing = RoutingAttr::get(b.getContext(), /*sigmoid=*/true, 1, 1, FloatAttr(), 0, FloatAttr());
  return wrap(MoeOp::create(b, loc, x.getType(), x, router, Value(), Value(), gates, ups, matrix(names.down),
                            ValueRange(), ValueRange(), ValueRange(), b.getI64IntegerAttr(1), b.getBoolAttr(false),
                            routing, GatingAttr(),
                            ActivationKindAttr::get(b.getContext(), kindOf(config().activation))));
}

void ModelImporter::finish(TensorHandle x, const std::string &head, const std::string &bias) {
  enter(head);
  Value matrix = weight(head);
  SmallVector<Value> biases;
  if (has(bias))
    biases.push_back(weight(WeightPart{bias, 0, 0, false, /*isVector=*/true}));
  Value logits =
      LinearOp::create(b, loc, activations(typeOf(matrix).getDimSize(0)), unwrap(x), ValueRange{matrix}, biases);
  logits = adapted(logits, unwrap(x), config().family->head);
  logits = unwrap(scale(wrap(logits), config().logitScale));
  if (config().finalSoftcap > 0)
    logits = SoftcapOp::create(b, loc, logits, b.getF64FloatAttr(config().finalSoftcap));
  returnAll(logits);
  if (!encoder)
    return;
  entry = encoder;
  b.setInsertionPointToEnd(&entry.front());
  returnAll(ofEncoder);
  entry.setResultAttr(0, outputNameAttr, b.getStringAttr("last_hidden_state"));
}

void ModelImporter::output(const std::string &name, TensorHandle x, bool squeezed) {
  NamedAttrList attributes;
  attributes.set(outputNameAttr, b.getStringAttr(name));
  if (squeezed)
    attributes.set(squeezedAttr, b.getUnitAttr());
  if (RankedTensorType type = typeOf(unwrap(x)); !batchName.empty()) {
    SmallVector<StringRef> dims(type.getRank(), "");
    dims.front() = batchName;
    if (type.getRank() == 3 && type.isDynamicDim(1))
      dims[1] = "sequence";
    attributes.set("heddle.dims", b.getStrArrayAttr(dims));
  }
  outputs.push_back(unwrap(x));
  outputAttributes.push_back(attributes.getDictionary(b.getContext()));
}

void ModelImporter::beginDecoder(TensorHandle lastHiddenState) {
  encoder = entry;
  ofEncoder = {unwrap(lastHiddenState)};
  beginRagged("forward", /*isEncoder=*/false);
}

void ModelImporter::endEntry() {
  if (outputs.empty())
    return;
  returnAll(outputs);
  entry.setAllResultAttrs(outputAttributes);
  outputs.clear();
  outputAttributes.clear();
}

FailureOr<OwningOpRef<ModuleOp>> ModelImporter::take() {
  endEntry();
  if (failed(checkAdapters()))
    return failure();
  return std::move(module);
}

void ModelImporter::returnAll(ValueRange results) {
  func::ReturnOp::create(b, loc, results);
  entry.setType(b.getFunctionType(entry.front().getArgumentTypes(), results.getTypes()));
}

// What the program gives, where the checkpoint may hold more.
static std::string outputNames(const Model &model, ModuleOp module) {
  std::vector<std::string> outputs;
  if (model.config.family->isEncoder)
    for (const EncodeOutput &output : outputsOf(raggedEntry(module)))
      outputs.push_back(output.name);
  for (func::FuncOp graph : graphEntries(module))
    for (unsigned i = 0; i < graph.getNumResults(); ++i)
      outputs.push_back(graph.getResultAttrOfType<StringAttr>(i, outputNameAttr).str());
  if (outputs.empty())
    return "logits of text";
  std::string last = outputs.back();
  outputs.pop_back();
  return outputs.empty() ? last : llvm::join(outputs, ", ") + " and " + last;
}

// A checkpoint may hold more than the program computes with: heads of an encoder, the part that sees images.
static void remarkUnread(const Model &model, ModuleOp module) {
  std::string outputs = outputNames(model, module);
  llvm::StringSet<> read = weightNamesOf(model.config);
  int64_t lost = 0;
  for (const auto &[name, tensor] : model.checkpoint.tensors) {
    const UnreadTensor *unread = findUnread(model.config, name);
    if (!unread || read.contains(name))
      continue;
    emitRemark(tensorLocation(module.getContext(), name), "tensor '")
        << name << "' takes no part: the program gives " << outputs;
    lost += unread->isLoss;
  }
  if (lost)
    module.emitWarning("the program gives ")
        << outputs << " alone: " << lost << " tensor" << (lost == 1 ? "" : "s") << " of the checkpoint "
        << (lost == 1 ? "takes" : "take") << " no part, which --print-remarks names";
}

OwningOpRef<ModuleOp> heddle::importModel(MLIRContext &context, const Model &model) {
  assert(model.config.family && "a graph is imported by its own reader");
  ModelImporter importer(context, model);
  model.config.family->build(importer);
  FailureOr<OwningOpRef<ModuleOp>> module = importer.take();
  if (failed(module))
    return nullptr;
  remarkUnread(model, **module);
  return std::move(*module);
}
