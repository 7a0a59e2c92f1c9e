// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Qwen3-Next (2025): three of four layers keep a state, by the gated delta rule (arXiv:2412.06464) behind a convolution of a few tokens; the heads of
// the others are multiplied by a sigmoid of the layer's input, and a quarter of each rotates. Norms are stored less 1, but for that of a state's
// heads; experts are Qwen2-MoE's. Qwen 3.5 (2026): the same with the projections of a state apart, with experts and without. Its folders and files
// with images are those of texts where no image is, as Qwen3-VL's (Qwen.cpp).

#include "frontends/families/Decoder.h"
#include "frontends/families/DeltaRule.h"
#include "frontends/families/Families.h"
#include "frontends/families/Mamba2Mixer.h"
#include "frontends/families/QwenLayers.h"
#include "frontends/gguf/GgufModel.h"
#include "frontends/huggingface/Config.h"

namespace heddle {

static constexpr TensorRule gatedAttentionRules[] = {
    {"model.layers.#.self_attn.q_proj.weight", "blk.#.attn_q.weight", ConfigDim::GatedQueries, ConfigDim::Hidden,
     When::Attends, StoredOrder::ByGate},
    {"model.layers.#.self_attn.k_proj.weight", "blk.#.attn_k.weight", ConfigDim::KeyValues, ConfigDim::Hidden,
     When::Attends},
    {"model.layers.#.self_attn.v_proj.weight", "blk.#.attn_v.weight", ConfigDim::KeyValues, ConfigDim::Hidden,
     When::Attends},
    {"model.layers.#.self_attn.o_proj.weight", "blk.#.attn_output.weight", ConfigDim::Hidden, ConfigDim::Queries,
     When::Attends},
    {"model.layers.#.self_attn.q_proj.bias", "blk.#.attn_q.bias", ConfigDim::GatedQueries, ConfigDim::None,
     When::AttentionBias, StoredOrder::ByGate},
    {"model.layers.#.self_attn.k_proj.bias", "blk.#.attn_k.bias", ConfigDim::KeyValues, ConfigDim::None,
     When::AttentionBias},
    {"model.layers.#.self_attn.v_proj.bias", "blk.#.attn_v.bias", ConfigDim::KeyValues, ConfigDim::None,
     When::AttentionBias},
    {"model.layers.#.self_attn.o_proj.bias", "blk.#.attn_output.bias", ConfigDim::Hidden, ConfigDim::None,
     When::OutputBias},
};

static constexpr TensorRule normRules[] = {
    {"model.layers.#.input_layernorm.weight", "blk.#.attn_norm.weight", ConfigDim::Hidden},
    {"model.layers.#.post_attention_layernorm.weight", "blk.#.post_attention_norm.weight", ConfigDim::Hidden},
};

static constexpr TensorRule stateRules[] = {
    {"model.layers.#.linear_attn.conv1d.weight", "blk.#.ssm_conv1d.weight", ConfigDim::StateChannels,
     ConfigDim::ConvWidth, When::Recurrent, StoredOrder::Flattened},
    {"model.layers.#.linear_attn.A_log", "blk.#.ssm_a", ConfigDim::StateHeads, ConfigDim::None, When::Recurrent},
    {"model.layers.#.linear_attn.dt_bias", "blk.#.ssm_dt.bias", ConfigDim::StateHeads, ConfigDim::None,
     When::Recurrent},
    {"model.layers.#.linear_attn.norm.weight", "blk.#.ssm_norm.weight", ConfigDim::StateHeadDim, ConfigDim::None,
     When::Recurrent},
    {"model.layers.#.linear_attn.out_proj.weight", "blk.#.ssm_out.weight", ConfigDim::Hidden, ConfigDim::StateValues,
     When::Recurrent},
};

static constexpr TensorRule splitStateRules[] = {
    {"model.layers.#.linear_attn.in_proj_qkv.weight", "blk.#.attn_qkv.weight", ConfigDim::StateChannels,
     ConfigDim::Hidden, When::SplitStates},
    {"model.layers.#.linear_attn.in_proj_z.weight", "blk.#.attn_gate.weight", ConfigDim::StateValues, ConfigDim::Hidden,
     When::SplitStates},
};

static constexpr TensorRule fusedStateRules[] = {
    {"model.layers.#.linear_attn.in_proj_qkvz.weight", "blk.#.ssm_in.weight", ConfigDim::StateChannelsAndGates,
     ConfigDim::Hidden, When::FusedStates, StoredOrder::ByStateHead},
    {"model.layers.#.linear_attn.in_proj_ba.weight", "blk.#.ssm_ba.weight", ConfigDim::TwiceStateHeads,
     ConfigDim::Hidden, When::Recurrent, StoredOrder::ByStateTerm},
};

static constexpr TensorRule stateTermRules[] = {
    {"model.layers.#.linear_attn.in_proj_a.weight", "blk.#.ssm_alpha.weight", ConfigDim::StateHeads, ConfigDim::Hidden,
     When::Recurrent},
    {"model.layers.#.linear_attn.in_proj_b.weight", "blk.#.ssm_beta.weight", ConfigDim::StateHeads, ConfigDim::Hidden,
     When::Recurrent},
};

static constexpr KeyName keyNames[] = {{"num_local_experts", "num_experts"},
                                       {"sliding_window_pattern", "full_attention_interval", "full_attention_interval"},
                                       {"conv_L_cache", "linear_conv_kernel_dim", "ssm.conv_kernel"}};

static void readStates(JsonObject &object, ModelConfig &config) {
  RecurrentConfig &state = config.recurrent;
  auto read = [&](const char *key, int64_t fallback) { return object.integer(key).value_or(fallback); };
  state.isLinear = state.ratesAreLogs = true;
  state.convWidth = read("linear_conv_kernel_dim", 4);
  state.numKeyHeads = read("linear_num_key_heads", 16);
  state.numValueHeads = read("linear_num_value_heads", 32);
  state.keyDim = read("linear_key_head_dim", 128);
  state.valueDim = read("linear_value_head_dim", 128);
}

static void readNextRest(JsonObject &object, ModelConfig &config) {
  readStates(object, config);
  GatedExpertDefaults defaults;
  defaults.numExperts = 512;
  defaults.perToken = 10;
  defaults.width = defaults.sharedWidth = 512;
  readGatedExperts(object, config, defaults);
  config.moe.normTopkProb = object.boolean("norm_topk_prob").value_or(true);
  readSparseSteps(object, config);
}

// The projections of a state apart.
static void readSplitStates(JsonObject &object, ModelConfig &config) {
  readStates(object, config);
  config.recurrent.isSplit = true;
}

// In every layer; weights of a token's experts always add up to 1.
static void readEveryExperts(JsonObject &object, ModelConfig &config) {
  readSplitStates(object, config);
  GatedExpertDefaults defaults;
  defaults.numExperts = 256;
  defaults.perToken = 8;
  defaults.width = defaults.sharedWidth = 512;
  readGatedExperts(object, config, defaults);
  config.moe.layerIsMoe.assign(config.moe.layerIsMoe.size(), true);
}

// Each layer's kind, those that predict among them; in older files, of so many layers the last attends.
static void readGgufLayers(GgufKeys &keys, ModelConfig &config) {
  int64_t interval = keys.integer("full_attention_interval", 4);
  if (interval < 1)
    return keys.fail(keys.full("full_attention_interval") + " is " + std::to_string(interval) +
                     ", expected a positive number");
  if (const char *each = "attention.recurrent_layers"; keys.has(each)) {
    GgufCount layers{config.numHiddenLayers + config.numPredictionLayers, "layers", keys.full("block_count")};
    Expected<std::vector<bool>> recurrent = keys.source().booleans(keys.full(each), layers);
    keys.adopt(recurrent.status());
    if (!recurrent)
      return;
    recurrent->resize(config.layerWindow.size());
    config.recurrent.layers = std::move(*recurrent);
    return;
  }
  config.recurrent.layers.assign(config.layerWindow.size(), true);
  for (size_t layer = 0; layer < config.recurrent.layers.size(); ++layer)
    config.recurrent.layers[layer] = (layer + 1) % static_cast<size_t>(interval) != 0;
}

static void readGgufStates(GgufKeys &keys, ModelConfig &config) {
  readGgufLayers(keys, config);
  readGgufStateSizes(keys, config);
  (void)keys.full("rope.dimension_sections"); // of images, which are not read
  if (!config.moe.numExperts)
    return;
  config.moe.normTopkProb = keys.boolean("expert_weights_norm", true);
  config.moe.sharedIntermediateSize = keys.integer("expert_shared_feed_forward_length", config.moe.intermediateSize);
}

// Older files have one matrix for all of a state's projections.
static void readGgufNextStates(GgufKeys &keys, ModelConfig &config) {
  readGgufStates(keys, config);
  int64_t layer = 0;
  while (!config.isRecurrent(layer) && layer < config.numHiddenLayers)
    ++layer;
  config.recurrent.isSplit =
      keys.source().tensors().find("blk." + std::to_string(layer) + ".attn_qkv.weight") != nullptr;
}

// In these files heads of values that share a key stand as far apart as there are keys, not side by side.
static void readGgufTiledStates(GgufKeys &keys, ModelConfig &config) {
  readGgufStates(keys, config);
  config.recurrent.isSplit = config.recurrent.isTiled = true;
}

static TensorHandle gatedAttention(ModelBuilder &b, TensorHandle x) {
  const ModelConfig &c = b.config();
  int64_t width = c.numHeads * c.headDim;
  TensorHandle queries = b.linear(x, "self_attn.q_proj"); // then their gates
  auto rotated = [&](TensorHandle rows, int64_t heads, const char *norm) {
    return b.rope(b.rmsNorm(b.splitHeads(rows, heads), norm));
  };
  TensorHandle q = rotated(b.columns(queries, 0, width), c.numHeads, "self_attn.q_norm");
  TensorHandle k = rotated(b.linear(x, "self_attn.k_proj"), c.numKvHeads, "self_attn.k_norm");
  TensorHandle v = b.splitHeads(b.linear(x, "self_attn.v_proj"), c.numKvHeads);
  TensorHandle heads = b.mergeHeads(b.attention(q, k, v));
  TensorHandle gates = b.sigmoid(b.columns(queries, width, 2 * width));
  return b.linear(b.multiply(heads, gates), "self_attn.o_proj");
}

// What a state is updated by, but for decay and beta, and what multiplies the heads that are read of it.
struct StateInputs {
  TensorHandle channels; // queries, keys and values, before their convolution
  TensorHandle gates;
  TensorHandle betas, steps; // of each value head
};

static StateInputs projectState(ModelBuilder &b, TensorHandle x) {
  const RecurrentConfig &state = b.config().recurrent;
  int64_t channels = state.channels(), values = state.values(), heads = state.numValueHeads;
  StateInputs out;
  if (state.isSplit) {
    out.channels = b.linear(x, "linear_attn.in_proj_qkv");
    out.gates = b.linear(x, "linear_attn.in_proj_z");
  } else {
    TensorHandle all = b.linear(x, "linear_attn.in_proj_qkvz");
    out.channels = b.columns(all, 0, channels);
    out.gates = b.columns(all, channels, channels + values);
  }
  if (b.has("linear_attn.in_proj_ba.weight")) {
    TensorHandle both = b.linear(x, "linear_attn.in_proj_ba");
    out.betas = b.columns(both, 0, heads);
    out.steps = b.columns(both, heads, 2 * heads);
  } else {
    out.betas = b.linear(x, "linear_attn.in_proj_b");
    out.steps = b.linear(x, "linear_attn.in_proj_a");
  }
  return out;
}

static TensorHandle stateBlock(ModelBuilder &b, TensorHandle x) {
  const RecurrentConfig &state = b.config().recurrent;
  StateInputs in = projectState(b, x);
  TensorHandle channels = b.causalConv(in.channels, "linear_attn.conv1d", b.config().activation);
  int64_t width = state.numKeyHeads * state.keyDim;
  DeltaInputs inputs;
  inputs.q = b.columns(channels, 0, width);
  inputs.k = b.columns(channels, width, 2 * width);
  inputs.v = b.columns(channels, 2 * width, state.channels());
  inputs.steps = in.steps;
  inputs.betas = in.betas;
  TensorHandle heads = b.splitHeads(deltaRule(b, inputs, "linear_attn."), state.numValueHeads);
  TensorHandle normed = b.mergeHeads(b.rmsNormAsStored(heads, "linear_attn.norm"));
  return b.linear(b.glu(in.gates, normed, Activation::Silu), "linear_attn.out_proj");
}

static void build(ModelBuilder &b) {
  buildDecoder(b, [&](int64_t layer, TensorHandle x) {
    TensorHandle normed = b.rmsNorm(x, "input_layernorm");
    x = b.add(x, b.config().isRecurrent(layer) ? stateBlock(b, normed) : gatedAttention(b, normed));
    return b.add(x, layerFeedForward(b, layer, b.rmsNorm(x, "post_attention_layernorm")));
  });
}

// Layers that predict further tokens.
static constexpr UnreadTensor unreadTensors[] = {{"mtp.*"}, {"model.mtp.*"}};
static constexpr UnreadTensor unreadBesideImages[] = {
    {"mtp.*"}, {"model.mtp.*"}, {"visual.*", /*isLoss=*/true}, {"model.visual.*", /*isLoss=*/true}};

static constexpr Family describeKin(const char *modelType, const char *gguf) {
  Family row;
  row.modelType = modelType;
  row.gguf = gguf;
  row.unread = unreadTensors;
  row.keyNames = keyNames;
  row.normWeightOffset = 1.0;
  row.defaults.numHeads = 16;
  row.defaults.numKvHeads = 2;
  row.defaults.headDim = 256;
  row.defaults.context = 32768;
  row.defaults.partialRotary = 0.25;
  row.biases.attentionKey = "attention_bias";
  row.windows.readsLayerTypes = row.windows.statesFullEvery = true;
  row.windows.recurrentType = "linear_attention";
  row.windows.fullEvery = 4;
  row.rope.partial = true;
  row.experts.shared = "shared_expert";
  row.experts.sharedGate = "shared_expert_gate";
  row.build = build;
  return row;
}

static constexpr Family describeQwen3Next() {
  Family row = describeKin("qwen3_next", "qwen3next");
  row.rules = {embeddingRules,  normRules,        gatedAttentionRules, stateRules,       splitStateRules,
               fusedStateRules, feedForwardRules, expertRules,         gatedExpertRules, queryKeyNormRules};
  row.hasExperts = true;
  row.readers.huggingFaceRest = readNextRest;
  row.readers.ggufRest = readGgufNextStates;
  return row;
}
const Family family::qwen3Next = describeQwen3Next();

// The text part of a config with images leaves out what its class says.
static constexpr Family describeQwen35Kin(const char *modelType, const char *wrapper, const char *gguf) {
  Family row = describeKin(modelType, gguf);
  row.wrapper = wrapper;
  row.unread = unreadBesideImages;
  row.headIfStored = true;
  row.defaults.vocabSize = 248320;
  row.readers.ggufRest = readGgufTiledStates;
  return row;
}

static constexpr Family describeQwen35() {
  Family row = describeQwen35Kin("qwen3_5_text", "qwen3_5", "qwen35");
  row.rules = {embeddingRules,  normRules,      gatedAttentionRules, stateRules,
               splitStateRules, stateTermRules, feedForwardRules,    queryKeyNormRules};
  row.defaults.hiddenSize = 4096;
  row.defaults.intermediateSize = 12288;
  row.defaults.numLayers = 32;
  row.defaults.numKvHeads = 4;
  row.readers.huggingFaceRest = readSplitStates;
  return row;
}
const Family family::qwen35 = describeQwen35();

static constexpr Family describeQwen35Moe() {
  Family row = describeQwen35Kin("qwen3_5_moe_text", "qwen3_5_moe", "qwen35moe");
  row.rules = {embeddingRules, normRules,   gatedAttentionRules, stateRules,       splitStateRules,
               stateTermRules, expertRules, gatedExpertRules,    queryKeyNormRules};
  row.hasExperts = true;
  row.defaults.hiddenSize = 2048;
  row.defaults.numLayers = 40;
  row.defaults.widening = 1; // no layer has a feed-forward block of intermediate_size
  row.readers.huggingFaceRest = readEveryExperts;
  return row;
}
const Family family::qwen35Moe = describeQwen35Moe();

} // namespace heddle
