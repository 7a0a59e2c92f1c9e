// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// LFM2 (Liquid AI 2025, arXiv:2511.23404): most layers have a convolution of a few tokens, of what two projections multiply to, in the place of
// attention; a third projection multiplies what it gives. The others attend, with norms of query and key heads.

#include "frontends/families/Decoder.h"
#include "frontends/families/Families.h"
#include "frontends/gguf/GgufModel.h"
#include "frontends/huggingface/Config.h"

#include <algorithm>

namespace heddle {

static constexpr TensorRule modelRules[] = {
    {"model.embed_tokens.weight", "token_embd.weight", ConfigDim::Vocab, ConfigDim::Hidden},
    {"model.embedding_norm.weight", "token_embd_norm.weight", ConfigDim::Hidden},
    {"lm_head.weight", "output.weight", ConfigDim::Vocab, ConfigDim::Hidden, When::Untied},
    {"model.layers.#.operator_norm.weight", "blk.#.attn_norm.weight", ConfigDim::Hidden},
    {"model.layers.#.ffn_norm.weight", "blk.#.ffn_norm.weight", ConfigDim::Hidden},
};

static constexpr TensorRule attendingRules[] = {
    {"model.layers.#.self_attn.q_proj.weight", "blk.#.attn_q.weight", ConfigDim::Queries, ConfigDim::Hidden,
     When::Attends},
    {"model.layers.#.self_attn.k_proj.weight", "blk.#.attn_k.weight", ConfigDim::KeyValues, ConfigDim::Hidden,
     When::Attends},
    {"model.layers.#.self_attn.v_proj.weight", "blk.#.attn_v.weight", ConfigDim::KeyValues, ConfigDim::Hidden,
     When::Attends},
    {"model.layers.#.self_attn.out_proj.weight", "blk.#.attn_output.weight", ConfigDim::Hidden, ConfigDim::Queries,
     When::Attends},
    {"model.layers.#.self_attn.q_layernorm.weight", "blk.#.attn_q_norm.weight", ConfigDim::HeadDim, ConfigDim::None,
     When::Attends},
    {"model.layers.#.self_attn.k_layernorm.weight", "blk.#.attn_k_norm.weight", ConfigDim::HeadDim, ConfigDim::None,
     When::Attends},
};

static constexpr TensorRule convRules[] = {
    {"model.layers.#.conv.in_proj.weight", "blk.#.shortconv.in_proj.weight", ConfigDim::ThriceHidden, ConfigDim::Hidden,
     When::Recurrent},
    {"model.layers.#.conv.in_proj.bias", "blk.#.shortconv.in_proj.bias", ConfigDim::ThriceHidden, ConfigDim::None,
     When::RecurrentBias},
    {"model.layers.#.conv.conv.weight", "blk.#.shortconv.conv.weight", ConfigDim::Hidden, ConfigDim::ConvWidth,
     When::Recurrent, StoredOrder::Flattened},
    {"model.layers.#.conv.conv.bias", "blk.#.shortconv.conv.bias", ConfigDim::Hidden, ConfigDim::None,
     When::RecurrentBias},
    {"model.layers.#.conv.out_proj.weight", "blk.#.shortconv.out_proj.weight", ConfigDim::Hidden, ConfigDim::Hidden,
     When::Recurrent},
    {"model.layers.#.conv.out_proj.bias", "blk.#.shortconv.out_proj.bias", ConfigDim::Hidden, ConfigDim::None,
     When::RecurrentBias},
};

static constexpr TensorRule blockRules[] = {
    {"model.layers.#.feed_forward.w1.weight", "blk.#.ffn_gate.weight", ConfigDim::Intermediate, ConfigDim::Hidden,
     When::Dense},
    {"model.layers.#.feed_forward.w3.weight", "blk.#.ffn_up.weight", ConfigDim::Intermediate, ConfigDim::Hidden,
     When::Dense},
    {"model.layers.#.feed_forward.w2.weight", "blk.#.ffn_down.weight", ConfigDim::Hidden, ConfigDim::Intermediate,
     When::Dense},
};

static constexpr KeyName keyNames[] = {{"rms_norm_eps", "norm_eps"}};
static constexpr KeyAlias aliases[] = {{"block_ff_dim", "intermediate_size"}};

static void readConv(JsonObject &object, ModelConfig &config) {
  config.recurrent.convWidth = object.integer("conv_L_cache").value_or(3);
  config.recurrent.hasBias = object.boolean("conv_bias").value_or(false);
  config.tieWordEmbeddings = object.boolean("tie_embedding").value_or(config.tieWordEmbeddings);
}

// Two thirds of the width that is stated, times a factor, and from there to the next multiple of a number.
static void adjustWidth(JsonObject &object, ModelConfig &config) {
  constexpr int64_t widest = 1 << 24;
  int64_t multiple = object.bounded("block_multiple_of", object.integer("block_multiple_of").value_or(256), 1, widest);
  double factor = object.number("block_ffn_dim_multiplier").value_or(1.0);
  if (!object.boolean("block_auto_adjust_ff_dim").value_or(true))
    return;
  config.intermediateSize = 2 * config.intermediateSize / 3;
  if (object.isNull("block_ffn_dim_multiplier"))
    return;
  double scaled = factor * double(config.intermediateSize);
  if (!(scaled >= 1.0 && scaled <= double(widest)))
    return object.fail("block_ffn_dim_multiplier", "is " + std::to_string(factor) + ", expected a positive number");
  config.intermediateSize = (int64_t(scaled) + multiple - 1) / multiple * multiple;
}

static void readRest(JsonObject &object, ModelConfig &config) {
  readConv(object, config);
  adjustWidth(object, config);
  std::vector<int64_t> attending = object.integers("full_attn_idxs");
  if (object.has("layer_types"))
    return;
  std::vector<bool> &recurrent = config.recurrent.layers;
  for (int64_t layer = 0; layer < config.numHiddenLayers; ++layer)
    recurrent[layer] =
        object.has("full_attn_idxs") && std::find(attending.begin(), attending.end(), layer) == attending.end();
}

static void readGgufRest(GgufKeys &keys, ModelConfig &config) {
  config.recurrent.convWidth = keys.integer("shortconv.l_cache");
  if (config.recurrent.layers.empty())
    keys.fail(keys.full("attention.head_count_kv") + " is one number, expected one for each layer");
}

// The middle third of in_proj's rows multiplies what the convolution gives of the product of the others.
static TensorHandle shortConv(ModelBuilder &b, TensorHandle x) {
  int64_t width = b.config().hiddenSize;
  TensorHandle all = b.linear(x, "conv.in_proj");
  auto third = [&](int64_t part) { return b.columns(all, part * width, (part + 1) * width); };
  TensorHandle mixed = b.causalConv(b.multiply(third(0), third(2)), "conv.conv", std::nullopt);
  return b.linear(b.multiply(third(1), mixed), "conv.out_proj");
}

static void build(ModelBuilder &b) {
  buildDecoder(b, [&](int64_t layer, TensorHandle x) {
    TensorHandle normed = b.rmsNorm(x, "operator_norm");
    x = b.add(x, b.config().isRecurrent(layer) ? shortConv(b, normed) : selfAttention(b, normed));
    return b.add(x, layerFeedForward(b, layer, b.rmsNorm(x, "ffn_norm")));
  });
}

static constexpr Family describeLfm2() {
  Family row;
  row.modelType = "lfm2";
  row.gguf = "lfm2";
  row.rules = {modelRules, attendingRules, convRules, blockRules};
  row.keyNames = keyNames;
  row.aliases = aliases;
  row.defaults.vocabSize = 65536;
  row.defaults.numHeads = 32;
  row.defaults.numKvHeads = 8;
  row.defaults.context = 128000;
  row.defaults.normEps = 1e-5;
  row.defaults.ropeTheta = 1e6;
  row.defaults.tied = true;
  row.activationKey = nullptr;
  row.finalNorm = "model.embedding_norm";
  row.attention.output = "out_proj";
  row.attention.qNorm = "q_layernorm";
  row.attention.kNorm = "k_layernorm";
  row.feedForward = {"feed_forward.", "w1", "w3", "w2"};
  row.windows.readsLayerTypes = true;
  row.windows.recurrentType = "conv";
  row.readers.huggingFaceRest = readRest;
  row.readers.ggufRest = readGgufRest;
  row.build = build;
  return row;
}
const Family family::lfm2 = describeLfm2();

} // namespace heddle
