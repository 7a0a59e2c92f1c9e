// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/peft/VirtualTokens.h"

#include "frontends/Family.h"

#include <algorithm>

namespace heddle {

static int64_t keyWidth(const ModelConfig &config) {
  return config.numKvHeads * config.headDim;
}

Status VirtualTokens::add(const Adapter &adapter, double scale, const Model &model, const ModelTensors &tensors) {
  const ModelConfig &config = model.config;
  int64_t count = adapter.config.numVirtualTokens;
  perAdapter.push_back(adapter.prompt ? count : 0);
  if (!adapter.prompt)
    return Status();
  auto refused = [&](const std::string &why) { return errorIn(adapter.file, why); };
  if (scale != 1)
    return refused("has virtual tokens, which are not scaled: expected --adapter=NAME=DIR");
  bool isPrefix = adapter.config.kind == AdapterKind::Prefix;
  if (isPrefix && config.latent.enabled)
    return refused("is prefix tuning, which is not supported over a cache of latents").as(StatusCode::Unsupported);
  for (int64_t layer = 0; isPrefix && layer < config.numHiddenLayers; ++layer)
    if (config.isRecurrent(layer))
      return refused("is prefix tuning, which is not supported where layers keep a state").as(StatusCode::Unsupported);
  if (isPrefix && !config.layerShapes.empty())
    return refused("is prefix tuning, which is not supported where layers differ in heads of keys")
        .as(StatusCode::Unsupported);
  if (isPrefix && config.valueDim)
    return refused("is prefix tuning, which is not supported where values are not as wide as keys")
        .as(StatusCode::Unsupported);
  for (size_t layer = 0; isPrefix && layer < config.keyLayers.size(); ++layer)
    if (config.keyLayers[layer] != static_cast<int64_t>(layer))
      return refused("is prefix tuning, which is not supported where layers attend to keys of earlier ones")
          .as(StatusCode::Unsupported);
  int64_t width = isPrefix ? config.numHiddenLayers * 2 * keyWidth(config)
                           : model.checkpoint.find(config.family->embedding)->shape[1];
  if (adapter.prompt->shape[1] != width)
    return refused("tensor 'prompt_embeddings' has " + std::to_string(adapter.prompt->shape[1]) +
                   " numbers for a token, expected " + std::to_string(width) +
                   (isPrefix ? ", keys and values of all layers" : ", as embeddings have") +
                   ": the adapter is of another base");
  if (int64_t heads = adapter.config.numHeads; isPrefix && heads && heads != config.numKvHeads)
    return refused("adapter_config.json: num_attention_heads is " + std::to_string(heads) + ", the model has " +
                   std::to_string(config.numKvHeads) + " heads of keys: the adapter is of another base");
  Prompt prompt{total, count, isPrefix, numbersOf(adapter.tensors, *adapter.prompt)};
  if (!isPrefix && config.family->scalesInputs)
    for (float &number : prompt.numbers)
      number = static_cast<float>(number * config.embeddingScale);
  std::vector<int64_t> order = isPrefix ? tensors.headOrder() : std::vector<int64_t>();
  std::vector<float> head(order.size());
  // Keys of every other run of num_kv_heads heads: values are in the order that they have.
  for (size_t at = 0; at < prompt.numbers.size() && !order.empty(); at += order.size()) {
    if (at / static_cast<size_t>(keyWidth(config)) % 2)
      continue;
    std::copy_n(prompt.numbers.begin() + static_cast<ptrdiff_t>(at), head.size(), head.begin());
    for (size_t i = 0; i < order.size(); ++i)
      prompt.numbers[at + i] = head[static_cast<size_t>(order[i])];
  }
  prompts.push_back(std::move(prompt));
  total += count;
  return Status();
}

const VirtualTokens::Prompt *VirtualTokens::find(int64_t token) const {
  for (const Prompt &prompt : prompts)
    if (token >= prompt.first && token < prompt.first + prompt.count)
      return &prompt;
  return nullptr;
}

Status VirtualTokens::write(const Model &model, const WriteTable &write) const {
  const ModelConfig &config = model.config;
  int64_t before = 1 + static_cast<int64_t>(perAdapter.size()), rows = before + total;
  // Part `part` of what each prompt of one kind has, and what is kept of the others.
  auto writeOwn = [&](const std::string &name, bool ofPrefixes, int64_t width, int64_t part) {
    return write(name, rows, width, [&, ofPrefixes, width, part](int64_t row, float *out) {
      const Prompt *prompt = find(row - before);
      std::fill_n(out, width, 0.0f);
      if (!prompt || prompt->isPrefix != ofPrefixes)
        return;
      int64_t all = static_cast<int64_t>(prompt->numbers.size()) / prompt->count;
      std::copy_n(prompt->numbers.data() + (row - before - prompt->first) * all + part * width, width, out);
    });
  };
  auto writeKeep = [&](const std::string &name, bool ofPrefixes, int64_t width) {
    return write(name, rows, width, [&, ofPrefixes, width](int64_t row, float *out) {
      const Prompt *prompt = find(row - before);
      std::fill_n(out, width, prompt && prompt->isPrefix == ofPrefixes ? 0.0f : 1.0f);
    });
  };
  auto isThere = [&](bool ofPrefixes) {
    return std::any_of(prompts.begin(), prompts.end(),
                       [&](const Prompt &prompt) { return prompt.isPrefix == ofPrefixes; });
  };
  if (isThere(false)) {
    int64_t width = model.checkpoint.find(config.family->embedding)->shape[1];
    HEDDLE_RETURN_IF_ERROR(writeOwn(virtualEmbeddings, false, width, 0));
    HEDDLE_RETURN_IF_ERROR(writeKeep(virtualEmbeddingsKeep, false, width));
  }
  if (!isThere(true))
    return Status();
  HEDDLE_RETURN_IF_ERROR(writeKeep(virtualKeep, true, keyWidth(config)));
  for (int64_t layer = 0; layer < config.numHiddenLayers; ++layer) {
    std::string index = std::to_string(layer);
    HEDDLE_RETURN_IF_ERROR(writeOwn(virtualKeys + index, true, keyWidth(config), 2 * layer));
    HEDDLE_RETURN_IF_ERROR(writeOwn(virtualValues + index, true, keyWidth(config), 2 * layer + 1));
  }
  return Status();
}

} // namespace heddle
