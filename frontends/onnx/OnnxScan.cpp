// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/onnx/OnnxScan.h"
#include "bytes/Status.h"

#include <cstring>

namespace heddle {

namespace {

constexpr unsigned maxDepth = 64;
// Bytes that objects built from the file may take: what is there for every model, and more for one of more bytes.
constexpr uint64_t budgetBase = 24 << 20;
constexpr uint64_t budgetPerByte = 3;

enum class Kind : uint8_t {
  Model,
  Opset,
  Graph,
  Node,
  Attribute,
  Tensor,
  Sparse,
  ValueInfo,
  Type,
  TensorType,
  Wrapped, // Sequence or Optional
  Map,
  Shape,
  Dimension,
  Function,
  Entry,
  Number,   // varint or fixed, or packed numbers of them
  Text,     // string or bytes
  Presence, // a message of which only its being there matters
  Bytes,    // raw_data
  Floats,
  Doubles, // float_data and double_data
};

struct Field {
  Kind parent;
  uint32_t number;
  Kind kind;
  const char *name;
  bool isRead = true; // false: walked, so that its depth and lengths are bounded, but not copied
};

// The fields that are read (onnx-ml.proto), and types wherever they stand; others are stepped over whole.
constexpr Field fields[] = {
    {Kind::Model, 1, Kind::Number, "ir_version"},
    {Kind::Model, 2, Kind::Text, "producer_name"},
    {Kind::Model, 7, Kind::Graph, "graph"},
    {Kind::Model, 8, Kind::Opset, "opset_import"},
    {Kind::Model, 25, Kind::Function, "functions"},
    {Kind::Opset, 1, Kind::Text, "domain"},
    {Kind::Opset, 2, Kind::Number, "version"},
    {Kind::Graph, 1, Kind::Node, "node"},
    {Kind::Graph, 2, Kind::Text, "name"},
    {Kind::Graph, 5, Kind::Tensor, "initializer"},
    {Kind::Graph, 11, Kind::ValueInfo, "input"},
    {Kind::Graph, 12, Kind::ValueInfo, "output"},
    {Kind::Graph, 13, Kind::ValueInfo, "value_info", false},
    {Kind::Graph, 15, Kind::Sparse, "sparse_initializer"},
    {Kind::Node, 1, Kind::Text, "input"},
    {Kind::Node, 2, Kind::Text, "output"},
    {Kind::Node, 3, Kind::Text, "name"},
    {Kind::Node, 4, Kind::Text, "op_type"},
    {Kind::Node, 5, Kind::Attribute, "attribute"},
    {Kind::Node, 7, Kind::Text, "domain"},
    {Kind::Node, 8, Kind::Text, "overload"},
    {Kind::Attribute, 1, Kind::Text, "name"},
    {Kind::Attribute, 2, Kind::Number, "f"},
    {Kind::Attribute, 3, Kind::Number, "i"},
    {Kind::Attribute, 4, Kind::Text, "s"},
    {Kind::Attribute, 5, Kind::Tensor, "t"},
    {Kind::Attribute, 6, Kind::Graph, "g"},
    {Kind::Attribute, 7, Kind::Number, "floats"},
    {Kind::Attribute, 8, Kind::Number, "ints"},
    {Kind::Attribute, 9, Kind::Text, "strings"},
    {Kind::Attribute, 10, Kind::Tensor, "tensors"},
    {Kind::Attribute, 11, Kind::Graph, "graphs"},
    {Kind::Attribute, 14, Kind::Type, "tp", false},
    {Kind::Attribute, 15, Kind::Type, "type_protos", false},
    {Kind::Attribute, 20, Kind::Number, "type"},
    {Kind::Attribute, 21, Kind::Text, "ref_attr_name"},
    {Kind::Attribute, 22, Kind::Sparse, "sparse_tensor"},
    {Kind::Tensor, 1, Kind::Number, "dims"},
    {Kind::Tensor, 2, Kind::Number, "data_type"},
    {Kind::Tensor, 3, Kind::Presence, "segment"},
    {Kind::Tensor, 4, Kind::Floats, "float_data"},
    {Kind::Tensor, 5, Kind::Number, "int32_data"},
    {Kind::Tensor, 6, Kind::Text, "string_data"},
    {Kind::Tensor, 7, Kind::Number, "int64_data"},
    {Kind::Tensor, 8, Kind::Text, "name"},
    {Kind::Tensor, 9, Kind::Bytes, "raw_data"},
    {Kind::Tensor, 10, Kind::Doubles, "double_data"},
    {Kind::Tensor, 11, Kind::Number, "uint64_data"},
    {Kind::Tensor, 13, Kind::Entry, "external_data"},
    {Kind::Tensor, 14, Kind::Number, "data_location"},
    {Kind::Sparse, 1, Kind::Tensor, "values"},
    {Kind::Sparse, 2, Kind::Tensor, "indices"},
    {Kind::Sparse, 3, Kind::Number, "dims"},
    {Kind::ValueInfo, 1, Kind::Text, "name"},
    {Kind::ValueInfo, 2, Kind::Type, "type"},
    {Kind::Type, 1, Kind::TensorType, "tensor_type"},
    {Kind::Type, 4, Kind::Wrapped, "sequence_type"},
    {Kind::Type, 5, Kind::Map, "map_type"},
    {Kind::Type, 7, Kind::Presence, "opaque_type"},
    {Kind::Type, 8, Kind::Presence, "sparse_tensor_type"},
    {Kind::Type, 9, Kind::Wrapped, "optional_type"},
    {Kind::Wrapped, 1, Kind::Type, "elem_type", false},
    {Kind::Map, 2, Kind::Type, "value_type", false},
    {Kind::TensorType, 1, Kind::Number, "elem_type"},
    {Kind::TensorType, 2, Kind::Shape, "shape"},
    {Kind::Shape, 1, Kind::Dimension, "dim"},
    {Kind::Dimension, 1, Kind::Number, "dim_value"},
    {Kind::Dimension, 2, Kind::Text, "dim_param"},
    {Kind::Function, 1, Kind::Text, "name"},
    {Kind::Function, 4, Kind::Text, "input"},
    {Kind::Function, 5, Kind::Text, "output"},
    {Kind::Function, 6, Kind::Text, "attribute"},
    {Kind::Function, 7, Kind::Node, "node"},
    {Kind::Function, 9, Kind::Opset, "opset_import"},
    {Kind::Function, 10, Kind::Text, "domain"},
    {Kind::Function, 11, Kind::Attribute, "attribute_proto"},
    {Kind::Function, 12, Kind::ValueInfo, "value_info", false},
    {Kind::Function, 13, Kind::Text, "overload"},
    {Kind::Entry, 1, Kind::Text, "key"},
    {Kind::Entry, 2, Kind::Text, "value"},
};

const Field *findField(Kind parent, uint32_t number) {
  for (const Field &field : fields)
    if (field.parent == parent && field.number == number)
      return &field;
  return nullptr;
}

bool holdsElements(const Field &field) {
  return field.parent == Kind::Tensor &&
         ((field.number >= 4 && field.number <= 7) || (field.number >= 9 && field.number <= 11));
}

// What an object of the generated classes takes at most, in bytes.
uint64_t objectCost(Kind kind) {
  switch (kind) {
  case Kind::Attribute:
    return 512;
  case Kind::Graph:
  case Kind::Function:
  case Kind::Tensor:
  case Kind::Node:
    return 384;
  default:
    return 128;
  }
}

class Scanner {
public:
  Scanner(const uint8_t *data, size_t size, const std::string &path)
      : data(data), size(size), path(path), budget(budgetBase + budgetPerByte * size) {}

