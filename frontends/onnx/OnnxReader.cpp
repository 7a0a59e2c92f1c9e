// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "bytes/Status.h"
#include "frontends/onnx/OnnxModel.h"
#include "frontends/onnx/OnnxOrder.h"
#include "frontends/onnx/OnnxScan.h"
#include "frontends/onnx/OnnxTensors.h"
#include "frontends/onnx/OnnxValidate.h"

#include "onnx-ml.pb.h"

namespace heddle {

namespace {

// "ai.onnx" is another name of the standard domain.
std::string domainName(const std::string &domain) {
  return domain == "ai.onnx" ? "" : domain;
}

// Turns the generated classes into an OnnxModel. The first error stays and stops everything.
class Reader {
public:
  Reader(OnnxModel &model, ModelFiles &files) : model(model), tensors(model, files) {}
  Status read(const onnx::ModelProto &proto);

private:
  bool add(Expected<OnnxTensor> tensor, std::vector<OnnxTensor> &out);
  bool readGraph(const onnx::GraphProto &proto, OnnxGraph &graph);
  bool readNode(const onnx::NodeProto &proto, OnnxNode &node);
  bool readAttribute(const onnx::AttributeProto &proto, OnnxAttribute &attribute);
  bool readFunction(const onnx::FunctionProto &proto, OnnxFunction &function);
  bool readOpsets(const google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto> &protos, OnnxOpsets &opsets);
  OnnxValueInfo valueInfo(const onnx::ValueInfoProto &proto);
  bool fail(const std::string &what) {
    failure = errorIn(model.path, what);
    return false;
  }

