// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Llama (Touvron et al. 2023, arXiv:2302.13971): the decoder that most others are a variant of. Checkpoints may have biases in attention
// and in the feed-forward block. In GGUF, "llama" without experts may also be a mistral with a window. InternLM3 (2025): Llama whose files call the flags of biases
// otherwise. IQuest-Coder (2026): Llama with other defaults. CWM (FAIR 2025, arXiv:2510.02387): Llama whose layers see a window, but for the first of four.

#include "frontends/families/Decoder.h"
#include "frontends/families/Families.h"
#include "frontends/huggingface/Config.h"

namespace heddle {

static constexpr Family describeLlama() {
  Family row;
  row.modelType = "llama";
  row.gguf = "llama";
  row.ggufAhead = "llama-embed";
  row.rules = {embeddingRules, attentionNormRules, attentionRules, feedForwardNormRules, feedForwardRules};
  row.defaults.vocabSize = 32000;
  row.defaults.hiddenSize = 4096, row.defaults.intermediateSize = 11008;
  row.defaults.numLayers = 32, row.defaults.numHeads = 32;
  row.biases.attentionKey = "attention_bias";
  row.biases.mlpKey = "mlp_bias";
  row.biases.mlpInGguf = true;
  row.rope.interleavedInGguf = true;
  row.build = buildPreNormDecoder;
  return row;
}
const Family family::llama = describeLlama();

static void readBiases(JsonObject &object, ModelConfig &config) {
  auto flag = [&](const char *published, const char *own) {
    return object.boolean(published).value_or(object.boolean(own).value_or(false));
  };
  config.attentionBias = config.attentionOutputBias = flag("qkv_bias", "attention_bias");
  config.mlpBias = flag("bias", "mlp_bias");
  if (config.attentionBias != config.mlpBias)
    object.unsupported("bias", "is not qkv_bias, which is not supported for " + config.architecture);
}

static constexpr Family describeInternLm3() {
  Family row = describeLlama();
  row.modelType = "internlm3";
  row.gguf = row.ggufAhead = nullptr;
  row.defaults.vocabSize = 128512;
  row.defaults.numKvHeads = 2;
  row.defaults.headDim = 128;
  row.defaults.context = 32768;
  row.defaults.normEps = 1e-5;
  row.readers.huggingFaceRest = readBiases;
  return row;
}
const Family family::internLm3 = describeInternLm3();

static constexpr Family describeIQuestCoder() {
  Family row = describeLlama();
  row.modelType = "iquestcoder";
  row.gguf = row.ggufAhead = nullptr;
  row.defaults.vocabSize = 76800;
  row.defaults.numHeads = 40;
  row.defaults.numKvHeads = 8;
  row.defaults.headDim = 128;
  row.defaults.context = 131072;
  row.defaults.normEps = 1e-5;
  return row;
}
const Family family::iQuestCoder = describeIQuestCoder();

// A config that says nothing of its rotation has that of the published model.
static void stretchRotation(JsonObject &object, ModelConfig &config) {
  if (object.has(ropeKey(object)) || config.ropes.empty())
    return;
  RopeConfig &rope = config.ropes.front();
  rope.scaling = RopeScalingKind::Llama3;
  rope.factor = 16.0;
  rope.originalContext = 8192;
}

static constexpr Family describeCwm() {
  Family row = describeLlama();
  row.modelType = "cwm";
  row.gguf = row.ggufAhead = nullptr;
  row.defaults.vocabSize = 128256;
  row.defaults.numKvHeads = 8;
  row.defaults.headDim = 128;
  row.defaults.context = 131072;
  row.defaults.normEps = 1e-5;
  row.defaults.ropeTheta = 1e6;
  row.defaults.slidingWindow = 8192;
  row.biases.attentionKey = nullptr;
  row.windows.use = WindowUse::Stated;
  row.windows.slidesAlways = row.windows.readsLayerTypes = true;
  row.windows.fullEvery = 4;
  row.windows.fullFirst = true;
  row.readers.huggingFaceRest = stretchRotation;
  return row;
}
const Family family::cwm = describeCwm();

} // namespace heddle
