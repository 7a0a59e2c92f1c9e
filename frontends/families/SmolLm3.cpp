// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// SmolLM3 (Hugging Face 2025): Llama in which one layer of four does not rotate, or those that no_rope_layers names by 0. Where a config has
// a window and does not say whose, it is that of the layers that do not rotate.

#include "frontends/families/Decoder.h"
#include "frontends/families/Families.h"
#include "frontends/gguf/GgufModel.h"
#include "frontends/huggingface/JsonObject.h"

namespace heddle {

static void readRotation(JsonObject &object, ModelConfig &config) {
  readNoRopeLayers(object, config, /*emptyIsAbsent=*/false);
  for (size_t layer = 0; layer < config.layerWindow.size() && !object.has("layer_types"); ++layer)
    if (config.layerRope[layer] != noRope)
      config.layerWindow[layer] = 0;
}

// The format has no key for it: llama.cpp knows it of the architecture.
static void readGgufRotation(GgufKeys &, ModelConfig &config) {
  rotateButEvery(config, 4);
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
  row.windows.use = WindowUse::Switched;
  row.windows.readsLayerTypes = true;
  row.rope.interleavedInGguf = true;
  row.readers.huggingFaceRest = readRotation;
  row.readers.ggufRest = readGgufRotation;
  row.build = buildPreNormDecoder;
  return row;
}
const Family family::smolLm3 = describeSmolLm3();

} // namespace heddle
