// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Mamba (arXiv:2312.00752): each layer is a norm and the mixer, and nothing attends. A channel is a head whose value is one number: behind a convolution of
// a few tokens it gives, by a projection of low rank, its step, and all of them a key and a query, which channels share. Each column of the key decays at
// a rate of its own. Falcon Mamba (arXiv:2410.05355): norms of steps, keys and queries, without weights; GGUF calls both mamba.

#include "frontends/families/Decoder.h"
#include "frontends/families/Families.h"
#include "frontends/gguf/GgufModel.h"
#include "frontends/huggingface/Config.h"

namespace heddle {

static constexpr TensorRule modelRules[] = {
    {"backbone.embeddings.weight", "token_embd.weight", ConfigDim::Vocab, ConfigDim::Hidden},
    {"backbone.norm_f.weight", "output_norm.weight", ConfigDim::Hidden},
    {"backbone.layers.#.norm.weight", "blk.#.attn_norm.weight", ConfigDim::Hidden},
    {"lm_head.weight", "output.weight", ConfigDim::Vocab, ConfigDim::Hidden, When::Untied},
};

static constexpr TensorRule mixerRules[] = {
    {"backbone.layers.#.mixer.in_proj.weight", "blk.#.ssm_in.weight", ConfigDim::TwiceStateHeads, ConfigDim::Hidden,
     When::Recurrent},
    {"backbone.layers.#.mixer.in_proj.bias", "blk.#.ssm_in.bias", ConfigDim::TwiceStateHeads, ConfigDim::None,
     When::StateProjectionBias},
    {"backbone.layers.#.mixer.conv1d.weight", "blk.#.ssm_conv1d.weight", ConfigDim::StateHeads, ConfigDim::ConvWidth,
     When::Recurrent, StoredOrder::Flattened},
    {"backbone.layers.#.mixer.conv1d.bias", "blk.#.ssm_conv1d.bias", ConfigDim::StateHeads, ConfigDim::None,
     When::RecurrentBias},
    {"backbone.layers.#.mixer.x_proj.weight", "blk.#.ssm_x.weight", ConfigDim::StepRankAndKeys, ConfigDim::StateHeads,
     When::Recurrent},
    {"backbone.layers.#.mixer.dt_proj.weight", "blk.#.ssm_dt.weight", ConfigDim::StateHeads, ConfigDim::StepRank,
     When::Recurrent},
    {"backbone.layers.#.mixer.dt_proj.bias", "blk.#.ssm_dt.bias", ConfigDim::StateHeads, ConfigDim::None,
     When::Recurrent},
    {"backbone.layers.#.mixer.A_log", "blk.#.ssm_a", ConfigDim::StateHeads, ConfigDim::StateKeys, When::Recurrent,
     StoredOrder::Flattened},
    {"backbone.layers.#.mixer.D", "blk.#.ssm_d", ConfigDim::StateHeads, ConfigDim::None, When::Recurrent},
    {"backbone.layers.#.mixer.out_proj.weight", "blk.#.ssm_out.weight", ConfigDim::Hidden, ConfigDim::StateHeads,
     When::Recurrent},
    {"backbone.layers.#.mixer.out_proj.bias", "blk.#.ssm_out.bias", ConfigDim::Hidden, ConfigDim::None,
     When::StateOutputBias},
};

static constexpr KeyName keyNames[] = {{"rms_norm_eps", "layer_norm_epsilon"},
                                       {"conv_L_cache", "conv_kernel", "ssm.conv_kernel"},
                                       {"linear_num_value_heads", "intermediate_size", "ssm.inner_size"},
                                       {"linear_key_head_dim", "state_size"},
                                       {"time_step_rank", "time_step_rank", "ssm.time_step_rank"}};

// What a model without attention and feed-forward blocks has of these.
static void readNoBlocks(ModelConfig &config) {
  config.numHeads = config.numKvHeads = config.headDim = config.intermediateSize = 1;
}

static void readSizes(JsonObject &object, ModelConfig &config) {
  config.normEps = object.number("layer_norm_epsilon").value_or(config.family->defaults.normEps);
  readNoBlocks(config);
}

static void readGgufSizes(GgufKeys &, ModelConfig &config) {
  readNoBlocks(config);
}

// Of every layer; heads are channels.
static RecurrentConfig &beginStates(ModelConfig &config) {
  RecurrentConfig &state = config.recurrent;
  state.layers.assign(config.layerWindow.size(), true);
  state.isLinear = true;
  state.numKeyHeads = state.valueDim = 1;
  return state;
}

static void readRest(JsonObject &object, ModelConfig &config) {
  RecurrentConfig &state = beginStates(config);
  state.ratesAreLogs = true;
  state.activation = config.activation;
  state.convWidth = object.integer("conv_kernel").value_or(4);
  state.keyDim = object.integer("state_size").value_or(16);
  state.hasBias = object.flag("use_conv_bias", true);
  state.hasProjectionBias = state.hasOutputBias = object.flag("use_bias", false);
  int64_t expand = object.bounded("expand", object.integer("expand").value_or(2), 1, 1 << 10);
  state.numValueHeads = object.integer("intermediate_size").value_or(expand * config.hiddenSize);
  const char *rank = "time_step_rank";
  bool isAuto = !object.has(rank) || object.find(rank).equals("auto");
  constexpr int64_t channelsOfRank = 16;
  state.stepRank = isAuto ? (config.hiddenSize + channelsOfRank - 1) / channelsOfRank
                          : object.bounded(rank, object.integer(rank).value_or(1), 1, 1 << 16);
}

static void readNormedRest(JsonObject &object, ModelConfig &config) {
  readRest(object, config);
  const char *key = "mixer_rms_eps";
  config.recurrent.partsEps = object.number(key).value_or(1e-6);
  if (!(config.recurrent.partsEps > 0.0 && config.recurrent.partsEps < 1.0))
    object.fail(key, "is " + std::to_string(config.recurrent.partsEps) + ", expected a number above 0 and below 1");
}

static void readGgufRest(GgufKeys &keys, ModelConfig &config) {
  RecurrentConfig &state = beginStates(config);
  state.convWidth = keys.integer("ssm.conv_kernel");
  state.keyDim = keys.integer("ssm.state_size");
  state.numValueHeads = keys.integer("ssm.inner_size");
  state.stepRank = keys.integer("ssm.time_step_rank");
  state.partsEps = keys.boolean("ssm.dt_b_c_rms", false) ? config.normEps : 0.0;
  auto has = [&](const char *name) { return keys.source().tensors().find(name) != nullptr; };
  state.hasBias = has("blk.0.ssm_conv1d.bias");
  state.hasProjectionBias = has("blk.0.ssm_in.bias");
  state.hasOutputBias = has("blk.0.ssm_out.bias");
}

// Of each channel S = e^(step rate) S + k step v, read by q, plus D v.
static TensorHandle mixer(ModelBuilder &b, TensorHandle x) {
  const RecurrentConfig &state = b.config().recurrent;
  int64_t channels = state.numValueHeads, rank = state.stepRank, keys = rank + state.keyDim;
  TensorHandle both = b.linear(x, "mixer.in_proj");
  TensorHandle v = b.causalConv(b.columns(both, 0, channels), "mixer.conv1d", state.activation);
  TensorHandle parts = b.linear(v, "mixer.x_proj");
  auto part = [&](int64_t begin, int64_t end) {
    TensorHandle of = b.columns(parts, begin, end);
    return state.partsEps > 0.0 ? b.rmsNorm(of, "mixer.parts", state.partsEps) : of;
  };
  TensorHandle wide = b.linear(part(0, rank), "mixer.dt_proj.weight", "");
  TensorHandle steps = b.softplus(wide, "mixer.dt_proj.bias");
  LinearAttentionTerms terms;
  terms.keyHeads = 1;
  terms.valueHeads = channels;
  terms.decay = b.decay(steps, "mixer.A_log");
  TensorHandle read = b.linearAttention(part(keys, keys + state.keyDim), part(rank, keys), b.multiply(v, steps), terms);
  read = b.add(read, b.scaleColumns(v, "mixer.D"));
  return b.linear(b.glu(b.columns(both, channels, 2 * channels), read, Activation::Silu), "mixer.out_proj");
}

static void build(ModelBuilder &b) {
  TensorHandle x = b.embedTokens(b.config().family->embedding);
  x = decoderLayers(b, "backbone.layers.", x,
                    [&](int64_t, TensorHandle x) { return b.add(x, mixer(b, b.rmsNorm(x, "norm"))); });
  finishDecoder(b, b.rmsNorm(x, b.config().family->finalNorm));
}

static constexpr Family describeMamba() {
  Family row;
  row.modelType = "mamba";
  row.gguf = "mamba";
  row.embedding = "backbone.embeddings.weight";
  row.finalNorm = "backbone.norm_f";
  row.rules = {modelRules, mixerRules};
  row.keyNames = keyNames;
  row.defaults.vocabSize = 50280;
  row.defaults.numHeads = 1;
  row.defaults.context = 1 << 20; // a state has no length
  row.defaults.normEps = 1e-5;
  row.defaults.tied = true;
  row.rope.hasRope = false;
  row.readers.huggingFaceSizes = readSizes;
  row.readers.ggufSizes = readGgufSizes;
  row.readers.huggingFaceRest = readRest;
  row.readers.ggufRest = readGgufRest;
  row.build = build;
  return row;
}
const Family family::mamba = describeMamba();

static constexpr Family describeFalconMamba() {
  Family row = describeMamba();
  row.modelType = "falcon_mamba";
  row.gguf = nullptr;
  row.readers.huggingFaceRest = readNormedRest;
  return row;
}
const Family family::falconMamba = describeFalconMamba();

} // namespace heddle
