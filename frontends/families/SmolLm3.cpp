// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// SmolLM3 (Hugging Face 2025): Llama in which one layer of four does not rotate, or those that no_rope_layers names by 0.

#include "frontends/families/Decoder.h"
#include "frontends/families/Families.h"
#include "frontends/gguf/GgufModel.h"
#include "frontends/huggingface/JsonObject.h"

namespace heddle {

static void stopEvery(ModelConfig &config, int64_t interval) {
  for (int64_t layer = interval - 1; layer < config.numHiddenLayers; layer += interval)
    config.layerRope[layer] = noRope;
}

static void readRotation(JsonObject &object, ModelConfig &config) {
  int64_t interval = object.integer("no_rope_layer_interval").value_or(4);
  if (!object.has("no_rope_layers")) {
    if (interval < 1)
      return object.fail("no_rope_layer_interval", "is " + std::to_string(interval) + ", expected at least 1");
    return stopEvery(config, interval);
  }
  std::vector<int64_t> rotates = object.integers("no_rope_layers");
  if (rotates.size() != static_cast<size_t>(config.numHiddenLayers))
    return object.fail("no_rope_layers", "has " + std::to_string(rotates.size()) +
                                             " entries, expected num_hidden_layers (" +
                                             std::to_string(config.numHiddenLayers) + ")");
  for (size_t layer = 0; layer < rotates.size(); ++layer)
    config.layerRope[layer] = rotates[layer] ? 0 : noRope;
}

// The format has no key for it: llama.cpp knows it of the architecture.
static void readGgufRotation(GgufKeys &, ModelConfig &config) {
  stopEvery(config, 4);
}

static constexpr Family describeSmolLm3() {
  Family row;
  row.modelType = "smollm3";
  row.gguf = "smollm3";
  row.rules = {embeddingRules, attentionNormRules, attentionRules, feedForwardNormRules, feedForwardRules};
  row.defaults.numKvHeads = 4;
  row.defaults.context = 32768;
  row.defaults.ropeTheta = 2e6;
  row.defaults.tied = true;
  row.biases.attentionKey = "attention_bias";
  row.biases.mlpKey = "mlp_bias";
  row.rope.interleavedInGguf = true;
  row.readers.huggingFaceRest = readRotation;
  row.readers.ggufRest = readGgufRotation;
  row.build = buildPreNormDecoder;
  return row;
}
const Family family::smolLm3 = describeSmolLm3();

} // namespace heddle