  OnnxModel &model;
  OnnxTensorReader tensors;
  Status failure;
};

bool Reader::add(Expected<OnnxTensor> tensor, std::vector<OnnxTensor> &out) {
  if (tensor)
    out.push_back(std::move(*tensor));
  else
    failure = tensor.status();
  return failure.isOk();
}

bool Reader::readAttribute(const onnx::AttributeProto &proto, OnnxAttribute &attribute) {
  attribute.name = proto.name();
  attribute.reference = proto.ref_attr_name();
  attribute.type = proto.type();
  attribute.f = proto.f();
  attribute.i = proto.i();
  attribute.s = proto.s();
  attribute.floats.assign(proto.floats().begin(), proto.floats().end());
  attribute.ints.assign(proto.ints().begin(), proto.ints().end());
  attribute.strings.assign(proto.strings().begin(), proto.strings().end());
  if (proto.has_t() && !add(tensors.read(proto.t()), attribute.tensors))
    return false;
  if (proto.has_sparse_tensor() && !add(tensors.read(proto.sparse_tensor()), attribute.tensors))
    return false;
  for (const auto &tensor : proto.tensors())
    if (!add(tensors.read(tensor), attribute.tensors))
      return false;
  if (proto.has_g() && !readGraph(proto.g(), attribute.graphs.emplace_back()))
    return false;
  for (const auto &graph : proto.graphs())
    if (!readGraph(graph, attribute.graphs.emplace_back()))
      return false;
  // Files from before IR version 2 leave the type out.
  if (attribute.type == 0)
    attribute.type = proto.has_f()          ? 1
                     : proto.has_i()        ? 2
                     : proto.has_s()        ? 3
                     : proto.has_t()        ? 4
                     : proto.has_g()        ? 5
                     : proto.floats_size()  ? 6
                     : proto.ints_size()    ? 7
                     : proto.strings_size() ? 8
                                            : 0;
  return true;
}

bool Reader::readNode(const onnx::NodeProto &proto, OnnxNode &node) {
  node.name = proto.name();
  node.opType = proto.op_type();
  node.domain = domainName(proto.domain());
  node.overload = proto.overload();
  node.inputs.assign(proto.input().begin(), proto.input().end());
  node.outputs.assign(proto.output().begin(), proto.output().end());
  for (const auto &attribute : proto.attribute())
    if (!readAttribute(attribute, node.attributes.emplace_back()))
      return false;
  return true;
}

// Dimensions of one name have one size. Some exporters write these for every size that they do not know.
static bool isName(const std::string &param) {
  return param != "?" && param != "None" && param != "-1";
}

OnnxValueInfo Reader::valueInfo(const onnx::ValueInfoProto &proto) {
  OnnxValueInfo info;
  info.name = proto.name();
  info.isTensor = proto.type().has_tensor_type() || proto.type().value_case() == onnx::TypeProto::VALUE_NOT_SET;
  const auto &type = proto.type().tensor_type();
  info.type = type.elem_type();
  info.hasShape = type.has_shape();
  for (const auto &dim : type.shape().dim())
    info.dims.push_back({dim.has_dim_value() ? dim.dim_value() : -1, isName(dim.dim_param()) ? dim.dim_param() : ""});
  return info;
}

bool Reader::readGraph(const onnx::GraphProto &proto, OnnxGraph &graph) {
  graph.name = proto.name();
  for (const auto &tensor : proto.initializer())
    if (!add(tensors.read(tensor), graph.initializers))
      return false;
  for (const auto &tensor : proto.sparse_initializer())
    if (!add(tensors.read(tensor), graph.initializers))
      return false;
  for (const auto &node : proto.node())
    if (!readNode(node, graph.nodes.emplace_back())) {
      failure = std::move(failure).ofOp(nameOf(graph.nodes.back(), graph.nodes.size() - 1));
      return false;
    }
  for (const auto &input : proto.input())
    graph.inputs.push_back(valueInfo(input));
  for (const auto &output : proto.output())
    graph.outputs.push_back(valueInfo(output));
  return true;
}

bool Reader::readOpsets(const google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto> &protos,
                        OnnxOpsets &opsets) {
  for (const auto &opset : protos) {
    auto [known, isNew] = opsets.emplace(domainName(opset.domain()), opset.version());
    if (!isNew && known->second != opset.version())
      return fail("opset_import: domain '" + (known->first.empty() ? "ai.onnx" : printable(known->first)) +
                  "' is there with versions " + std::to_string(known->second) + " and " +
                  std::to_string(opset.version()));
  }
  return true;
}

bool Reader::readFunction(const onnx::FunctionProto &proto, OnnxFunction &function) {
  function.name = proto.name();
  function.domain = domainName(proto.domain());
  function.overload = proto.overload();
  function.inputs.assign(proto.input().begin(), proto.input().end());
  function.outputs.assign(proto.output().begin(), proto.output().end());
  function.attributes.assign(proto.attribute().begin(), proto.attribute().end());
  for (const auto &attribute : proto.attribute_proto())
    if (!readAttribute(attribute, function.defaults.emplace_back()))
      return false;
  for (const auto &node : proto.node())
    if (!readNode(node, function.nodes.emplace_back()))
      return false;
  return readOpsets(proto.opset_import(), function.opsets);
}

Status Reader::read(const onnx::ModelProto &proto) {
  model.irVersion = proto.ir_version();
  model.producer = proto.producer_name();
  bool done = readOpsets(proto.opset_import(), model.opsets);
  if (done && !proto.has_graph())
    done = fail("has no graph");
  done = done && readGraph(proto.graph(), model.graph);
  for (const auto &function : proto.functions())
    done = done && readFunction(function, model.functions.emplace_back());
  if (!done)
    return failure;
  return Status();
}

} // namespace

const OnnxAttribute *OnnxNode::find(std::string_view name) const {
  for (const OnnxAttribute &attribute : attributes)
    if (attribute.name == name)
      return &attribute;
  return nullptr;
}

const OnnxFunction *OnnxModel::findFunction(const OnnxNode &node) const {
  for (const OnnxFunction &function : functions)
    if (function.name == node.opType && function.domain == node.domain && function.overload == node.overload)
      return &function;
  return nullptr;
}

std::string nameOf(const OnnxNode &node, size_t index) {
  return node.name.empty() ? std::to_string(index) + ":" + node.opType : node.name;
}

std::string describeNode(const OnnxNode &node, size_t index) {
  return "node " + std::to_string(index) + (node.name.empty() ? "" : " '" + printable(node.name) + "'") + " (op " +
         printable(node.opType) + ")";
}

// A ModelProto starts with its first field, ir_version, a small number, or with one of its messages and strings.
bool looksLikeOnnx(const MappedFile &file) {
  const uint8_t *bytes = file.data();
  return file.size() >= 4 && bytes[0] == 0x08 && bytes[1] > 0 && bytes[1] < 32 && (bytes[2] & 7) == 2;
}

Expected<OnnxModel> readOnnx(ModelFiles &files) {
  Expected<SharedFile> file = files.open();
  if (!file)
    return file.status();
  OnnxModel model;
  model.path = files.model();
  model.files.push_back(*file);
  {
    Expected<std::string> copy = scanOnnx((*file)->data(), (*file)->size(), model.path);
    if (!copy)
      return copy.status();
    onnx::ModelProto proto;
    if (copy->size() > INT32_MAX || !proto.ParseFromString(*copy))
      return errorIn(model.path, "is no valid ModelProto of ONNX");
    std::string().swap(*copy);
    HEDDLE_RETURN_IF_ERROR(Reader(model, files).read(proto));
  }
  sortNodes(model);
  HEDDLE_RETURN_IF_ERROR(validateOnnx(model));
  return model;
}

} // namespace heddle
