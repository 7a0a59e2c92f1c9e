// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/onnx/OnnxTensors.h"
#include "bytes/Size.h"
#include "bytes/Status.h"
#include "frontends/onnx/OnnxScan.h"
#include "frontends/onnx/Sha1.h"

#include "onnx-ml.pb.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

namespace heddle {

namespace {

struct TypeRow {
  OnnxType type;
  const char *name;
  unsigned bits;
};

constexpr TypeRow types[] = {
    {OnnxType::Float, "float", 32},       {OnnxType::Uint8, "uint8", 8},    {OnnxType::Int8, "int8", 8},
    {OnnxType::Uint16, "uint16", 16},     {OnnxType::Int16, "int16", 16},   {OnnxType::Int32, "int32", 32},
    {OnnxType::Int64, "int64", 64},       {OnnxType::Bool, "bool", 8},      {OnnxType::Float16, "float16", 16},
    {OnnxType::Double, "double", 64},     {OnnxType::Uint32, "uint32", 32}, {OnnxType::Uint64, "uint64", 64},
    {OnnxType::Bfloat16, "bfloat16", 16}, {OnnxType::Uint4, "uint4", 4},    {OnnxType::Int4, "int4", 4},
    {OnnxType::String, "string", 0},
};

const TypeRow *findType(int32_t type) {
  for (const TypeRow &row : types)
    if (static_cast<int32_t>(row.type) == type)
      return &row;
  return nullptr;
}

std::string shapeOf(const std::vector<int64_t> &dims) {
  std::string text = "(";
  for (size_t i = 0; i < dims.size() && i < 16; ++i)
    text += (i ? ", " : "") + std::to_string(dims[i]);
  return text + (dims.size() > 16 ? ", ...)" : ")");
}

// Strict decimal digits of an external_data entry.
bool parseNumber(const std::string &text, uint64_t &value) {
  Size number(0);
  for (char c : text) {
    if (c < '0' || c > '9')
      return false;
    number = number * Size(10) + Size(static_cast<uint64_t>(c - '0'));
  }
  value = number.value();
  return number.valid() && !text.empty();
}

void append(std::vector<uint8_t> &out, uint64_t value, unsigned bytes) {
  for (unsigned i = 0; i < bytes; ++i)
    out.push_back(static_cast<uint8_t>(value >> (8 * i)));
}

} // namespace

std::string onnxTypeName(int32_t type) {
  const TypeRow *row = findType(type);
  return row ? row->name : "data type " + std::to_string(type);
}

unsigned onnxTypeBits(OnnxType type) {
  const TypeRow *row = findType(static_cast<int32_t>(type));
  return row ? row->bits : 0;
}

Status OnnxTensorReader::fail(const std::string &name, const std::string &what) const {
  return errorIn(model.path, "tensor '" + printable(name) + "': " + what).ofTensor(name);
}

Expected<uint32_t> OnnxTensorReader::openExternal(const std::string &name, const std::string &location) {
  if (auto found = opened.find(location); found != opened.end())
    return found->second;
  if (opened.size() >= 4096)
    return fail(name, "external data in more than 4096 files");
  if (!isPathBelow(location))
    return fail(name, "external data: location '" + printable(location) +
                          "' is not allowed: expected a relative path that stays inside the model's folder, without "
                          "'..'");
  Expected<SharedFile> file = files.openRaw(location);
  if (!file)
    return Status(file.status()).saying(fail(name, "external data: " + file.message()).message()).ofTensor(name);
  model.files.push_back(*file);
  uint32_t index = static_cast<uint32_t>(model.files.size() - 1);
  opened.emplace(location, index);
  return index;
}

// A checksum is the SHA-1 of the whole file, which is computed once for all tensors in it.
Status OnnxTensorReader::compareChecksum(const std::string &name, uint32_t file, const std::string &location,
                                         const std::string &stated) {
  auto [known, isNew] = checksums.try_emplace(file);
  if (isNew) {
    Sha1Digest digest = sha1(model.files[file]->data(), model.files[file]->size());
    known->second = hexadecimal(digest.data(), digest.size());
  }
  std::string lower = stated;
  for (char &c : lower)
    c = c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
  if (lower == known->second)
    return Status();
  return fail(name, "external data: checksum '" + printable(stated, 64) + "', but the SHA-1 of '" +
                        printable(location) + "' is " + known->second);
}

Status OnnxTensorReader::readExternal(const onnx::TensorProto &proto, OnnxTensor &tensor) {
  std::string location, checksum;
  uint64_t offset = 0, length = tensor.bytes;
  // The keys of the specification (TensorProto.external_data).
  struct {
    const char *key;
    std::string *text;
    uint64_t *number;
    bool isThere = false;
  } keys[] = {{"location", &location, nullptr},
              {"offset", nullptr, &offset},
              {"length", nullptr, &length},
              {"checksum", &checksum, nullptr}};
  for (const auto &entry : proto.external_data()) {
    auto known = std::find_if(std::begin(keys), std::end(keys), [&](const auto &k) { return entry.key() == k.key; });
    if (known == std::end(keys))
      return fail(tensor.name, "external data: unknown key '" + printable(entry.key()) +
                                   "', expected location, offset, length or checksum");
    if (std::exchange(known->isThere, true))
      return fail(tensor.name, "external data: " + entry.key() + " is there twice");
    if (known->text)
      *known->text = entry.value();
    else if (!parseNumber(entry.value(), *known->number))
      return fail(tensor.name,
                  "external data: " + entry.key() + " '" + printable(entry.value()) + "' is no number of bytes");
  }
  if (!keys[0].isThere)
    return fail(tensor.name, "external data: location is missing");
  if (proto.has_raw_data() || proto.int32_data_size() || proto.int64_data_size() || proto.uint64_data_size())
    return fail(tensor.name, "has data of its own and external data, expected one of them");
  if (length != tensor.bytes)
    return fail(tensor.name, "external data: length " + std::to_string(length) + ", expected " +
                                 std::to_string(tensor.bytes) + " bytes for shape " + shapeOf(tensor.dims));
  Expected<uint32_t> file = openExternal(tensor.name, location);
  if (!file)
    return file.status();
  uint64_t size = model.files[*file]->size();
  if (!(Size(offset) + Size(length)).atMost(size))
    return fail(tensor.name, "external data: offset " + std::to_string(offset) + " and length " +
                                 std::to_string(length) + " reach past the end of '" + printable(location) +
                                 "', which has " + std::to_string(size) + " bytes");
  if (keys[3].isThere)
    HEDDLE_RETURN_IF_ERROR(compareChecksum(tensor.name, *file, location, checksum));
  tensor.file = *file;
  tensor.offset = offset;
  return Status();
}

// Elements that the file holds as varints, in one of three fields by type.
Status OnnxTensorReader::readTyped(const onnx::TensorProto &proto, OnnxTensor &tensor, uint64_t bytes) {
  unsigned bits = onnxTypeBits(tensor.type);
  bool isWide = tensor.type == OnnxType::Int64;
  bool isUnsigned = tensor.type == OnnxType::Uint32 || tensor.type == OnnxType::Uint64;
  bool isFloat = tensor.type == OnnxType::Float || tensor.type == OnnxType::Double;
  const char *field = isWide       ? "int64_data"
                      : isUnsigned ? "uint64_data"
                      : isFloat    ? "float_data or double_data"
                                   : "int32_data";
  uint64_t held = isWide       ? proto.int64_data_size()
                  : isUnsigned ? proto.uint64_data_size()
                  : isFloat    ? 0
                               : proto.int32_data_size();
  uint64_t needed = bits < 8 ? bytes : tensor.elements;
  if (held != needed)
    return fail(tensor.name, "has " + std::to_string(held) + " elements in " + field + ", expected " +
                                 std::to_string(needed) + " for shape " + shapeOf(tensor.dims) + " of " +
                                 onnxTypeName(proto.data_type()));
  tensor.spilled.reserve(bytes);
  unsigned width = std::max(bits / 8, 1u);
  for (uint64_t i = 0; i < held; ++i)
    append(tensor.spilled,
           isWide       ? static_cast<uint64_t>(proto.int64_data(static_cast<int>(i)))
           : isUnsigned ? proto.uint64_data(static_cast<int>(i))
                        : static_cast<uint64_t>(static_cast<int64_t>(proto.int32_data(static_cast<int>(i)))),
           width);
  return Status();
}

Expected<OnnxTensor> OnnxTensorReader::read(const onnx::TensorProto &proto) {
  OnnxTensor tensor;
  tensor.name = proto.name();
  const TypeRow *row = findType(proto.data_type());
  if (!row)
    return fail(tensor.name, "data type " + std::to_string(proto.data_type()) + " (data_type) is not one that is read");
  if (row->type == OnnxType::String)
    return fail(tensor.name, "data type string: tensors of strings are not supported").as(StatusCode::Unsupported);
  if (proto.has_segment())
    return fail(tensor.name, "is stored in segments, which is not supported").as(StatusCode::Unsupported);
  tensor.type = row->type;
  if (proto.dims_size() > 64)
    return fail(tensor.name, "has rank " + std::to_string(proto.dims_size()) + ", expected at most 64");
  Size elements(1);
  bool isEmpty = false;
  for (int64_t dim : proto.dims()) {
    if (dim < 0)
      return fail(tensor.name, "dimension " + std::to_string(dim) + " is negative");
    tensor.dims.push_back(dim);
    isEmpty |= dim == 0;
    elements = dim ? elements * Size(static_cast<uint64_t>(dim)) : elements;
  }
  if (isEmpty)
    elements = Size(0);
  Size bits = elements * Size(row->bits) + Size(7);
  if (!bits.valid() || !bits.atMost(uint64_t(1) << 62))
    return fail(tensor.name, "shape " + shapeOf(tensor.dims) + " overflows: its product is too large");
  tensor.elements = elements.value();
  tensor.bytes = bits.value() / 8;
  if (proto.data_location() == onnx::TensorProto::EXTERNAL) {
    HEDDLE_RETURN_IF_ERROR(readExternal(proto, tensor));
    return tensor;
  }
  if (!proto.has_raw_data()) {
    HEDDLE_RETURN_IF_ERROR(readTyped(proto, tensor, tensor.bytes));
    return tensor;
  }
  OnnxByteRange range;
  std::memcpy(&range, proto.raw_data().data(), sizeof(range));
  if (range.length != tensor.bytes)
    return fail(tensor.name, "has " + std::to_string(range.length) +
                                 " bytes of raw_data (or packed floats), expected " + std::to_string(tensor.bytes) +
                                 " for shape " + shapeOf(tensor.dims) + " of " + row->name);
  tensor.offset = range.offset;
  return tensor;
}

Expected<OnnxTensor> OnnxTensorReader::read(const onnx::SparseTensorProto &proto) {
  Expected<OnnxTensor> values = read(proto.values());
  if (!values)
    return values;
  OnnxTensor &tensor = *values;
  Expected<OnnxTensor> indices = read(proto.indices());
  if (!indices)
    return fail(tensor.name, "sparse indices: " + indices.message());
  std::vector<int64_t> dense(proto.dims().begin(), proto.dims().end());
  size_t rank = dense.size();
  bool isLinear = indices->dims.size() == 1;
  if (tensor.dims.size() != 1 || indices->type != OnnxType::Int64 || rank == 0 || rank > 64 ||
      !(isLinear || (indices->dims.size() == 2 && indices->dims[1] == static_cast<int64_t>(rank))) ||
      indices->dims[0] != tensor.dims[0])
    return fail(tensor.name, "sparse tensor: values " + shapeOf(tensor.dims) + " and indices " +
                                 shapeOf(indices->dims) + " do not fit dense shape " + shapeOf(dense));
  Size total(1);
  for (int64_t dim : dense) {
    if (dim < 1)
      return fail(tensor.name, "sparse tensor: dimension " + std::to_string(dim) + ", expected at least 1");
    total = total * Size(static_cast<uint64_t>(dim));
  }
  // A dense copy is made of it, so that its size is bounded by the file's.
  if (!total.atMost(uint64_t(64) * (model.files[0]->size() + 4096)))
    return fail(tensor.name, "sparse tensor: dense shape " + shapeOf(dense) + " is too large for a file of " +
                                 std::to_string(model.files[0]->size()) + " bytes");
  const uint8_t *bytes = model.data(*indices);
  auto index = [&](uint64_t i) {
    int64_t value;
    std::memcpy(&value, bytes + 8 * i, 8);
    return value;
  };
  for (uint64_t i = 0; i < tensor.elements; ++i) {
    int64_t position = 0;
    for (size_t d = 0; d < (isLinear ? 1 : rank); ++d) {
      int64_t limit = isLinear ? static_cast<int64_t>(total.value()) : dense[d],
              at = index(isLinear ? i : i * rank + d);
      if (at < 0 || at >= limit)
        return fail(tensor.name, "sparse indices: " + std::to_string(at) + " is out of range, expected 0 to " +
                                     std::to_string(limit - 1));
      position = position * limit + at;
    }
    if (i && position <= tensor.positions.back())
      return fail(tensor.name, "sparse indices are not sorted, or one is there twice, at " + std::to_string(i));
    tensor.positions.push_back(position);
  }
  tensor.isSparse = true;
  tensor.dims = dense;
  return values;
}

} // namespace heddle
