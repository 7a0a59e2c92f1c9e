// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/onnx/import/GraphImporter.h"

#include "bytes/Text.h"
#include "dialect/HeddleDialect.h"
#include "dialect/Locations.h"
#include "frontends/onnx/import/LineTable.h"

#include "llvm/Support/Path.h"

using namespace mlir;
using namespace heddle;

// Tensors above this are weights, which stay in their file; smaller ones are constants that fold.
static constexpr uint64_t maxConstantElements = 1024;
static constexpr int64_t firstOpset = 1, lastOpset = 27;

const GraphValue *ValueScope::find(StringRef name) const {
  for (const ValueScope *scope = this; scope; scope = scope->parent)
    if (auto found = scope->values.find(name); found != scope->values.end())
      return &found->second;
  return nullptr;
}

// --- the table ------------------------------------------------------------------------------------------------------

// The row of the newest definition that `opset` has; null with whether the op is known at all.
static const OpRow *findRow(const OnnxNode &node, int64_t opset, bool &isKnown) {
  const OpRow *best = nullptr;
  isKnown = false;
  for (ArrayRef<OpRow> group : {elementwiseOps(),
                                shapeOps(),
                                sliceOps(),
                                indexingOps(),
                                scatterOps(),
                                contractionOps(),
                                convolutionOps(),
                                randomOps(),
                                reductionOps(),
                                resizeOps(),
                                fourierOps(),
                                gridSampleOps(),
                                sequenceOps(),
                                sortingOps(),
                                mixtureOfExpertsOps(),
                                normalizationOps(),
                                attentionOps(),
                                recurrenceOps(),
                                recurrentLayerOps(),
                                quantizationOps(),
                                controlFlowOps(),
                                microsoftOps(),
                                microsoftAttentionOps(),
                                microsoftQuantizationOps()})
    for (const OpRow &row : group) {
      if (node.opType != row.name || node.domain != row.domain)
        continue;
      isKnown = true;
      if (row.since <= opset && (!best || best->since < row.since))
        best = &row;
    }
  return best;
}

// --- initialisers ---------------------------------------------------------------------------------------------------

// Elements of a tensor as DenseElementsAttr wants them, sparse ones spread.
static DenseElementsAttr denseOf(const OnnxModel &model, const OnnxTensor &tensor, RankedTensorType type) {
  const uint8_t *bytes = model.data(tensor);
  uint64_t total = type.getNumElements();
  unsigned bits = onnxTypeBits(tensor.type), width = std::max(bits / 8, 1u);
  std::vector<char> raw(total * width, 0);
  for (uint64_t i = 0; i < tensor.elements; ++i) {
    char *to = raw.data() + (tensor.isSparse ? uint64_t(tensor.positions[i]) : i) * width;
    if (bits == 4) {
      int nibble = bytes[i / 2] >> (i % 2 ? 4 : 0) & 15;
      *to = char(tensor.type == OnnxType::Int4 && nibble > 7 ? nibble - 16 : nibble);
    } else {
      memcpy(to, bytes + i * width, width);
    }
  }
  if (type.getElementType().isInteger(1)) {
    SmallVector<bool> flags(raw.begin(), raw.end());
    return DenseElementsAttr::get(type, flags);
  }
  return DenseElementsAttr::getFromRawBuffer(type, raw);
}

// Of flags of two dimensions that depend on row - column alone, as stored masks do: the flag where that is least, and the differences at which
// it changes, a few; else nothing.
static SmallVector<int64_t> changesByDistance(const OnnxModel &model, const OnnxTensor &tensor) {
  SmallVector<int64_t> large;
  for (int64_t dim : tensor.dims)
    if (dim != 1)
      large.push_back(dim);
  bool isFloats = tensor.type == OnnxType::Float;
  if ((tensor.type != OnnxType::Bool && !isFloats) || large.size() != 2)
    return {};
  const uint8_t *bytes = model.data(tensor);
  int64_t rows = large[0], columns = large[1];
  // Of floats -1 where the number is no flag.
  auto at = [&](int64_t row, int64_t column) -> int {
    if (!isFloats)
      return bytes[row * columns + column] != 0;
    float number;
    memcpy(&number, bytes + (row * columns + column) * sizeof(float), sizeof(float));
    return number == 0 ? 0 : number == 1 ? 1 : -1;
  };
  for (int64_t column = 0; column < columns; ++column)
    if (at(0, column) < 0)
      return {};
  for (int64_t row = 1; row < rows; ++row)
    if (at(row, 0) < 0)
      return {};
  for (int64_t row = 1; row < rows; ++row)
    for (int64_t column = 1; column < columns; ++column)
      if (at(row, column) != at(row - 1, column - 1))
        return {};
  // Each distance once: along the first row backwards, then down the first column.
  SmallVector<int64_t> changes = {at(0, columns - 1)};
  bool last = changes.front();
  for (int64_t distance = 2 - columns; distance < rows; ++distance)
    if (bool flag = distance < 0 ? at(0, -distance) : at(distance, 0); flag != last) {
      changes.push_back(distance);
      last = flag;
    }
  return changes.size() <= 5 ? changes : SmallVector<int64_t>();
}

