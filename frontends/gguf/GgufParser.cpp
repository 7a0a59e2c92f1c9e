// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/gguf/GgufParser.h"
#include "bytes/Size.h"
#include "bytes/Status.h"

#include <algorithm>
#include <cstring>

namespace heddle {

namespace {

// Limits beyond what the file's size implies: they bound the memory of the tables built here.
constexpr uint64_t maxPairs = 1 << 16;
constexpr uint64_t maxTensors = 1 << 16;
constexpr uint64_t maxKeyBytes = 65535;
constexpr uint64_t maxNameBytes = 64;
constexpr uint32_t maxDimensions = 4;
constexpr uint64_t maxAlignment = 1 << 16;
constexpr uint64_t minPairBytes = 8 + 1 + 4 + 1;
constexpr uint64_t minInfoBytes = 8 + 1 + 4 + 4 + 8;

// How ggml numbers its tensor types. `supported` types are TensorType's; the others have names for messages only.
struct GgmlType {
  uint32_t id;
  const char *name;
  bool supported;
  TensorType type;
};
constexpr GgmlType ggmlTypes[] = {
    {0, "f32", true, TensorType::F32},
    {1, "f16", true, TensorType::F16},
    {2, "q4_0", true, TensorType::Q4_0},
    {3, "q4_1", true, TensorType::Q4_1},
    {4, "q4_2", false, TensorType::U8},
    {5, "q4_3", false, TensorType::U8},
    {6, "q5_0", true, TensorType::Q5_0},
    {7, "q5_1", true, TensorType::Q5_1},
    {8, "q8_0", true, TensorType::Q8_0},
    {9, "q8_1", false, TensorType::U8},
    {10, "q2_k", true, TensorType::Q2_K},
    {11, "q3_k", true, TensorType::Q3_K},
    {12, "q4_k", true, TensorType::Q4_K},
    {13, "q5_k", true, TensorType::Q5_K},
    {14, "q6_k", true, TensorType::Q6_K},
    {15, "q8_k", false, TensorType::U8},
    {16, "iq2_xxs", true, TensorType::IQ2_XXS},
    {17, "iq2_xs", true, TensorType::IQ2_XS},
    {18, "iq3_xxs", true, TensorType::IQ3_XXS},
    {19, "iq1_s", true, TensorType::IQ1_S},
    {20, "iq4_nl", true, TensorType::IQ4_NL},
    {21, "iq3_s", true, TensorType::IQ3_S},
    {22, "iq2_s", true, TensorType::IQ2_S},
    {23, "iq4_xs", true, TensorType::IQ4_XS},
    {24, "i8", true, TensorType::I8},
    {25, "i16", true, TensorType::I16},
    {26, "i32", true, TensorType::I32},
    {27, "i64", true, TensorType::I64},
    {28, "f64", true, TensorType::F64},
    {29, "iq1_m", true, TensorType::IQ1_M},
    {30, "bf16", true, TensorType::BF16},
    {31, "q4_0_4_4 (removed)", false, TensorType::U8},
    {32, "q4_0_4_8 (removed)", false, TensorType::U8},
    {33, "q4_0_8_8 (removed)", false, TensorType::U8},
    {34, "tq1_0", true, TensorType::TQ1_0},
    {35, "tq2_0", true, TensorType::TQ2_0},
    {36, "iq4_nl_4_4 (removed)", false, TensorType::U8},
    {37, "iq4_nl_4_8 (removed)", false, TensorType::U8},
    {38, "iq4_nl_8_8 (removed)", false, TensorType::U8},
    {39, "mxfp4", true, TensorType::MXFP4},
    {40, "nvfp4", true, TensorType::NVFP4},
    {41, "q1_0", true, TensorType::Q1_0},
};

class Parser {
public:
  explicit Parser(std::shared_ptr<MappedFile> file) : file(std::move(file)) {}
  Expected<GgufPart> parse();

private:
  Status readHeader();
  Status readPair();
  Status readValue(const std::string &key, GgufValue &value);
  Status readArray(const std::string &key, GgufValue &value);
  Status readAlignment();
  Status readInfo();
  Status readDimensions(const std::string &name, TensorInfo &tensor);
  Status readType(const std::string &name, TensorInfo &tensor);
  Status placeTensors();
  Status checkOverlap() const;

