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

namespace {

// Builds @graph.
class Import {
public:
  Import(MLIRContext &context, const OnnxModel &model)
      : model(model), b(&context), loc(NameLoc::get(b.getStringAttr("graph"))), module(ModuleOp::create(b, loc)),
        g(b, loc), importer(model, g) {}
  Expected<OwningOpRef<ModuleOp>> run();

private:
  Status fail(const Twine &what) const { return errorIn(model.path, what.str()); }
  Status addArguments(ValueScope &scope);
  Status addArgument(const OnnxValueInfo &info, ValueScope &scope);
  Status addResults(ArrayRef<GraphValue> outputs);
  NamedAttribute nameAttr(const OnnxValueInfo &info) {
    return b.getNamedAttr("heddle.name", b.getStringAttr(info.name));
  }

  const OnnxModel &model;
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

Status Import::addArguments(ValueScope &scope) {
  std::set<llvm::StringRef> initializers;
  for (const OnnxTensor &tensor : model.graph.initializers)
    initializers.insert(tensor.name);
  for (const OnnxValueInfo &info : model.graph.inputs)
    if (!initializers.count(info.name))
      HEDDLE_RETURN_IF_ERROR(addArgument(info, scope).ofTensor(info.name));
  return Status();
}

Status Import::addResults(ArrayRef<GraphValue> outputs) {
  SmallVector<Value> values;
  SmallVector<Type> types;
  SmallVector<DictionaryAttr> attributes;
  for (auto [info, output] : llvm::zip_equal(model.graph.outputs, outputs)) {
    if (info.type && info.type != int32_t(output.type))
      return fail("graph output '" + printable(info.name) + "' is declared as a tensor of " + onnxTypeName(info.type) +
                  " but is one of " + onnxTypeName(int32_t(output.type)))
          .ofTensor(info.name);
    if (info.hasShape && int64_t(info.dims.size()) != output.rank())
      return fail("graph output '" + printable(info.name) + "' is declared with rank " + Twine(info.dims.size()) +
                  " but has rank " + Twine(output.rank()))
          .ofTensor(info.name);
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

Expected<OwningOpRef<ModuleOp>> heddle::importOnnx(MLIRContext &context, const OnnxModel &model) {
  return Import(context, model).run();
}
