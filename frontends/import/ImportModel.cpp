// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From a checkpoint to a module: entries, layers, weights and the adapters that go with them.

#include "frontends/import/ImportModel.h"

#include "dialect/Codes.h"
#include "dialect/EncodeOutputs.h"
#include "dialect/Entries.h"
#include "dialect/Locations.h"
#include "frontends/import/ModelImporter.h"
#include "frontends/import/PlaceOps.h"
#include "frontends/import/TokenOps.h"
#include "frontends/peft/KeepAdapters.h"
#include "frontends/peft/VirtualTokens.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/ADT/SmallVectorExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <cmath>

using namespace mlir;
using namespace heddle;

static constexpr int64_t dynamic = ShapedType::kDynamic;

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

// Of all tensors that the config asks for.
static llvm::StringSet<> weightNamesOf(const ModelConfig &config) {
  llvm::StringSet<> names;
  for (const ModelConfig *part : config.parts()) {
    [[maybe_unused]] Status listed =
        forEachTensor(*part, [&](const TensorRule &rule, int64_t layer, int64_t expert) -> Status {
          names.insert(tensorName(rule.name, layer, expert));
          return Status();
        });
    assert(listed.isOk());
  }
  return names;
}

ModelImporter::ModelImporter(MLIRContext &context, const Model &model, const Bottlenecks *bottlenecks)
    : model(model), part(&model.config), b(&context), loc(NameLoc::get(b.getStringAttr(model.config.architecture))),
      bottlenecks(bottlenecks) {
  weightNames = weightNamesOf(config());
  if (bottlenecks)
    for (const auto &[name, tensor] : model.checkpoint.tensors)
      if (isOfBottleneck(name))
        weightNames.insert(name);
  module = ModuleOp::create(b, loc);
  b.setInsertionPointToEnd(module->getBody());
  const Family &family = *config().family;
  // Whose masks say that it encodes needs no other name.
  bool attendsAhead = family.isEncoder || config().attendsAhead;
  bool encodesFirst = family.isEncoderDecoder || config().encodes();
  if (!family.isGraph)
    beginRagged(encodesFirst && !attendsAhead ? "forward_encoder" : "forward", encodesFirst);
}

void ModelImporter::beginRagged(llvm::StringRef name, bool isEncoder) {
  b.setInsertionPointToEnd(module->getBody());
  auto grid = RankedTensorType::get({dynamic, dynamic}, b.getI32Type());
  SmallVector<Type> inputs(isEncoder ? 3 : 2, grid);
  if (isEncoder && config().inputWidth())
    inputs.push_back(activations(config().inputWidth()));
  bool hasRanks = !isEncoder && model.checkpoint.find(heddle::adapterMask);
  bool hasAdapters =
      hasRanks || (!isEncoder && (model.checkpoint.find(virtualEmbeddings) || model.checkpoint.find(virtualKeep)));
  if (config().hasGlobalTokens || hasAdapters) // which are global, or the number of each token's adapter
    inputs.push_back(grid);
  if (config().tower)
    inputs.push_back(RankedTensorType::get({dynamic, config().hiddenSize}, b.getF32Type()));
  encodes = isEncoder;
  entry = func::FuncOp::create(b, loc, name, b.getFunctionType(inputs, {}));
  Block *block = entry.addEntryBlock();
  ids = block->getArgument(0);
  positions = block->getArgument(1);
  given = config().tower ? block->getArguments().back() : Value();
  b.setInsertionPointToEnd(block);
  if (hasAdapters)
    entryNumbers = block->getArgument(2);
  if (hasRanks)
    entryMask = unwrap(embed(heddle::adapterMask, block->getArgument(2), 1.0));
}

void ModelImporter::beginEntry(const std::string &name, const std::string &batch) {
  endEntry();
  b.setInsertionPointToEnd(module->getBody());
  entry = func::FuncOp::create(b, loc, name, b.getFunctionType({}, {}));
  batchName = batch;
  tokensName = "sequence";
  ids = {};
  b.setInsertionPointToEnd(entry.addEntryBlock());
}

Value ModelImporter::input(const std::string &name, RankedTensorType type, ArrayRef<StringRef> dims,
                           std::optional<int64_t> fill) {
  for (BlockArgument argument : entry.getArguments())
    if (auto own = entry.getArgAttrOfType<StringAttr>(argument.getArgNumber(), outputNameAttr); own && own == name)
      return argument;
  NamedAttrList attributes;
  attributes.set(outputNameAttr, b.getStringAttr(name));
  attributes.set("heddle.dims", b.getStrArrayAttr(dims));
  if (fill)
    attributes.set("heddle.fill", b.getI64IntegerAttr(*fill));
  unsigned index = entry.getNumArguments();
  (void)entry.insertArgument(index, type, attributes.getDictionary(b.getContext()), loc);
  return entry.getArgument(index);
}

