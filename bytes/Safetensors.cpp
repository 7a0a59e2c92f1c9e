// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The header is checked as JSON as a whole and then walked where it lies: a tensor costs its entry in the list and no object of JSON.
#include "bytes/Safetensors.h"

#include "bytes/Json.h"
#include "bytes/Size.h"
#include "bytes/WholeFile.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace heddle {
namespace {

constexpr uint64_t maxHeaderBytes = 100'000'000;
constexpr size_t maxRank = 64;

// Every dtype of the format.
struct Dtype {
  std::string_view name;
  uint32_t bits;
};
constexpr Dtype dtypes[] = {
    {"BOOL", 8},    {"U8", 8},      {"I8", 8},          {"I16", 16},        {"U16", 16},    {"F16", 16},
    {"BF16", 16},   {"I32", 32},    {"U32", 32},        {"F32", 32},        {"I64", 64},    {"U64", 64},
    {"F64", 64},    {"C64", 64},    {"F4", 4},          {"F6_E2M3", 6},     {"F6_E3M2", 6}, {"F8_E4M3", 8},
    {"F8_E5M2", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8},
};

class HeaderReader {
public:
  HeaderReader(const MappedFile &file, std::string_view header, std::vector<StoredTensor> &tensors)
      : file(file), header(header), tensors(tensors), first(tensors.size()), data(file.data() + 8 + header.size()),
        dataSize(file.size() - 8 - header.size()) {}
  Status read();

private:
  Status readTensor(const std::string &name, JsonValue entry);
  Status readShape(const std::string &where, JsonValue value, std::vector<int64_t> &shape) const;
  Status readOffsets(const std::string &where, JsonValue value, uint64_t (&offsets)[2]) const;
  Status readDtype(const std::string &where, JsonValue value, const Dtype *&dtype) const;
  Status checkSize(const std::string &where, const Dtype &dtype, const uint64_t (&offsets)[2],
                   StoredTensor &tensor) const;
  Status checkMetadata(JsonValue metadata) const;
  Status checkNames() const;
  Status checkCoverage() const;
  std::vector<const StoredTensor *> ownTensors() const;
  Status fail(const std::string &what) const { return errorIn(file.path(), what); }
  uint64_t offsetOf(JsonValue value) const { return static_cast<uint64_t>(value.raw().data() - file.text().data()); }
  // "WHERE: header byte N: expected WHAT, found 'VALUE'"
  Status failExpecting(const std::string &where, JsonValue value, const char *what) const {
    return fail(where + ": header byte " + std::to_string(value.raw().data() - header.data()) + ": expected " + what +
                ", found '" + printable(value.raw(), 24) + "'")
        .atByte(offsetOf(value));
  }

