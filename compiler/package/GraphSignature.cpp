// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "compiler/package/GraphSignature.h"

#include "dialect/Entries.h"
#include "runtime/schema/package_generated.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace heddle;
using package::DataType;

static std::optional<DataType> dataType(Type type, bool isUnsigned) {
  if (type.isF32())
    return DataType::F32;
  if (type.isF16())
    return DataType::F16;
  if (type.isBF16())
    return DataType::BF16;
  if (type.isF64())
    return DataType::F64;
  if (!type.isSignlessInteger())
    return std::nullopt;
  switch (type.getIntOrFloatBitWidth()) {
  case 1:
    return DataType::BOOL;
  case 8:
    return isUnsigned ? DataType::U8 : DataType::I8;
  case 16:
    return isUnsigned ? DataType::U16 : DataType::I16;
  case 32:
    return isUnsigned ? DataType::U32 : DataType::I32;
  case 64:
    return isUnsigned ? DataType::U64 : DataType::I64;
  default:
    return std::nullopt;
  }
}

namespace {

// Reads one argument or result; `what` begins messages: "input 0".
class TensorReader {
public:
  TensorReader(func::FuncOp graph, std::string what, Type type, DictionaryAttr attributes)
      : graph(graph), what(std::move(what)), type(type), attributes(attributes) {}
  FailureOr<GraphTensor> read() {
    auto shaped = dyn_cast<ShapedType>(type);
    if (!shaped || !shaped.hasRank())
      return graph.emitError(what) << " is " << type << ", expected a ranked tensor";
    GraphTensor tensor;
    auto name = attributes ? attributes.getAs<StringAttr>("heddle.name") : StringAttr();
    if (!name || name.getValue().empty())
      return graph.emitError(what) << " lacks the attribute heddle.name";
    tensor.name = name.str();
    std::optional<DataType> element = dataType(shaped.getElementType(), bool(attributes.get("heddle.unsigned")));
    if (!element)
      return graph.emitError(what) << " '" << tensor.name << "' has elements of type " << shaped.getElementType()
                                   << ", expected f16, bf16, f32, f64, i1, i8, i16, i32 or i64";
    tensor.type = *element;
    for (int64_t size : shaped.getShape())
      tensor.dims.push_back(ShapedType::isDynamic(size) ? -1 : size);
    if (auto dims = attributes.getAs<ArrayAttr>("heddle.dims")) {
      for (Attribute dim : dims)
        if (auto text = dyn_cast<StringAttr>(dim))
          tensor.dimNames.push_back(text.str());
      if (tensor.dimNames.size() != dims.size() || dims.size() != tensor.dims.size())
        return graph.emitError(what) << " '" << tensor.name << "': heddle.dims has " << dims.size()
                                     << " entries, expected " << tensor.dims.size() << " strings";
    }
    auto fill = attributes.getAs<IntegerAttr>("heddle.fill");
    if (!fill)
      return tensor;
    if (!shaped.getElementType().isInteger() ||
        llvm::any_of(tensor.dimNames, [](auto &name) { return name.empty(); }) ||
        tensor.dimNames.size() != tensor.dims.size())
      return graph.emitError(what) << " '" << tensor.name
                                   << "': heddle.fill is of integers, each of whose dimensions has a name";
    tensor.fill = fill.getInt();
    return tensor;
  }

private:
  func::FuncOp graph;
  std::string what;
  Type type;
  DictionaryAttr attributes;
};

} // namespace

static FailureOr<GraphSignature> signatureOf(func::FuncOp graph) {
  GraphSignature signature;
  signature.name = graph.getSymName().str();
  for (bool isInput : {true, false}) {
    llvm::StringSet<> names;
    auto types = isInput ? graph.getArgumentTypes() : graph.getResultTypes();
    for (auto [index, type] : llvm::enumerate(types)) {
      std::string what = (isInput ? "input " : "output ") + std::to_string(index);
      DictionaryAttr attributes = isInput ? graph.getArgAttrDict(index) : graph.getResultAttrDict(index);
      FailureOr<GraphTensor> tensor = TensorReader(graph, what, type, attributes).read();
      if (failed(tensor))
        return failure();
      if (!names.insert(tensor->name).second)
        return graph.emitError(what) << ": the name '" << tensor->name << "' is there twice";
      (isInput ? signature.inputs : signature.outputs).push_back(std::move(*tensor));
    }
  }
  return signature;
}

FailureOr<std::vector<GraphSignature>> heddle::graphSignatures(ModuleOp module) {
  std::vector<GraphSignature> signatures;
  for (func::FuncOp graph : graphEntries(module)) {
    FailureOr<GraphSignature> signature = signatureOf(graph);
    if (failed(signature))
      return failure();
    signatures.push_back(std::move(*signature));
  }
  return signatures;
}
