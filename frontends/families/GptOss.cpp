// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// gpt-oss (arXiv:2508.10925): every second layer sees a window, each head of attention has a logit that takes part in its sum alone, and all
// layers have experts with biases, whose gated activation is bounded. Hugging Face stores an expert's gate and up projection as one matrix
// (in, out) whose columns are theirs in turn.

#include "frontends/families/Decoder.h"
#include "frontends/families/Families.h"
#include "frontends/huggingface/Config.h"

#include <cmath>

namespace heddle {

static constexpr TensorRule layerRules[] = {
    {"model.layers.#.self_attn.sinks", nullptr, ConfigDim::Heads},
    {"model.layers.#.mlp.router.weight", nullptr, ConfigDim::Experts, ConfigDim::Hidden},
    {"model.layers.#.mlp.router.bias", nullptr, ConfigDim::Experts},
    {"model.layers.#.mlp.experts.@.gate_up_proj.weight", nullptr, ConfigDim::ExpertGateAndUp, ConfigDim::Hidden,
     When::Always, StoredOrder::Conv1d},
    {"model.layers.#.mlp.experts.@.gate_up_proj.bias", nullptr, ConfigDim::ExpertGateAndUp},
    {"model.layers.#.mlp.experts.@.down_proj.weight", nullptr, ConfigDim::Hidden, ConfigDim::ExpertIntermediate,
     When::Always, StoredOrder::Conv1d},
    {"model.layers.#.mlp.experts.@.down_proj.bias", nullptr, ConfigDim::Hidden},
};

static void readExperts(JsonObject &object, ModelConfig &config) {
  MoeConfig &moe = config.moe;
  readExpertCounts(object, moe, /*numExperts=*/128, /*expertsPerToken=*/4);
  moe.intermediateSize = config.intermediateSize;
  moe.normTopkProb = true; // weights are the softmax of the chosen experts' logits
  moe.layerIsMoe.assign(moe.layerIsMoe.size(), true);
  moe.gateLimit = object.number("swiglu_limit").value_or(7.0);
  moe.gateAlpha = object.number("swiglu_alpha").value_or(1.702);
  moe.upOffset = 1.0;
  for (auto [key, value] : {std::pair("swiglu_limit", moe.gateLimit), {"swiglu_alpha", moe.gateAlpha}})
    if (!(value > 0.0) || !std::isfinite(value))
      object.fail(key, "is " + std::to_string(value) + ", expected a positive number");
  if (moe.intermediateSize % 16)
    object.unsupported("intermediate_size", "is " + std::to_string(moe.intermediateSize) +
                                                ", which is not supported for " + config.architecture +
                                                "; expected a multiple of 16");
}

static void buildGptOss(ModelBuilder &b) {
  AttentionTerms terms;
  terms.sinks = "self_attn.sinks";
  buildDecoder(b, [&](int64_t, TensorHandle x) {
    x = b.add(x, selfAttention(b, b.rmsNorm(x, "input_layernorm"), terms));
    return b.add(x, b.moe(b.rmsNorm(x, "post_attention_layernorm"), b.config().family->experts.block));
  });
}

static constexpr Family describeGptOss() {
  Family row;
  row.modelType = "gpt_oss";
  row.rules = {embeddingRules, attentionNormRules, attentionRules, feedForwardNormRules, layerRules};
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
  row.build = buildGptOss;
  return row;
}
const Family family::gptOss = describeGptOss();

} // namespace heddle