  const MappedFile &file;
  std::string_view header;
  std::vector<StoredTensor> &tensors;
  size_t first; // of this file in `tensors`
  const uint8_t *data;
  uint64_t dataSize;
};

Status HeaderReader::readShape(const std::string &where, JsonValue value, std::vector<int64_t> &shape) const {
  if (!value.is(JsonKind::Array))
    return failExpecting(where, value, "an array");
  for (JsonItems items(value); items.next();) {
    uint64_t dim;
    if (!items.value.natural(dim))
      return failExpecting(where, items.value, "a non-negative integer below 2^64");
    if (dim > INT64_MAX)
      return fail(where + ": dimension " + std::to_string(dim) + " is out of range");
    if (shape.size() == maxRank)
      return fail(where + " of more than " + std::to_string(maxRank) + " dimensions");
    shape.push_back(static_cast<int64_t>(dim));
  }
  return Status();
}

Status HeaderReader::readOffsets(const std::string &where, JsonValue value, uint64_t (&offsets)[2]) const {
  if (!value.is(JsonKind::Array))
    return failExpecting(where, value, "an array");
  size_t count = 0;
  for (JsonItems items(value); items.next(); ++count) {
    if (count == 2)
      return fail(where + " of more than two numbers");
    if (!items.value.natural(offsets[count]))
      return failExpecting(where, items.value, "a non-negative integer below 2^64");
  }
  return count == 2 ? Status() : fail(where + " of fewer than two numbers");
}

Status HeaderReader::readDtype(const std::string &where, JsonValue value, const Dtype *&dtype) const {
  if (!value.is(JsonKind::String))
    return failExpecting(where + "dtype", value, "a string");
  dtype = std::find_if(std::begin(dtypes), std::end(dtypes), [&](const Dtype &d) { return value.equals(d.name); });
  if (dtype == std::end(dtypes))
    return fail(where + "unknown dtype '" + printable(value.string(), 32) + "'");
  return Status();
}

Status HeaderReader::checkSize(const std::string &where, const Dtype &dtype, const uint64_t (&offsets)[2],
                               StoredTensor &tensor) const {
  auto [begin, end] = offsets;
  if (begin > end)
    return fail(where + "data_offsets are reversed, [" + std::to_string(begin) + ", " + std::to_string(end) + "]");
  if (end > dataSize)
    return fail(where + "data_offsets end at " + std::to_string(end) + ", beyond the end of the file's " +
                std::to_string(dataSize) + " bytes of data (truncated?)");
  Size bits(dtype.bits);
  bool empty = false;
  for (int64_t dim : tensor.shape) {
    empty |= dim == 0;
    bits = bits * static_cast<uint64_t>(dim);
  }
  if (!bits.valid() && !empty)
    return fail(where + "the product of its shape overflows 64 bits");
  uint64_t total = empty ? 0 : bits.value();
  std::string name(dtype.name);
  if (total % 8 != 0)
    return fail(where + std::to_string(total) + " bits of " + name + " do not fill whole bytes");
  if (total / 8 != end - begin)
    return fail(where + "shape and dtype " + name + " need " + std::to_string(total / 8) +
                " bytes, but data_offsets hold " + std::to_string(end - begin));
  tensor.dtype = dtype.name;
  tensor.data = data + begin;
  tensor.size = end - begin;
  return Status();
}

// Fields that the format does not have are passed over, as the reference does.
Status HeaderReader::readTensor(const std::string &name, JsonValue entry) {
  std::string where = "tensor '" + printable(name) + "': ";
  if (!entry.is(JsonKind::Object))
    return failExpecting("tensor '" + printable(name) + "'", entry, "an object");
  if (tensors.size() - first == maxSafetensorsTensors)
    return fail("more than " + std::to_string(maxSafetensorsTensors) + " tensors");
  JsonValue fields[3];
  constexpr std::string_view fieldNames[] = {"dtype", "shape", "data_offsets"};
  for (JsonItems items(entry); items.next();)
    for (size_t i = 0; i < 3; ++i)
      if (items.key.equals(fieldNames[i])) {
        if (fields[i])
          return fail(where + "duplicate field '" + std::string(fieldNames[i]) + "'");
        fields[i] = items.value;
      }
  for (size_t i = 0; i < 3; ++i)
    if (!fields[i])
      return fail(where + "'" + std::string(fieldNames[i]) + "' is missing in the header");

  StoredTensor tensor;
  const Dtype *dtype = nullptr;
  uint64_t offsets[2] = {0, 0};
  HEDDLE_RETURN_IF_ERROR(readDtype(where, fields[0], dtype));
  HEDDLE_RETURN_IF_ERROR(readShape(where + "shape", fields[1], tensor.shape));
  HEDDLE_RETURN_IF_ERROR(readOffsets(where + "data_offsets", fields[2], offsets));
  HEDDLE_RETURN_IF_ERROR(checkSize(where, *dtype, offsets, tensor));
  tensor.name = name;
  tensors.push_back(std::move(tensor));
  return Status();
}

Status HeaderReader::checkMetadata(JsonValue metadata) const {
  if (!metadata.is(JsonKind::Object))
    return failExpecting("__metadata__", metadata, "an object");
  for (JsonItems items(metadata); items.next();)
    if (!items.value.is(JsonKind::String))
      return failExpecting("__metadata__", items.value, "strings");
  return Status();
}

std::vector<const StoredTensor *> HeaderReader::ownTensors() const {
  std::vector<const StoredTensor *> own;
  for (size_t i = first; i < tensors.size(); ++i)
    own.push_back(&tensors[i]);
  return own;
}

Status HeaderReader::checkNames() const {
  std::vector<const StoredTensor *> own = ownTensors();
  std::sort(own.begin(), own.end(), [](const StoredTensor *a, const StoredTensor *b) { return a->name < b->name; });
  auto twice = std::adjacent_find(own.begin(), own.end(),
                                  [](const StoredTensor *a, const StoredTensor *b) { return a->name == b->name; });
  return twice == own.end() ? Status()
                            : fail("duplicate tensor '" + printable((*twice)->name) + "'").ofTensor((*twice)->name);
}

// The ranges, sorted, follow each other without hole or overlap and end with the file.
Status HeaderReader::checkCoverage() const {
  std::vector<const StoredTensor *> own = ownTensors();
  std::sort(own.begin(), own.end(), [](const StoredTensor *a, const StoredTensor *b) {
    return a->data != b->data ? a->data < b->data : a->size < b->size;
  });
  const uint8_t *at = data;
  for (const StoredTensor *tensor : own) {
    if (tensor->data != at)
      return fail("tensor '" + printable(tensor->name) + "': data_offsets start at " +
                  std::to_string(tensor->data - data) + ", expected " + std::to_string(at - data) +
                  (tensor->data < at ? " (overlap)" : " (hole)"))
          .ofTensor(tensor->name)
          .atByte(static_cast<uint64_t>(tensor->data - file.data()));
    at += tensor->size;
  }
  uint64_t covered = static_cast<uint64_t>(at - data);
  if (covered != dataSize)
    return errorAt(file.path(), static_cast<uint64_t>(at - file.data()),
                   std::to_string(dataSize - covered) + " bytes after the last tensor");
  return Status();
}

Status HeaderReader::read() {
  std::string error;
  size_t at = 0;
  JsonValue root = JsonValue::parse(header, error, &at);
  if (!root)
    return fail("header: " + error).atByte(sizeof(uint64_t) + at);
  bool hasMetadata = false;
  for (JsonItems items(root); items.next();) {
    if (!items.key.equals("__metadata__")) {
      std::string name = items.key.string();
      HEDDLE_RETURN_IF_ERROR(readTensor(name, items.value).ofTensor(name).atByte(offsetOf(items.key)));
      continue;
    }
    if (hasMetadata)
      return fail("header: duplicate key '__metadata__'");
    hasMetadata = true;
    HEDDLE_RETURN_IF_ERROR(checkMetadata(items.value));
  }
  HEDDLE_RETURN_IF_ERROR(checkNames());
  return checkCoverage();
}

} // namespace

