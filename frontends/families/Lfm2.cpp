// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// LFM2 (Liquid AI 2025, arXiv:2511.23404): most layers have a convolution of a few tokens, of what two projections multiply to, in the place of
// attention; a third projection multiplies what it gives. The others attend, with norms of query and key heads. LFM2-MoE has experts behind its
// first layers, chosen by sigmoid. LFM3 (2026) also has norms behind its blocks, layers with a window, and a sigmoid of the layer's input that multiplies heads.

#include "frontends/families/Decoder.h"
#include "frontends/families/Families.h"
#include "frontends/families/RoutedExperts.h"
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
     When::StateProjectionBias},
    {"model.layers.#.conv.conv.weight", "blk.#.shortconv.conv.weight", ConfigDim::Hidden, ConfigDim::ConvWidth,
     When::Recurrent, StoredOrder::Flattened},
    {"model.layers.#.conv.conv.bias", "blk.#.shortconv.conv.bias", ConfigDim::Hidden, ConfigDim::None,
     When::RecurrentBias},
    {"model.layers.#.conv.out_proj.weight", "blk.#.shortconv.out_proj.weight", ConfigDim::Hidden, ConfigDim::Hidden,
     When::Recurrent},
    {"model.layers.#.conv.out_proj.bias", "blk.#.shortconv.out_proj.bias", ConfigDim::Hidden, ConfigDim::None,
     When::StateProjectionBias},
};

static constexpr TensorRule blockRules[] = {
    {"model.layers.#.feed_forward.w1.weight", "blk.#.ffn_gate.weight", ConfigDim::Intermediate, ConfigDim::Hidden,
     When::Dense},
    {"model.layers.#.feed_forward.w3.weight", "blk.#.ffn_up.weight", ConfigDim::Intermediate, ConfigDim::Hidden,
     When::Dense},
    {"model.layers.#.feed_forward.w2.weight", "blk.#.ffn_down.weight", ConfigDim::Hidden, ConfigDim::Intermediate,
     When::Dense},
};

static constexpr TensorRule routedRules[] = {
    {"model.layers.#.feed_forward.gate.weight", "blk.#.ffn_gate_inp.weight", ConfigDim::Experts, ConfigDim::Hidden,
     When::Sparse},
    {"model.layers.#.feed_forward.expert_bias", "blk.#.exp_probs_b.bias", ConfigDim::Experts, ConfigDim::None,
     When::Correction},
    {"model.layers.#.feed_forward.experts.@.w1.weight", "blk.#.ffn_gate_exps.weight", ConfigDim::ExpertIntermediate,
     ConfigDim::Hidden, When::Sparse},
    {"model.layers.#.feed_forward.experts.@.w3.weight", "blk.#.ffn_up_exps.weight", ConfigDim::ExpertIntermediate,
     ConfigDim::Hidden, When::Sparse},
    {"model.layers.#.feed_forward.experts.@.w2.weight", "blk.#.ffn_down_exps.weight", ConfigDim::Hidden,
     ConfigDim::ExpertIntermediate, When::Sparse},
};

static constexpr KeyName keyNames[] = {{"rms_norm_eps", "norm_eps"}, {"num_local_experts", "num_experts"}};
static constexpr KeyAlias aliases[] = {{"block_ff_dim", "intermediate_size"}};

