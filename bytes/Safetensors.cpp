// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "bytes/Safetensors.h"

#include "bytes/WholeFile.h"

#include "runtime/text/tokenizer/Unicode.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <unistd.h>

namespace heddle {
namespace {

constexpr uint64_t maxHeader = 100'000'000;

struct TypeSize {
  const char *name;
  uint64_t bytes;
};
constexpr TypeSize types[] = {{"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E5M2", 1}, {"F8_E4M3", 1},
                              {"I16", 2},  {"U16", 2}, {"F16", 2}, {"BF16", 2},    {"I32", 4},
                              {"U32", 4},  {"F32", 4}, {"F64", 8}, {"I64", 8},     {"U64", 8}};

// The header's JSON has one shape: {name: {"dtype": string, "shape": [n…], "data_offsets": [n, n]}…, "__metadata__":
// {string: string…}}.
class HeaderParser {
public:
  HeaderParser(const std::string &file, const char *text, size_t size)
      : file(file), begin(text), at(text), end(text + size) {}

  Status parse(const uint8_t *data, uint64_t dataSize, std::vector<TensorView> &tensors) {
    if (at == end || *at != '{')
      return error("the header does not start with {");
    ++at;
    if (!accept('}')) {
      do {
        std::string name;
        HEDDLE_RETURN_IF_ERROR(string(name));
        HEDDLE_RETURN_IF_ERROR(expect(':'));
        HEDDLE_RETURN_IF_ERROR(name == "__metadata__" ? metadata() : tensor(std::move(name), data, dataSize, tensors));
      } while (accept(','));
      HEDDLE_RETURN_IF_ERROR(expect('}'));
    }
    skipSpace();
    return at == end ? Status() : error("characters after the header's object");
  }

private:
  Status error(const std::string &what) const {
    return invalidInput(file + ": safetensors header, byte " + std::to_string(8 + (at - begin)) + ": " + what);
  }
  void skipSpace() {
    while (at != end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r'))
      ++at;
  }
  bool accept(char c) {
    skipSpace();
    if (at == end || *at != c)
      return false;
    ++at;
    return true;
  }
  Status expect(char c) { return accept(c) ? Status() : error(std::string("expected ") + c); }

  Status hex4(uint32_t &value) {
    value = 0;
    for (int i = 0; i < 4; ++i, ++at) {
      int digit = at == end                  ? -1
                  : *at >= '0' && *at <= '9' ? *at - '0'
                  : *at >= 'a' && *at <= 'f' ? *at - 'a' + 10
                  : *at >= 'A' && *at <= 'F' ? *at - 'A' + 10
                                             : -1;
      if (digit < 0)
        return error("expected four hexadecimal digits");
      value = value * 16 + digit;
    }
    return Status();
  }

  Status escape(std::string &text) {
    constexpr std::string_view from = "\"\\/bfnrt", to = "\"\\/\b\f\n\r\t";
    if (at == end)
      return error("the header ends in a string");
    char c = *at++;
    if (size_t index = from.find(c); index != from.npos) {
      text += to[index];
      return Status();
    }
    uint32_t code, low;
    if (c != 'u')
      return error("unknown escape");
    HEDDLE_RETURN_IF_ERROR(hex4(code));
    if (code >= 0xd800 && code < 0xdc00 && end - at > 1 && at[0] == '\\' && at[1] == 'u') {
      at += 2;
      HEDDLE_RETURN_IF_ERROR(hex4(low));
      if (low < 0xdc00 || low >= 0xe000)
        return error("a surrogate without its pair");
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    if (code >= 0xd800 && code < 0xe000)
      return error("a surrogate without its pair");
    appendUtf8(code, text);
    return Status();
  }

  Status string(std::string &text) {
    HEDDLE_RETURN_IF_ERROR(expect('"'));
    while (at != end && *at != '"') {
      if (*at == '\\') {
        ++at;
        HEDDLE_RETURN_IF_ERROR(escape(text));
        continue;
      }
      size_t length = uint8_t(*at) < 0x20 ? 0 : utf8SequenceLength({at, size_t(end - at)}, 0);
      if (length == 0)
        return error("a control character or invalid UTF-8 in a string");
      text.append(at, length);
      at += length;
    }
    return expect('"');
  }

  Status number(uint64_t &value) {
    skipSpace();
    const char *first = at;
    value = 0;
    for (; at != end && *at >= '0' && *at <= '9'; ++at)
      if (__builtin_mul_overflow(value, 10u, &value) || __builtin_add_overflow(value, uint64_t(*at - '0'), &value))
        return error("a number above 2^64");
    if (at == first || (at - first > 1 && *first == '0') || (at != end && (*at == '.' || *at == 'e' || *at == 'E')))
      return error("expected a natural number");
    return Status();
  }

  Status numbers(std::vector<uint64_t> &values) {
    HEDDLE_RETURN_IF_ERROR(expect('['));
    if (accept(']'))
      return Status();
    do {
      uint64_t value;
      HEDDLE_RETURN_IF_ERROR(number(value));
      values.push_back(value);
      if (values.size() > 64)
        return error("more than 64 dimensions");
    } while (accept(','));
    return expect(']');
  }

  Status metadata() {
    HEDDLE_RETURN_IF_ERROR(hasMetadata ? error("__metadata__ is there twice") : expect('{'));
    hasMetadata = true;
    if (accept('}'))
      return Status();
    do {
      std::string key, value;
      HEDDLE_RETURN_IF_ERROR(string(key));
      HEDDLE_RETURN_IF_ERROR(expect(':'));
      HEDDLE_RETURN_IF_ERROR(string(value));
    } while (accept(','));
    return expect('}');
  }

  Status tensor(std::string name, const uint8_t *data, uint64_t dataSize, std::vector<TensorView> &tensors) {
    TensorView view;
    std::vector<uint64_t> shape, offsets;
    int seen = 0; // bits: dtype, shape, data_offsets
    HEDDLE_RETURN_IF_ERROR(expect('{'));
    do {
      std::string key;
      HEDDLE_RETURN_IF_ERROR(string(key));
      HEDDLE_RETURN_IF_ERROR(expect(':'));
      int bit = key == "dtype" ? 1 : key == "shape" ? 2 : key == "data_offsets" ? 4 : 0;
      if (bit == 0 || (seen & bit))
        return error("tensor '" + name + "': unexpected field '" + key + "'");
      seen |= bit;
      HEDDLE_RETURN_IF_ERROR(bit == 1 ? string(view.dtype) : numbers(bit == 2 ? shape : offsets));
    } while (accept(','));
    HEDDLE_RETURN_IF_ERROR(expect('}'));
    if (seen != 7 || offsets.size() != 2)
      return error("tensor '" + name + "': dtype, shape and two data_offsets are needed");
    const TypeSize *type =
        std::find_if(std::begin(types), std::end(types), [&](const TypeSize &t) { return view.dtype == t.name; });
    if (type == std::end(types))
      return error("tensor '" + name + "': unknown dtype '" + view.dtype + "'");
    if (offsets[0] > offsets[1] || offsets[1] > dataSize)
      return error(format("tensor '%s': data_offsets [%llu, %llu], the file holds %llu bytes of data", name.c_str(),
                          (unsigned long long)offsets[0], (unsigned long long)offsets[1],
                          (unsigned long long)dataSize));
    uint64_t bytes = type->bytes;
    bool isEmpty = std::find(shape.begin(), shape.end(), 0u) != shape.end(), overflows = false;
    for (uint64_t dimension : shape) {
      overflows |= dimension > INT64_MAX || (!isEmpty && __builtin_mul_overflow(bytes, dimension, &bytes));
      view.shape.push_back(int64_t(dimension));
    }
    if (overflows || (isEmpty ? 0 : bytes) != offsets[1] - offsets[0])
      return error(format("tensor '%s': its shape does not match its %llu bytes", name.c_str(),
                          (unsigned long long)(offsets[1] - offsets[0])));
    view.name = std::move(name);
    view.data = data + offsets[0];
    view.size = offsets[1] - offsets[0];
    tensors.push_back(std::move(view));
    return Status();
  }

  const std::string &file;
  const char *begin, *at, *end;
  bool hasMetadata = false;
};

std::string quoted(const std::string &name) {
  std::string text = "\"";
  for (char c : name)
    text += c == '"' || c == '\\' ? std::string("\\") + c
            : uint8_t(c) < 0x20   ? format("\\u%04x", c)
                                  : std::string(1, c);
  return text + '"';
}

} // namespace

Status parseSafetensorsHeader(const std::string &what, const char *text, size_t size, const uint8_t *data,
                              uint64_t dataSize, std::vector<TensorView> &outTensors) {
  HEDDLE_RETURN_IF_ERROR(HeaderParser(what, text, size).parse(data, dataSize, outTensors));
  std::vector<const TensorView *> order;
  for (const TensorView &view : outTensors)
    order.push_back(&view);
  std::sort(order.begin(), order.end(), [](const TensorView *a, const TensorView *b) { return a->name < b->name; });
  for (size_t i = 1; i < order.size(); ++i)
    if (order[i]->name == order[i - 1]->name)
      return invalidInput(what + ": tensor '" + order[i]->name + "' is there twice");
  std::sort(order.begin(), order.end(), [](const TensorView *a, const TensorView *b) {
    return a->data != b->data ? a->data < b->data : a->size < b->size;
  });
  const uint8_t *next = data;
  for (const TensorView *view : order) {
    if (view->data != next)
      return invalidInput(what + ": tensor '" + view->name + "': its bytes do not start where the ones before end");
    next += view->size;
  }
  if (uint64_t(next - data) != dataSize)
    return invalidInput(format("%s: %llu bytes of data, the tensors cover %llu", what.c_str(),
                               (unsigned long long)dataSize, (unsigned long long)(next - data)));
  return Status();
}

Status SafetensorsFile::open(const std::string &path) {
  HEDDLE_RETURN_IF_ERROR(file.open(path));
  uint64_t headerSize = 0;
  if (file.size() < 8)
    return invalidInput(
        format("%s: %llu bytes, a safetensors file has at least 8", path.c_str(), (unsigned long long)file.size()));
  memcpy(&headerSize, file.data(), 8);
  if (headerSize > maxHeader || headerSize > file.size() - 8)
    return invalidInput(format("%s: byte 0: a header of %llu bytes, the file has %llu and the limit is %llu",
                               path.c_str(), (unsigned long long)headerSize, (unsigned long long)file.size(),
                               (unsigned long long)maxHeader));
  return parseSafetensorsHeader(path, reinterpret_cast<const char *>(file.data()) + 8, headerSize,
                                file.data() + 8 + headerSize, file.size() - 8 - headerSize, list);
}

const TensorView *SafetensorsFile::find(std::string_view name) const {
  for (const TensorView &view : list)
    if (view.name == name)
      return &view;
  return nullptr;
}

std::string shapeText(const std::vector<int64_t> &shape) {
  std::string text = "(";
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + ")";
}

Status writeSafetensors(const std::string &path, const std::vector<TensorToWrite> &tensors) {
  std::string header = "{";
  uint64_t offset = 0;
  for (const TensorToWrite &tensor : tensors) {
    header += (offset || header.size() > 1 ? "," : "") + quoted(tensor.name) + ":{\"dtype\":\"" + tensor.dtype +
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
