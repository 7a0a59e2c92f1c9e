// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// GGUF, versions 2 and 3 (little-endian): header, typed metadata, tensor table; one file or all parts of a split one.
//
//   file     magic "GGUF", u32 version, u64 tensors, u64 pairs, pairs, tensor infos, padding, data
//   pair     string key, u32 type, value
//   info     string name, u32 n_dims, u64 dims[n_dims] (innermost first), u32 type, u64 offset into data
//   string   u64 length, bytes
//
// Source: the format's specification, docs/gguf.md of the ggml project. Every count is bounded by the bytes that are
// left before anything is stored; metadata and names are views into the mapped file.
#ifndef HEDDLE_FRONTENDS_GGUF_GGUF_H
#define HEDDLE_FRONTENDS_GGUF_GGUF_H

#include "frontends/Checkpoint.h"
#include "frontends/ModelFiles.h"

namespace heddle {

enum class GgufType : uint32_t {
  U8,
  I8,
  U16,
  I16,
  U32,
  I32,
  F32,
  Bool,
  String,
  Array,
  U64,
  I64,
  F64,
};

// One metadata value: a scalar, or an array whose elements have `type`. Its bytes lie in the mapped file.
struct GgufValue {
  GgufType type = GgufType::U8;
  bool isArray = false;
  uint64_t count = 1;            // elements; 1 for a scalar
  const uint8_t *data = nullptr; // unaligned; the first element (a string's length field for strings)
};

// Things that an array has an element for each of, and who says how many: {32, "layers", "llama.block_count"}.
struct GgufCount {
  int64_t number;
  std::string things, source;
};

class GgufFile {
public:
  // Opens the model's file; if it is one part of a split file, all its parts. Metadata is the first part's.
  static Expected<GgufFile> open(ModelFiles &files);

  // Metadata. A missing key, a value of another type or one out of range is an error that names file, key, and types.
  // Integer getters accept every integer type, numbers also integers; nothing else converts.
  bool contains(std::string_view key) const { return values.find(key) != values.end(); }
  Expected<int64_t> integer(std::string_view key) const;
  Expected<double> number(std::string_view key) const;
  Expected<bool> boolean(std::string_view key) const;
  Expected<std::string_view> string(std::string_view key) const;
  // Arrays. Views live as long as this object (or any copy of it).
  Expected<std::vector<std::string_view>> strings(std::string_view key) const;
  Expected<std::string_view> bytes(std::string_view key) const; // of u8 or i8
  // Arrays with an element for each of something: another number of elements is refused before any is stored. Who asks has bounded the
  // number, for an array of bytes grows eightfold.
  Expected<std::vector<int64_t>> integers(std::string_view key, const GgufCount &each) const;
  Expected<std::vector<bool>> booleans(std::string_view key, const GgufCount &each) const;
  Expected<std::vector<float>> floats(std::string_view key, const GgufCount &each) const;
  // The integer that all elements are. Stores nothing, so that the number may be any.
  Expected<int64_t> uniform(std::string_view key, const GgufCount &each) const;

  const std::map<std::string_view, GgufValue> &metadata() const { return values; }
  const Checkpoint &tensors() const { return checkpoint; }
  // The path of the part that holds the metadata, for messages.
  const std::string &path() const { return checkpoint.files.front()->path(); }

private:
  Status readParts(ModelFiles &files);
  Expected<const GgufValue *> find(std::string_view key, bool isArray) const;
  Expected<const GgufValue *> find(std::string_view key, const GgufCount &each) const;

  std::map<std::string_view, GgufValue> values;
  Checkpoint checkpoint; // by GGUF's own names
};

// "u32", "array of string", … for messages.
std::string ggufTypeName(const GgufValue &value);

} // namespace heddle

#endif
