// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "frontends/families/AdaptedLayers.h"

namespace heddle {

static constexpr AdaptedLayers bertLayers(const char *modelType, const char *layer) {
  return {modelType, layer, "attention.output.dense", "attention.output", "output.dense", "output", true};
}
static constexpr AdaptedLayers llamaLayers(const char *modelType) {
  return {modelType, "model.layers.#.", "self_attn.o_proj", "attention_adapters", "mlp.down_proj", "output_adapters",
          false};
}
static constexpr AdaptedLayers bartEncoder(const char *modelType, bool normsBehind) {
  return {modelType, "model.encoder.layers.%.", "self_attn.out_proj", "attention_adapters",
          "fc2",     "output_adapters",         normsBehind};
}
static constexpr AdaptedLayers bartDecoder(const char *modelType, bool normsBehind) {
  AdaptedLayers layers = bartEncoder(modelType, normsBehind);
  layers.layer = "model.decoder.layers.#.";
  layers.cross = "encoder_attn.out_proj";
  layers.crossModule = "cross_attention_adapters";
  return layers;
}

// Stacks of one model stand together, its encoder first.
static constexpr AdaptedLayers adaptedLayers[] = {
    bartEncoder("bart", true),
    bartDecoder("bart", true),
    bertLayers("bert", "bert.encoder.layer.#."),
    bertLayers("deberta-v2", "deberta.encoder.layer.#."),
    bertLayers("electra", "electra.encoder.layer.#."),
    bertLayers("roberta", "roberta.encoder.layer.#."),
    bertLayers("xlm-roberta", "roberta.encoder.layer.#."),
    {"distilbert", "distilbert.transformer.layer.#.", "attention.out_lin", "attention_adapters", "ffn.lin2",
     "output_adapters", true},
    {"gpt2", "transformer.h.#.", "attn.c_proj", "attention_adapters", "mlp.c_proj", "output_adapters", false},
    {"gptj", "transformer.h.#.", "attn.out_proj", "attention_adapters", "mlp.fc_out", "output_adapters", false},
    llamaLayers("llama"),
    bartEncoder("mbart", false),
    bartDecoder("mbart", false),
    llamaLayers("mistral"),
    {"t5", "encoder.block.%.", "layer.0.SelfAttention.o", "layer.0", "layer.1.DenseReluDense.wo", "layer.1", false},
    {"t5", "decoder.block.#.", "layer.0.SelfAttention.o", "layer.0", "layer.2.DenseReluDense.wo", "layer.2", false,
     "layer.1.EncDecAttention.o", "layer.1"},
    {"vit", "vit.encoder.layer.#.", "attention.output.dense", "attention_adapters", "output.dense",
     "output.output_adapters", false},
};

std::vector<AdaptedLayers> adaptedLayersOf(std::string_view modelType) {
  std::vector<AdaptedLayers> stacks;
  for (const AdaptedLayers &layers : adaptedLayers)
    if (layers.modelType == modelType)
      stacks.push_back(layers);
  return stacks;
}

std::string knownAdaptedModels() {
  std::string names;
  std::string_view last;
  for (const AdaptedLayers &layers : adaptedLayers) {
    if (layers.modelType != last)
      names += (names.empty() ? "" : ", ") + std::string(layers.modelType);
    last = layers.modelType;
  }
  return names;
}

} // namespace heddle
