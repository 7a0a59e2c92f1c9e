// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// OLMo (Groeneveld et al. 2024, arXiv:2402.00838): Llama whose norms are LayerNorm without weights; some checkpoints clip queries, keys and
// values. OLMo 2 (arXiv:2501.00656): norms stand behind attention and feed-forward and not before them, with norms over all query heads and all
// key heads at once. OLMo 3 (Ai2 2025): OLMo 2 with a window in three of four layers, whose rotation is never scaled; GGUF calls both olmo2.
// OLMo Hybrid (Ai2 2026): OLMo 3's layers without windows, and most others before them keep a state by the gated delta rule, behind norms that stand
// before its blocks; heads need not rotate. FlexOlmo (Ai2 2025, arXiv:2507.07024): OLMo 2 with experts in every layer.
// OLMoE (arXiv:2409.02060): Llama with these norms of heads and experts in every layer.

#include "frontends/families/Decoder.h"
#include "frontends/families/DeltaRule.h"
#include "frontends/families/Families.h"
#include "frontends/gguf/GgufModel.h"
#include "frontends/huggingface/Config.h"

#include <algorithm>

namespace heddle {

static constexpr TensorRule outerRules[] = {
    {"model.embed_tokens.weight", "token_embd.weight", ConfigDim::Vocab, ConfigDim::Hidden},
    {"lm_head.weight", "output.weight", ConfigDim::Vocab, ConfigDim::Hidden, When::Untied},
};

// Without one in config.json: the reference reads none.
static constexpr KeyName keyNames[] = {{"rms_norm_eps", "", "attention.layer_norm_epsilon"}};

static void readClip(JsonObject &object, ModelConfig &config) {
  config.clipQkv = object.number("clip_qkv").value_or(0.0);
  if (object.has("clip_qkv") && config.clipQkv <= 0.0)
    object.fail("clip_qkv", "is " + std::to_string(config.clipQkv) + ", expected a positive number, or null for none");
}

static void readGgufClip(GgufKeys &keys, ModelConfig &config) {
  config.clipQkv = keys.number("attention.clamp_kqv", 0.0);
}

static constexpr Family describeOlmo() {
  Family row;
  row.modelType = "olmo";
  row.gguf = "olmo";
  row.rules = {outerRules, attentionRules, feedForwardRules};
  row.keyNames = keyNames;
  row.defaults.normEps = 1e-5;
  row.norm = NormKind::Layer;
  row.biases.attentionKey = "attention_bias";
  row.rope.interleavedInGguf = true;
  row.readers.huggingFaceRest = readClip;
  row.readers.ggufRest = readGgufClip;
  row.build = buildPreNormDecoder;
  return row;
}
const Family family::olmo = describeOlmo();

// A file with a window is of OLMo 3. yarn_attn_factor's older name holds the reference's attention_factor, too.
static void readGgufWindows(GgufKeys &keys, ModelConfig &config) {
  if (!keys.has("attention.sliding_window"))
    return;
  RopeConfig &rope = config.ropes[0], local = rope;
  if (rope.scaling == RopeScalingKind::Yarn && keys.has("rope.scaling.attn_factor"))
    rope.attentionFactor = keys.number("rope.scaling.attn_factor", 1.0);
  local.scaling = RopeScalingKind::None;
  local.theta = keys.number("rope.freq_base_swa", rope.theta);
  config.ropes.push_back(local);
  rotateWindowsApart(config);
}

static constexpr Family describeOlmo2() {
  Family row;
  row.modelType = "olmo2";
  row.gguf = "olmo2";
  row.rules = {embeddingRules, attentionRules, wideNormRules, normsBehindRules, feedForwardRules};
  row.defaults.normEps = 1e-5;
  row.headNorms = HeadNorms::AllHeads;
  row.biases.attentionKey = "attention_bias";
  row.windows.fullEvery = 4;
  row.windows.statesFullEvery = true;
  row.readers.ggufRest = readGgufWindows;
  row.build = buildPostNormDecoder;
  return row;
}
const Family family::olmo2 = describeOlmo2();

// rope_scaling is of the layers that see all tokens. A base outside of rope_parameters is theirs alone, too.
static void readOlmo3Ropes(JsonObject &object, ModelConfig &config) {
  double theta = config.family->defaults.ropeTheta;
  readRopesByType(object, config, object.number("rope_theta").value_or(theta), theta, /*scalesBoth=*/false);
  rotateWindowsApart(config);
}

static constexpr Family describeOlmo3() {
  Family row = describeOlmo2();
  row.modelType = "olmo3";
  row.gguf = nullptr;
  row.defaults.slidingWindow = 4096;
  row.defaults.ropeTheta = 500000.0;
  row.windows.use = WindowUse::Stated;
  row.windows.readsLayerTypes = true;
  row.windows.statesFullEvery = false;
  row.readers.huggingFaceRopes = readOlmo3Ropes;
  row.readers.ggufRest = nullptr;
  return row;
}
const Family family::olmo3 = describeOlmo3();

static constexpr TensorRule hybridLayerRules[] = {
    {"model.layers.#.attention_layer_norm.weight", nullptr, ConfigDim::Hidden, ConfigDim::None, When::Recurrent},
    {"model.layers.#.feedforward_layer_norm.weight", nullptr, ConfigDim::Hidden, ConfigDim::None, When::Recurrent},
    {"model.layers.#.post_attention_layernorm.weight", nullptr, ConfigDim::Hidden, ConfigDim::None, When::Attends},
    {"model.layers.#.post_feedforward_layernorm.weight", nullptr, ConfigDim::Hidden, ConfigDim::None, When::Attends},
    {"model.layers.#.self_attn.q_norm.weight", nullptr, ConfigDim::Queries, ConfigDim::None, When::Attends},
    {"model.layers.#.self_attn.k_norm.weight", nullptr, ConfigDim::KeyValues, ConfigDim::None, When::Attends},
};

static constexpr TensorRule hybridStateRules[] = {
    {"model.layers.#.linear_attn.q_proj.weight", nullptr, ConfigDim::StateKeys, ConfigDim::Hidden, When::Recurrent},
    {"model.layers.#.linear_attn.k_proj.weight", nullptr, ConfigDim::StateKeys, ConfigDim::Hidden, When::Recurrent},
    {"model.layers.#.linear_attn.v_proj.weight", nullptr, ConfigDim::StateValues, ConfigDim::Hidden, When::Recurrent},
    {"model.layers.#.linear_attn.a_proj.weight", nullptr, ConfigDim::StateHeads, ConfigDim::Hidden, When::Recurrent},
    {"model.layers.#.linear_attn.b_proj.weight", nullptr, ConfigDim::StateHeads, ConfigDim::Hidden, When::Recurrent},
    {"model.layers.#.linear_attn.g_proj.weight", nullptr, ConfigDim::StateValues, ConfigDim::Hidden, When::Recurrent},
    {"model.layers.#.linear_attn.q_conv1d.weight", nullptr, ConfigDim::StateKeys, ConfigDim::ConvWidth, When::Recurrent,
     StoredOrder::Flattened},
    {"model.layers.#.linear_attn.k_conv1d.weight", nullptr, ConfigDim::StateKeys, ConfigDim::ConvWidth, When::Recurrent,
     StoredOrder::Flattened},
    {"model.layers.#.linear_attn.v_conv1d.weight", nullptr, ConfigDim::StateValues, ConfigDim::ConvWidth,
     When::Recurrent, StoredOrder::Flattened},
    {"model.layers.#.linear_attn.A_log", nullptr, ConfigDim::StateHeads, ConfigDim::None, When::Recurrent},
    {"model.layers.#.linear_attn.dt_bias", nullptr, ConfigDim::StateHeads, ConfigDim::None, When::Recurrent},
    {"model.layers.#.linear_attn.o_norm.weight", nullptr, ConfigDim::StateHeadDim, ConfigDim::None, When::Recurrent},
    {"model.layers.#.linear_attn.o_proj.weight", nullptr, ConfigDim::Hidden, ConfigDim::StateValues, When::Recurrent},
};

static constexpr KeyName hybridNames[] = {{"conv_L_cache", "linear_conv_kernel_dim"}};

// A base of null: no layer rotates.
static void readHybridRopes(JsonObject &object, ModelConfig &config) {
  JsonObject rope = object.object(ropeKey(object));
  double theta = object.number("rope_theta").value_or(config.family->defaults.ropeTheta);
  bool rotates = rope.has("rope_theta") || !(rope.isNull("rope_theta") || object.isNull("rope_theta"));
  config.ropes = {readRope(rope, object, config, theta)};
  object.adopt(rope);
  if (!rotates)
    config.ropes.clear();
}

// The reference has one layer of either kind at least.
static void readHybridStates(JsonObject &object, ModelConfig &config) {
  RecurrentConfig &state = config.recurrent;
  if (!object.has("layer_types") && !config.hasAttention() && !state.layers.empty())
    state.layers.back() = false;
  auto read = [&](const char *key, int64_t absent) {
    return object.bounded(key, object.integer(key).value_or(absent), 1, 1 << 16);
  };
  state.isLinear = state.ratesAreLogs = true;
  state.convWidth = object.integer("linear_conv_kernel_dim").value_or(4);
  state.numKeyHeads = read("linear_num_key_heads", config.numHeads);
  state.numValueHeads = read("linear_num_value_heads", config.numHeads);
  state.keyDim = read("linear_key_head_dim", 3 * config.hiddenSize / (4 * std::max<int64_t>(1, state.numKeyHeads)));
  state.valueDim = read("linear_value_head_dim", 2 * state.keyDim);
  state.betaScale = object.flag("linear_allow_neg_eigval", true) ? 2.0 : 1.0;
}

static TensorHandle hybridState(ModelBuilder &b, TensorHandle x) {
  auto behindConv = [&](const char *part) {
    std::string name = std::string("linear_attn.") + part;
    return b.causalConv(b.linear(x, name + "_proj"), name + "_conv1d", b.config().activation);
  };
  DeltaInputs in;
  in.q = behindConv("q");
  in.k = behindConv("k");
  in.v = behindConv("v");
  in.steps = b.linear(x, "linear_attn.a_proj");
  in.betas = b.linear(x, "linear_attn.b_proj");
  TensorHandle heads = b.splitHeads(deltaRule(b, in, "linear_attn."), b.config().recurrent.numValueHeads);
  TensorHandle normed = b.mergeHeads(b.rmsNorm(heads, "linear_attn.o_norm", 1e-5));
  return b.linear(b.glu(b.linear(x, "linear_attn.g_proj"), normed, Activation::Silu), "linear_attn.o_proj");
}

static void buildHybrid(ModelBuilder &b) {
  buildDecoder(b, [&](int64_t layer, TensorHandle x) {
    if (b.config().isRecurrent(layer)) {
      x = b.add(x, hybridState(b, b.rmsNorm(x, "attention_layer_norm")));
      return b.add(x, feedForward(b, b.rmsNorm(x, "feedforward_layer_norm")));
    }
    x = b.add(x, b.rmsNorm(selfAttention(b, x), "post_attention_layernorm"));
    return b.add(x, b.rmsNorm(feedForward(b, x), "post_feedforward_layernorm"));
  });
}

static constexpr Family describeHybrid() {
  Family row;
  row.modelType = "olmo_hybrid";
  row.rules = {embeddingRules, attentionRules, hybridLayerRules, hybridStateRules, feedForwardRules};
  row.keyNames = hybridNames;
  row.defaults.vocabSize = 100352;
  row.defaults.numHeads = 30;
  row.defaults.context = 65536;
  row.headNorms = HeadNorms::AllHeads;
  row.biases.attentionKey = "attention_bias";
  row.windows.readsLayerTypes = true;
  row.windows.recurrentType = "linear_attention";
  row.windows.fullEvery = 4;
  row.readers.huggingFaceRopes = readHybridRopes;
  row.readers.huggingFaceRest = readHybridStates;
  row.build = buildHybrid;
  return row;
}
const Family family::olmoHybrid = describeHybrid();

static constexpr KeyName expertNames[] = {{"num_local_experts", "num_experts"}};
static constexpr KeyAlias expertAliases[] = {{"num_local_experts", "num_experts"}};

static void readExperts(JsonObject &object, ModelConfig &config, int64_t numExperts, int64_t expertsPerToken) {
  MoeConfig &moe = config.moe;
  readExpertCounts(object, config, numExperts, expertsPerToken);
  moe.intermediateSize = config.intermediateSize;
  moe.normTopkProb = object.boolean("norm_topk_prob").value_or(false);
  moe.layerIsMoe.assign(moe.layerIsMoe.size(), true);
}

static void readOlmoe(JsonObject &object, ModelConfig &config) {
  readClip(object, config);
  readExperts(object, config, /*numExperts=*/64, /*expertsPerToken=*/8);
}

static void readFlexOlmo(JsonObject &object, ModelConfig &config) {
  readExperts(object, config, /*numExperts=*/7, /*expertsPerToken=*/5);
}

static void readGgufExperts(GgufKeys &keys, ModelConfig &config) {
  config.moe.normTopkProb = keys.boolean("expert_weights_norm", false);
}

static constexpr Family describeOlmoe() {
  Family row;
  row.modelType = "olmoe";
  row.gguf = "olmoe";
  row.hasExperts = true;
  row.rules = {embeddingRules, attentionNormRules, attentionRules, wideNormRules, feedForwardNormRules, expertRules};
  row.keyNames = expertNames;
  row.aliases = expertAliases;
  row.defaults.context = 4096;
  row.defaults.normEps = 1e-5;
  row.headNorms = HeadNorms::AllHeads;
  row.biases.attentionKey = "attention_bias";
  row.readers.huggingFaceRest = readOlmoe;
  row.readers.ggufRest = readGgufExperts;
  row.build = buildPreNormDecoder;
  return row;
}
const Family family::olmoe = describeOlmoe();

static constexpr Family describeFlexOlmo() {
  Family row = describeOlmo2();
  row.modelType = "flex_olmo";
  row.gguf = nullptr;
  row.hasExperts = true;
  row.rules = {embeddingRules, attentionRules, wideNormRules, normsBehindRules, expertRules};
  row.keyNames = expertNames;
  row.aliases = expertAliases;
  row.defaults.context = 4096;
  row.defaults.normEps = 1e-6;
  row.defaults.ropeTheta = 500000.0;
  row.windows = {};
  row.readers.huggingFaceRest = readFlexOlmo;
  row.readers.ggufRest = nullptr;
  return row;
}
const Family family::flexOlmo = describeFlexOlmo();

} // namespace heddle
