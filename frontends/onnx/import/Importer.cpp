// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/onnx/import/Importer.h"

#include "bytes/Status.h"
#include "frontends/onnx/import/GraphImporter.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "llvm/Support/SaveAndRestore.h"
#include <set>

using namespace mlir;
using namespace heddle;

// A graph of n choices is lowered up to 2^(n + 1) times.
static constexpr unsigned mostChoices = 6;

namespace {

// Builds @graph.
class Import {
public:
  Import(MLIRContext &context, const OnnxModel &model, bool isFirstStep, BranchChoices choices)
      : model(model), isFirstStep(isFirstStep), b(&context), loc(NameLoc::get(b.getStringAttr("graph"))),
        module(ModuleOp::create(b, loc)), g(b, loc), importer(model, g) {
    importer.choices = std::move(choices);
  }
  Expected<OwningOpRef<ModuleOp>> run();
  const OnnxNode *missingChoice() const { return importer.choices.missing; }

private:
  Status fail(const Twine &what) const { return errorIn(model.path, what.str()); }
  Status addArguments(ValueScope &scope);
  Status addArgument(const OnnxValueInfo &info, ValueScope &scope);
  Status addEmptyCache(const OnnxValueInfo &info, ValueScope &scope);
  Status bindFirstStep(ValueScope &scope);
  std::optional<Dim> namedSum(StringRef param) const;
  void addSums(ArrayRef<const OnnxValueInfo *> arguments, ValueScope &scope);
  Status addResults(ArrayRef<GraphValue> outputs);
  NamedAttribute nameAttr(const OnnxValueInfo &info) {
    return b.getNamedAttr("heddle.name", b.getStringAttr(info.name));
  }

  const OnnxModel &model;
  const bool isFirstStep;
  OpBuilder b;
  Location loc;
  OwningOpRef<ModuleOp> module;
  GraphBuilder g;
  GraphImporter importer;
  func::FuncOp function;
  llvm::StringMap<Dim> params; // sizes by dim_param
};

} // namespace

static bool isReadType(int32_t type) {
  return onnxTypeBits(OnnxType(type)) >= 8;
}

// "which OP reads", for messages about an input.
static std::string readerOf(const OnnxGraph &graph, const std::string &name) {
  for (const OnnxNode &node : graph.nodes)
    if (llvm::is_contained(node.inputs, name))
      return "which " + printable(node.opType) + " reads";
  return "which nothing reads";
}

Status Import::addArgument(const OnnxValueInfo &info, ValueScope &scope) {
  std::string who = "graph input '" + printable(info.name) + "' ";
  if (!info.isTensor)
    return fail(who + "is a sequence, map or optional, " + readerOf(model.graph, info.name) +
                ": only tensors are supported")
        .as(StatusCode::Unsupported);
  if (!isReadType(info.type))
    return fail(who + "is a tensor of " + onnxTypeName(info.type) + ", which is not supported")
        .as(StatusCode::Unsupported);
  if (!info.hasShape)
    return fail(who + "has no shape: its rank must be known");
  if (info.dims.size() > 64)
    return fail(who + "has rank " + Twine(info.dims.size()) + ", expected at most 64");
  SmallVector<int64_t> shape;
  SmallVector<Attribute> names;
  for (const OnnxDim &dim : info.dims) {
    shape.push_back(dim.value >= 0 ? dim.value : ShapedType::kDynamic);
    names.push_back(b.getStringAttr(dim.value >= 0 ? "" : printable(dim.param)));
  }
  auto type = RankedTensorType::get(shape, g.elementType(OnnxType(info.type)));
  SmallVector<NamedAttribute> attributes = {nameAttr(info)};
  if (llvm::is_contained(shape, ShapedType::kDynamic))
    attributes.push_back(b.getNamedAttr("heddle.dims", b.getArrayAttr(names)));
  if (isUnsigned(OnnxType(info.type)) && OnnxType(info.type) != OnnxType::Bool)
    attributes.push_back(b.getNamedAttr("heddle.unsigned", b.getUnitAttr()));
  unsigned index = function.getNumArguments();
  if (failed(function.insertArgument(index, type, b.getDictionaryAttr(attributes),
                                     NameLoc::get(b.getStringAttr(printable(info.name, 512))))))
    return fail(who + "cannot be an argument");
  Value argument = function.getArgument(index);
  llvm::SaveAndRestore<Location> here(g.loc, argument.getLoc());
  Dims dims;
  for (auto [i, dim] : llvm::enumerate(info.dims)) {
    if (dim.value >= 0) {
      dims.push_back(Dim(dim.value));
      continue;
    }
    Value size = tensor::DimOp::create(g.b, g.loc, argument, int64_t(i));
    auto known = dim.param.empty() ? params.end() : params.find(dim.param);
    if (known == params.end()) {
      dims.push_back(g.dimOf(size));
      if (!dim.param.empty())
        params[dim.param] = dims.back();
      continue;
    }
    dims.push_back(known->second);
    g.require(arith::CmpIOp::create(g.b, g.loc, arith::CmpIPredicate::eq, size, g.index(known->second)),
              "dimension " + Twine(i) + " of input '" + printable(info.name) + "' is not the '" + printable(dim.param) +
                  "' of an earlier one");
  }
  scope.values[info.name] = g.wrap(argument, OnnxType(info.type), dims);
  return Status();
}

