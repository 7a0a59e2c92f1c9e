// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// MiniMax-Text-01 and M1 (arXiv:2501.08313): Mixtral of which most layers keep a state by lightning attention, whose heads decay by constants, in the
// place of attention. Norms stand before the blocks, and blocks are added to what they give, each part times a factor.

#include "frontends/families/Decoder.h"
#include "frontends/families/EncoderDecoder.h"
#include "frontends/families/Families.h"
#include "frontends/huggingface/Config.h"

#include <cmath>
#include <cstring>

namespace heddle {

static constexpr TensorRule stateRules[] = {
    {"model.layers.#.self_attn.qkv_proj.weight", nullptr, ConfigDim::StateChannels, ConfigDim::Hidden, When::Recurrent,
     StoredOrder::ByStatePart},
    {"model.layers.#.self_attn.output_gate.weight", nullptr, ConfigDim::StateValues, ConfigDim::Hidden,
     When::Recurrent},
    {"model.layers.#.self_attn.norm.weight", nullptr, ConfigDim::StateValues, ConfigDim::None, When::Recurrent},
    {"model.layers.#.self_attn.out_proj.weight", nullptr, ConfigDim::Hidden, ConfigDim::StateValues, When::Recurrent},
};

// What the reference computes of the rates of decay, which follow from the config.
static constexpr UnreadTensor rateTensors[] = {{"model.layers.#.self_attn.slope_rate"},
                                               {"model.layers.#.self_attn.query_decay"},
                                               {"model.layers.#.self_attn.key_decay"},
                                               {"model.layers.#.self_attn.diagonal_decay"}};

static void readStates(ModelConfig &config) {
  RecurrentConfig &state = config.recurrent;
  state.isLinear = true;
  state.hasConv = false;
  state.convWidth = 1;
  state.numKeyHeads = state.numValueHeads = config.numHeads;
  state.keyDim = state.valueDim = config.headDim;
}

static void readFactors(JsonObject &object, ModelConfig &config) {
  auto read = [&](const char *key) {
    double factor = object.number(key).value_or(1.0);
    if (!std::isfinite(factor))
      object.fail(key, "is " + std::to_string(factor) + ", expected a finite number");
    return factor;
  };
  PartScales &scales = config.partScales;
  scales.attentionResidual = read("full_attn_alpha_factor");
  scales.attentionOutput = read("full_attn_beta_factor");
  scales.stateResidual = read("linear_attn_alpha_factor");
  scales.stateOutput = read("linear_attn_beta_factor");
  scales.feedForwardResidual = read("mlp_alpha_factor");
  scales.down = read("mlp_beta_factor");
}

static void readRest(JsonObject &object, ModelConfig &config) {
  readExpertCounts(object, config, /*numExperts=*/8, /*expertsPerToken=*/2);
  config.moe.intermediateSize = config.intermediateSize;
  config.moe.layerIsMoe.assign(config.moe.layerIsMoe.size(), true);
  readStates(config);
  readFactors(object, config);
  if (std::optional<int64_t> window = object.integer("sliding_window"))
    object.unsupported("sliding_window", "is " + std::to_string(*window) + ", which is not supported for " +
                                             config.architecture + "; expected null");
}

// Twice the rate of each head, with its sign: later layers forget less.
static Status addDecays(Model &model) {
  const ModelConfig &config = model.config;
  auto heads = static_cast<double>(config.numHeads), last = static_cast<double>(config.numHiddenLayers - 1);
  for (int64_t layer = 0; layer < config.numHiddenLayers; ++layer) {
    if (!config.isRecurrent(layer))
      continue;
    std::vector<float> rates;
    for (int64_t head = 1; head <= config.numHeads; ++head)
      rates.push_back(static_cast<float>(-2.0 * std::exp2(-8.0 * static_cast<double>(head) / heads) *
                                         (1.0 - static_cast<double>(layer) / (last + 1e-5) + 1e-5)));
    HEDDLE_RETURN_IF_ERROR(
        addTensor(model, "model.layers." + std::to_string(layer) + ".self_attn.decay",
                  TensorInfo{TensorType::F32, {config.numHeads}}, "rates of decay",
                  [&](std::vector<char> &row, int64_t) { memcpy(row.data(), rates.data(), row.size()); }));
  }
  return Status();
}

// S = e^-rate S + k (x) v, read by q; normed over all heads, and gated.
static TensorHandle lightningAttention(ModelBuilder &b, TensorHandle x) {
  const RecurrentConfig &state = b.config().recurrent;
  int64_t width = state.values();
  TensorHandle all = b.activation(b.linear(x, "self_attn.qkv_proj"));
  LinearAttentionTerms terms;
  terms.keyHeads = terms.valueHeads = state.numValueHeads;
  // The sigmoid of 0 is a step of 1/2 for each head of every token.
  TensorHandle steps = b.sigmoid(b.scale(b.columns(all, 0, state.numValueHeads), 0.0));
  terms.decay = b.decay(steps, "self_attn.decay");
  TensorHandle read = b.linearAttention(b.columns(all, 0, width), b.columns(all, width, 2 * width),
                                        b.columns(all, 2 * width, 3 * width), terms);
  TensorHandle normed = b.rmsNorm(read, "self_attn.norm", 1e-6);
  return b.linear(b.multiply(b.sigmoid(b.linear(x, "self_attn.output_gate")), normed), "self_attn.out_proj");
}

static void build(ModelBuilder &b) {
  const PartScales &scales = b.config().partScales;
  auto sum = [&](TensorHandle x, double residual, TensorHandle block, double factor) {
    return b.add(b.scale(x, residual), b.scale(block, factor));
  };
  buildDecoder(b, [&](int64_t layer, TensorHandle x) {
    x = b.rmsNorm(x, "input_layernorm");
    x = b.config().isRecurrent(layer) ? sum(x, scales.stateResidual, lightningAttention(b, x), scales.stateOutput)
                                      : sum(x, scales.attentionResidual, selfAttention(b, x), scales.attentionOutput);
    x = b.rmsNorm(x, "post_attention_layernorm");
    return sum(x, scales.feedForwardResidual, layerFeedForward(b, layer, x), scales.down);
  });
}

static constexpr KeyAlias aliases[] = {{"num_experts", "num_local_experts"}};

static constexpr Family describeMiniMax() {
  Family row;
  row.modelType = "minimax";
  row.rules = {embeddingRules,       attentionNormRules,     attentionRules,
               feedForwardNormRules, blockSparseExpertRules, stateRules};
  row.unread = rateTensors;
  row.aliases = aliases;
  row.defaults.vocabSize = 32000;
  row.defaults.numHeads = 32;
  row.defaults.numKvHeads = 8;
  row.defaults.context = 131072;
  row.defaults.normEps = 1e-5;
  row.defaults.ropeTheta = 1e6;
  row.windows.readsLayerTypes = row.windows.fullFirst = true;
  row.windows.fullEvery = 2;
  row.windows.recurrentType = "linear_attention";
  row.experts = {"block_sparse_moe.", "w1", "w3", "w2"};
  row.readers.huggingFaceRest = readRest;
  row.addTensors = addDecays;
  row.build = build;
  return row;
}
const Family family::miniMax = describeMiniMax();

} // namespace heddle
