// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/peft/ModelTensors.h"

#include "frontends/huggingface/HuggingFace.h"

namespace heddle {

void ModelTensors::list() {
  ruled.clear();
  Status listed = forEachTensor(model.config, [&](const TensorRule &rule, int64_t layer, int64_t expert) -> Status {
    ruled.emplace(tensorName(rule.name, layer, expert), RuledTensor{&rule, layer});
    return Status();
  });
  assert(listed.isOk());
}

std::string ModelTensors::find(const std::string &module, const char *part) const {
  for (const std::string &name : canonicalNames(*model.config.family, module + part))
    if (ruled.count(name) && model.checkpoint.find(name))
      return name;
  return "";
}

bool ModelTensors::isNamed(const std::string &module, const char *tensor) const {
  for (const std::string &candidate : canonicalNames(*model.config.family, module + ".weight"))
    if (candidate == tensor)
      return true;
  return false;
}

// GGUF's writer permutes rows of q and k so that pairs rotate instead of halves, and orders those of fused q, k and v by part instead of by
// head.
std::vector<int64_t> ModelTensors::rowOrder(const TensorInfo &tensor, const RuledTensor &of) const {
  const ModelConfig &config = model.config;
  std::vector<int64_t> order;
  if (config.source != "gguf" || !of.rule->gguf)
    return order;
  int64_t dim = config.headDim;
  if (RowOrder other = rowOrderOf(*of.rule); other != RowOrder::ByPart && tensor.rowOrder == RowOrder::ByPart) {
    for (auto [begin, rows] : rowRuns(other, config))
      for (int64_t row = 0; row < rows; ++row)
        order.push_back(begin + row);
    return order;
  }
  std::string_view name = of.rule->gguf;
  bool isRotated = name.find(".attn_q.") != std::string_view::npos || name.find(".attn_k.") != std::string_view::npos;
  std::vector<int64_t> ofHead = headOrder();
  for (int64_t row = 0; isRotated && !ofHead.empty() && row < tensor.shape[0]; ++row)
    order.push_back(row - row % dim + ofHead[static_cast<size_t>(row % dim)]);
  return order;
}

std::vector<int64_t> ModelTensors::headOrder() const {
  const ModelConfig &config = model.config;
  const RopeRules &rope = config.family->rope;
  std::vector<int64_t> order;
  bool isPermuted = config.source == "gguf" && rope.interleavedInGguf && !rope.interleaved && !config.latent.enabled;
  for (int64_t column = 0; isPermuted && column < config.headDim; ++column)
    order.push_back((column % 2) * (config.headDim / 2) + column / 2);
  return order;
}

Status ModelTensors::checkOrder(const Adapter &adapter, const std::string &module, const std::string &tensor) const {
  const RecurrentConfig &state = model.config.recurrent;
  auto found = ruled.find(tensor);
  if (!state.isTiled || state.numKeyHeads == state.numValueHeads || found == ruled.end())
    return Status();
  for (ConfigDim dim : {found->second.rule->rows, found->second.rule->columns})
    if (dim == ConfigDim::StateHeads || dim == ConfigDim::StateValues || dim == ConfigDim::StateChannels)
      return errorIn(adapter.file, "module '" + printable(module) +
                                       "' is not supported over a GGUF file, which has value heads in another order: "
                                       "use the Hugging Face folder")
          .ofTensor(tensor)
          .as(StatusCode::Unsupported);
  return Status();
}

Status ModelTensors::checkFit(const Adapter &adapter, const std::string &module, const AdaptedModule &adapted,
                              const std::string &name, const TensorInfo &tensor) const {
  auto refused = [&](const std::string &why) {
    return errorIn(adapter.file, "module '" + printable(module) + "' " + why).ofTensor(name);
  };
  if (tensor.shape.size() != 2)
    return refused("is no matrix in the model, but has shape " + shapeText(tensor.shape));
  int64_t out = tensor.shape[adapted.isEmbedding ? 1 : 0], in = tensor.shape[adapted.isEmbedding ? 0 : 1];
  if (adapted.a->shape[1] == in && adapted.b->shape[0] == out)
    return Status();
  return refused("has lora_A of shape " + shapeText(adapted.a->shape) + " and lora_B of shape " +
                 shapeText(adapted.b->shape) + ", which do not fit " + name + " of shape " + shapeText(tensor.shape) +
                 ": the adapter is of another base");
}

std::vector<float> numbersOf(const Checkpoint &checkpoint, const TensorInfo &tensor) {
  size_t count = tensor.bytes / tensorTypeInfo(tensor.type).blockBytes;
  std::vector<float> numbers(count);
  dequantizeRows(tensor.type, checkpoint.data(tensor), 1, count, 0, numbers.data());
  return numbers;
}

} // namespace heddle