  // Walks message `kind` in [begin, end). With `out` also copies it; without, bounds it and allocates nothing.
  bool message(Kind kind, size_t begin, size_t end, unsigned depth, std::string *out);
  Status status() { return failure; }

private:
  bool fail(size_t at, const std::string &what) {
    failure = errorAt(path, at, what);
    return false;
  }
  bool varint(size_t &at, size_t end, uint64_t &value);
  bool payload(const Field &field, unsigned wire, size_t &at, size_t end, unsigned depth, std::string *out);
  bool number(const Field &field, unsigned wire, size_t &at, size_t end, std::string *out);
  bool bytes(size_t begin, size_t length, std::string *out);
  std::string tensorName(size_t begin, size_t end);
  bool skip(unsigned wire, size_t &at, size_t end);
  bool spend(uint64_t cost, size_t at);

  const uint8_t *data;
  size_t size;
  const std::string &path;
  uint64_t budget, spent = 0;
  Status failure;
};

void putVarint(std::string &out, uint64_t value) {
  for (; value >= 0x80; value >>= 7)
    out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

void putTag(std::string &out, uint32_t number, unsigned wire) {
  putVarint(out, number << 3 | wire);
}

bool Scanner::spend(uint64_t cost, size_t at) {
  spent += cost;
  return spent <= budget ||
         fail(at, "too many elements: objects for them would take more than " + std::to_string(budget) +
                      " bytes, the limit for " + std::to_string(size) + " bytes of file");
}

bool Scanner::varint(size_t &at, size_t end, uint64_t &value) {
  size_t begin = at;
  value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (at >= end)
      return fail(begin, "truncated varint: unexpected end");
    uint8_t byte = data[at++];
    if (shift == 63 && byte > 1)
      return fail(begin, "varint of more than 64 bits");
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (!(byte & 0x80))
      return true;
  }
  return fail(begin, "varint of more than 64 bits");
}

bool Scanner::skip(unsigned wire, size_t &at, size_t end) {
  uint64_t length = wire == 1 ? 8 : 4;
  if (wire == 0)
    return varint(at, end, length);
  if (wire == 2) {
    size_t begin = at;
    if (!varint(at, end, length))
      return false;
    if (length > end - at)
      return fail(begin,
                  "length " + std::to_string(length) + " is past the end: " + std::to_string(end - at) + " bytes left");
  } else if (wire != 1 && wire != 5) {
    return fail(at, "wire type " + std::to_string(wire) + ", which no field of ONNX has");
  } else if (length > end - at) {
    return fail(at, "truncated number: unexpected end");
  }
  at += length;
  return true;
}

// A number, or a run of packed ones, copied as it is.
bool Scanner::number(const Field &field, unsigned wire, size_t &at, size_t end, std::string *out) {
  size_t begin = at;
  if (!skip(wire, at, end))
    return false;
  uint64_t count = 1;
  if (wire == 2) {
    size_t first = begin;
    uint64_t length;
    varint(first, end, length);
    count = 0;
    for (size_t i = first; i < at; ++i)
      count += data[i] < 0x80;
    if (length && field.kind == Kind::Number && data[at - 1] >= 0x80 && std::strcmp(field.name, "floats") != 0)
      return fail(at - 1, std::string("truncated varint in ") + field.name);
    if (std::strcmp(field.name, "floats") == 0)
      count = length / 4 + 1;
  }
  if (!out)
    return spend(16 * count, begin);
  putTag(*out, field.number, wire);
  out->append(reinterpret_cast<const char *>(data + begin), at - begin);
  return true;
}

// The bytes of a tensor: only where they are.
bool Scanner::bytes(size_t begin, size_t length, std::string *out) {
  if (!out)
    return spend(64, begin);
  OnnxByteRange range{begin, length};
  putTag(*out, 9, 2);
  putVarint(*out, sizeof(range));
  out->append(reinterpret_cast<const char *>(&range), sizeof(range));
  return true;
}

bool Scanner::payload(const Field &field, unsigned wire, size_t &at, size_t end, unsigned depth, std::string *out) {
  if (field.kind == Kind::Number)
    return number(field, wire, at, end, out);
  if (wire != 2)
    return fail(at, std::string("field '") + field.name + "' has wire type " + std::to_string(wire) + ", expected 2");
  size_t before = at;
  if (!skip(wire, at, end))
    return false;
  size_t begin = before;
  uint64_t length;
  varint(begin, end, length);
  switch (field.kind) {
  case Kind::Bytes:
  case Kind::Floats:
  case Kind::Doubles:
    return bytes(begin, length, out);
  case Kind::Text:
    if (!out)
      return spend(64 + length, begin);
    putTag(*out, field.number, 2);
    putVarint(*out, length);
    out->append(reinterpret_cast<const char *>(data + begin), length);
    return true;
  case Kind::Presence:
    if (out) {
      putTag(*out, field.number, 2);
      putVarint(*out, 0);
    }
    return true;
  default:
    break;
  }
  if (!field.isRead && out)
    return true;
  if (depth >= maxDepth)
    return fail(begin, "messages nested deeper than " + std::to_string(maxDepth));
  if (!field.isRead) {
    uint64_t before = spent; // no object is built of it
    bool isBounded = message(field.kind, begin, at, depth + 1, nullptr);
    spent = before;
    return isBounded;
  }
  if (!out)
    return spend(objectCost(field.kind), begin) && message(field.kind, begin, at, depth + 1, nullptr);
  putTag(*out, field.number, 2);
  // The length is known only when the copy is there: five bytes hold any, padded.
  size_t place = out->size();
  out->append(5, '\0');
  if (!message(field.kind, begin, at, depth + 1, out))
    return false;
  uint64_t copied = out->size() - place - 5;
  for (int i = 0; i < 5; ++i)
    (*out)[place + i] = static_cast<char>((copied >> (7 * i) & 0x7f) | (i < 4 ? 0x80 : 0));
  return true;
}

bool Scanner::message(Kind kind, size_t begin, size_t end, unsigned depth, std::string *out) {
  const Field *data = nullptr; // of a tensor: the field that holds its elements
  for (size_t at = begin; at < end;) {
    size_t tagAt = at;
    uint64_t tag;
    if (!varint(at, end, tag))
      return false;
    unsigned wire = tag & 7;
    if (tag >> 3 == 0 || tag >> 32)
      return fail(tagAt, "tag " + std::to_string(tag) + " names no field");
    const Field *field = findField(kind, static_cast<uint32_t>(tag >> 3));
    if (!field) {
      if (!skip(wire, at, end))
        return false;
      continue;
    }
    if (holdsElements(*field)) {
      if (data && data != field)
        return fail(tagAt, "tensor '" + tensorName(begin, end) + "' has both " + data->name + " and " + field->name +
                               ", expected one of them");
      if (data && field->kind != Kind::Number)
        return fail(tagAt, "tensor '" + tensorName(begin, end) + "' has " + field->name + " twice");
      data = field;
    }
    if (!payload(*field, wire, at, end, depth, out))
      return false;
  }
  return true;
}

// The name of the tensor in [begin, end), for a message.
std::string Scanner::tensorName(size_t begin, size_t end) {
  for (size_t at = begin; at < end;) {
    uint64_t tag, length;
    if (!varint(at, end, tag))
      break;
    size_t before = at;
    if (!skip(tag & 7, at, end))
      break;
    if (tag == (8 << 3 | 2)) {
      varint(before, end, length);
      return printable({reinterpret_cast<const char *>(data + before), at - before});
    }
  }
  return "";
}

} // namespace

Expected<std::string> scanOnnx(const uint8_t *data, size_t size, const std::string &path) {
  Scanner scanner(data, size, path);
  if (!scanner.message(Kind::Model, 0, size, 1, nullptr))
    return scanner.status();
  std::string copy;
  if (!scanner.message(Kind::Model, 0, size, 1, &copy))
    return scanner.status();
  return copy;
}

} // namespace heddle
