// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/gguf/Gguf.h"
#include "bytes/Status.h"
#include "frontends/gguf/GgufParser.h"

#include <algorithm>
#include <cstring>

namespace heddle {

std::string ggufTypeName(const GgufValue &value) {
  static const char *const names[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                      "bool", "string", "array", "u64", "i64", "f64"};
  std::string name = names[static_cast<uint32_t>(value.type)];
  return value.isArray ? "array of " + name : name;
}

static bool isInteger(GgufType type) {
  return ggufTypeSize(type) != 0 && type != GgufType::F32 && type != GgufType::F64 && type != GgufType::Bool;
}

template <typename T> static T load(const uint8_t *data) {
  T value;
  std::memcpy(&value, data, sizeof(T));
  return value;
}

// The integer at `data`; false if it is above the signed 64-bit range.
static bool loadInteger(GgufType type, const uint8_t *data, int64_t &out) {
  switch (type) {
  case GgufType::U8:
    out = load<uint8_t>(data);
    return true;
  case GgufType::I8:
    out = +load<int8_t>(data);
    return true;
  case GgufType::U16:
    out = load<uint16_t>(data);
    return true;
  case GgufType::I16:
    out = load<int16_t>(data);
    return true;
  case GgufType::U32:
    out = load<uint32_t>(data);
    return true;
  case GgufType::I32:
    out = load<int32_t>(data);
    return true;
  case GgufType::I64:
    out = load<int64_t>(data);
    return true;
  case GgufType::U64:
    out = load<int64_t>(data);
    return out >= 0;
  default:
    return false;
  }
}

Expected<const GgufValue *> GgufFile::find(std::string_view key, bool isArray) const {
  auto found = values.find(key);
  if (found == values.end())
    return errorIn(path(), "'" + printable(key) + "' is missing");
  if (found->second.isArray != isArray)
    return errorIn(path(), "'" + printable(key) + "' is of type " + ggufTypeName(found->second) + ", expected " +
                               (isArray ? "an array" : "a single value"));
  return &found->second;
}

static Status wrongType(const std::string &file, std::string_view key, const GgufValue &value, const char *expected) {
  return errorIn(file, "'" + printable(key) + "' is of type " + ggufTypeName(value) + ", expected " + expected);
}

Expected<int64_t> GgufFile::integer(std::string_view key) const {
  Expected<const GgufValue *> value = find(key, false);
  if (!value)
    return value.status();
  if (!isInteger((*value)->type))
    return wrongType(path(), key, **value, "an integer");
  int64_t number;
  if (!loadInteger((*value)->type, (*value)->data, number))
    return errorIn(path(),
                   "'" + printable(key) + "' is " + std::to_string(load<uint64_t>((*value)->data)) + ", out of range");
  return number;
}

Expected<double> GgufFile::number(std::string_view key) const {
  Expected<const GgufValue *> value = find(key, false);
  if (!value)
    return value.status();
  if ((*value)->type == GgufType::F32)
    return static_cast<double>(load<float>((*value)->data));
  if ((*value)->type == GgufType::F64)
    return load<double>((*value)->data);
  if (!isInteger((*value)->type))
    return wrongType(path(), key, **value, "a number");
  Expected<int64_t> whole = integer(key);
  if (!whole)
    return whole.status();
  return static_cast<double>(*whole);
}

Expected<bool> GgufFile::boolean(std::string_view key) const {
  Expected<const GgufValue *> value = find(key, false);
  if (!value)
    return value.status();
  if ((*value)->type != GgufType::Bool)
    return wrongType(path(), key, **value, "bool");
  return *(*value)->data != 0;
}

// The string whose length field is at `data`; the parser has checked that it lies in the file.
static std::string_view loadString(const uint8_t *data) {
  return {reinterpret_cast<const char *>(data) + 8, static_cast<size_t>(load<uint64_t>(data))};
}

Expected<std::string_view> GgufFile::string(std::string_view key) const {
  Expected<const GgufValue *> value = find(key, false);
  if (!value)
    return value.status();
  if ((*value)->type != GgufType::String)
    return wrongType(path(), key, **value, "a string");
  return loadString((*value)->data);
}

Expected<std::vector<std::string_view>> GgufFile::strings(std::string_view key) const {
  Expected<const GgufValue *> value = find(key, true);
  if (!value)
    return value.status();
  if ((*value)->type != GgufType::String)
    return wrongType(path(), key, **value, "an array of strings");
  std::vector<std::string_view> out;
  out.reserve((*value)->count);
  const uint8_t *data = (*value)->data;
  for (uint64_t i = 0; i < (*value)->count; ++i) {
    out.push_back(loadString(data));
    data += 8 + out.back().size();
  }
  return out;
}

Expected<std::string_view> GgufFile::bytes(std::string_view key) const {
  Expected<const GgufValue *> value = find(key, true);
  if (!value)
    return value.status();
  if ((*value)->type != GgufType::U8 && (*value)->type != GgufType::I8)
    return wrongType(path(), key, **value, "an array of u8");
  return std::string_view(reinterpret_cast<const char *>((*value)->data), (*value)->count);
}

Expected<const GgufValue *> GgufFile::find(std::string_view key, const GgufCount &each) const {
  Expected<const GgufValue *> value = find(key, true);
  if (value && (*value)->count != static_cast<uint64_t>(each.number))
    return errorIn(path(), "'" + printable(key) + "' has " + std::to_string((*value)->count) +
                               " elements, expected one for each of " + std::to_string(each.number) + " " +
                               each.things + " (" + each.source + ")");
  return value;
}

Expected<int64_t> GgufFile::uniform(std::string_view key, const GgufCount &each) const {
  Expected<const GgufValue *> found = find(key, each);
  if (!found)
    return found.status();
  const GgufValue &value = **found;
  if (!isInteger(value.type))
    return wrongType(path(), key, value, "an array of integers");
  if (!value.count)
    return errorIn(path(), "'" + printable(key) + "' is empty");
  int64_t first = 0, number = 0;
  for (uint64_t i = 0; i < value.count; ++i) {
    if (!loadInteger(value.type, value.data + i * ggufTypeSize(value.type), i ? number : first))
      return errorIn(path(), "'" + printable(key) + "': element " + std::to_string(i) + " is out of range");
    if (i && number != first)
      return errorIn(path(), "'" + printable(key) + "' differs between " + each.things + " (" + std::to_string(first) +
                                 ", " + std::to_string(number) + "), which is not supported")
          .as(StatusCode::Unsupported);
  }
  return first;
}

Expected<std::vector<bool>> GgufFile::booleans(std::string_view key, const GgufCount &each) const {
  Expected<const GgufValue *> value = find(key, each);
  if (!value)
    return value.status();
  std::vector<bool> out;
  if (isInteger((*value)->type)) { // converters that copy a list of 0 and 1
    Expected<std::vector<int64_t>> numbers = integers(key, each);
    HEDDLE_RETURN_IF_ERROR(numbers.status());
    for (int64_t number : *numbers)
      out.push_back(number != 0);
    return out;
  }
  if ((*value)->type != GgufType::Bool)
    return wrongType(path(), key, **value, "an array of bool");
  for (uint64_t i = 0; i < (*value)->count; ++i)
    out.push_back((*value)->data[i] != 0);
  return out;
}

Expected<std::vector<int64_t>> GgufFile::integers(std::string_view key, const GgufCount &each) const {
  Expected<const GgufValue *> value = find(key, each);
  if (!value)
    return value.status();
  if (!isInteger((*value)->type))
    return wrongType(path(), key, **value, "an array of integers");
  std::vector<int64_t> out((*value)->count);
  for (uint64_t i = 0; i < out.size(); ++i)
    if (!loadInteger((*value)->type, (*value)->data + i * ggufTypeSize((*value)->type), out[i]))
      return errorIn(path(), "'" + printable(key) + "': element " + std::to_string(i) + " is out of range");
  return out;
}

Expected<std::vector<float>> GgufFile::floats(std::string_view key, const GgufCount &each) const {
  Expected<const GgufValue *> value = find(key, each);
  if (!value)
    return value.status();
  if ((*value)->type != GgufType::F32)
    return wrongType(path(), key, **value, "an array of f32");
  std::vector<float> out((*value)->count);
  if (!out.empty())
    std::memcpy(out.data(), (*value)->data, out.size() * sizeof(float));
  return out;
}

namespace {

// "PREFIX-00002-of-00005.gguf": what a split file's part is called. Parts count from 1 in names and from 0 in split.no.
struct PartName {
  std::string prefix;
  int64_t number = 0, count = 0;
};

bool parsePartName(const std::string &path, PartName &out) {
  constexpr size_t suffix = sizeof("-00001-of-00002.gguf") - 1;
  if (path.size() < suffix || path.compare(path.size() - 5, 5, ".gguf") != 0)
    return false;
  std::string tail = path.substr(path.size() - suffix);
  if (tail[0] != '-' || tail.compare(6, 4, "-of-") != 0)
    return false;
  auto digits = [&](size_t at, int64_t &value) {
    value = 0;
    for (size_t i = at; i < at + 5; ++i) {
      if (tail[i] < '0' || tail[i] > '9')
        return false;
      value = value * 10 + (tail[i] - '0');
    }
    return true;
  };
  out.prefix = path.substr(0, path.size() - suffix);
  return digits(1, out.number) && digits(10, out.count);
}

std::string partName(const PartName &name, int64_t number) {
  auto padded = [](int64_t value) {
    std::string digits = std::to_string(value);
    return std::string(5 - std::min<size_t>(5, digits.size()), '0') + digits;
  };
  return name.prefix + "-" + padded(number) + "-of-" + padded(name.count) + ".gguf";
}

} // namespace

// Adds a parsed part: its metadata if it is the first, its tensors always.
static Status addPart(GgufPart part, std::map<std::string_view, GgufValue> &values, Checkpoint &checkpoint) {
  uint32_t index = static_cast<uint32_t>(checkpoint.files.size());
  if (index == 0)
    values = std::move(part.values);
  for (auto &[name, tensor] : part.tensors) {
    tensor.file = index;
    if (!checkpoint.tensors.emplace(std::string(name), std::move(tensor)).second)
      return errorIn(part.file->path(), "duplicate tensor '" + printable(name) + "'").ofTensor(name);
  }
  checkpoint.files.push_back(std::move(part.file));
  return Status();
}

// The integer under a split.* key of a part that is not yet added.
static Expected<int64_t> splitNumber(const GgufPart &part, std::string_view key) {
  auto found = part.values.find(key);
  if (found == part.values.end())
    return errorIn(part.file->path(), "'" + std::string(key) + "' is missing in a part of a split file");
  int64_t number;
  if (found->second.isArray || !loadInteger(found->second.type, found->second.data, number))
    return wrongType(part.file->path(), key, found->second, "an integer");
  return number;
}

static Status checkPart(const GgufPart &part, int64_t number, int64_t count) {
  for (auto [key, expected] : {std::pair<const char *, int64_t>{"split.no", number}, {"split.count", count}}) {
    Expected<int64_t> value = splitNumber(part, key);
    if (!value)
      return value.status();
    if (*value != expected)
      return errorIn(part.file->path(), "'" + std::string(key) + "' is " + std::to_string(*value) + ", expected " +
                                            std::to_string(expected) + " by the file's name");
  }
  return Status();
}

static Expected<GgufPart> parsePart(Expected<SharedFile> file) {
  return file ? parseGguf(*file) : Expected<GgufPart>(file.status());
}

Status GgufFile::readParts(ModelFiles &files) {
  const std::string path = files.model();
  Expected<GgufPart> given = parsePart(files.open());
  if (!given)
    return given.status();
  if (given->values.find("split.count") == given->values.end())
    return addPart(std::move(*given), values, checkpoint);
  Expected<int64_t> count = splitNumber(*given, "split.count");
  if (!count)
    return count.status();
  if (*count <= 1)
    return addPart(std::move(*given), values, checkpoint);

  PartName name;
  if (!parsePartName(files.fileName(), name))
    return errorIn(
        path, "'split.count' is " + std::to_string(*count) +
                  ", but the file is not named PREFIX-00001-of-00002.gguf, so that its other parts cannot be found");
  if (name.number < 1 || name.number > name.count)
    return errorIn(path, "its name says part " + std::to_string(name.number) + " of " + std::to_string(name.count));
  auto partOf = [&](int64_t number) -> Expected<GgufPart> {
    if (number == name.number)
      return std::move(given);
    return parsePart(files.open(partName(name, number)));
  };
  for (int64_t number = 1; number <= name.count; ++number) {
    Expected<GgufPart> part = partOf(number);
    if (!part)
      return Status(part.status())
          .saying(part.message() + " (part " + std::to_string(number) + " of " + std::to_string(name.count) +
                  " of a split file)");
    HEDDLE_RETURN_IF_ERROR(checkPart(*part, number - 1, name.count));
    HEDDLE_RETURN_IF_ERROR(addPart(std::move(*part), values, checkpoint));
  }
  Expected<int64_t> total = integer("split.tensors.count");
  if (!total)
    return total.status();
  if (*total != static_cast<int64_t>(checkpoint.tensors.size()))
    return errorIn(this->path(), "'split.tensors.count' is " + std::to_string(*total) + ", but the parts hold " +
                                     std::to_string(checkpoint.tensors.size()) + " tensors");
  return Status();
}

Expected<GgufFile> GgufFile::open(ModelFiles &files) {
  GgufFile file;
  HEDDLE_RETURN_IF_ERROR(file.readParts(files));
  return file;
}

} // namespace heddle
