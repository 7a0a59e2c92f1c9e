// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/huggingface/Safetensors.h"
#include "frontends/Json.h"
#include "frontends/Size.h"

#include <algorithm>
#include <cstring>
#include <sys/stat.h>

namespace heddle {

namespace {

constexpr uint64_t maxHeaderBytes = 100'000'000;
constexpr uint64_t maxIndexBytes = 100'000'000;
constexpr size_t maxShards = 10'000;
constexpr size_t maxRank = 64;

// Every dtype of the format; those without a TensorType are refused by name.
struct Dtype {
  const char *name;
  uint32_t bits;
  bool supported;
  TensorType type;
};
constexpr Dtype dtypes[] = {
    {"BOOL", 8, true, TensorType::Bool},       {"U8", 8, true, TensorType::U8},
    {"I8", 8, true, TensorType::I8},           {"I16", 16, true, TensorType::I16},
    {"F16", 16, true, TensorType::F16},        {"BF16", 16, true, TensorType::BF16},
    {"I32", 32, true, TensorType::I32},        {"F32", 32, true, TensorType::F32},
    {"I64", 64, true, TensorType::I64},        {"F64", 64, true, TensorType::F64},
    {"F4", 4, false, TensorType::U8},          {"F6_E2M3", 6, false, TensorType::U8},
    {"F6_E3M2", 6, false, TensorType::U8},     {"F8_E4M3", 8, false, TensorType::U8},
    {"F8_E5M2", 8, false, TensorType::U8},     {"F8_E8M0", 8, false, TensorType::U8},
    {"F8_E4M3FNUZ", 8, false, TensorType::U8}, {"F8_E5M2FNUZ", 8, false, TensorType::U8},
    {"U16", 16, false, TensorType::U8},        {"U32", 32, false, TensorType::U8},
    {"U64", 64, false, TensorType::U8},        {"C64", 64, false, TensorType::U8},
};

using Entry = std::pair<const std::string, TensorInfo>;

class HeaderReader {
public:
  HeaderReader(const MappedFile &file, std::string_view header, Checkpoint &checkpoint)
      : file(file), scanner(header), checkpoint(checkpoint), dataStart(8 + header.size()) {}
  Status read();

private:
  Status readTensor(const std::string &name);
  bool readShape(std::vector<int64_t> &shape);
  bool readOffsets(uint64_t (&offsets)[2]);
  Status checkSize(const std::string &name, const std::string &dtype, const uint64_t (&offsets)[2], TensorInfo &tensor);
  Status skipMetadata();
  Status checkCoverage();
  Error fail(const std::string &what) const { return errorIn(file.path(), what); }
  Error scanError() const { return fail("header: " + scanner.error()); }
  Error scanError(const std::string &name) const {
    return fail("tensor '" + printable(name) + "': header " + scanner.error());
  }

