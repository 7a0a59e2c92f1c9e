// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/huggingface/Safetensors.h"

#include "bytes/Safetensors.h"
#include "frontends/Json.h"

#include <algorithm>
#include <iterator>

namespace heddle {

namespace {

constexpr size_t maxIndexBytes = 100'000'000;
constexpr size_t maxShards = 10'000;

struct NamedType {
  std::string_view dtype;
  TensorType type;
};
// The types of the format that weights, or parts of quantised ones, may have; the others are refused by name. Those of 8 bits are bytes, whose
// meaning is the quantisation's to say.
constexpr NamedType types[] = {
    {"BOOL", TensorType::Bool}, {"U8", TensorType::U8},     {"I8", TensorType::I8},      {"I16", TensorType::I16},
    {"F16", TensorType::F16},   {"BF16", TensorType::BF16}, {"I32", TensorType::I32},    {"F32", TensorType::F32},
    {"I64", TensorType::I64},   {"F64", TensorType::F64},   {"F8_E4M3", TensorType::U8}, {"F8_E8M0", TensorType::U8},
};

} // namespace

Status readSafetensors(SharedFile file, Checkpoint &checkpoint) {
  const std::string &path = file->path();
  std::vector<StoredTensor> stored;
  HEDDLE_RETURN_IF_ERROR(readStoredTensors(*file, stored));
  if (stored.size() > maxSafetensorsTensors - checkpoint.tensors.size())
    return errorIn(path, "more than " + std::to_string(maxSafetensorsTensors) + " tensors");
  auto number = static_cast<uint32_t>(checkpoint.files.size());
  for (StoredTensor &tensor : stored) {
    std::string what = "tensor '" + printable(tensor.name) + "'";
    auto named =
        std::find_if(std::begin(types), std::end(types), [&](const NamedType &t) { return t.dtype == tensor.dtype; });
    if (named == std::end(types))
      return errorIn(path,
                     what + ": dtype " + std::string(tensor.dtype) + " is not supported, expected F32, F16 or BF16")
          .ofTensor(tensor.name)
          .as(StatusCode::Unsupported);
    auto offset = static_cast<uint64_t>(tensor.data - file->data());
    TensorInfo info{named->type, std::move(tensor.shape), number, offset, tensor.size, false};
    auto [place, isNew] = checkpoint.tensors.emplace(std::move(tensor.name), std::move(info));
    if (!isNew)
      return errorIn(path, what + " is also in " + printable(checkpoint.files[place->second.file]->path(), 1024))
          .ofTensor(place->first);
  }
  checkpoint.files.push_back(std::move(file));
  return Status();
}

namespace {

constexpr const char *singleName = "model.safetensors", *indexName = "model.safetensors.index.json";

Status readNamed(ModelFiles &files, const std::string &name, Checkpoint &checkpoint) {
  Expected<SharedFile> file = files.open(name);
  return file ? readSafetensors(*file, checkpoint) : file.status();
}

// model.safetensors.index.json: {"metadata": {…}, "weight_map": {"TENSOR": "SHARD"}}. It is walked twice, once for the
// shards and once, when these are read, to compare each line with them; no table of the lines is built.
class ShardIndex {
public:
  explicit ShardIndex(ModelFiles &files) : files(files), path(files.pathOf(indexName)) {}
  Status read(Checkpoint &checkpoint);

private:
  template <typename Visit> Status walk(JsonValue map, Visit visit) const;
  Status addShard(const std::string &tensor, const std::string &shard);

  ModelFiles &files;
  const std::string path;
  std::map<std::string, uint32_t> shards; // name -> index into Checkpoint::files
};

template <typename Visit> Status ShardIndex::walk(JsonValue map, Visit visit) const {
  for (JsonItems items(map); items.next();) {
    if (!items.value.is(JsonKind::String))
      return errorIn(path, "weight_map: '" + printable(items.key.string()) + "' is " +
                               printable(items.value.raw(), 64) + ", expected a string, the name of a shard");
    HEDDLE_RETURN_IF_ERROR(visit(items.key.string(), items.value.string()));
  }
  return Status();
}

Status ShardIndex::addShard(const std::string &tensor, const std::string &shard) {
  if (shard.empty() || shard == "." || shard == ".." || shard.find('/') != std::string::npos ||
      shard.find('\0') != std::string::npos)
    return errorIn(path, "weight_map: '" + printable(tensor) + "' is in '" + printable(shard) +
                             "', expected a plain file name (nothing outside the directory)");
  shards.emplace(shard, 0);
  if (shards.size() > maxShards)
    return errorIn(path, "weight_map names more than " + std::to_string(maxShards) + " shards");
  return Status();
}

Status ShardIndex::read(Checkpoint &checkpoint) {
  Expected<JsonFile> index = readJsonFile(files, indexName, maxIndexBytes);
  if (!index)
    return index.status();
  if (!index->root.is(JsonKind::Object))
    return errorIn(path, "is " + printable(index->root.raw(), 64) + ", expected an object");
  bool isTwice = false;
  JsonValue map = index->root.find("weight_map", &isTwice);
  if (isTwice)
    return errorIn(path, "duplicate key 'weight_map'");
  if (!map)
    return errorIn(path, "'weight_map' is missing");
  if (!map.is(JsonKind::Object))
    return errorIn(path, "weight_map is " + printable(map.raw(), 64) + ", expected an object");
  HEDDLE_RETURN_IF_ERROR(walk(map, [&](const std::string &t, const std::string &s) { return addShard(t, s); }));
  for (auto &[shard, file] : shards) {
    file = static_cast<uint32_t>(checkpoint.files.size());
    if (!files.has(shard))
      return errorIn(path, "shard '" + printable(shard) + "' is missing: no such file").as(StatusCode::Unreadable);
    HEDDLE_RETURN_IF_ERROR(readNamed(files, shard, checkpoint));
  }
  return walk(map, [&](const std::string &tensor, const std::string &shard) -> Status {
    const TensorInfo *found = checkpoint.find(tensor);
    if (!found || found->file != shards.find(shard)->second)
      return errorIn(path, "weight_map: tensor '" + printable(tensor) + "' is not in '" + printable(shard) + "'")
          .ofTensor(tensor);
    return Status();
  });
}

} // namespace

Expected<Checkpoint> readSafetensorsDirectory(ModelFiles &files) {
  Checkpoint checkpoint;
  if (files.has(singleName)) {
    HEDDLE_RETURN_IF_ERROR(readNamed(files, singleName, checkpoint));
    return checkpoint;
  }
  if (!files.has(indexName)) {
    for (const char *pickle : {"pytorch_model.bin", "pytorch_model.bin.index.json"})
      if (files.has(pickle))
        return errorIn(files.pathOf(pickle), "pickled weights are not read; convert them to safetensors "
                                             "(save_pretrained(..., safe_serialization=True))");
    return errorIn(files.model(), "holds no model.safetensors and no model.safetensors.index.json");
  }
  HEDDLE_RETURN_IF_ERROR(ShardIndex(files).read(checkpoint));
  return checkpoint;
}

} // namespace heddle