// What a tensor of the type is called in #heddle.storage.
static StringRef storageName(OnnxType type) {
  switch (type) {
  case OnnxType::Float:
    return "f32";
  case OnnxType::Double:
    return "f64";
  case OnnxType::Float16:
    return "f16";
  case OnnxType::Bfloat16:
    return "bf16";
  case OnnxType::Bool:
    return "bool";
  case OnnxType::Uint8:
    return "u8";
  case OnnxType::Uint16:
    return "u16";
  case OnnxType::Uint32:
    return "u32";
  case OnnxType::Uint64:
    return "u64";
  case OnnxType::Int8:
    return "i8";
  case OnnxType::Int16:
    return "i16";
  case OnnxType::Int32:
    return "i32";
  default:
    return "i64";
  }
}

std::string GraphImporter::uniqueWeightName(const std::string &name) {
  unsigned &count = weightNames[name];
  return count++ ? name + "#" + std::to_string(count) : name;
}

GraphValue GraphImporter::constantOf(const OnnxTensor &tensor) {
  // Four bits are widened: no arithmetic of ONNX is on them.
  bool isNarrow = tensor.type == OnnxType::Int4 || tensor.type == OnnxType::Uint4;
  OnnxType type = tensor.type == OnnxType::Int4    ? OnnxType::Int8
                  : tensor.type == OnnxType::Uint4 ? OnnxType::Uint8
                                                   : tensor.type;
  Dims dims;
  for (int64_t dim : tensor.dims)
    dims.push_back(Dim(dim));
  RankedTensorType shaped = g.tensorType(type, dims);
  // A small tensor of floats may be a parameter as well as a part of a computation: it is a weight that says its elements.
  bool isSmall = tensor.elements <= maxConstantElements, mayBeParameter = isFloat(type) && tensor.elements > 1;
  StorageAttr storage;
  if (!isNarrow && !tensor.isSparse && tensor.spilled.empty())
    storage = StorageAttr::get(g.b.getContext(), g.b.getStringAttr(storageName(type)), tensor.file,
                               int64_t(tensor.offset), false);
  if (storage && (!isSmall || mayBeParameter)) {
    auto weight = WeightOp::create(g.b, tensorLocation(g.b.getContext(), printable(tensor.name, 1024)), shaped,
                                   uniqueWeightName(printable(tensor.name, 1024)), storage);
    if (isSmall)
      weight->setAttr("heddle.content", denseOf(model, tensor, shaped));
    else if (SmallVector<int64_t> changes = changesByDistance(model, tensor); !changes.empty())
      weight->setAttr("heddle.by_distance", g.b.getDenseI64ArrayAttr(changes));
    if (std::optional<AngleTable> table = angles.read(tensor)) {
      weight->setAttr("heddle.frequencies", g.b.getDenseF64ArrayAttr(table->frequencies));
      weight->setAttr("heddle.cosines", g.b.getDenseBoolArrayAttr(table->isCosine));
      weight->setAttr("heddle.amplitude", g.b.getF64FloatAttr(table->amplitude));
    }
    if (SmallVector<double> lines = lineTableOf(model, tensor); !lines.empty())
      weight->setAttr("heddle.lines", g.b.getDenseF64ArrayAttr(lines));
    return g.wrap(weight, type, dims);
  }
  DenseElementsAttr attr = denseOf(model, tensor, shaped);
  if (!isFloat(type) && uint64_t(shaped.getNumElements()) <= maxConstantElements) {
    std::vector<Dim> content;
    for (APInt number : attr.getValues<APInt>())
      content.push_back(Dim(isUnsigned(type) ? int64_t(number.getZExtValue()) : number.getSExtValue()));
    GraphValue constant = g.integers(type, dims, std::move(content));
    constant.storage = storage;
    return constant;
  }
  return {type, dims, arith::ConstantOp::create(g.b, g.loc, attr), nullptr};
}

void GraphImporter::addInitializers(const OnnxGraph &graph, ValueScope &scope) {
  for (const OnnxTensor &tensor : graph.initializers)
    scope.values[tensor.name] = constantOf(tensor);
}

// --- graphs and nodes -----------------------------------------------------------------------------------------------