void ModelImporter::standsFor(Value input, int64_t number) {
  entry.setArgAttr(cast<BlockArgument>(input).getArgNumber(), "heddle.sample", b.getI64IntegerAttr(number));
}

Value ModelImporter::integers(const std::string &name, int64_t limit, std::optional<int64_t> fill, StringRef dim) {
  auto type = RankedTensorType::get({dynamic, dynamic}, b.getI64Type());
  return checkedIntegers(b, loc, input(name, type, {batchName, dim}, fill), name, limit);
}

TensorHandle ModelImporter::rows(const std::string &name, const std::string &dim, int64_t width) {
  return wrap(input(name, RankedTensorType::get({dynamic, width}, b.getF32Type()), {dim, ""}));
}

TensorHandle ModelImporter::embedTokens(const std::string &name) {
  if (config().family->isGraph) {
    enter("input_ids");
    ids = integers("input_ids", config().vocabSize);
  }
  bool scalesAll = given && config().family->scalesInputs;
  Value x = unwrap(embed(WeightPart{name}, ids, scalesAll ? 1.0 : config().embeddingScale, given));
  if (scalesAll)
    x = unwrap(scale(wrap(x), config().embeddingScale));
  if (!entryMask || !model.checkpoint.find(name + adapterDown))
    return wrap(ofVirtual(x, virtualEmbeddings, virtualEmbeddingsKeep));
  adaptedNames.insert(name);
  Value down = unwrap(embed(name + adapterDown, ids, config().embeddingScale));
  Value own = arith::MulFOp::create(b, loc, down, adapterMask());
  Value delta = LinearOp::create(b, loc, x.getType(), own, ValueRange{weight(name + adapterUp)}, ValueRange{});
  return wrap(ofVirtual(arith::AddFOp::create(b, loc, x, delta), virtualEmbeddings, virtualEmbeddingsKeep));
}

Value ModelImporter::ofVirtual(Value x, const std::string &own, const std::string &keep) {
  if (!entryNumbers || !model.checkpoint.find(own))
    return x;
  Value numbers = entryNumbers;
  if (layerFunc && !layerNumbers) {
    layerOperands.push_back({{}, entryNumbers});
    layerNumbers = layerFunc.front().addArgument(entryNumbers.getType(), entryNumbers.getLoc());
  }
  if (layerFunc)
    numbers = layerNumbers;
  Value kept = arith::MulFOp::create(b, loc, x, unwrap(embed(keep, numbers, 1.0)));
  return arith::AddFOp::create(b, loc, kept, unwrap(embed(own, numbers, 1.0)));
}

TensorHandle ModelImporter::ofPrefix(TensorHandle heads, const char *own) {
  std::string name = own + std::to_string(layerIndex);
  if (!entryNumbers || !model.checkpoint.find(name))
    return heads;
  adaptedNames.insert(name);
  int64_t count = config().shapeOf(layerIndex).numKvHeads;
  return splitHeads(wrap(ofVirtual(unwrap(mergeHeads(heads)), name, virtualKeep)), count);
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
    bool isOfLayer = weight.starts_with(virtualKeys) || weight.starts_with(virtualValues);
    if (isOfLayer && !adaptedNames.contains(weight))
      return emitError(tensorLocation(b.getContext(), name), "--adapter: the model has no layer for '") << name << "'";
    if (entryMask && weight.consume_back(adapterDown) && !adaptedNames.contains(weight))
      return emitError(tensorLocation(b.getContext(), weight.str()), "--adapter: '")
             << weight
             << "' is read otherwise than by a linear layer, where adapters are not kept apart: use --merge-adapter";
  }
  return success();
}

TensorHandle ModelImporter::keyMask(int64_t more) {
  enter("mask");
  return wrap(biasOfMask(b, loc, integers("attention_mask", 2, /*fill=*/1), more));
}

TensorHandle ModelImporter::patchMask() {
  enter("mask");
  return wrap(biasOfMask(b, loc, integers("pixel_attention_mask", 2, /*fill=*/1, "patches")));
}

