// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The format names parts, not families: one table serves every tower. A name of a rule is a stem and an ending; the stem tells the part.
#include "frontends/mmproj/ClipTensors.h"

#include "bytes/Status.h"
#include "frontends/UnnamedFile.h"

#include <algorithm>
#include <cstring>
#include <set>

namespace heddle {

namespace {

constexpr ClipName outerNames[] = {
    {"v.patch_embd", "vision_model.embeddings.patch_embedding"},
    {"v.patch_embd", "vision.embeddings.patch_embeddings.projection"},
    {"v.patch_embd", "visual.patch_embed.proj"},
    {"v.patch_embd", "pixtral.patch_conv"},
    {"v.position_embd", "vision_model.embeddings.position_embedding"},
    {"v.position_embd", "vision.embeddings.position_embeddings"},
    {"v.position_embd", "visual.pos_embed"},
    {"v.class_embd", "vision_model.embeddings.class_embedding"},
    {"v.class_embd", "vision.embeddings.cls_token"},
    {"v.pre_ln", "vision_model.pre_layrnorm"},
    {"v.pre_ln", "pixtral.ln_pre"},
    {"v.post_ln", "vision_model.post_layernorm"},
    {"v.post_ln", "vision.layernorm"},
    {"v.post_ln", "visual.merger.ln_q"},
    {"v.post_ln", "visual.merger.norm"},
    {"v.deepstack.@.norm", "visual.deepstack_merger_list.@.norm"},
    {"v.deepstack.@.fc1", "visual.deepstack_merger_list.@.linear_fc1"},
    {"v.deepstack.@.fc2", "visual.deepstack_merger_list.@.linear_fc2"},
    {"mm.0", "visual.merger.mlp.0"},
    {"mm.0", "visual.merger.linear_fc1"},
    {"mm.2", "visual.merger.mlp.2"},
    {"mm.2", "visual.merger.linear_fc2"},
    {"mm.1", "multi_modal_projector.linear_1"},
    {"mm.2", "multi_modal_projector.linear_2"},
    {"mm.input_norm", "multi_modal_projector.norm"},
    {"mm.patch_merger", "multi_modal_projector.patch_merger.merging_layer"},
    {"mm.input_projection", "multi_modal_projector.mm_input_projection"},
    {"mm.soft_emb_norm", "multi_modal_projector.mm_soft_emb_norm"},
    {"mm.model.fc", "connector.modality_projection.proj"},
    {"model.image_newline", "image_newline"},
};
// Behind the number of a layer.
constexpr ClipName layerNames[] = {
    {"attn_qkv", "attn.qkv"},
    {"attn_q", "self_attn.q_proj"},
    {"attn_q", "attention.q_proj"},
    {"attn_k", "self_attn.k_proj"},
    {"attn_k", "attention.k_proj"},
    {"attn_v", "self_attn.v_proj"},
    {"attn_v", "attention.v_proj"},
    {"attn_q_norm", "attention.q_norm"},
    {"attn_k_norm", "attention.k_norm"},
    {"attn_out", "self_attn.out_proj"},
    {"attn_out", "attention.o_proj"},
    {"attn_out", "attention.projection_layer"},
    {"attn_out", "attn.proj"},
    {"ln1", "layer_norm1"},
    {"ln1", "layernorm_before"},
    {"ln1", "attention_norm"},
    {"ln1", "norm1"},
    {"ln2", "layer_norm2"},
    {"ln2", "layernorm_after"},
    {"ln2", "ffn_norm"},
    {"ln2", "norm2"},
    {"ffn_up", "mlp.fc1"},
    {"ffn_up", "mlp.linear_fc1"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_up", "feed_forward.up_proj"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_gate", "feed_forward.gate_proj"},
    {"ffn_down", "mlp.fc2"},
    {"ffn_down", "mlp.linear_fc2"},
    {"ffn_down", "mlp.down_proj"},
    {"ffn_down", "feed_forward.down_proj"},
    {"ls1", "lambda_1"},
    {"ls2", "lambda_2"},
};

// A copy, for who has it in the decoder's file as well: Pixtral's token between rows of patches.
constexpr std::string_view unreadTensors[] = {"v.token_embd.img_break"};

class TensorTaker {
public:
  TensorTaker(const GgufFile &file, const Projector &projector, const ModelConfig &tower)
      : file(file), projector(projector), tower(tower), made(file.path()) {}
  Expected<Checkpoint> take();

private:
  const TensorInfo *find(const std::string &name) const { return file.tensors().find(name); }
  std::string nameOf(std::string rule) const;
  std::string swapped(const std::string &name) const;
  Status takeOne(const TensorRule &rule, int64_t layer, int64_t part);
  Status addRows(const std::vector<const uint8_t *> &rows, uint64_t rowBytes, TensorInfo tensor,
                 const std::string &name);
  Status join(const std::vector<std::string> &parts, const std::string &name);
  Status joinFrames(const std::string &first, const std::string &second, const std::string &name);
  Status turn(const std::string &from, const std::string &name);
  Status lessOne(const std::string &from, const std::string &name);
  Status missing(const std::string &name) const {
    return errorIn(file.path(), "tensor " + name + " is missing").ofTensor(name);
  }