static SmallVector<const OnnxValueInfo *> argumentsOf(const OnnxGraph &graph) {
  std::set<llvm::StringRef> initializers;
  for (const OnnxTensor &tensor : graph.initializers)
    initializers.insert(tensor.name);
  SmallVector<const OnnxValueInfo *> arguments;
  for (const OnnxValueInfo &info : graph.inputs)
    if (!initializers.count(info.name))
      arguments.push_back(&info);
  return arguments;
}

static bool isPast(const OnnxValueInfo &info) {
  return StringRef(info.name).starts_with("past");
}

static const OnnxValueInfo *findInfo(ArrayRef<const OnnxValueInfo *> infos, StringRef name) {
  auto found = llvm::find_if(infos, [&](const OnnxValueInfo *info) { return info->name == name; });
  return found == infos.end() ? nullptr : *found;
}

// The axis of earlier tokens: the one of unknown size beside the batch.
static std::optional<size_t> pastAxis(const OnnxValueInfo &info) {
  std::optional<size_t> axis;
  for (size_t i = 1; i < info.dims.size(); ++i) {
    if (info.dims[i].value >= 0)
      continue;
    if (axis)
      return std::nullopt;
    axis = i;
  }
  return axis;
}

// Whether an input has the batch and the sequence of the ids, by the names of its dimensions.
static bool isLikeIds(const OnnxValueInfo &info, const OnnxValueInfo &ids) {
  return llvm::equal(info.dims, ids.dims, [](const OnnxDim &a, const OnnxDim &c) {
    return a.value == c.value && a.param == c.param && (a.value >= 0 || !a.param.empty());
  });
}

bool heddle::hasFirstStep(const OnnxModel &model) {
  SmallVector<const OnnxValueInfo *> arguments = argumentsOf(model.graph);
  const OnnxValueInfo *ids = findInfo(arguments, "input_ids");
  auto isResult = [](const OnnxValueInfo &info) {
    return info.name == "logits" || StringRef(info.name).starts_with("present");
  };
  auto isLogits = [](const OnnxValueInfo &info) { return info.name == "logits"; };
  if (!ids || ids->dims.size() != 2 || !llvm::all_of(model.graph.outputs, isResult) ||
      !llvm::any_of(model.graph.outputs, isLogits))
    return false;
  bool differs = false;
  for (const OnnxValueInfo *info : arguments) {
    StringRef name = info->name;
    bool isMask = name == "attention_mask" || name == "position_ids";
    if (isPast(*info) && !(info->isTensor && isFloat(OnnxType(info->type)) && pastAxis(*info)))
      return false;
    if (!isPast(*info) && !isMask && name != "input_ids" && name != "use_cache_branch" && name != "cache_position")
      return false;
    if (isMask && info->dims.size() != 2)
      return false;
    differs |= name != "input_ids" && (!isMask || !isLikeIds(*info, *ids));
  }
  return differs;
}