TensorHandle ModelImporter::placesOf(TensorHandle x, int64_t side) {
  enter("spatial_shapes");
  Value shapes = input("spatial_shapes", RankedTensorType::get({dynamic, 2}, b.getI64Type()), {batchName, ""});
  standsFor(shapes, 1);
  tokensName = "patches";
  return wrap(placesOfPatches(b, loc, unwrap(x), shapes, side));
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
  int64_t stride = 0;
  if (part.rows) {
    name += "[" + std::to_string(part.begin) + ":" + std::to_string(part.begin + part.rows) + "]";
    // Rows of what is stored as columns are parts of the stored rows.
    int64_t stored = tensor->transposed ? tensor->shape[1] : 1;
    offset += tensor->bytes / tensor->shape[0] / stored * part.begin;
    stride = tensor->transposed ? tensor->shape[0] : 0;
  }
  auto storage = StorageAttr::get(b.getContext(), b.getStringAttr(tensorTypeInfo(tensor->type).name), tensor->file,
                                  offset, part.transposed != tensor->transposed, stride);
  auto weight = WeightOp::create(b, tensorLocation(b.getContext(), name), partType(part), name, storage);
  if (llvm::StringRef(part.name).ends_with(adapterDown) || llvm::StringRef(part.name).ends_with(adapterUp) ||
      part.name == heddle::adapterMask || llvm::StringRef(part.name).starts_with("virtual.") ||
      (bottlenecks && isOfBottleneck(part.name)))
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
  if (!tensor || tensor->rowOrder == RowOrder::ByPart)
    return {weight(name)};
  SmallVector<Value> parts;
  for (auto [begin, rows] : rowRuns(tensor->rowOrder, config()))
    parts.push_back(weight(WeightPart{prefix + name, begin, rows}));
  return parts;
}

TensorHandle ModelImporter::embed(const WeightPart &part, Value rows, double scale, Value given) {
  enter(part.name);
  Value table = weight(part);
  return wrap(EmbeddingOp::create(b, loc, activations(typeOf(table).getDimSize(1)), rows, table,
                                  b.getF64FloatAttr(scale), given));
}

// Row 0 of what is given is zeros.
TensorHandle ModelImporter::givenBeside(int64_t index) {
  int64_t rows = config().vocabSize;
  enter("given_beside");
  return embed(WeightPart{embeddingOf(config(), /*isDecoder=*/true)}, idsBeside(b, loc, ids, rows, 1 + index), 1.0,
               given);
}

TensorHandle ModelImporter::embedPositions(const std::string &name) {
  int64_t first = config().firstPosition;
  return embed(WeightPart{name, first, first ? config().contextLength : 0}, positions, 1.0);
}

TensorHandle ModelImporter::embedTokenTypes(const std::string &name) {
  if (!config().family->isGraph)
    return embed(name, entry.getArgument(2), 1.0);
  enter("token_type_ids");
  return embed(name, integers("token_type_ids", config().tokenTypes, /*fill=*/0), 1.0);
}

Value ModelImporter::boxes() {
  enter("bbox");
  Value boxes =
      input("bbox", RankedTensorType::get({dynamic, dynamic, 4}, b.getI64Type()), {batchName, "sequence", ""});
  standsFor(boxes, 1);
  return boxes;
}

TensorHandle ModelImporter::embedBoxes(const std::string &name, int64_t corner, int64_t from, int64_t most) {
  Value edges = edgesOf(b, loc, boxes(), corner, from, most);
  std::string what = from < 0 ? "bbox" : corner % 2 ? "what is a height in bbox" : "what is a width in bbox";
  return embed(name, checkedIntegers(b, loc, edges, what, config().page.places), 1.0);
}

TensorHandle ModelImporter::pageDistances(const PageDistances &terms, TensorHandle onto) {
  enter(terms.buckets.table);
  Value places = terms.edge < 0
                     ? placesInText(b, loc, ids)
                     : checkedIntegers(b, loc, edgesOf(b, loc, boxes(), terms.edge), "bbox", config().page.places);
  enter(terms.buckets.table);
  return wrap(scoresOfDistances(b, loc, places, weight(terms.buckets.table), terms, unwrap(onto)));
}

TensorHandle ModelImporter::embedCounted(const std::string &name, int64_t padding) {
  enter(name);
  return embed(name, countedTokens(b, loc, ids, padding, partType(WeightPart{name}).getDimSize(0)), 1.0);
}

TensorHandle ModelImporter::behind(TensorHandle x, TensorHandle y) {
  enter("behind");
  tokensName = "tokens";
  return wrap(tensor::ConcatOp::create(b, loc, 1, ValueRange{unwrap(x), unwrap(y)}));
}

TensorHandle ModelImporter::tokensOfTexts(TensorHandle x) {
  enter("tokens_of_texts");
  tokensName = "sequence";
  SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, loc, unwrap(x));
  SmallVector<OpFoldResult> offsets(sizes.size(), b.getIndexAttr(0)), strides(sizes.size(), b.getIndexAttr(1));
  sizes[1] = tensor::getMixedSize(b, loc, ids, 1);
  return wrap(tensor::ExtractSliceOp::create(b, loc, typeOf(unwrap(x)), unwrap(x), offsets, sizes, strides));
}

