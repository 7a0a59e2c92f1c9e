// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/gguf/GgufModel.h"
#include "bytes/Status.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <set>

namespace heddle {

namespace {

// The part of a stacked tensor (experts, out, in), or of as many others, that is one expert's.
TensorInfo expertOf(const TensorInfo &stacked, int64_t expert) {
  TensorInfo view = stacked;
  view.bytes = stacked.bytes / static_cast<uint64_t>(stacked.shape[0]);
  view.offset += static_cast<uint64_t>(expert) * view.bytes;
  view.shape.erase(view.shape.begin());
  return view;
}

// What converters may write as one tensor: how its name and those of its parts go on behind the layer's, and how many rows each part has.
struct WholeTensor {
  const char *whole;
  std::array<const char *, 3> parts;
  std::array<ConfigDim, 3> rows;
};
constexpr WholeTensor wholes[] = {
    {".attn_qkv.", {".attn_q.", ".attn_k.", ".attn_v."}, {ConfigDim::Queries, ConfigDim::KeyValues, ConfigDim::Values}},
    {".ffn_gate_up_exps.",
     {".ffn_gate_exps.", ".ffn_up_exps.", nullptr},
     {ConfigDim::ExpertIntermediate, ConfigDim::ExpertIntermediate, ConfigDim::None}},
};

// The entry of `wholes` of which `name` is a part, and which; null if it is none.
const WholeTensor *wholeOf(const std::string &name, size_t &part) {
  for (const WholeTensor &whole : wholes)
    for (part = 0; part < whole.parts.size() && whole.parts[part]; ++part)
      if (name.find(whole.parts[part]) != std::string::npos)
        return &whole;
  return nullptr;
}

// `rows` of a tensor (rows, …) from `begin` on.
TensorInfo rowsOf(const TensorInfo &tensor, int64_t begin, int64_t rows) {
  TensorInfo view = tensor;
  uint64_t rowBytes = tensor.bytes / static_cast<uint64_t>(tensor.shape[0]);
  view.offset += static_cast<uint64_t>(begin) * rowBytes;
  view.bytes = static_cast<uint64_t>(rows) * rowBytes;
  view.shape[0] = rows;
  return view;
}

// "blk.#.ffn_gate_exps.weight" as files from before stacking have it: "blk.#.ffn_gate.@.weight"
std::string unstackedPattern(std::string pattern) {
  size_t at = pattern.find("_exps.");
  return at == std::string::npos ? pattern : pattern.replace(at, 6, ".@.");
}

// Whether llama.cpp's converter leaves rows in this order. Of q, k and v in one it puts the parts one behind the other.
bool keepsOrder(RowOrder order) {
  return order == RowOrder::ByGate || order == RowOrder::ByStateHead || order == RowOrder::ByStateTerm;
}

// Moves the tensors of a file into `checkpoint` under Hugging Face's names.
class TensorRenamer {
public:
  TensorRenamer(const GgufFile &file, const ModelConfig &config) : file(file), config(config) {}
  Status rename(Checkpoint &out);

private:
  Status renameOne(const TensorRule &rule, int64_t layer, int64_t expert, Checkpoint &out);
  void renamePart(const TensorRule &rule, int64_t layer, int64_t expert, Checkpoint &out);