static void readConv(JsonObject &object, ModelConfig &config) {
  config.recurrent.convWidth = object.integer("conv_L_cache").value_or(3);
  config.recurrent.hasBias = config.recurrent.hasProjectionBias = object.boolean("conv_bias").value_or(false);
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

static void readExperts(JsonObject &object, ModelConfig &config) {
  readConv(object, config);
  if (!object.has("layer_types"))
    object.fail("layer_types", "is missing");
  MoeConfig &moe = config.moe;
  readExpertCounts(object, config, /*numExperts=*/32, /*expertsPerToken=*/4);
  moe.intermediateSize = object.integer("moe_intermediate_size").value_or(1792);
  int64_t dense = object.integer("num_dense_layers").value_or(2);
  for (int64_t layer = 0; layer < config.numHiddenLayers; ++layer)
    moe.layerIsMoe[layer] = layer >= dense;
  moe.sigmoidScores = true;
  moe.hasCorrection = object.boolean("use_expert_bias").value_or(true);
  moe.normTopkProb = object.boolean("norm_topk_prob").value_or(true);
  moe.routedScale = object.number("routed_scaling_factor").value_or(1.0);
}

static void readGgufExperts(GgufKeys &keys, ModelConfig &config) {
  readGgufRest(keys, config);
  readGgufRoutedExperts(keys, config);
  config.moe.normTopkProb = keys.boolean("expert_weights_norm", true);
  if (config.moe.sharedIntermediateSize)
    keys.unsupported(keys.full("expert_shared_count") + " is not 0, which is not supported for lfm2_moe");
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

static constexpr Family describeLfm2Moe() {
  Family row = describeLfm2();
  row.modelType = "lfm2_moe";
  row.gguf = "lfm2moe";
  row.hasExperts = true;
  row.rules[4] = routedRules;
  row.aliases = {};
  row.experts.block = "feed_forward.";
  row.experts.gate = "w1";
  row.experts.up = "w3";
  row.experts.down = "w2";
  row.experts.correction = "expert_bias";
  row.experts.fusedGateAndUp = "feed_forward.experts.gate_up_proj";
  row.experts.fusedDown = "feed_forward.experts.down_proj";
  row.readers.huggingFaceRest = readExperts;
  row.readers.ggufRest = readGgufExperts;
  return row;
}
const Family family::lfm2Moe = describeLfm2Moe();

static constexpr TensorRule sandwichRules[] = {
    {"model.layers.#.post_operator_norm.weight", nullptr, ConfigDim::Hidden, ConfigDim::None, When::NormsBehind},
    {"model.layers.#.post_ffn_norm.weight", nullptr, ConfigDim::Hidden, ConfigDim::None, When::NormsBehind},
    {"model.layers.#.self_attn.gate_proj.weight", nullptr, ConfigDim::Heads, ConfigDim::Hidden, When::Attends},
};

// Where the file does not say it, of every four layers the first sees a window, and the third all tokens; the others, and the first layer, do not attend.
static void readLfm3Layers(JsonObject &object, ModelConfig &config) {
  const char *key = "sliding_window";
  int64_t window = object.bounded(key, object.integer(key).value_or(256), 1, 1 << 24);
  std::vector<std::string> types = object.strings("layer_types"); // as many as there are layers
  config.recurrent.layers.assign(config.layerWindow.size(), false);
  for (size_t layer = 0; layer < config.layerWindow.size(); ++layer) {
    std::string type = layer % 4 == 2 ? "full_attention" : layer % 4 == 0 && layer > 0 ? "sliding_attention" : "conv";
    if (layer < types.size())
      type = types[layer];
    if (type != "full_attention" && type != "sliding_attention" && type != "conv")
      return object.fail("layer_types",
                         "holds '" + printable(type, 64) + "', expected conv, full_attention or sliding_attention");
    config.recurrent.layers[layer] = type == "conv";
    config.layerWindow[layer] = type == "sliding_attention" ? window : 0;
  }
}

static void readLfm3Ropes(JsonObject &object, ModelConfig &config) {
  readLfm3Layers(object, config);
  RopeConfig full, sliding;
  full.theta = 1e6;
  full.rotaryDim = sliding.rotaryDim = config.headDim;
  if (config.headDim > 1 && config.headDim % 2 == 0)
    rotateShare(full, 0.5, config);
  readTypedRopes(object, config, full, sliding, 1.0);
  rotateWindowsApart(config);
}

static void readLfm3(JsonObject &object, ModelConfig &config) {
  config.recurrent.convWidth = object.integer("conv_L_cache").value_or(7);
  config.recurrent.hasBias = config.recurrent.hasProjectionBias = object.boolean("conv_bias").value_or(false);
  config.hasNormsBehind = object.boolean("use_sandwich_norm").value_or(true);
  if (!object.boolean("use_attention_gate").value_or(true))
    object.unsupported("use_attention_gate", "is false, which is not supported; expected true");
}

static void buildLfm3(ModelBuilder &b) {
  auto behind = [&](TensorHandle x, const char *norm) { return b.config().hasNormsBehind ? b.rmsNorm(x, norm) : x; };
  buildDecoder(b, [&](int64_t layer, TensorHandle x) {
    TensorHandle normed = b.rmsNorm(x, "operator_norm");
    auto gated = [&](TensorHandle heads) {
      return b.scaleHeads(heads, b.sigmoid(b.linear(normed, "self_attn.gate_proj")));
    };
    TensorHandle mixed = b.config().isRecurrent(layer) ? shortConv(b, normed) : selfAttention(b, normed, {}, gated);
    x = b.add(x, behind(mixed, "post_operator_norm"));
    return b.add(x, behind(feedForward(b, b.rmsNorm(x, "ffn_norm")), "post_ffn_norm"));
  });
}

static constexpr KeyAlias lfm3Aliases[] = {{"rms_norm_eps", "norm_eps"}};

static constexpr Family describeLfm3() {
  Family row = describeLfm2();
  row.modelType = "lfm3";
  row.gguf = nullptr;
  row.rules = {modelRules, attentionRules, queryKeyNormRules, convRules, blockRules, sandwichRules};
  row.aliases = lfm3Aliases;
  row.defaults.vocabSize = 128000;
  row.defaults.numHeads = 16;
  row.defaults.numKvHeads = 4;
  row.defaults.headDim = 128;
  row.attention = {};
  row.biases.attentionKey = "attention_bias";
  row.windows = {};
  row.readers.huggingFaceRopes = readLfm3Ropes;
  row.readers.huggingFaceRest = readLfm3;
  row.readers.ggufRest = nullptr;
  row.build = buildLfm3;
  return row;
}
const Family family::lfm3 = describeLfm3();

} // namespace heddle