  const GgufFile &file;
  const Projector &projector;
  const ModelConfig &tower;
  UnnamedFile made;
  bool makes = false;
  std::set<std::string> used;
  Checkpoint out;
};

// The name in the file of what a rule calls `rule`, whose '@' is the number of a layer that gives rows of its own; empty where there is none.
std::string TensorTaker::nameOf(std::string rule) const {
  std::string ending;
  for (const char *known : {".weight", ".bias", "_weight"})
    if (size_t length = strlen(known); rule.size() > length && rule.compare(rule.size() - length, length, known) == 0) {
      ending = std::string(".") + (known + 1);
      rule.resize(rule.size() - length);
    }
  size_t layer = rule.find("%.");
  bool isOfLayer = layer != rule.npos;
  std::string stem = isOfLayer ? rule.substr(layer + 2) : rule;
  for (const Listing<ClipName> &list : {isOfLayer ? Listing<ClipName>() : projector.names,
                                        isOfLayer ? Listing<ClipName>(layerNames) : Listing<ClipName>(outerNames)})
    for (const ClipName &entry : list)
      if (stem == entry.rule)
        return (isOfLayer ? "v.blk.%." : "") + std::string(entry.gguf) + ending;
  return "";
}

// Older files have the two matrices of a feed-forward block under each other's name, which their shapes show.
std::string TensorTaker::swapped(const std::string &name) const {
  size_t up = name.find(".ffn_up."), down = name.find(".ffn_down.");
  if (up == name.npos && down == name.npos)
    return name;
  size_t at = up != name.npos ? up : down;
  std::string block = name.substr(0, at), ending = name.substr(name.rfind('.'));
  const TensorInfo *wide = find(block + ".ffn_down.weight");
  bool isSwapped = wide && wide->shape.size() == 2 && wide->shape[1] == tower.encoder.hiddenSize &&
                   wide->shape[0] == tower.encoder.intermediateSize && wide->shape[0] != wide->shape[1];
  return isSwapped ? block + (up != name.npos ? ".ffn_down" : ".ffn_up") + ending : name;
}

// `rows` one behind the other, as a tensor of the file without a name.
Status TensorTaker::addRows(const std::vector<const uint8_t *> &rows, uint64_t rowBytes, TensorInfo tensor,
                            const std::string &name) {
  auto fill = [&](int64_t first, int64_t last, uint8_t *to) {
    for (int64_t row = first; row < last; ++row)
      memcpy(to + uint64_t(row - first) * rowBytes, rows[size_t(row)], rowBytes);
  };
  HEDDLE_RETURN_IF_ERROR(made.add(int64_t(rows.size()), int64_t(rowBytes), rowBytes, fill, tensor.offset));
  tensor.bytes = rows.size() * rowBytes;
  tensor.file = static_cast<uint32_t>(file.tensors().files.size()); // that the file is going to have
  out.tensors.emplace(name, std::move(tensor));
  makes = true;
  return Status();
}

Status TensorTaker::join(const std::vector<std::string> &parts, const std::string &name) {
  std::vector<const uint8_t *> rows;
  TensorInfo whole = {};
  uint64_t rowBytes = 0;
  for (const std::string &part : parts) {
    const TensorInfo *tensor = find(part);
    if (!tensor)
      return missing(part);
    used.insert(part);
    if (tensor->shape.empty() || tensor->bytes == 0)
      return errorIn(file.path(), "tensor " + part + " is empty").ofTensor(part);
    if (rows.empty())
      whole = *tensor, whole.shape[0] = 0, rowBytes = tensor->bytes / uint64_t(tensor->shape[0]);
    bool isAlike = tensor->type == whole.type && tensor->bytes / uint64_t(tensor->shape[0]) == rowBytes &&
                   tensor->shape.size() == whole.shape.size();
    if (!isAlike)
      return errorIn(file.path(), "tensor " + part + " is " + tensorTypeInfo(tensor->type).name + " " +
                                      shapeText(tensor->shape) + ", expected rows like those of " + parts.front())
          .ofTensor(part);
    for (int64_t row = 0; row < tensor->shape[0]; ++row)
      rows.push_back(file.tensors().data(*tensor) + uint64_t(row) * rowBytes);
    whole.shape[0] += tensor->shape[0];
  }
  whole.storedAs = parts.front();
  return addRows(rows, rowBytes, std::move(whole), name);
}

// Kernels of two frames, (out, channels, side, side) each, as one (out, channels, 2, side, side).
Status TensorTaker::joinFrames(const std::string &first, const std::string &second, const std::string &name) {
  const TensorInfo *frames[] = {find(first), find(second)};
  for (size_t i = 0; i < 2; ++i)
    if (!frames[i])
      return missing(i ? second : first);
  used.insert({first, second});
  TensorInfo whole = *frames[0];
  uint64_t planes = whole.shape.size() == 4 ? uint64_t(whole.shape[0] * whole.shape[1]) : 0;
  bool isAlike = frames[1]->shape == whole.shape && frames[1]->type == whole.type &&
                 tensorTypeInfo(whole.type).blockValues == 1 && whole.bytes > 0;
  if (planes == 0 || !isAlike)
    return errorIn(file.path(), "tensors " + first + " and " + second + " have shapes " + shapeText(whole.shape) +
                                    " and " + shapeText(frames[1]->shape) +
                                    ", expected two (out, channels, side, side) of one plain type")
        .ofTensor(second);
  uint64_t planeBytes = whole.bytes / planes;
  std::vector<const uint8_t *> rows;
  rows.reserve(2 * planes);
  for (uint64_t plane = 0; plane < planes; ++plane)
    for (const TensorInfo *frame : frames)
      rows.push_back(file.tensors().data(*frame) + plane * planeBytes);
  whole.shape.insert(whole.shape.begin() + 2, 2);
  whole.storedAs = first;
  return addRows(rows, planeBytes, std::move(whole), name);
}

// Rows of heads (dim / 2, 2) as (2, dim / 2).
Status TensorTaker::turn(const std::string &from, const std::string &name) {
  const TensorInfo *tensor = find(from);
  if (!tensor)
    return missing(from);
  used.insert(from);
  int64_t heads = tower.numHeads, dim = tower.headDim, all = tensor->shape.empty() ? 0 : tensor->shape[0];
  TensorInfo turned = *tensor;
  turned.storedAs = from;
  if (all != heads * dim || dim % 2) { // which is refused later
    out.tensors.emplace(name, std::move(turned));
    return Status();
  }
  uint64_t rowBytes = tensor->bytes / uint64_t(all);
  std::vector<const uint8_t *> rows;
  rows.reserve(size_t(all));
  for (int64_t head = 0; head < heads; ++head)
    for (int64_t part = 0; part < 2; ++part)
      for (int64_t i = 0; i < dim / 2; ++i)
        rows.push_back(file.tensors().data(*tensor) + uint64_t(head * dim + 2 * i + part) * rowBytes);
  return addRows(rows, rowBytes, std::move(turned), name);
}

// Numbers less one, as f32.
Status TensorTaker::lessOne(const std::string &from, const std::string &name) {
  const TensorInfo *tensor = find(from);
  if (!tensor)
    return missing(from);
  used.insert(from);
  if (tensorTypeInfo(tensor->type).blockValues > 1 || tensor->shape.size() != 1 || tensor->bytes == 0)
    return errorIn(file.path(), "tensor " + from + " is " + tensorTypeInfo(tensor->type).name + " " +
                                    shapeText(tensor->shape) + ", expected a vector of a plain type")
        .ofTensor(from);
  std::vector<float> numbers(size_t(tensor->shape[0]));
  dequantize(tensor->type, file.tensors().data(*tensor), numbers.size(), numbers.data());
  for (float &number : numbers)
    number -= 1.0F;
  TensorInfo less = *tensor;
  less.type = TensorType::F32;
  less.storedAs = from;
  return addRows({reinterpret_cast<const uint8_t *>(numbers.data())}, numbers.size() * sizeof(float), std::move(less),
                 name);
}

Status TensorTaker::takeOne(const TensorRule &rule, int64_t layer, int64_t part) {
  std::string own = tensorName(rule.name, layer, part), pattern = nameOf(rule.name);
  if (pattern.empty())
    return errorIn(file.path(), "has no name for what " + std::string(tower.family->modelType) + " calls " + own)
        .as(StatusCode::Unsupported);
  if (part < int64_t(tower.seen.deepLayers.size()))
    part = tower.seen.deepLayers[size_t(part)];
  std::string name = swapped(tensorName(pattern.c_str(), layer, part));
  if (!find(name) && find(name + ".weight"))
    name += ".weight";
  bool isHeads = name.find(".attn_q.") != name.npos || name.find(".attn_k.") != name.npos;
  if (projector.permutes && isHeads)
    return turn(name, own);
  if (projector.plusOne && name == projector.plusOne)
    return lessOne(name, own);
  if (size_t at = name.find(".attn_qkv."); at != name.npos && !find(name)) {
    std::string block = name.substr(0, at), ending = name.substr(name.rfind('.'));
    return join({block + ".attn_q" + ending, block + ".attn_k" + ending, block + ".attn_v" + ending}, own);
  }
  if (tower.image.frames == 2 && name == "v.patch_embd.weight")
    return joinFrames(name, name + ".1", own);
  const TensorInfo *tensor = find(name);
  if (!tensor)
    return missing(name);
  used.insert(name);
  if (rule.order == StoredOrder::Conv1d && tensorTypeInfo(tensor->type).blockValues > 1)
    return errorIn(file.path(), "tensor " + name + " is " + tensorTypeInfo(tensor->type).name +
                                    ", expected f32, f16 or bf16: it is stored as (in, out)")
        .as(StatusCode::Unsupported)
        .ofTensor(name);
  TensorInfo renamed = *tensor;
  renamed.storedAs = name;
  out.tensors.emplace(own, std::move(renamed));
  return Status();
}

Expected<Checkpoint> TensorTaker::take() {
  HEDDLE_RETURN_IF_ERROR(forEachTensor(
      tower, [&](const TensorRule &rule, int64_t layer, int64_t part) { return takeOne(rule, layer, part); }));
  out.files = file.tensors().files;
  if (makes)
    HEDDLE_RETURN_IF_ERROR(made.addTo(out));
  for (const auto &[name, tensor] : file.tensors().tensors)
    if (!used.count(name) &&
        std::find(std::begin(unreadTensors), std::end(unreadTensors), name) == std::end(unreadTensors))
      out.tensors.emplace(name, tensor);
  return out;
}

} // namespace

Expected<Checkpoint> takeClipTensors(const GgufFile &file, const Projector &projector, const ModelConfig &tower) {
  return TensorTaker(file, projector, tower).take();
}

} // namespace heddle