  const MappedFile &file;
  JsonScanner scanner;
  Checkpoint &checkpoint;
  uint64_t dataStart;
  std::vector<const Entry *> entries; // of this file
};

bool HeaderReader::readShape(std::vector<int64_t> &shape) {
  bool first = true;
  uint64_t dim;
  if (!scanner.open('['))
    return false;
  while (scanner.element(first)) {
    if (!scanner.natural(dim))
      return scanner.fail("shape");
    if (dim > INT64_MAX)
      return scanner.fail("shape: dimension " + std::to_string(dim) + " is out of range");
    if (shape.size() == maxRank)
      return scanner.fail("shape of more than " + std::to_string(maxRank) + " dimensions");
    shape.push_back(static_cast<int64_t>(dim));
  }
  return !scanner.failed();
}

bool HeaderReader::readOffsets(uint64_t (&offsets)[2]) {
  bool first = true;
  size_t count = 0;
  if (!scanner.open('['))
    return false;
  while (scanner.element(first)) {
    if (count == 2)
      return scanner.fail("data_offsets of more than two numbers");
    if (!scanner.natural(offsets[count++]))
      return false;
  }
  return count == 2 || scanner.fail("data_offsets of fewer than two numbers");
}

Status HeaderReader::checkSize(const std::string &name, const std::string &dtype, const uint64_t (&offsets)[2],
                               TensorInfo &tensor) {
  std::string what = "tensor '" + printable(name) + "': ";
  auto found = std::find_if(std::begin(dtypes), std::end(dtypes), [&](const Dtype &d) { return dtype == d.name; });
  if (found == std::end(dtypes))
    return fail(what + "unknown dtype '" + printable(dtype, 32) + "'");
  auto [begin, end] = offsets;
  if (begin > end)
    return fail(what + "data_offsets are reversed, [" + std::to_string(begin) + ", " + std::to_string(end) + "]");
  if (end > file.size() - dataStart)
    return fail(what + "data_offsets end at " + std::to_string(end) + ", beyond the end of the file's " +
                std::to_string(file.size() - dataStart) + " bytes of data (truncated?)");
  Size bits(found->bits);
  bool empty = false;
  for (int64_t dim : tensor.shape) {
    empty |= dim == 0;
    bits = bits * static_cast<uint64_t>(dim);
  }
  if (!bits.valid() && !empty)
    return fail(what + "the product of its shape overflows 64 bits");
  uint64_t total = empty ? 0 : bits.value();
  if (total % 8 != 0)
    return fail(what + std::to_string(total) + " bits of " + dtype + " do not fill whole bytes");
  if (total / 8 != end - begin)
    return fail(what + "shape and dtype " + dtype + " need " + std::to_string(total / 8) +
                " bytes, but data_offsets hold " + std::to_string(end - begin));
  if (!found->supported)
    return fail(what + "dtype " + dtype + " is not supported, expected F32, F16 or BF16");
  tensor.type = found->type;
  tensor.offset = dataStart + begin;
  tensor.bytes = end - begin;
  return Done{};
}

Status HeaderReader::readTensor(const std::string &name) {
  TensorInfo tensor{TensorType::F32, {}, static_cast<uint32_t>(checkpoint.files.size()), 0, 0, false};
  std::string key, dtype;
  uint64_t offsets[2] = {0, 0};
  unsigned seen = 0; // one bit per field
  bool first = true;
  if (!scanner.open('{'))
    return scanError(name);
  while (scanner.member(first, key)) {
    unsigned bit = key == "dtype" ? 1 : key == "shape" ? 2 : key == "data_offsets" ? 4 : 0;
    if (seen & bit)
      return fail("tensor '" + printable(name) + "': duplicate field '" + key + "'");
    seen |= bit;
    if (!(bit == 1   ? scanner.string(dtype)
          : bit == 2 ? readShape(tensor.shape)
          : bit == 4 ? readOffsets(offsets)
                     : scanner.skip()))
      return fail("tensor '" + printable(name) + "': " + printable(key, 32) + ": header " + scanner.error());
  }
  if (scanner.failed())
    return scanError(name);
  if (seen != 7)
    return fail("tensor '" + printable(name) + "': '" +
                (!(seen & 1)   ? "dtype"
                 : !(seen & 2) ? "shape"
                               : "data_offsets") +
                "' is missing in the header");
  if (Status checked = checkSize(name, dtype, offsets, tensor); !checked)
    return checked;
  if (checkpoint.tensors.size() == maxSafetensorsTensors)
    return fail("more than " + std::to_string(maxSafetensorsTensors) + " tensors");
  auto [place, isNew] = checkpoint.tensors.emplace(name, std::move(tensor));
  if (!isNew && place->second.file != checkpoint.files.size())
    return fail("tensor '" + printable(name) + "' is also in " +
                printable(checkpoint.files[place->second.file]->path(), 1024));
  if (!isNew)
    return fail("duplicate tensor '" + printable(name) + "'");
  entries.push_back(&*place);
  return Done{};
}

Status HeaderReader::skipMetadata() {
  std::string key;
  bool first = true;
  if (!scanner.open('{'))
    return scanError("__metadata__");
  while (scanner.member(first, key)) {
    if (scanner.peek() != '"')
      scanner.fail("__metadata__ holds something else than strings");
    scanner.skip();
  }
  return scanner.failed() ? Status(scanError()) : Status(Done{});
}

// The ranges, sorted, follow each other without hole or overlap and end with the file.
Status HeaderReader::checkCoverage() {
  std::sort(entries.begin(), entries.end(), [](const Entry *a, const Entry *b) {
    return std::pair(a->second.offset, a->second.bytes) < std::pair(b->second.offset, b->second.bytes);
  });
  uint64_t at = dataStart;
  for (const Entry *entry : entries) {
    if (entry->second.offset != at)
      return fail("tensor '" + printable(entry->first) + "': data_offsets start at " +
                  std::to_string(entry->second.offset - dataStart) + ", expected " + std::to_string(at - dataStart) +
                  (entry->second.offset < at ? " (overlap)" : " (hole)"));
    at += entry->second.bytes;
  }
  if (at != file.size())
    return fail("byte " + std::to_string(at) + ": " + std::to_string(file.size() - at) +
                " bytes after the last tensor");
  return Done{};
}

Status HeaderReader::read() {
  std::string name;
  bool first = true, hasMetadata = false;
  scanner.open('{');
  while (scanner.member(first, name)) {
    if (name == "__metadata__" && hasMetadata)
      return fail("header: duplicate key '__metadata__'");
    hasMetadata |= name == "__metadata__";
    if (Status read = name == "__metadata__" ? skipMetadata() : readTensor(name); !read)
      return read;
  }
  if (!scanner.finish())
    return scanError();
  return checkCoverage();
}

} // namespace

Status readSafetensors(const std::string &path, Checkpoint &checkpoint) {
  Expected<std::shared_ptr<MappedFile>> opened = MappedFile::open(path);
  if (!opened)
    return opened.takeError();
  const MappedFile &file = **opened;
  uint64_t length;
  if (file.size() < sizeof(length))
    return errorIn(path,
                   "too short: " + std::to_string(file.size()) + " bytes, the header's length alone takes 8 bytes");
  std::memcpy(&length, file.data(), sizeof(length));
  if (length > maxHeaderBytes)
    return errorIn(path,
                   "header of " + std::to_string(length) + " bytes, the limit is " + std::to_string(maxHeaderBytes));
  if (length > file.size() - 8)
    return errorIn(path, "header of " + std::to_string(length) + " bytes reaches past the end of the file of " +
                             std::to_string(file.size()) + " bytes (truncated?)");
  std::string_view header(reinterpret_cast<const char *>(file.data()) + 8, length);
  if (header.empty() || header[0] != '{')
    return errorIn(path, "header does not start with '{', a JSON object");
  if (!isUtf8(header))
    return errorIn(path, "header is not UTF-8");
  if (Status read = HeaderReader(file, header, checkpoint).read(); !read)
    return read;
  checkpoint.files.push_back(std::move(*opened));
  return Done{};
}

namespace {

bool exists(const std::string &path) {
  struct stat status;
  return stat(path.c_str(), &status) == 0;
}

// model.safetensors.index.json: {"metadata": {…}, "weight_map": {"TENSOR": "SHARD"}}. It is walked twice, once for the
// shards and once, when these are read, to compare each line with them; no table of the lines is built.
class ShardIndex {
public:
  ShardIndex(std::string directory, const MappedFile &file)
      : directory(std::move(directory)), path(file.path()),
        text(reinterpret_cast<const char *>(file.data()), file.size()) {}
  Status read(Checkpoint &checkpoint);

private:
  template <typename Visit> Status walk(Visit visit);
  Status addShard(const std::string &tensor, const std::string &shard);

