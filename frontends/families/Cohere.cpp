// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Command R (Cohere) and Command R7B (Cohere2): attention and feed-forward read one LayerNorm, without a bias, of the layer's input and are
// added to that input together; pairs (2i, 2i + 1) rotate; logits are scaled. Command R+ norms queries and keys, each head with a weight of
// its own. In Cohere2 three layers of four have a window, and only they rotate.

#include "frontends/families/Decoder.h"
#include "frontends/families/Families.h"
#include "frontends/gguf/GgufModel.h"
#include "frontends/huggingface/JsonObject.h"

namespace heddle {

static constexpr KeyName keyNames[] = {{"rms_norm_eps", "layer_norm_eps", "attention.layer_norm_epsilon"}};

static constexpr TensorRule headNormRules[] = {
    {"model.layers.#.self_attn.q_norm.weight", "blk.#.attn_q_norm.weight", ConfigDim::Heads, ConfigDim::HeadDim,
     When::HeadNorms},
    {"model.layers.#.self_attn.k_norm.weight", "blk.#.attn_k_norm.weight", ConfigDim::KvHeads, ConfigDim::HeadDim,
     When::HeadNorms},
};

static void readScale(JsonObject &object, ModelConfig &config) {
  config.logitScale = object.number("logit_scale").value_or(0.0625);
}

static void readGgufScale(GgufKeys &keys, ModelConfig &config) {
  config.logitScale = keys.number("logit_scale", 1.0);
}

static void readCohere(JsonObject &object, ModelConfig &config) {
  readScale(object, config);
  config.normsHeads = object.boolean("use_qk_norm").value_or(false);
}

// The format has no key for the norms.
static void readGgufCohere(GgufKeys &keys, ModelConfig &config) {
  readGgufScale(keys, config);
  config.normsHeads = keys.source().tensors().find("blk.0.attn_q_norm.weight");
}

static void readCohere2(JsonObject &object, ModelConfig &config) {
  readScale(object, config);
  rotateInWindowsOnly(config);
}

static void readGgufCohere2(GgufKeys &keys, ModelConfig &config) {
  readGgufScale(keys, config);
  rotateInWindowsOnly(config);
}

static constexpr Family describeModel(const char *modelType, const char *gguf) {
  Family row;
  row.modelType = modelType;
  row.gguf = gguf;
  row.rules = {embeddingRules, attentionNormRules, attentionRules, feedForwardRules};
  row.keyNames = keyNames;
  row.defaults.context = 8192;
  row.defaults.normEps = 1e-5;
  row.defaults.tied = true;
  row.norm = NormKind::Layer;
  row.parallelResidual = true;
  row.biases.attentionKey = "attention_bias";
  row.rope.interleaved = row.rope.interleavedInGguf = true;
  row.build = buildPreNormDecoder;
  return row;
}

static constexpr Family describeCohere() {
  Family row = describeModel("cohere", "command-r");
  row.rules[4] = headNormRules;
  row.defaults.ropeTheta = 500000.0;
  row.readers.huggingFaceRest = readCohere;
  row.readers.ggufRest = readGgufCohere;
  return row;
}
const Family family::cohere = describeCohere();

static constexpr Family describeCohere2() {
  Family row = describeModel("cohere2", "cohere2");
  row.defaults.slidingWindow = 4096;
  row.windows.use = WindowUse::Stated;
  row.windows.slidesAlways = row.windows.readsLayerTypes = true;
  row.windows.fullEvery = 4;
  row.windows.statesFullEvery = true;
  row.readers.huggingFaceRest = readCohere2;
  row.readers.ggufRest = readGgufCohere2;
  return row;
}
const Family family::cohere2 = describeCohere2();

} // namespace heddle