  const GgufFile &file;
  const ModelConfig &config;
  std::set<std::string_view> used;
};

Status TensorRenamer::renameOne(const TensorRule &rule, int64_t layer, int64_t expert, Checkpoint &out) {
  const auto &tensors = file.tensors().tensors;
  bool isExpert = std::string_view(rule.name).find('@') != std::string_view::npos;
  int64_t parts = isExpert ? partsOf(rule, config, layer) : 1;
  auto found = tensors.find(tensorName(rule.gguf, layer, expert));
  bool isStacked = isExpert && found != tensors.end();
  if (isExpert && !isStacked)
    found = tensors.find(tensorName(unstackedPattern(rule.gguf).c_str(), layer, expert));
  if (found == tensors.end()) {
    renamePart(rule, layer, expert, out);
    return Status(); // whether it may be missing is validate's to say
  }
  used.insert(found->first);
  const TensorInfo &tensor = found->second;
  bool isVector = rule.columns == ConfigDim::None;
  if (isStacked && (tensor.shape.size() != (isVector ? 2 : 3) || tensor.shape[0] != parts))
    return errorIn(file.tensors().files[tensor.file]->path(),
                   "tensor '" + found->first + "' has shape " + shapeText(tensor.shape) + ", expected (" +
                       (rule.parts == ConfigDim::None ? "expert_count " : "") + std::to_string(parts) +
                       (isVector ? ", out)" : ", out, in)"))
        .ofTensor(found->first);
  TensorInfo renamed = isStacked ? expertOf(tensor, expert) : tensor;
  renamed.storedAs = found->first;
  // Up-projections of a latent are stored per head, (heads, out, in): their rows are stacked like those of any weight.
  if (config.latent.enabled && !isExpert && renamed.shape.size() == 3)
    renamed.shape = {renamed.shape[0] * renamed.shape[1], renamed.shape[2]};
  if (RowOrder order = rowOrderOf(rule); keepsOrder(order))
    renamed.rowOrder = order;
  // (channels, 1, width), (1, channels, 1, width), (1, 1, heads, 1)
  for (size_t i = 0; rule.order == StoredOrder::Flattened && renamed.shape.size() > 2 && i < renamed.shape.size();)
    if (renamed.shape[i] == 1)
      renamed.shape.erase(renamed.shape.begin() + int64_t(i));
    else
      ++i;
  if (rule.order == StoredOrder::Flattened && !isVector &&
      renamed.shape.size() == 1) // a matrix of one row, stored as a vector
    renamed.shape.insert(renamed.shape.begin(), 1);
  if (rule.order == StoredOrder::Flattened && isVector && renamed.shape.size() == 2) // (groups, width), (heads, 1)
    renamed.shape = {renamed.shape[0] * renamed.shape[1]};
  out.tensors.emplace(tensorName(rule.name, layer, expert), std::move(renamed));
  return Status();
}

// Of a tensor that lies in another, of which a part has the rows that the config asks for; another size is left for validate to see.
void TensorRenamer::renamePart(const TensorRule &rule, int64_t layer, int64_t expert, Checkpoint &out) {
  std::string name = tensorName(rule.gguf, layer, expert);
  size_t part = 0;
  const WholeTensor *whole = wholeOf(name, part);
  auto found = whole ? file.tensors().tensors.find(wholeName(name)) : file.tensors().tensors.end();
  if (found == file.tensors().tensors.end())
    return;
  bool isExpert = std::string_view(rule.name).find('@') != std::string_view::npos;
  TensorInfo tensor = found->second;
  if (isExpert && (tensor.shape.size() != 3 || tensor.shape[0] != partsOf(rule, config, layer)))
    return;
  if (isExpert)
    tensor = expertOf(tensor, expert);
  int64_t begin = 0, all = 0;
  for (size_t i = 0; i < whole->parts.size() && whole->parts[i]; ++i) {
    int64_t rows = dimension(whole->rows[i], config, layer);
    begin += i < part ? rows : 0;
    all += rows;
  }
  if (tensor.shape.empty() || tensor.shape[0] != all)
    return;
  used.insert(found->first);
  TensorInfo renamed = rowsOf(tensor, begin, dimension(whole->rows[part], config, layer));
  renamed.storedAs = found->first;
  out.tensors.emplace(tensorName(rule.name, layer, expert), std::move(renamed));
}

// What readGgufRopes reads: numbers of the config, not weights.
constexpr std::string_view ropeTensors[] = {"rope_freqs.weight", "rope_factors_long.weight",
                                            "rope_factors_short.weight"};

Status TensorRenamer::rename(Checkpoint &out) {
  out.files = file.tensors().files;
  Status renamed = forEachTensor(config, [&](const TensorRule &rule, int64_t layer, int64_t expert) {
    return renameOne(rule, layer, expert, out);
  });
  HEDDLE_RETURN_IF_ERROR(renamed);
  for (const auto &[name, tensor] : file.tensors().tensors)
    if (!used.count(name) && std::find(std::begin(ropeTensors), std::end(ropeTensors), name) == std::end(ropeTensors))
      out.tensors.emplace(name, tensor);
  return Status();
}

// What stands between pooling and the division by the length: products without biases, which keep their names.
Status takeDense(Checkpoint &checkpoint, ModelConfig &config, Checkpoint &out) {
  if (!config.pooling)
    return Status();
  int64_t width = config.hiddenSize;
  for (std::string name : {"dense_2", "dense_3"}) {
    auto found = checkpoint.tensors.extract(name + ".weight");
    if (!found)
      continue;
    const TensorInfo &tensor = found.mapped();
    bool isWeight = tensorTypeInfo(tensor.type).blockValues > 1 || tensor.type == TensorType::F32 ||
                    tensor.type == TensorType::F16 || tensor.type == TensorType::BF16;
    if (tensor.shape.size() != 2 || tensor.shape[1] != width || !isWeight)
      return errorIn(checkpoint.files[tensor.file]->path(),
                     "tensor " + found.key() + " is " + tensorTypeInfo(tensor.type).name + " " +
                         shapeText(tensor.shape) + ", expected weights of " + std::to_string(width) +
                         " columns, the width of what stands before it")
          .ofTensor(found.key());
    PoolingConfig::Dense dense;
    dense.name = name;
    dense.in = width;
    dense.out = width = tensor.shape[0];
    config.pooling->dense.push_back(dense);
    out.tensors.insert(std::move(found));
  }
  return Status();
}

} // namespace

std::string wholeName(const std::string &name) {
  size_t part = 0;
  const WholeTensor *whole = wholeOf(name, part);
  std::string result = whole ? name : "";
  return whole ? result.replace(name.find(whole->parts[part]), strlen(whole->parts[part]), whole->whole) : result;
}

Expected<Model> readGguf(ModelFiles &files, const FamilyList &families, DecoderUse use) {
  Expected<GgufFile> file = GgufFile::open(files);
  if (!file)
    return file.status();
  Expected<ModelConfig> config = readGgufConfig(*file, families, use);
  if (!config)
    return config.status();
  Model model{std::move(*config), {}, files.model(), nullptr};
  HEDDLE_RETURN_IF_ERROR(TensorRenamer(*file, model.config).rename(model.checkpoint));
  HEDDLE_RETURN_IF_ERROR(convertNvfp4(*file, model));
  Checkpoint dense;
  HEDDLE_RETURN_IF_ERROR(takeDense(model.checkpoint, model.config, dense));
  HEDDLE_RETURN_IF_ERROR(validate(model, file->path()));
  if (model.config.family->addTensors)
    HEDDLE_RETURN_IF_ERROR(model.config.family->addTensors(model).inFile(file->path()));
  model.checkpoint.tensors.merge(dense.tensors);
  return model;
}

} // namespace heddle