  std::string directory, path;
  std::string_view text;
  std::map<std::string, uint32_t> shards; // name -> index into Checkpoint::files
};

template <typename Visit> Status ShardIndex::walk(Visit visit) {
  JsonScanner scanner(text);
  std::string key, tensor, shard;
  bool first = true, hasMap = false;
  scanner.open('{');
  while (scanner.member(first, key)) {
    if (key != "weight_map") {
      scanner.skip();
      continue;
    }
    if (hasMap)
      return errorIn(path, "duplicate key 'weight_map'");
    hasMap = true;
    bool firstTensor = true;
    scanner.open('{');
    while (scanner.member(firstTensor, tensor) && scanner.string(shard))
      if (Status visited = visit(tensor, shard); !visited)
        return visited;
  }
  if (!scanner.finish())
    return errorIn(path, "not valid JSON: " + scanner.error());
  return hasMap ? Status(Done{}) : Status(errorIn(path, "'weight_map' is missing"));
}

Status ShardIndex::addShard(const std::string &tensor, const std::string &shard) {
  if (shard.empty() || shard == "." || shard == ".." || shard.find('/') != std::string::npos ||
      shard.find('\0') != std::string::npos)
    return errorIn(path, "weight_map: '" + printable(tensor) + "' is in '" + printable(shard) +
                             "', expected a plain file name (nothing outside the directory)");
  shards.emplace(shard, 0);
  if (shards.size() > maxShards)
    return errorIn(path, "weight_map names more than " + std::to_string(maxShards) + " shards");
  return Done{};
}

Status ShardIndex::read(Checkpoint &checkpoint) {
  if (text.size() > maxIndexBytes)
    return errorIn(path, std::to_string(text.size()) + " bytes, the limit is " + std::to_string(maxIndexBytes));
  if (!isUtf8(text))
    return errorIn(path, "not valid JSON: not UTF-8");
  if (Status walked = walk([&](const std::string &t, const std::string &s) { return addShard(t, s); }); !walked)
    return walked;
  for (auto &[shard, file] : shards) {
    file = static_cast<uint32_t>(checkpoint.files.size());
    if (!exists(directory + "/" + shard))
      return errorIn(path, "shard '" + printable(shard) + "' is missing: no such file");
    if (Status read = readSafetensors(directory + "/" + shard, checkpoint); !read)
      return read;
  }
  return walk([&](const std::string &tensor, const std::string &shard) -> Status {
    const TensorInfo *found = checkpoint.find(tensor);
    if (!found || found->file != shards.find(shard)->second)
      return errorIn(path, "weight_map: tensor '" + printable(tensor) + "' is not in '" + printable(shard) + "'");
    return Done{};
  });
}

} // namespace

Expected<Checkpoint> readSafetensorsDirectory(const std::string &directory) {
  Checkpoint checkpoint;
  std::string single = directory + "/model.safetensors", index = single + ".index.json";
  if (exists(single)) {
    if (Status read = readSafetensors(single, checkpoint); !read)
      return read.takeError();
    return checkpoint;
  }
  if (!exists(index)) {
    for (const char *pickle : {"pytorch_model.bin", "pytorch_model.bin.index.json"})
      if (exists(directory + "/" + pickle))
        return errorIn(directory + "/" + pickle, "pickled weights are not read; convert them to safetensors "
                                                 "(save_pretrained(..., safe_serialization=True))");
    return errorIn(directory, "holds no model.safetensors and no model.safetensors.index.json");
  }
  Expected<std::shared_ptr<MappedFile>> file = MappedFile::open(index);
  if (!file)
    return file.takeError();
  if (Status read = ShardIndex(directory, **file).read(checkpoint); !read)
    return read.takeError();
  return checkpoint;
}

} // namespace heddle
