// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Experts behind Llama's attention, of which the GGUF files alone are read: DeepSeekMoE (arXiv:2401.06066) and Ling (arXiv:2503.05139), which choose them by
// softmax beside those that every token passes; Ling and Ring 2 (2025) as DeepSeek-V3 does, with one matrix for queries, keys and values and norms of their heads; SmallThinker
// (arXiv:2507.20984), whose router reads what attention reads, before its norm, and whose windows and rotations leave out every fourth layer.

#include "frontends/families/Decoder.h"
#include "frontends/families/DeepSeek.h"
#include "frontends/families/Families.h"
#include "frontends/families/RoutedExperts.h"
#include "frontends/gguf/GgufModel.h"

namespace heddle {

static constexpr Family describeRouted(const char *name) {
  Family row;
  row.modelType = row.gguf = name;
  row.isGgufOnly = row.hasExperts = true;
  row.rules = {embeddingRules,   attentionNormRules, attentionRules,   feedForwardNormRules,
               feedForwardRules, expertRules,        sharedExpertRules};
  row.windows.inGguf = false;
  row.rope.interleavedInGguf = true;
  row.readers.ggufRest = readGgufRoutedExperts;
  row.build = buildPreNormDecoder;
  return row;
}
const Family family::deepSeekMoe = describeRouted("deepseek");
const Family family::bailingMoe = describeRouted("bailingmoe");

static constexpr TensorRule fusedRules[] = {
    {"model.layers.#.self_attn.qkv_proj.weight", "blk.#.attn_qkv.weight", ConfigDim::QueriesKeysValues,
     ConfigDim::Hidden},
    {"model.layers.#.self_attn.o_proj.weight", "blk.#.attn_output.weight", ConfigDim::Hidden, ConfigDim::Queries},
    {"model.layers.#.self_attn.q_norm.weight", "blk.#.attn_q_norm.weight", ConfigDim::HeadDim},
    {"model.layers.#.self_attn.k_norm.weight", "blk.#.attn_k_norm.weight", ConfigDim::HeadDim},
};

// Layers behind the last predict further tokens.
static constexpr UnreadTensor predictionTensors[] = {{"blk.+.*"}};

static void readBailing2(GgufKeys &keys, ModelConfig &config) {
  readGgufRoutedExperts(keys, config);
  MoeConfig &moe = config.moe;
  int64_t each = keys.integer("expert_shared_feed_forward_length", moe.intermediateSize);
  int64_t shared = keys.integer("expert_shared_count", 0);
  if (each < 1 || each > 1 << 24)
    return keys.fail(keys.full("expert_shared_feed_forward_length") + " is " + std::to_string(each) +
                     ", expected 1 to 2^24");
  if (moe.sharedIntermediateSize) // a count that was bounded
    moe.sharedIntermediateSize = each * shared;
}

static Status addGroupCorrections(Model &model) {
  return model.config.moe.numGroups > 1 ? addZeroCorrections(model) : Status();
}

static void buildBailing2(ModelBuilder &b) {
  buildDecoder(b, [&](int64_t layer, TensorHandle x) {
    x = b.add(x, fusedSelfAttention(b, b.rmsNorm(x, "input_layernorm"), "self_attn.qkv_proj", "self_attn.o_proj"));
    return b.add(x, layerFeedForward(b, layer, b.rmsNorm(x, "post_attention_layernorm")));
  });
}

static constexpr Family describeBailing2() {
  Family row = describeRouted("bailingmoe2");
  row.rules[2] = fusedRules;
  row.rules[7] = correctionRules;
  row.unread = predictionTensors;
  row.rope.interleavedInGguf = false;
  row.readers.ggufRest = readBailing2;
  row.addTensors = addGroupCorrections;
  row.build = buildBailing2;
  return row;
}
const Family family::bailingMoe2 = describeBailing2();

// Its windows, where there are any, have one width, and the first of four layers neither a window nor a rotation.
static void readSmallThinker(GgufKeys &keys, ModelConfig &config) {
  constexpr int64_t window = 4096, period = 4;
  readGgufRoutedExperts(keys, config);
  config.moe.normTopkProb = true;
  bool slides = keys.integer("attention.sliding_window", 0) > 0;
  for (int64_t layer = 0; layer < config.numHiddenLayers; ++layer) {
    bool isFull = !slides || layer % period == 0;
    config.layerWindow[size_t(layer)] = isFull ? 0 : window;
    config.layerRope[size_t(layer)] = slides && isFull ? noRope : 0;
  }
}

static void buildSmallThinker(ModelBuilder &b) {
  buildDecoder(b, [&](int64_t layer, TensorHandle x) {
    TensorHandle routed = x;
    x = b.add(x, selfAttention(b, b.rmsNorm(x, "input_layernorm")));
    TensorHandle normed = b.rmsNorm(x, "post_attention_layernorm");
    bool isSparse = b.config().moe.layerIsMoe[size_t(layer)];
    return b.add(x, isSparse ? b.moe(normed, b.config().family->experts.block, routed) : feedForward(b, normed));
  });
}

static constexpr Family describeSmallThinker() {
  Family row = describeRouted("smallthinker");
  row.rules = {embeddingRules, attentionNormRules, attentionRules, feedForwardNormRules, feedForwardRules, expertRules};
  row.rope.interleavedInGguf = false;
  row.defaults.activation = Activation::Relu;
  row.readers.ggufRest = readSmallThinker;
  row.build = buildSmallThinker;
  return row;
}
const Family family::smallThinker = describeSmallThinker();

} // namespace heddle