// Keys or values of no tokens; their batch is that of the ids.
Status Import::addEmptyCache(const OnnxValueInfo &info, ValueScope &scope) {
  if (!isReadType(info.type))
    return fail("graph input '" + printable(info.name) + "' is a tensor of " + onnxTypeName(info.type) +
                ", which is not supported")
        .as(StatusCode::Unsupported);
  Dims dims;
  for (const OnnxDim &dim : info.dims)
    dims.push_back(Dim(dim.value));
  if (info.dims[0].value < 0)
    dims[0] = scope.find("input_ids")->dims[0];
  dims[*pastAxis(info)] = Dim(0);
  OnnxType type = OnnxType(info.type);
  scope.values[info.name] = g.wrap(g.empty(type, dims), type, dims);
  return Status();
}

Status Import::bindFirstStep(ValueScope &scope) {
  SmallVector<const OnnxValueInfo *> arguments = argumentsOf(model.graph);
  OnnxValueInfo ids = *findInfo(arguments, "input_ids");
  HEDDLE_RETURN_IF_ERROR(addArgument(ids, scope).ofTensor(ids.name));
  for (const OnnxValueInfo *info : arguments) {
    if (isPast(*info)) {
      HEDDLE_RETURN_IF_ERROR(addEmptyCache(*info, scope).ofTensor(info->name));
    } else if (info->name == "use_cache_branch") {
      scope.values[info->name] = g.full(OnnxType::Bool, {Dim(1)}, 0);
    } else if (info->name == "cache_position") {
      scope.values[info->name] = g.iota(OnnxType(info->type), scope.find("input_ids")->dims[1]);
    } else if (info->name != "input_ids") {
      OnnxValueInfo same = *info; // of the new tokens alone
      same.dims = ids.dims;
      HEDDLE_RETURN_IF_ERROR(addArgument(same, scope).ofTensor(info->name));
      scope.values[info->name].dims = scope.find("input_ids")->dims;
    }
  }
  return Status();
}

// The dimension that a name like "past_sequence_length + sequence_length" means; nothing where it is no sum of sizes that have names.
std::optional<Dim> Import::namedSum(StringRef param) const {
  SmallVector<StringRef> parts;
  param.split(parts, '+');
  Dim sum(0);
  for (StringRef part : parts) {
    auto known = params.find(part.trim());
    int64_t number = 0;
    if (known != params.end())
      sum = sum + known->second;
    else if (!part.trim().getAsInteger(10, number) && number >= 0)
      sum = sum + Dim(number);
    else
      return std::nullopt;
  }
  return parts.size() > 1 ? std::optional<Dim>(sum) : std::nullopt;
}

// Sizes that are called sums of others are these sums, which the run checks.
void Import::addSums(ArrayRef<const OnnxValueInfo *> arguments, ValueScope &scope) {
  for (const OnnxValueInfo *info : arguments) {
    GraphValue &value = scope.values[info->name];
    for (auto [i, dim] : llvm::enumerate(info->dims)) {
      std::optional<Dim> sum = dim.value < 0 ? namedSum(dim.param) : std::nullopt;
      if (!sum)
        continue;
      g.require(arith::CmpIOp::create(g.b, g.loc, arith::CmpIPredicate::eq, g.index(value.dims[i]), g.index(*sum)),
                "dimension " + Twine(i) + " of input '" + printable(info->name) + "' is not '" + printable(dim.param) +
                    "'");
      value.dims[i] = *sum;
    }
  }
}

Status Import::addArguments(ValueScope &scope) {
  if (isFirstStep)
    return bindFirstStep(scope);
  SmallVector<const OnnxValueInfo *> arguments = argumentsOf(model.graph);
  for (const OnnxValueInfo *info : arguments)
    HEDDLE_RETURN_IF_ERROR(addArgument(*info, scope).ofTensor(info->name));
  addSums(arguments, scope);
  return Status();
}