SmallVector<GraphValue> GraphImporter::importGraph(const OnnxGraph &graph, ArrayRef<GraphValue> inputs,
                                                   const ValueScope *outer) {
  ValueScope inner{outer, {}};
  for (auto [info, value] : llvm::zip(graph.inputs, inputs))
    inner.values[info.name] = value;
  addInitializers(graph, inner);
  SmallVector<GraphValue> outputs;
  if (!importNodes(graph.nodes, inner))
    return outputs;
  for (const OnnxValueInfo &output : graph.outputs) {
    const GraphValue *value = inner.find(output.name);
    if (!value || !*value) {
      g.fail("graph output '" + printable(output.name) + "' has no value");
      return outputs;
    }
    if (value->sequence) {
      g.fail("graph output '" + printable(output.name) + "' is a sequence, which no inner graph may give",
             StatusCode::Unsupported);
      return outputs;
    }
    outputs.push_back(*value);
  }
  return outputs;
}

std::string GraphImporter::placeOf(const OnnxNode &node, size_t index) {
  return (llvm::sys::path::filename(model.path) + ":" + printable(prefix + nameOf(node, index), 512)).str();
}

int64_t GraphImporter::opsetOf(const OnnxNode &node) {
  const OnnxOpsets &opsets = frame ? frame->function->opsets : model.opsets;
  auto found = opsets.find(node.domain);
  // A function may leave out what the model imports.
  if (found == opsets.end())
    found = model.opsets.find(node.domain);
  return found == model.opsets.end() || found == opsets.end() ? 1 : found->second;
}

bool GraphImporter::importNodes(const std::vector<OnnxNode> &nodes, ValueScope &inner) {
  const ValueScope *outer = scope;
  scope = &inner;
  bool done = true;
  for (size_t i = 0; i < nodes.size() && done; ++i)
    done = importNode(nodes[i], i, inner);
  scope = outer;
  return done;
}

bool GraphImporter::importNode(const OnnxNode &node, size_t index, ValueScope &inner) {
  Location outer = g.loc;
  std::string place = placeOf(node, index);
  bool isTyped = node.name.empty(); // then its op type is its name
  g.loc = NameLoc::get(g.b.getStringAttr(isTyped ? place : place + " (" + printable(node.opType, 128) + ")"));
  int64_t opset = opsetOf(node);
  std::vector<GraphValue> inputs;
  for (const std::string &name : node.inputs) {
    const GraphValue *value = name.empty() ? nullptr : inner.find(name);
    inputs.push_back(value ? *value : GraphValue());
  }
  NodeImport import(*this, node, opset, std::move(inputs));
  std::string who = place + ": " + printable(node.opType) + " (domain " +
                    (node.domain.empty() ? "ai.onnx" : printable(node.domain)) + ", opset " + std::to_string(opset) +
                    ")";
  bool hadFailed = g.failed();
  // Nothing where an inner graph's node has said who failed.
  auto fail = [&] {
    g.setError(Status(g.error()).ofOp(prefix + nameOf(node, index)));
    return false;
  };
  auto complain = [&](const Twine &what) {
    g.fail(who + " " + what, StatusCode::Unsupported);
    return fail();
  };
  if (const OnnxFunction *function = model.findFunction(node)) {
    if (!callFunction(*function, import))
      return fail();
  } else {
    bool isKnown;
    const OpRow *row = findRow(node, opset, isKnown);
    if (node.domain.empty() && (opset < firstOpset || opset > lastOpset))
      return complain("has an opset that is not supported: expected 7 to " + Twine(lastOpset));
    if (!row)
      return complain(isKnown ? "is not supported in this opset, only in newer ones" : "is not supported");
    row->lower(import);
    if (g.failed() && !hadFailed) {
      g.setError(Status(g.error()).saying(who + ": " + g.error().message()));
      return fail();
    }
  }
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i].empty())
      continue;
    if (!import.results()[i])
      return complain("has output " + Twine(i) + " '" + printable(node.outputs[i]) + "', which is not supported");
    inner.values[node.outputs[i]] = import.results()[i];
  }
  g.loc = outer;
  return true;
}

bool GraphImporter::callFunction(const OnnxFunction &function, NodeImport &call) {
  ValueScope inner;
  if (call.numInputs() > function.inputs.size()) {
    g.fail("function '" + printable(function.name) + "' has " + Twine(function.inputs.size()) +
           " inputs, called with " + Twine(call.numInputs()));
    return false;
  }
  for (size_t i = 0; i < function.inputs.size(); ++i)
    inner.values[function.inputs[i]] = call.has(i) ? call.in(i) : GraphValue();
  CallFrame callee{&call.node, &function, frame};
  const CallFrame *caller = frame;
  std::string outerPrefix = prefix;
  frame = &callee;
  prefix += (call.node.name.empty() ? function.name : call.node.name) + "/";
  bool done = importNodes(function.nodes, inner);
  frame = caller;
  prefix = outerPrefix;
  for (size_t i = 0; done && i < function.outputs.size(); ++i)
    if (const GraphValue *value = inner.find(function.outputs[i]))
      call.out(*value, i);
  return done;
}
