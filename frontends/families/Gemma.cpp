// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Gemma (arXiv:2403.08295): Llama whose embeddings are scaled by the root of their width, and whose norm weights are stored less 1.
// VaultGemma (arXiv:2510.15001): Gemma 2 without norms behind the blocks.
// Gemma 2 (arXiv:2408.00118) and Gemma 3 text (arXiv:2503.19786): norms before and after each block, scores and logits softcapped (2), norms of query and key heads (3), windows and rotary embeddings that alternate by layer.
// EmbeddingGemma (arXiv:2509.20354): Gemma 3 as an encoder, whose windows lie on both sides.

#include "frontends/families/Families.h"
#include "frontends/families/GemmaLayers.h"

#include <cmath>

namespace heddle {

static void readScales(JsonObject &object, ModelConfig &config) {
  config.embeddingScale = std::sqrt(static_cast<double>(config.hiddenSize));
  double scalar = object.number("query_pre_attn_scalar").value_or(256.0);
  if (!(scalar > 0.0) || !std::isfinite(scalar))
    object.fail("query_pre_attn_scalar", "is " + std::to_string(scalar) + ", expected a positive number");
  else
    config.attentionScale = 1.0 / std::sqrt(scalar);
  const ConfigDefaults &defaults = config.family->defaults;
  object.pass("attn_logit_softcapping"); // the reference's gemma3 has the key and does not apply it
  if (defaults.attentionSoftcap > 0)
    config.attentionSoftcap = readSoftcap(object, "attn_logit_softcapping", defaults.attentionSoftcap);
  config.finalSoftcap = readSoftcap(object, "final_logit_softcapping", defaults.finalSoftcap);
}

// The largest model of a generation scales scores by hidden_size / num_heads instead of head_dim, and the format has no key for it: it is
// told by its depth.
static void readGgufScales(GgufKeys &keys, ModelConfig &config, int64_t largestDepth) {
  config.embeddingScale = std::sqrt(static_cast<double>(config.hiddenSize));
  if (config.numHiddenLayers == largestDepth && !keys.has("attention.scale"))
    config.attentionScale =
        1.0 / std::sqrt(static_cast<double>(config.hiddenSize) / static_cast<double>(config.numHeads));
}

static void readGgufGemma2(GgufKeys &keys, ModelConfig &config) {
  readGgufScales(keys, config, 46);
}

// A window on both sides is sliding_window tokens wide: the token itself, and half of it on each side.
static void halveWindowsAhead(ModelConfig &config) {
  for (int64_t &window : config.layerWindow)
    window = window > 0 && config.attendsAhead ? window / 2 + 1 : window;
}

static void readGgufGemma3(GgufKeys &keys, ModelConfig &config) {
  readGgufScales(keys, config, 62);
  RopeConfig local; // never scaled
  local.theta = keys.number("rope.freq_base_swa", 10000.0);
  local.rotaryDim = config.ropes[0].rotaryDim;
  config.ropes.push_back(local);
  rotateWindowsApart(config);
  halveWindowsAhead(config);
}

static TensorHandle gemmaLayer(ModelBuilder &b, TensorHandle x) {
  TensorHandle attended = selfAttention(b, b.rmsNorm(x, "input_layernorm"));
  x = b.add(x, b.rmsNorm(attended, "post_attention_layernorm"));
  TensorHandle fed = gatedFeedForward(b, b.rmsNorm(x, "pre_feedforward_layernorm"));
  return b.add(x, b.rmsNorm(fed, "post_feedforward_layernorm"));
}

static void buildGemma(ModelBuilder &b) {
  buildDecoder(b, [&](int64_t, TensorHandle x) { return gemmaLayer(b, x); });
}

static constexpr Family describeGemma(const char *modelType, const char *gguf) {
  Family row = describeGemmaKin(modelType, gguf);
  row.defaults.slidingWindow = 4096;
  row.normWeightOffset = 1.0;
  row.readers.huggingFaceRest = readScales;
  row.build = buildGemma;
  return row;
}

// The first configs say "gelu" and mean its approximation.
static void readFirstGemma(JsonObject &object, ModelConfig &config) {
  object.pass("hidden_activation");
  config.embeddingScale = std::sqrt(static_cast<double>(config.hiddenSize));
  if (config.activation == Activation::Gelu)
    config.activation = Activation::GeluTanh;
}

static void readGgufFirstGemma(GgufKeys &, ModelConfig &config) {
  config.embeddingScale = std::sqrt(static_cast<double>(config.hiddenSize));
}

static constexpr Family describeFirstGemma() {
  Family row;
  row.modelType = "gemma";
  row.gguf = "gemma";
  row.rules = {embeddingRules, attentionNormRules, attentionRules, feedForwardNormRules, feedForwardRules};
  row.defaults.numKvHeads = 16;
  row.defaults.headDim = 256;
  row.defaults.context = 8192;
  row.defaults.activation = Activation::GeluTanh;
  row.defaults.tied = true;
  row.normWeightOffset = 1.0;
  row.biases.attentionKey = "attention_bias";
  row.readers.huggingFaceRest = readFirstGemma;
  row.readers.ggufRest = readGgufFirstGemma;
  row.build = buildPreNormDecoder;
  return row;
}
const Family family::gemma = describeFirstGemma();

static constexpr Family describeGemma2() {
  Family row = describeGemma("gemma2", "gemma2");
  row.rules = {embeddingRules, attentionNormRules, attentionRules, sandwichNormRules, feedForwardRules};
  row.defaults.context = 8192;
  row.defaults.attentionSoftcap = 50.0;
  row.defaults.finalSoftcap = 30.0;
  row.windows.fullEvery = 2;
  row.readers.ggufRest = readGgufGemma2;
  return row;
}
const Family family::gemma2 = describeGemma2();

static constexpr TensorRule blockNormRules[] = {
    {"model.layers.#.pre_feedforward_layernorm.weight", nullptr, ConfigDim::Hidden},
};

static void buildVaultGemma(ModelBuilder &b) {
  buildDecoder(b, [&](int64_t, TensorHandle x) {
    x = b.add(x, selfAttention(b, b.rmsNorm(x, "input_layernorm")));
    return b.add(x, gatedFeedForward(b, b.rmsNorm(x, "pre_feedforward_layernorm")));
  });
}

static constexpr Family describeVaultGemma() {
  Family row = describeGemma2();
  row.modelType = "vaultgemma";
  row.gguf = nullptr;
  row.rules = {embeddingRules, attentionNormRules, attentionRules, blockNormRules, feedForwardRules};
  row.readers.ggufRest = nullptr;
  row.build = buildVaultGemma;
  return row;
}
const Family family::vaultGemma = describeVaultGemma();

// With images, "gemma3" keeps this one in its text_config, and these beside it.
static constexpr UnreadTensor imageTensors[] = {
    {"vision_tower.*", /*isLoss=*/true},
    {"multi_modal_projector.*", /*isLoss=*/true},
    {"model.vision_tower.*", /*isLoss=*/true},
    {"model.multi_modal_projector.*", /*isLoss=*/true},
};

static void readGemma3(JsonObject &object, ModelConfig &config) {
  readScales(object, config);
  halveWindowsAhead(config);
}

static constexpr Family describeGemma3() {
  Family row = describeGemma("gemma3_text", "gemma3");
  row.wrapper = "gemma3";
  row.unread = imageTensors;
  row.rules = {embeddingRules,    attentionNormRules, attentionRules,
               queryKeyNormRules, sandwichNormRules,  feedForwardRules};
  row.defaults.vocabSize = 262208;
  row.defaults.numHeads = 8;
  row.defaults.context = 131072;
  row.defaults.ropeTheta = 1e6;
  row.windows.fullEvery = 6;
  row.windows.statesFullEvery = true;
  row.readers.huggingFaceRopes = readGlobalAndLocalRopes;
  row.mayAttendAhead = true;
  row.ggufAhead = "gemma-embedding";
  row.readers.huggingFaceRest = readGemma3;
  row.readers.ggufRest = readGgufGemma3;
  return row;
}
const Family family::gemma3Text = describeGemma3();

} // namespace heddle
