// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An ONNX file as plain data: the graph, its functions, and tensors whose bytes stay in the mapped files. Names and
// fields are those of onnx-ml.proto (ONNX IR specification, docs/IR.md); what the compiler does not use (documentation,
// training, metadata, device placement) is not kept.
#ifndef HEDDLE_FRONTENDS_ONNX_ONNXMODEL_H
#define HEDDLE_FRONTENDS_ONNX_ONNXMODEL_H

#include "frontends/Checkpoint.h"
#include "frontends/ModelFiles.h"

#include <functional>

namespace heddle {

// TensorProto.DataType.
enum class OnnxType : int32_t {
  Undefined = 0,
  Float = 1,
  Uint8 = 2,
  Int8 = 3,
  Uint16 = 4,
  Int16 = 5,
  Int32 = 6,
  Int64 = 7,
  String = 8,
  Bool = 9,
  Float16 = 10,
  Double = 11,
  Uint32 = 12,
  Uint64 = 13,
  Bfloat16 = 16,
  Uint4 = 21,
  Int4 = 22,
};
// "float", "int64", …; "data type 999" for what is no DataType of tensors that this compiler reads.
std::string onnxTypeName(int32_t type);
// Bits of an element as raw_data holds it, 0 if the type is not read.
unsigned onnxTypeBits(OnnxType type);

struct OnnxTensor {
  std::string name;
  OnnxType type = OnnxType::Undefined;
  std::vector<int64_t> dims;
  uint64_t elements = 0;          // product of dims
  uint32_t file = 0;              // index into OnnxModel::files
  uint64_t offset = 0, bytes = 0; // of the elements in that file, little-endian, row-major
  std::vector<uint8_t>
      spilled; // the elements where the file holds them as varints; `bytes` long, file and offset unused

  // Of a sparse initialiser: positions of the stored elements in row-major order; `dims` is the dense shape, `elements`
  // the number stored.
  bool isSparse = false;
  std::vector<int64_t> positions;
};

struct OnnxGraph;

struct OnnxAttribute {
  std::string name;
  int32_t type = 0;      // AttributeProto.AttributeType
  std::string reference; // name of the enclosing function's attribute that it stands for, or empty
  float f = 0;
  int64_t i = 0;
  std::string s;
  std::vector<float> floats;
  std::vector<int64_t> ints;
  std::vector<std::string> strings;
  std::vector<OnnxTensor> tensors; // t is tensors[0]
  std::vector<OnnxGraph> graphs;   // g is graphs[0]
};

struct OnnxNode {
  std::string name, opType, domain, overload; // domain "" for ai.onnx
  std::vector<std::string> inputs, outputs;   // "" for an optional value that is left out
  std::vector<OnnxAttribute> attributes;

  const OnnxAttribute *find(std::string_view name) const;
};

struct OnnxDim {
  int64_t value = -1; // -1: not known when the model is made
  std::string param;  // its name then, or empty
};

struct OnnxValueInfo {
  std::string name;
  bool isTensor = true; // false: a sequence, map, optional
  int32_t type = 0;
  bool hasShape = false;
  std::vector<OnnxDim> dims;
};

struct OnnxGraph {
  std::string name;
  std::vector<OnnxNode> nodes;
  std::vector<OnnxTensor> initializers;
  std::vector<OnnxValueInfo> inputs, outputs;
};

using OnnxOpsets = std::map<std::string, int64_t, std::less<>>; // by domain

struct OnnxFunction {
  std::string name, domain, overload;
  std::vector<std::string> inputs, outputs;
  std::vector<OnnxAttribute> defaults; // attributes with a value if the call gives none
  std::vector<std::string> attributes; // attributes without one
  std::vector<OnnxNode> nodes;
  OnnxOpsets opsets;
};

struct OnnxModel {
  std::string path;
  int64_t irVersion = 0;
  std::string producer;
  OnnxOpsets opsets;
  OnnxGraph graph;
  std::vector<OnnxFunction> functions;
  std::vector<std::shared_ptr<MappedFile>> files; // the model first, then files of external data

  const uint8_t *data(const OnnxTensor &tensor) const {
    return tensor.spilled.empty() ? files[tensor.file]->data() + tensor.offset : tensor.spilled.data();
  }
  const OnnxFunction *findFunction(const OnnxNode &node) const;
};

// A node's name, or "3:Reshape" of one without.
std::string nameOf(const OnnxNode &node, size_t index);
// "node 3 '/layers.0/Reshape' (op Reshape)", for messages.
std::string describeNode(const OnnxNode &node, size_t index);

// Reads and checks the model whose file `files` names: names are defined once and before their use, tensors have as many bytes as their shapes ask
// for, functions do not call themselves, domains are imported. What ops mean is the importer's to check.
Expected<OnnxModel> readOnnx(ModelFiles &files);

// Whether the file starts as a ModelProto does.
bool looksLikeOnnx(const MappedFile &file);

} // namespace heddle

#endif