Status readStoredTensors(const MappedFile &file, std::vector<StoredTensor> &outTensors) {
  uint64_t length;
  if (file.size() < sizeof(length))
    return errorIn(file.path(),
                   "too short: " + std::to_string(file.size()) + " bytes, the header's length alone takes 8 bytes")
        .atByte(file.size());
  memcpy(&length, file.data(), sizeof(length));
  if (length > maxHeaderBytes)
    return errorIn(file.path(),
                   "header of " + std::to_string(length) + " bytes, the limit is " + std::to_string(maxHeaderBytes))
        .atByte(0);
  if (length > file.size() - sizeof(length))
    return errorIn(file.path(), "header of " + std::to_string(length) + " bytes reaches past the end of the file of " +
                                    std::to_string(file.size()) + " bytes (truncated?)")
        .atByte(0);
  std::string_view header = file.text().substr(sizeof(length), length);
  if (header.empty() || header[0] != '{')
    return errorIn(file.path(), "header does not start with '{', a JSON object").atByte(sizeof(length));
  return HeaderReader(file, header, outTensors).read();
}

Status SafetensorsFile::open(const std::string &path) {
  HEDDLE_RETURN_IF_ERROR(file.open(path));
  return readStoredTensors(file, list);
}

const StoredTensor *SafetensorsFile::find(std::string_view name) const {
  for (const StoredTensor &tensor : list)
    if (tensor.name == name)
      return &tensor;
  return nullptr;
}

Status writeSafetensors(const std::string &path, const std::vector<TensorToWrite> &tensors) {
  std::string header = "{";
  uint64_t offset = 0;
  for (const TensorToWrite &tensor : tensors) {
    header += (offset || header.size() > 1 ? "," : "") + jsonString(tensor.name) + ":{\"dtype\":\"" + tensor.dtype +
              "\",\"shape\":[";
    for (size_t i = 0; i < tensor.shape.size(); ++i)
      header += (i ? "," : "") + std::to_string(tensor.shape[i]);
    header += "],\"data_offsets\":[" + std::to_string(offset) + "," + std::to_string(offset + tensor.size) + "]}";
    offset += tensor.size;
  }
  header += "}";
  header.append((8 - header.size() % 8) % 8, ' '); // the data is aligned to 8 bytes

  uint64_t headerSize = header.size();
  std::vector<std::string_view> parts = {{reinterpret_cast<const char *>(&headerSize), 8}, header};
  for (const TensorToWrite &tensor : tensors)
    parts.emplace_back(reinterpret_cast<const char *>(tensor.data), tensor.size);
  return writeWholeFile(path, parts);
}

} // namespace heddle
