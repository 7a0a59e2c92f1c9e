// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Mamba (arXiv:2312.00752): each layer is a norm and the mixer, and nothing attends. A channel is a head whose value is one number: behind a convolution of
// a few tokens it gives, by a projection of low rank, its step, and all of them a key and a query, which channels share. Each column of the key decays at
// a rate of its own. Falcon Mamba (arXiv:2410.05355): norms of steps, keys and queries, without weights; GGUF calls both mamba. Jamba (arXiv:2403.19887):
// such norms with weights; some layers attend without a rotation instead, and feed-forward blocks stand behind either, in some layers as experts.

#include "frontends/families/Decoder.h"
#include "frontends/families/Families.h"
#include "frontends/families/Mamba2Mixer.h"
#include "frontends/families/MambaSizes.h"
#include "frontends/gguf/GgufModel.h"
#include "frontends/huggingface/Config.h"

namespace heddle {

static constexpr TensorRule modelRules[] = {
    {"backbone.embeddings.weight", "token_embd.weight", ConfigDim::Vocab, ConfigDim::Hidden},
    {"backbone.norm_f.weight", "output_norm.weight", ConfigDim::Hidden},
    {"backbone.layers.#.norm.weight", "blk.#.attn_norm.weight", ConfigDim::Hidden},
    {"lm_head.weight", "output.weight", ConfigDim::Vocab, ConfigDim::Hidden, When::Untied},
};

// The mixer's tensors, whose names begin with `scope`.
#define HEDDLE_MAMBA_RULES(scope)                                                                                      \
  {                                                                                                                    \
      {scope "in_proj.weight", "blk.#.ssm_in.weight", ConfigDim::TwiceStateHeads, ConfigDim::Hidden, When::Recurrent}, \
      {scope "in_proj.bias", "blk.#.ssm_in.bias", ConfigDim::TwiceStateHeads, ConfigDim::None,                         \
       When::StateProjectionBias},                                                                                     \
      {scope "conv1d.weight", "blk.#.ssm_conv1d.weight", ConfigDim::StateHeads, ConfigDim::ConvWidth, When::Recurrent, \
       StoredOrder::Flattened},                                                                                        \
      {scope "conv1d.bias", "blk.#.ssm_conv1d.bias", ConfigDim::StateHeads, ConfigDim::None, When::RecurrentBias},     \
      {scope "x_proj.weight", "blk.#.ssm_x.weight", ConfigDim::StepRankAndKeys, ConfigDim::StateHeads,                 \
       When::Recurrent},                                                                                               \
      {scope "dt_proj.weight", "blk.#.ssm_dt.weight", ConfigDim::StateHeads, ConfigDim::StepRank, When::Recurrent},    \
      {scope "dt_proj.bias", "blk.#.ssm_dt.bias", ConfigDim::StateHeads, ConfigDim::None, When::Recurrent},            \
      {scope "A_log", "blk.#.ssm_a", ConfigDim::StateHeads, ConfigDim::StateKeys, When::Recurrent,                     \
       StoredOrder::Flattened},                                                                                        \
      {scope "D", "blk.#.ssm_d", ConfigDim::StateHeads, ConfigDim::None, When::Recurrent},                             \
      {scope "out_proj.weight", "blk.#.ssm_out.weight", ConfigDim::Hidden, ConfigDim::StateHeads, When::Recurrent},    \
      {scope "out_proj.bias", "blk.#.ssm_out.bias", ConfigDim::Hidden, ConfigDim::None, When::StateOutputBias},        \
  }

static constexpr TensorRule mixerRules[] = HEDDLE_MAMBA_RULES("backbone.layers.#.mixer.");

static constexpr KeyName keyNames[] = {{"rms_norm_eps", "layer_norm_epsilon"},
                                       {"conv_L_cache", "conv_kernel", "ssm.conv_kernel"},
                                       {"linear_num_value_heads", "intermediate_size", "ssm.inner_size"},
                                       {"linear_key_head_dim", "state_size"},
                                       {"time_step_rank", "time_step_rank", "ssm.time_step_rank"}};

// Heads are channels.
static RecurrentConfig &beginStates(ModelConfig &config) {
  RecurrentConfig &state = config.recurrent;
  state.isLinear = true;
  state.numKeyHeads = state.valueDim = 1;
  return state;
}

// What families call keys of one meaning; `width` null: there is none.
struct MixerKeys {
  const char *conv, *state, *convBias, *bias, *expand, *width, *rank;
};

static void readMixer(JsonObject &object, ModelConfig &config, const MixerKeys &keys) {
  RecurrentConfig &state = beginStates(config);
  state.ratesAreLogs = true;
  state.activation = config.activation;
  state.convWidth = object.integer(keys.conv).value_or(4);
  state.keyDim = object.integer(keys.state).value_or(16);
  state.hasBias = object.flag(keys.convBias, true);
  state.hasProjectionBias = state.hasOutputBias = object.flag(keys.bias, false);
  int64_t expand = object.bounded(keys.expand, object.integer(keys.expand).value_or(2), 1, 1 << 10);
  state.numValueHeads = expand * config.hiddenSize;
  if (keys.width)
    state.numValueHeads = object.integer(keys.width).value_or(state.numValueHeads);
  bool isAuto = !object.has(keys.rank) || object.find(keys.rank).equals("auto");
  constexpr int64_t channelsOfRank = 16;
  state.stepRank = isAuto ? (config.hiddenSize + channelsOfRank - 1) / channelsOfRank
                          : object.bounded(keys.rank, object.integer(keys.rank).value_or(1), 1, 1 << 16);
}

static void readRest(JsonObject &object, ModelConfig &config) {
  config.recurrent.layers.assign(config.layerWindow.size(), true);
  readMixer(
      object, config,
      {"conv_kernel", "state_size", "use_conv_bias", "use_bias", "expand", "intermediate_size", "time_step_rank"});
}

static void readNormedRest(JsonObject &object, ModelConfig &config) {
  readRest(object, config);
  const char *key = "mixer_rms_eps";
  config.recurrent.partsEps = object.number(key).value_or(1e-6);
  if (!(config.recurrent.partsEps > 0.0 && config.recurrent.partsEps < 1.0))
    object.fail(key, "is " + std::to_string(config.recurrent.partsEps) + ", expected a number above 0 and below 1");
}

static void readGgufMixer(GgufKeys &keys, ModelConfig &config) {
  RecurrentConfig &state = beginStates(config);
  state.convWidth = keys.integer("ssm.conv_kernel");
  state.keyDim = keys.integer("ssm.state_size");
  state.numValueHeads = keys.integer("ssm.inner_size");
  state.stepRank = keys.integer("ssm.time_step_rank");
  readGgufStateBiases(keys, config);
}

static void readGgufRest(GgufKeys &keys, ModelConfig &config) {
  config.recurrent.layers.assign(config.layerWindow.size(), true);
  readGgufMixer(keys, config);
  config.recurrent.partsEps = keys.boolean("ssm.dt_b_c_rms", false) ? config.normEps : 0.0;
}

// Of each channel S = e^(step rate) S + k step v, read by q, plus D v.
static TensorHandle mixer(ModelBuilder &b, TensorHandle x, const std::string &block) {
  const RecurrentConfig &state = b.config().recurrent;
  int64_t channels = state.numValueHeads, rank = state.stepRank, keys = rank + state.keyDim;
  TensorHandle both = b.linear(x, block + "in_proj");
  TensorHandle v = b.causalConv(b.columns(both, 0, channels), block + "conv1d", state.activation);
  TensorHandle parts = b.linear(v, block + "x_proj");
  auto part = [&](int64_t begin, int64_t end, const char *norm) {
    TensorHandle of = b.columns(parts, begin, end);
    return state.partsEps > 0.0 ? b.rmsNorm(of, block + norm, state.partsEps) : of;
  };
  TensorHandle wide = b.linear(part(0, rank, "dt_layernorm"), block + "dt_proj.weight", "");
  TensorHandle steps = b.softplus(wide, block + "dt_proj.bias");
  LinearAttentionTerms terms;
  terms.keyHeads = 1;
  terms.valueHeads = channels;
  terms.decay = b.decay(steps, block + "A_log");
  TensorHandle k = part(rank, keys, "b_layernorm"), q = part(keys, keys + state.keyDim, "c_layernorm");
  TensorHandle read = b.linearAttention(q, k, b.multiply(v, steps), terms);
  read = b.add(read, b.scaleColumns(v, block + "D"));
  return b.linear(b.glu(b.columns(both, channels, 2 * channels), read, Activation::Silu), block + "out_proj");
}

static void build(ModelBuilder &b) {
  TensorHandle x = b.embedTokens(b.config().family->embedding);
  x = decoderLayers(b, "backbone.layers.", x,
                    [&](int64_t, TensorHandle x) { return b.add(x, mixer(b, b.rmsNorm(x, "norm"), "mixer.")); });
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
  row.readers.huggingFaceSizes = readMambaSizes;
  row.readers.ggufSizes = readGgufMambaSizes;
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

static constexpr TensorRule jambaRules[] = {
    {"model.embed_tokens.weight", "token_embd.weight", ConfigDim::Vocab, ConfigDim::Hidden},
    {"model.final_layernorm.weight", "output_norm.weight", ConfigDim::Hidden},
    {"lm_head.weight", "output.weight", ConfigDim::Vocab, ConfigDim::Hidden, When::Untied},
    {"model.layers.#.input_layernorm.weight", "blk.#.attn_norm.weight", ConfigDim::Hidden},
    {"model.layers.#.pre_ff_layernorm.weight", "blk.#.ffn_norm.weight", ConfigDim::Hidden},
    {"model.layers.#.feed_forward.gate_proj.weight", "blk.#.ffn_gate.weight", ConfigDim::Intermediate,
     ConfigDim::Hidden, When::Dense},
    {"model.layers.#.feed_forward.up_proj.weight", "blk.#.ffn_up.weight", ConfigDim::Intermediate, ConfigDim::Hidden,
     When::Dense},
    {"model.layers.#.feed_forward.down_proj.weight", "blk.#.ffn_down.weight", ConfigDim::Hidden,
     ConfigDim::Intermediate, When::Dense},
    {"model.layers.#.feed_forward.router.weight", "blk.#.ffn_gate_inp.weight", ConfigDim::Experts, ConfigDim::Hidden,
     When::Sparse},
    {"model.layers.#.feed_forward.experts.@.gate_proj.weight", "blk.#.ffn_gate_exps.weight",
     ConfigDim::ExpertIntermediate, ConfigDim::Hidden, When::Sparse},
    {"model.layers.#.feed_forward.experts.@.up_proj.weight", "blk.#.ffn_up_exps.weight", ConfigDim::ExpertIntermediate,
     ConfigDim::Hidden, When::Sparse},
    {"model.layers.#.feed_forward.experts.@.down_proj.weight", "blk.#.ffn_down_exps.weight", ConfigDim::Hidden,
     ConfigDim::ExpertIntermediate, When::Sparse},
};

static constexpr TensorRule jambaMixerRules[] = HEDDLE_MAMBA_RULES("model.layers.#.mamba.");

static constexpr TensorRule partNormRules[] = {
    {"model.layers.#.mamba.dt_layernorm.weight", "blk.#.ssm_dt_norm.weight", ConfigDim::StepRank, ConfigDim::None,
     When::Recurrent},
    {"model.layers.#.mamba.b_layernorm.weight", "blk.#.ssm_b_norm.weight", ConfigDim::StateKeys, ConfigDim::None,
     When::Recurrent},
    {"model.layers.#.mamba.c_layernorm.weight", "blk.#.ssm_c_norm.weight", ConfigDim::StateKeys, ConfigDim::None,
     When::Recurrent},
};

// Of so many layers the one with this number has what others have not.
static std::vector<bool> everyLayer(JsonObject &object, const ModelConfig &config, const char *periodKey,
                                    const char *offsetKey, int64_t period, int64_t offset) {
  std::vector<bool> layers(config.layerWindow.size());
  period = object.bounded(periodKey, object.integer(periodKey).value_or(period), 1, 1 << 20);
  offset = object.bounded(offsetKey, object.integer(offsetKey).value_or(offset), 0, period - 1);
  for (size_t layer = 0; layer < layers.size(); ++layer)
    layers[layer] = int64_t(layer) % period == offset;
  return layers;
}

static void readJamba(JsonObject &object, ModelConfig &config) {
  config.recurrent.layers =
      everyLayer(object, config, "attn_layer_period", "attn_layer_offset", /*period=*/8, /*offset=*/4);
  config.recurrent.layers.flip();
  readMixer(object, config,
            {"mamba_d_conv", "mamba_d_state", "mamba_conv_bias", "mamba_proj_bias", "mamba_expand", nullptr,
             "mamba_dt_rank"});
  config.recurrent.partsEps = config.normEps;
  MoeConfig &moe = config.moe;
  readExpertCounts(object, config, /*numExperts=*/16, /*expertsPerToken=*/2);
  moe.layerIsMoe = everyLayer(object, config, "expert_layer_period", "expert_layer_offset", /*period=*/2, /*offset=*/1);
  moe.intermediateSize = config.intermediateSize;
  moe.normTopkProb = false;
  if (moe.numExperts == 1) { // which is a block like the others
    moe = MoeConfig();
    moe.layerIsMoe.assign(config.layerWindow.size(), false);
  }
}

static void readGgufJamba(GgufKeys &keys, ModelConfig &config) {
  readGgufMixer(keys, config);
  config.recurrent.partsEps = config.normEps;
  config.moe.intermediateSize = config.intermediateSize;
  config.moe.normTopkProb = false;
}

static void buildJamba(ModelBuilder &b) {
  buildDecoder(b, [&](int64_t layer, TensorHandle x) {
    TensorHandle normed = b.rmsNorm(x, "input_layernorm");
    x = b.add(x, b.config().isRecurrent(layer) ? mixer(b, normed, "mamba.") : selfAttention(b, normed));
    return b.add(x, layerFeedForward(b, layer, b.rmsNorm(x, "pre_ff_layernorm")));
  });
}

static constexpr KeyName jambaNames[] = {{"conv_L_cache", "mamba_d_conv", "ssm.conv_kernel"},
                                         {"linear_num_value_heads", "mamba_expand", "ssm.inner_size"},
                                         {"linear_key_head_dim", "mamba_d_state"},
                                         {"time_step_rank", "mamba_dt_rank", "ssm.time_step_rank"},
                                         {"num_local_experts", "num_experts"}};

static constexpr KeyAlias jambaAliases[] = {{"num_local_experts", "num_experts"}};

static constexpr Family describeJamba() {
  Family row;
  row.modelType = "jamba";
  row.gguf = "jamba";
  row.finalNorm = "model.final_layernorm";
  row.rules = {jambaRules, attentionRules, jambaMixerRules, partNormRules};
  row.keyNames = jambaNames;
  row.aliases = jambaAliases;
  row.feedForward.block = "feed_forward.";
  row.experts.block = "feed_forward.";
  row.experts.router = "router";
  row.experts.fusedGateAndUp = "feed_forward.experts.gate_up_proj";
  row.experts.fusedDown = "feed_forward.experts.down_proj";
  row.defaults.vocabSize = 65536;
  row.defaults.numHeads = 32;
  row.defaults.numKvHeads = 8;
  row.defaults.context = 262144;
  row.windows.recurrentType = "linear_attention";
  row.rope.hasRope = false;
  row.readers.huggingFaceRest = readJamba;
  row.readers.ggufRest = readGgufJamba;
  row.build = buildJamba;
  return row;
}
const Family family::jamba = describeJamba();

} // namespace heddle