TensorHandle ModelImporter::embedIds(const std::string &name, double scale) {
  enter(name);
  int64_t rows = partType(WeightPart{name}).getDimSize(0);
  return embed(name, rows < config().vocabSize ? idsWithin(b, loc, ids, rows) : ids, scale);
}

ModelBuilder::LayerValues ModelImporter::layer(int64_t index, const std::string &scope, const LayerValues &inputs,
                                               const std::function<LayerValues(const LayerValues &)> &body) {
  if (config().family->isGraph) {
    prefix = scope;
    LayerValues results = body(inputs);
    prefix.clear();
    return results;
  }
  Value x = unwrap(inputs.front());
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
  layerNumbers = {};
  prefix = scope;
  positions = block->getArgument(1);
  LayerValues taken = {wrap(block->getArgument(0))};
  for (TensorHandle other : ArrayRef(inputs).drop_front()) {
    layerOperands.push_back({{}, unwrap(other)});
    taken.push_back(wrap(block->addArgument(unwrap(other).getType(), unwrap(other).getLoc())));
  }
  SmallVector<Value> results = unwrap(body(taken));
  func::ReturnOp::create(b, whole, results);
  layerFunc.setType(b.getFunctionType(block->getArgumentTypes(), ValueRange(results).getTypes()));

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
  LayerValues given;
  for (Value result : func::CallOp::create(b, whole, callee, arguments).getResults())
    given.push_back(wrap(result));
  return given;
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
  bool isGraph = !batchName.empty();
  if (squeezed && isGraph) {
    SmallVector<ReassociationIndices> groups = {{0}, {1, 2}};
    x = wrap(tensor::CollapseShapeOp::create(b, loc, unwrap(x), groups));
  } else if (squeezed) {
    attributes.set(squeezedAttr, b.getUnitAttr());
  }
  if (RankedTensorType type = typeOf(unwrap(x)); isGraph) {
    SmallVector<StringRef> dims(type.getRank(), "");
    dims.front() = batchName;
    if (type.getRank() > 1 && type.isDynamicDim(1))
      dims[1] = tokensName;
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

void ModelImporter::addDense(const std::vector<PoolingConfig::Dense> &layers) {
  beginEntry("dense", "texts");
  TensorHandle x = rows("pooled", "texts", layers.front().in);
  for (const PoolingConfig::Dense &layer : layers) {
    x = linear(x, layer.name + ".weight", layer.hasBias ? layer.name + ".bias" : "", 0, 0);
    x = layer.activation ? activation(x, *layer.activation) : x;
  }
  output("sentence_embedding", x, /*squeezed=*/false);
}

FailureOr<OwningOpRef<ModuleOp>> ModelImporter::take() {
  endEntry();
  if (failed(checkAdapters()))
    return failure();
  assert((!bottlenecks || numBottlenecks == static_cast<int64_t>(bottlenecks->places.size())) &&
         "a family's layers have the places that AdaptedFamily names");
  return std::move(module);
}

void ModelImporter::returnAll(ValueRange results) {
  func::ReturnOp::create(b, loc, results);
  entry.setType(b.getFunctionType(entry.front().getArgumentTypes(), results.getTypes()));
}

// What the program gives, where the checkpoint may hold more.
static std::string outputNames(const Model &model, ModuleOp module) {
  std::vector<std::string> outputs;
  if (model.config.encodes())
    for (const EncodeOutput &output : outputsOf(raggedEntry(module)))
      outputs.push_back(output.name);
  if (func::FuncOp ragged = raggedEntry(module); ragged && outputs.empty())
    outputs.emplace_back("logits of text");
  for (func::FuncOp graph : graphEntries(module))
    for (unsigned i = 0; i < graph.getNumResults(); ++i)
      outputs.push_back(graph.getResultAttrOfType<StringAttr>(i, outputNameAttr).str());
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
    const UnreadTensor *unread = nullptr;
    for (const ModelConfig *part : model.config.parts())
      unread = unread ? unread : findUnread(*part, name);
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

OwningOpRef<ModuleOp> heddle::importModel(MLIRContext &context, const Model &model, const Bottlenecks *bottlenecks) {
  assert(model.config.family && "a graph is imported by its own reader");
  ModelImporter importer(context, model, bottlenecks);
  model.config.family->build(importer);
  if (const ModelConfig *tower = model.config.tower.get()) {
    importer.beginTower();
    tower->seen.joint->build(importer);
  }
  if (const auto &pooling = model.config.pooling; pooling && !pooling->dense.empty())
    importer.addDense(pooling->dense);
  FailureOr<OwningOpRef<ModuleOp>> module = importer.take();
  if (failed(module))
    return nullptr;
  remarkUnread(model, **module);
  return std::move(*module);
}