Status Import::addResults(ArrayRef<GraphValue> outputs) {
  SmallVector<Value> values;
  SmallVector<Type> types;
  SmallVector<DictionaryAttr> attributes;
  for (auto [info, output] : llvm::zip_equal(model.graph.outputs, outputs)) {
    if (isFirstStep && info.name != "logits")
      continue;
    if (output.sequence)
      return fail("graph output '" + printable(info.name) + "' is a sequence: only tensors are supported")
          .as(StatusCode::Unsupported)
          .ofTensor(info.name);
    if (info.type && info.type != int32_t(output.type))
      return fail("graph output '" + printable(info.name) + "' is declared as a tensor of " + onnxTypeName(info.type) +
                  " but is one of " + onnxTypeName(int32_t(output.type)))
          .ofTensor(info.name);
    // The shape that an output is declared with is a note, which exporters get wrong.
    values.push_back(g.tensor(output));
    types.push_back(values.back().getType());
    SmallVector<NamedAttribute> dict = {nameAttr(info)};
    if (isUnsigned(output.type) && output.type != OnnxType::Bool)
      dict.push_back(b.getNamedAttr("heddle.unsigned", b.getUnitAttr()));
    attributes.push_back(b.getDictionaryAttr(dict));
  }
  func::ReturnOp::create(g.b, g.loc, values);
  function.setType(b.getFunctionType(function.getArgumentTypes(), types));
  for (auto [i, dict] : llvm::enumerate(attributes))
    function.setResultAttrs(unsigned(i), dict);
  return Status();
}

Expected<OwningOpRef<ModuleOp>> Import::run() {
  b.setInsertionPointToEnd(module->getBody());
  function = func::FuncOp::create(b, loc, "graph", b.getFunctionType({}, {}));
  g.b.setInsertionPointToEnd(function.addEntryBlock());
  ValueScope scope;
  HEDDLE_RETURN_IF_ERROR(addArguments(scope));
  if (model.graph.outputs.empty())
    return fail("the graph has no outputs");
  importer.addInitializers(model.graph, scope);
  SmallVector<GraphValue> outputs;
  if (importer.importNodes(model.graph.nodes, scope))
    for (const OnnxValueInfo &info : model.graph.outputs)
      outputs.push_back(*scope.find(info.name));
  if (g.failed())
    return Status(g.error()).saying(fail(g.error().message()).message()).inFile(model.path);
  HEDDLE_RETURN_IF_ERROR(addResults(outputs));
  return std::move(module);
}

// An `If` whose branches differ in rank, as exporters write a squeeze of an axis that may have more than one element, stands for that branch
// for which the rest of the graph can be lowered, if that is one of both.
static Expected<OwningOpRef<ModuleOp>> importChoosing(MLIRContext &context, const OnnxModel &model, bool isFirstStep,
                                                      const BranchChoices &choices) {
  Import undecided(context, model, isFirstStep, choices);
  Expected<OwningOpRef<ModuleOp>> refused = undecided.run();
  const OnnxNode *node = undecided.missingChoice();
  if (!node || choices.takesThen.size() == mostChoices)
    return refused;
  std::optional<Expected<OwningOpRef<ModuleOp>>> found;
  for (bool takesThen : {true, false}) {
    BranchChoices next = choices;
    next.takesThen[node] = takesThen;
    Expected<OwningOpRef<ModuleOp>> module = importChoosing(context, model, isFirstStep, next);
    if (!module)
      continue;
    if (found) // either may be meant
      return refused;
    found.emplace(std::move(module));
  }
  return found ? std::move(*found) : std::move(refused);
}

Expected<OwningOpRef<ModuleOp>> heddle::importOnnx(MLIRContext &context, const OnnxModel &model) {
  return importChoosing(context, model, /*isFirstStep=*/false, BranchChoices());
}

Expected<OwningOpRef<ModuleOp>> heddle::importFirstStep(MLIRContext &context, const OnnxModel &model) {
  return importChoosing(context, model, /*isFirstStep=*/true, BranchChoices());
}
