// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// AFMoE (Arcee 2025, Trinity): norms before and behind each block, norms of query and key heads, attention whose heads a sigmoid of the layer's input
// multiplies, windows in three of four layers, which alone rotate; experts as DeepSeek-V3 has them.

#include "frontends/families/Decoder.h"
#include "frontends/families/Families.h"
#include "frontends/families/RoutedExperts.h"
#include "frontends/gguf/GgufModel.h"
#include "frontends/huggingface/Config.h"

#include <cmath>

namespace heddle {

static constexpr TensorRule layerRules[] = {
    {"model.layers.#.post_attention_layernorm.weight", "blk.#.post_attention_norm.weight", ConfigDim::Hidden},
    {"model.layers.#.pre_mlp_layernorm.weight", "blk.#.ffn_norm.weight", ConfigDim::Hidden},
    {"model.layers.#.post_mlp_layernorm.weight", "blk.#.post_ffw_norm.weight", ConfigDim::Hidden},
    {"model.layers.#.self_attn.gate_proj.weight", "blk.#.attn_gate.weight", ConfigDim::Queries, ConfigDim::Hidden},
    {"model.layers.#.mlp.router.gate.weight", "blk.#.ffn_gate_inp.weight", ConfigDim::Experts, ConfigDim::Hidden,
     When::Sparse},
    {"model.layers.#.mlp.expert_bias", "blk.#.exp_probs_b.bias", ConfigDim::Experts, ConfigDim::None, When::Sparse},
    {"model.layers.#.mlp.experts.@.gate_proj.weight", "blk.#.ffn_gate_exps.weight", ConfigDim::ExpertIntermediate,
     ConfigDim::Hidden, When::Sparse},
    {"model.layers.#.mlp.experts.@.up_proj.weight", "blk.#.ffn_up_exps.weight", ConfigDim::ExpertIntermediate,
     ConfigDim::Hidden, When::Sparse},
    {"model.layers.#.mlp.experts.@.down_proj.weight", "blk.#.ffn_down_exps.weight", ConfigDim::Hidden,
     ConfigDim::ExpertIntermediate, When::Sparse},
};

static constexpr KeyName keyNames[] = {
    {"num_local_experts", "num_experts"},          {"n_routed_experts", "num_experts"},
    {"n_shared_experts", "num_shared_experts"},    {"routed_scaling_factor", "route_scale"},
    {"first_k_dense_replace", "num_dense_layers"}, {"sliding_window_pattern", "global_attn_every_n_layers"}};

static void readRest(JsonObject &object, ModelConfig &config) {
  rotateInWindowsOnly(config);
  if (object.boolean("mup_enabled").value_or(false))
    config.embeddingScale = std::sqrt(double(config.hiddenSize));
  RoutedDefaults defaults;
  defaults.numExperts = 64;
  defaults.perToken = 6;
  defaults.width = 1408;
  defaults.numShared = 2;
  defaults.firstSparse = 1;
  readRoutedExperts(object, config, defaults);
  MoeConfig &moe = config.moe;
  moe.sigmoidScores = moe.hasCorrection = moe.normTopkProb = true;
}

// The format has no key for what multiplies embeddings: published models have it.
static void readGgufRest(GgufKeys &keys, ModelConfig &config) {
  refuseOtherWindowBase(keys, config);
  rotateInWindowsOnly(config);
  config.embeddingScale = std::sqrt(double(config.hiddenSize));
  readGgufSigmoidExperts(keys, config);
  config.moe.hasCorrection = true;
}

static void buildAfmoe(ModelBuilder &b) {
  buildDecoder(b, [&](int64_t layer, TensorHandle x) {
    TensorHandle normed = b.rmsNorm(x, "input_layernorm");
    TensorHandle attended = selfAttention(b, normed, {}, [&](TensorHandle heads) {
      return b.multiply(heads, b.sigmoid(b.linear(normed, "self_attn.gate_proj")));
    });
    x = b.add(x, b.rmsNorm(attended, "post_attention_layernorm"));
    TensorHandle fed = layerFeedForward(b, layer, b.rmsNorm(x, "pre_mlp_layernorm"));
    return b.add(x, b.rmsNorm(fed, "post_mlp_layernorm"));
  });
}

static constexpr Family describeAfmoe() {
  Family row;
  row.modelType = "afmoe";
  row.gguf = "afmoe";
  row.hasExperts = true;
  row.rules = {embeddingRules,   attentionNormRules, attentionRules,   queryKeyNormRules,
               feedForwardRules, layerRules,         sharedExpertRules};
  row.keyNames = keyNames;
  row.scalesInputs = true;
  row.defaults.headDim = 128;
  row.defaults.context = 16384;
  row.defaults.normEps = 1e-5;
  row.defaults.slidingWindow = 1024;
  row.biases.attentionKey = "attention_bias";
  row.windows.use = WindowUse::Stated;
  row.windows.slidesAlways = row.windows.readsLayerTypes = true;
  row.windows.fullEvery = 4;
  row.windows.statesFullEvery = true;
  row.experts.router = "router.gate";
  row.experts.correction = "expert_bias";
  row.readers.huggingFaceRest = readRest;
  row.readers.ggufRest = readGgufRest;
  row.build = buildAfmoe;
  return row;
}
const Family family::afmoe = describeAfmoe();

} // namespace heddle
