// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// gpt-oss (arXiv:2508.10925): every second layer sees a window, each head of attention has a logit that takes part in its sum alone, and all
// layers have experts with biases, whose gated activation is bounded. Hugging Face stores an expert's gate and up projection as one matrix
// (in, out) whose columns are theirs in turn, or in MXFP4 as (out, in); GGUF has two. OpenAI's privacy filter (2026) is the same with windows on both
// sides, pairs (2i, 2i + 1) that rotate, and a gate's columns before those of the projection; it labels tokens.

#include "frontends/families/Bert.h"
#include "frontends/families/Decoder.h"
#include "frontends/families/Families.h"
#include "frontends/gguf/GgufModel.h"
#include "frontends/huggingface/Config.h"

#include <cmath>

namespace heddle {

static constexpr TensorRule layerRules[] = {
    {"model.layers.#.self_attn.sinks", "blk.#.attn_sinks.weight", ConfigDim::Heads},
    {"model.layers.#.post_attention_layernorm.weight", "blk.#.post_attention_norm.weight", ConfigDim::Hidden},
    {"model.layers.#.mlp.router.weight", "blk.#.ffn_gate_inp.weight", ConfigDim::Experts, ConfigDim::Hidden},
    {"model.layers.#.mlp.router.bias", "blk.#.ffn_gate_inp.bias", ConfigDim::Experts},
    {"model.layers.#.mlp.experts.@.gate_up_proj.weight", nullptr, ConfigDim::ExpertGateAndUp, ConfigDim::Hidden,
     When::FusedGates, StoredOrder::Conv1d},
    {"model.layers.#.mlp.experts.@.gate_up_proj.bias", nullptr, ConfigDim::ExpertGateAndUp, ConfigDim::None,
     When::FusedGates},
    {"model.layers.#.mlp.experts.@.gate_proj.weight", "blk.#.ffn_gate_exps.weight", ConfigDim::ExpertIntermediate,
     ConfigDim::Hidden, When::SplitGates},
    {"model.layers.#.mlp.experts.@.gate_proj.bias", "blk.#.ffn_gate_exps.bias", ConfigDim::ExpertIntermediate,
     ConfigDim::None, When::SplitGates},
    {"model.layers.#.mlp.experts.@.up_proj.weight", "blk.#.ffn_up_exps.weight", ConfigDim::ExpertIntermediate,
     ConfigDim::Hidden, When::SplitGates},
    {"model.layers.#.mlp.experts.@.up_proj.bias", "blk.#.ffn_up_exps.bias", ConfigDim::ExpertIntermediate,
     ConfigDim::None, When::SplitGates},
    {"model.layers.#.mlp.experts.@.down_proj.weight", "blk.#.ffn_down_exps.weight", ConfigDim::Hidden,
     ConfigDim::ExpertIntermediate, When::Always, StoredOrder::Conv1d},
    {"model.layers.#.mlp.experts.@.down_proj.bias", "blk.#.ffn_down_exps.bias", ConfigDim::Hidden},
};

static constexpr double swigluLimit = 7.0, swigluAlpha = 1.702;

// A config that says nothing of its rotation has that of the published models.
static void stretchRotation(JsonObject &object, ModelConfig &config) {
  if (object.has(ropeKey(object)) || config.ropes.empty())
    return;
  RopeConfig &rope = config.ropes.front();
  rope.scaling = RopeScalingKind::Yarn;
  rope.factor = 32.0;
  rope.originalContext = object.integer("original_max_position_embeddings").value_or(4096);
  rope.truncate = false;
}

static void readExperts(JsonObject &object, ModelConfig &config) {
  MoeConfig &moe = config.moe;
  stretchRotation(object, config);
  readExpertCounts(object, config, /*numExperts=*/128, /*expertsPerToken=*/4);
  moe.intermediateSize = config.intermediateSize;
  moe.normTopkProb = true; // weights are the softmax of the chosen experts' logits
  moe.layerIsMoe.assign(moe.layerIsMoe.size(), true);
  moe.gateLimit = object.number("swiglu_limit").value_or(swigluLimit);
  moe.gateAlpha = object.number("swiglu_alpha").value_or(swigluAlpha);
  moe.upOffset = 1.0;
  for (auto [key, value] : {std::pair("swiglu_limit", moe.gateLimit), {"swiglu_alpha", moe.gateAlpha}})
    if (!(value > 0.0) || !std::isfinite(value))
      object.fail(key, "is " + std::to_string(value) + ", expected a positive number");
  if (moe.intermediateSize % 16)
    object.unsupported("intermediate_size", "is " + std::to_string(moe.intermediateSize) +
                                                ", which is not supported for " + config.architecture +
                                                "; expected a multiple of 16");
}

// The format has no keys for the activation, nor for YaRN's bounds, which the published models do not round to whole dimensions.
static void readGguf(GgufKeys &, ModelConfig &config) {
  MoeConfig &moe = config.moe;
  moe.normTopkProb = true;
  moe.splitGates = true;
  moe.gateLimit = swigluLimit;
  moe.gateAlpha = swigluAlpha;
  moe.upOffset = 1.0;
  for (RopeConfig &rope : config.ropes)
    rope.truncate = false;
}

static void buildGptOss(ModelBuilder &b) {
  AttentionTerms terms;
  terms.sinks = "self_attn.sinks";
  buildDecoder(b, [&](int64_t, TensorHandle x) {
    x = b.add(x, selfAttention(b, b.rmsNorm(x, "input_layernorm"), terms));
    return b.add(x, b.moe(b.rmsNorm(x, "post_attention_layernorm"), b.config().family->experts.block));
  });
}

static constexpr KeyAlias aliases[] = {{"num_experts", "num_local_experts"}};

static constexpr Family describeGptOss() {
  Family row;
  row.modelType = "gpt_oss";
  row.gguf = "gpt-oss";
  row.rules = {embeddingRules, attentionNormRules, attentionRules, layerRules};
  row.aliases = aliases;
  row.defaults.numKvHeads = 8;
  row.defaults.headDim = 64;
  row.defaults.context = 131072;
  row.defaults.slidingWindow = 128;
  row.defaults.normEps = 1e-5;
  row.defaults.ropeTheta = 150000.0;
  row.activationKey = nullptr;
  row.biases.attentionKey = "attention_bias";
  row.biases.attentionDefault = true;
  row.windows.use = WindowUse::Stated;
  row.windows.readsLayerTypes = true;
  row.windows.fullEvery = 2;
  row.experts.router = "router";
  row.experts.gateAndUp = "gate_up_proj";
  row.readers.huggingFaceRest = readExperts;
  row.readers.ggufRest = readGguf;
  row.build = buildGptOss;
  return row;
}
const Family family::gptOss = describeGptOss();

static constexpr TensorRule labelRules[] = {HEDDLE_LINEAR_RULES("score", Labels, Hidden)};
static constexpr TensorRule outerRules[] = {
    {"model.embed_tokens.weight", nullptr, ConfigDim::Vocab, ConfigDim::Hidden},
    {"model.norm.weight", nullptr, ConfigDim::Hidden},
};
static constexpr UnreadTensor filterUnread[] = {{"score.*", /*isLoss=*/true}};

// Each token sees itself and sliding_window tokens on either side.
static void readFilter(JsonObject &object, ModelConfig &config) {
  for (int64_t &window : config.layerWindow)
    window = config.family->defaults.slidingWindow + 1;
  const char *key = "sliding_window";
  if (object.has(key))
    for (int64_t &window : config.layerWindow)
      window = object.bounded(key, object.integer(key).value_or(0), 1, 1 << 24) + 1;
  readExperts(object, config);
  for (RopeConfig &rope : config.ropes)
    rope.interleaved = true;
}

static void buildFilter(ModelBuilder &b) {
  AttentionTerms terms;
  terms.sinks = "self_attn.sinks";
  const Family &family = *b.config().family;
  TensorHandle x = decoderLayers(b, "model.layers.", b.embedTokens(family.embedding), [&](int64_t, TensorHandle x) {
    x = b.add(x, selfAttention(b, b.rmsNorm(x, "input_layernorm"), terms));
    return b.add(x, b.moe(b.rmsNorm(x, "post_attention_layernorm"), family.experts.block));
  });
  finishEncoder(b, b.rmsNorm(x, family.finalNorm), TensorHandle());
}

static void buildLabels(ModelBuilder &b, TensorHandle x, TensorHandle) {
  b.output("logits", b.linear(x, "score"));
}

static constexpr Head filterHeads[] = {
    {"OpenAIPrivacyFilterForTokenClassification", labelRules, buildLabels, HeadTask::ClassifyTokens},
};

static constexpr Family describeFilter() {
  Family row = describeGptOss();
  row.modelType = "openai_privacy_filter";
  row.gguf = nullptr;
  row.isEncoder = true;
  row.heads = filterHeads;
  row.head = "score.weight";
  row.rules[0] = outerRules;
  row.unread = filterUnread;
  row.defaults.vocabSize = 200064;
  row.defaults.numHeads = 14;
  row.defaults.numKvHeads = 2;
  row.windows = {};
  row.experts.gateThenUp = true;
  row.readers.huggingFaceRest = readFilter;
  row.readers.ggufRest = nullptr;
  row.build = buildFilter;
  return row;
}
const Family family::openAiPrivacyFilter = describeFilter();

} // namespace heddle