  uint64_t left() const { return file->size() - at; }
  Status fail(const std::string &what) const { return errorIn(file->path(), what); }
  Status failAt(uint64_t byte, const std::string &what) const { return errorAt(file->path(), byte, what); }
  Status truncated(const std::string &what) const {
    return failAt(at, "the file is truncated in " + what + ", " + std::to_string(left()) + " bytes left");
  }
  template <typename T> bool take(T &out) {
    if (left() < sizeof(T))
      return false;
    std::memcpy(&out, file->data() + at, sizeof(T));
    at += sizeof(T);
    return true;
  }
  bool takeString(std::string_view &out) {
    uint64_t length;
    if (!take(length) || length > left())
      return false;
    out = {reinterpret_cast<const char *>(file->data()) + at, static_cast<size_t>(length)};
    at += length;
    return true;
  }

  std::shared_ptr<MappedFile> file;
  uint64_t at = 0;
  uint64_t numTensors = 0, numPairs = 0, alignment = 32;
  GgufPart part;
};

Status Parser::readHeader() {
  char magic[4];
  uint32_t version;
  if (!take(magic))
    return truncated("the header: it is too short for the magic 'GGUF'");
  if (std::memcmp(magic, "GGUF", 4) != 0)
    return failAt(0, "magic is '" + printable({magic, 4}) + "', expected 'GGUF'");
  if (!take(version))
    return truncated("the header");
  if (version != 0 && (version & 0xffff) == 0)
    return failAt(4, "version " + std::to_string(__builtin_bswap32(version)) +
                         " in big-endian byte order, only little-endian files are supported")
        .as(StatusCode::Unsupported);
  if (version != 2 && version != 3)
    return failAt(4, "version " + std::to_string(version) + " is not supported, expected 2 or 3")
        .as(StatusCode::Unsupported);
  if (!take(numTensors) || !take(numPairs))
    return truncated("the header");
  if (numTensors > maxTensors || numTensors > left() / minInfoBytes)
    return failAt(8, "tensor count " + std::to_string(numTensors) + ", but " + std::to_string(left()) +
                         " bytes left hold at most " + std::to_string(std::min(maxTensors, left() / minInfoBytes)));
  if (numPairs > maxPairs || numPairs > left() / minPairBytes)
    return failAt(16, "metadata count " + std::to_string(numPairs) + ", but " + std::to_string(left()) +
                          " bytes left hold at most " + std::to_string(std::min(maxPairs, left() / minPairBytes)));
  return Status();
}

Status Parser::readPair() {
  uint64_t start = at;
  std::string_view key;
  if (!takeString(key))
    return truncated("a metadata key");
  if (key.empty() || key.size() > maxKeyBytes)
    return failAt(start, "a metadata key of " + std::to_string(key.size()) + " bytes, expected 1 to " +
                             std::to_string(maxKeyBytes));
  std::string name = printable(key);
  GgufValue value;
  HEDDLE_RETURN_IF_ERROR(readValue(name, value));
  if (!part.values.emplace(key, value).second)
    return failAt(start, "duplicate metadata key '" + name + "'");
  return Status();
}

Status Parser::readValue(const std::string &key, GgufValue &value) {
  uint32_t type;
  if (!take(type))
    return truncated("the value type of '" + key + "'");
  if (type > static_cast<uint32_t>(GgufType::F64))
    return failAt(at - 4, "'" + key + "' has unknown value type " + std::to_string(type));
  value.type = static_cast<GgufType>(type);
  if (value.type == GgufType::Array)
    return readArray(key, value);
  value.data = file->data() + at;
  std::string_view text;
  if (value.type == GgufType::String)
    return takeString(text) ? Status() : Status(truncated("the string '" + key + "'"));
  if (left() < ggufTypeSize(value.type))
    return truncated("the value of '" + key + "'");
  if (value.type == GgufType::Bool && *value.data > 1)
    return failAt(at, "'" + key + "' is the boolean " + std::to_string(*value.data) + ", expected 0 or 1");
  at += ggufTypeSize(value.type);
  return Status();
}

Status Parser::readArray(const std::string &key, GgufValue &value) {
  uint32_t type;
  if (!take(type) || !take(value.count))
    return truncated("the array '" + key + "'");
  if (type == static_cast<uint32_t>(GgufType::Array))
    return fail("'" + key + "' is an array of arrays: nested arrays are not supported").as(StatusCode::Unsupported);
  if (type > static_cast<uint32_t>(GgufType::F64))
    return fail("array '" + key + "' has unknown value type " + std::to_string(type));
  value.type = static_cast<GgufType>(type);
  value.isArray = true;
  value.data = file->data() + at;
  uint64_t atLeast = value.type == GgufType::String ? 8 : ggufTypeSize(value.type);
  if (!(Size(value.count) * atLeast).atMost(left()))
    return failAt(at - 8, "array '" + key + "' of " + std::to_string(value.count) +
                              " elements reaches past the end of the file, " + std::to_string(left()) + " bytes left");
  if (value.type != GgufType::String) {
    at += value.count * atLeast;
    return Status();
  }
  std::string_view text;
  for (uint64_t i = 0; i < value.count; ++i)
    if (!takeString(text))
      return truncated("element " + std::to_string(i) + " of '" + key + "'");
  return Status();
}

Status Parser::readAlignment() {
  auto found = part.values.find("general.alignment");
  if (found == part.values.end())
    return Status();
  const GgufValue &value = found->second;
  if (value.isArray || value.type != GgufType::U32)
    return fail("'general.alignment' is of type " + ggufTypeName(value) + ", expected u32");
  uint32_t number;
  std::memcpy(&number, value.data, sizeof(number));
  if (number < 8 || number > maxAlignment || (number & (number - 1)) != 0)
    return fail("'general.alignment' is " + std::to_string(number) + ", expected a power of two from 8 to " +
                std::to_string(maxAlignment));
  alignment = number;
  return Status();
}

Status Parser::readDimensions(const std::string &name, TensorInfo &tensor) {
  uint32_t numDims;
  if (!take(numDims))
    return truncated("the info of tensor '" + name + "'");
  if (numDims > maxDimensions)
    return fail("tensor '" + name + "': n_dims is " + std::to_string(numDims) + ", expected at most " +
                std::to_string(maxDimensions) + " dimensions");
  for (uint32_t i = 0; i < numDims; ++i) {
    int64_t dim;
    if (!take(dim))
      return truncated("the dimensions of tensor '" + name + "'");
    if (dim < 0)
      return fail("tensor '" + name + "': dimension " + std::to_string(i) + " is negative (" + std::to_string(dim) +
                  ")");
    tensor.shape.insert(tensor.shape.begin(), dim);
  }
  return Status();
}

Status Parser::readType(const std::string &name, TensorInfo &tensor) {
  uint32_t id;
  if (!take(id))
    return truncated("the type of tensor '" + name + "'");
  auto found = std::find_if(std::begin(ggmlTypes), std::end(ggmlTypes), [&](const GgmlType &t) { return t.id == id; });
  if (found == std::end(ggmlTypes))
    return fail("tensor '" + name + "' has unknown type " + std::to_string(id));
  if (!found->supported)
    return fail("tensor '" + name + "' has type " + std::to_string(id) + " (" + found->name +
                "), which is not supported")
        .as(StatusCode::Unsupported);
  tensor.type = found->type;
  const TensorTypeInfo &info = tensorTypeInfo(tensor.type);
  int64_t row = tensor.shape.empty() ? 1 : tensor.shape.back();
  if (row % info.blockValues != 0)
    return fail("tensor '" + name + "': rows of " + std::to_string(row) + " are not a multiple of the block of " +
                info.name + " (" + std::to_string(info.blockValues) + ")");
  Size bytes = Size(static_cast<uint64_t>(row) / info.blockValues) * info.blockBytes;
  bool empty = row == 0;
  for (size_t i = 0; i + 1 < tensor.shape.size(); ++i) {
    empty |= tensor.shape[i] == 0;
    bytes = bytes * static_cast<uint64_t>(tensor.shape[i]);
  }
  if (!bytes.valid() && !empty)
    return fail("tensor '" + name + "': the product of its dimensions overflows 64 bits");
  tensor.bytes = empty ? 0 : bytes.value();
  return Status();
}

Status Parser::readInfo() {
  uint64_t start = at;
  std::string_view raw;
  if (!takeString(raw))
    return truncated("a tensor info");
  if (raw.empty() || raw.size() > maxNameBytes)
    return failAt(start, "a tensor name of " + std::to_string(raw.size()) + " bytes, expected 1 to " +
                             std::to_string(maxNameBytes) + " (" + (raw.empty() ? "empty" : "too long") + ")");
  std::string name = printable(raw);
  TensorInfo tensor{TensorType::F32, {}, 0, 0, 0, false};
  HEDDLE_RETURN_IF_ERROR(readDimensions(name, tensor).ofTensor(raw).atByte(start));
  HEDDLE_RETURN_IF_ERROR(readType(name, tensor).ofTensor(raw).atByte(start));
  if (!take(tensor.offset))
    return truncated("the offset of tensor '" + name + "'").ofTensor(raw);
  part.tensors.emplace_back(raw, std::move(tensor));
  return Status();
}

// Offsets become bytes from the start of the file, once each is known to lie within it.
Status Parser::placeTensors() {
  if (part.tensors.empty())
    return Status();
  Size start = Size((at + alignment - 1) / alignment) * alignment;
  for (auto &[raw, tensor] : part.tensors) {
    std::string name = printable(raw);
    if (tensor.offset % alignment != 0)
      return fail("tensor '" + name + "': offset " + std::to_string(tensor.offset) +
                  " is not a multiple of the alignment " + std::to_string(alignment))
          .ofTensor(raw);
    if (!(start + tensor.offset + tensor.bytes).atMost(file->size()))
      return fail("tensor '" + name + "': offset " + std::to_string(tensor.offset) + " and " +
                  std::to_string(tensor.bytes) + " bytes reach past the end of the file of " +
                  std::to_string(file->size()) + " bytes (truncated?)")
          .ofTensor(raw);
    tensor.offset += start.value();
  }
  return checkOverlap();
}

Status Parser::checkOverlap() const {
  std::vector<size_t> order;
  for (size_t i = 0; i < part.tensors.size(); ++i)
    if (part.tensors[i].second.bytes)
      order.push_back(i);
  auto offset = [&](size_t i) { return part.tensors[i].second.offset; };
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return offset(a) < offset(b); });
  for (size_t i = 1; i < order.size(); ++i) {
    const auto &[before, info] = part.tensors[order[i - 1]];
    if (info.offset + info.bytes > offset(order[i]))
      return fail("tensors '" + printable(before) + "' and '" + printable(part.tensors[order[i]].first) +
                  "' overlap at byte " + std::to_string(offset(order[i])))
          .ofTensor(before)
          .atByte(offset(order[i]));
  }
  return Status();
}

Expected<GgufPart> Parser::parse() {
  HEDDLE_RETURN_IF_ERROR(readHeader());
  for (uint64_t i = 0; i < numPairs; ++i)
    HEDDLE_RETURN_IF_ERROR(readPair());
  HEDDLE_RETURN_IF_ERROR(readAlignment());
  for (uint64_t i = 0; i < numTensors; ++i)
    HEDDLE_RETURN_IF_ERROR(readInfo());
  HEDDLE_RETURN_IF_ERROR(placeTensors());
  part.file = file;
  return std::move(part);
}

} // namespace

uint32_t ggufTypeSize(GgufType type) {
  switch (type) {
  case GgufType::U8:
  case GgufType::I8:
  case GgufType::Bool:
    return 1;
  case GgufType::U16:
  case GgufType::I16:
    return 2;
  case GgufType::U32:
  case GgufType::I32:
  case GgufType::F32:
    return 4;
  case GgufType::U64:
  case GgufType::I64:
  case GgufType::F64:
    return 8;
  case GgufType::String:
  case GgufType::Array:
    break;
  }
  return 0;
}

Expected<GgufPart> parseGguf(SharedFile file) {
  return Parser(std::move(file)).parse();
}

} // namespace heddle
