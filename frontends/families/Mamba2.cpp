// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Mamba 2 (arXiv:2405.21060): each layer is a norm and the mixer, and nothing attends. Nemotron-H (arXiv:2504.03624): each layer is a norm and one of
// the mixer, attention without a rotation, and a feed-forward block without a gate. Nemotron 3 (2025): or experts without one, chosen by a corrected
// sigmoid, which may read and give less than a layer's width, beside one that every token passes. GGUF has another name for it.

#include "frontends/families/Decoder.h"
#include "frontends/families/Families.h"
#include "frontends/families/Mamba2Mixer.h"
#include "frontends/families/MambaSizes.h"
#include "frontends/families/RoutedExperts.h"
#include "frontends/gguf/GgufModel.h"
#include "frontends/huggingface/Config.h"

#include "bytes/Text.h"

#include <algorithm>

namespace heddle {

static constexpr TensorRule modelRules[] = {
    {"backbone.embeddings.weight", "token_embd.weight", ConfigDim::Vocab, ConfigDim::Hidden},
    {"backbone.norm_f.weight", "output_norm.weight", ConfigDim::Hidden},
    {"backbone.layers.#.norm.weight", "blk.#.attn_norm.weight", ConfigDim::Hidden},
    {"lm_head.weight", "output.weight", ConfigDim::Vocab, ConfigDim::Hidden, When::Untied},
};

static constexpr TensorRule mixerRules[] = HEDDLE_MAMBA2_RULES("backbone.layers.#.mixer.");

static Mamba2Keys mixerKeys(const char *expand) {
  Mamba2Keys keys;
  keys.expand = expand;
  keys.convBias = "use_conv_bias";
  keys.inputBias = keys.outputBias = "use_bias";
  keys.groups = 8;
  keys.stateSize = 128;
  keys.headDim = 64;
  return keys;
}

static void readRest(JsonObject &object, ModelConfig &config) {
  config.recurrent.layers.assign(config.layerWindow.size(), true);
  readMamba2(object, config, mixerKeys("expand"));
}

static void readGgufRest(GgufKeys &keys, ModelConfig &config) {
  config.recurrent.layers.assign(config.layerWindow.size(), true);
  readGgufMamba2(keys, config);
}

// The experts that are chosen by the layer's own width, between the projections of what they read, beside the one that every token passes.
static TensorHandle ungatedExperts(ModelBuilder &b, TensorHandle x) {
  bool isNarrow = b.config().moe.latentSize > 0;
  TensorHandle routed = isNarrow ? b.moe(b.linear(x, "mixer.fc1_latent_proj"), "mixer.", x) : b.moe(x, "mixer.");
  if (isNarrow)
    routed = b.linear(routed, "mixer.fc2_latent_proj");
  TensorHandle up = b.activation(b.linear(x, "mixer.shared_experts.up_proj"));
  return b.add(routed, b.linear(up, "mixer.shared_experts.down_proj"));
}

// A norm and one block in each layer.
static void build(ModelBuilder &b) {
  TensorHandle x = b.embedTokens(b.config().family->embedding);
  x = decoderLayers(b, "backbone.layers.", x, [&](int64_t layer, TensorHandle x) {
    TensorHandle normed = b.rmsNorm(x, "norm");
    return b.add(x, b.config().isRecurrent(layer)              ? mamba2Mixer(b, normed, "mixer.")
                    : b.config().attends(layer)                ? selfAttention(b, normed)
                    : b.config().moe.layerIsMoe[size_t(layer)] ? ungatedExperts(b, normed)
                                                               : feedForward(b, normed));
  });
  finishDecoder(b, b.rmsNorm(x, b.config().family->finalNorm));
}

static constexpr KeyName keyNames[] = {
    {"rms_norm_eps", "layer_norm_epsilon"}, {"conv_L_cache", "conv_kernel", "ssm.conv_kernel"},
    {"linear_num_key_heads", "n_groups"},   {"linear_num_value_heads", "num_heads"},
    {"linear_key_head_dim", "state_size"},  {"linear_value_head_dim", "head_dim"}};

static constexpr Family describeMamba2() {
  Family row;
  row.modelType = "mamba2";
  row.gguf = "mamba2";
  row.embedding = "backbone.embeddings.weight";
  row.finalNorm = "backbone.norm_f";
  row.rules = {modelRules, mixerRules};
  row.keyNames = keyNames;
  row.defaults.vocabSize = 32768;
  row.defaults.numHeads = 1;
  row.defaults.context = 1 << 20; // a state has no length
  row.defaults.normEps = 1e-5;
  row.rope.hasRope = false;
  row.readers.huggingFaceSizes = readMambaSizes;
  row.readers.ggufSizes = readGgufMambaSizes;
  row.readers.huggingFaceRest = readRest;
  row.readers.ggufRest = readGgufRest;
  row.build = build;
  return row;
}
const Family family::mamba2 = describeMamba2();

static constexpr TensorRule attendingRules[] = {
    {"backbone.layers.#.mixer.q_proj.weight", "blk.#.attn_q.weight", ConfigDim::Queries, ConfigDim::Hidden,
     When::Attends},
    {"backbone.layers.#.mixer.k_proj.weight", "blk.#.attn_k.weight", ConfigDim::KeyValues, ConfigDim::Hidden,
     When::Attends},
    {"backbone.layers.#.mixer.v_proj.weight", "blk.#.attn_v.weight", ConfigDim::KeyValues, ConfigDim::Hidden,
     When::Attends},
    {"backbone.layers.#.mixer.o_proj.weight", "blk.#.attn_output.weight", ConfigDim::Hidden, ConfigDim::Queries,
     When::Attends},
};

static constexpr TensorRule feedForwardBlockRules[] = {
    {"backbone.layers.#.mixer.up_proj.weight", "blk.#.ffn_up.weight", ConfigDim::Intermediate, ConfigDim::Hidden,
     When::Alone},
    {"backbone.layers.#.mixer.down_proj.weight", "blk.#.ffn_down.weight", ConfigDim::Hidden, ConfigDim::Intermediate,
     When::Alone},
    {"backbone.layers.#.mixer.up_proj.bias", "blk.#.ffn_up.bias", ConfigDim::Intermediate, ConfigDim::None,
     When::AloneBias},
    {"backbone.layers.#.mixer.down_proj.bias", "blk.#.ffn_down.bias", ConfigDim::Hidden, ConfigDim::None,
     When::AloneBias},
};

static constexpr TensorRule ungatedExpertRules[] = {
    {"backbone.layers.#.mixer.gate.weight", "blk.#.ffn_gate_inp.weight", ConfigDim::Experts, ConfigDim::Hidden,
     When::Sparse},
    {"backbone.layers.#.mixer.gate.e_score_correction_bias", "blk.#.exp_probs_b.bias", ConfigDim::Experts,
     ConfigDim::None, When::Correction},
    {"backbone.layers.#.mixer.experts.@.up_proj.weight", "blk.#.ffn_up_exps.weight", ConfigDim::ExpertIntermediate,
     ConfigDim::ExpertInput, When::Sparse},
    {"backbone.layers.#.mixer.experts.@.down_proj.weight", "blk.#.ffn_down_exps.weight", ConfigDim::ExpertInput,
     ConfigDim::ExpertIntermediate, When::Sparse},
    {"backbone.layers.#.mixer.fc1_latent_proj.weight", "blk.#.ffn_latent_down.weight", ConfigDim::ExpertInput,
     ConfigDim::Hidden, When::ExpertLatent},
    {"backbone.layers.#.mixer.fc2_latent_proj.weight", "blk.#.ffn_latent_up.weight", ConfigDim::Hidden,
     ConfigDim::ExpertInput, When::ExpertLatent},
    {"backbone.layers.#.mixer.fc1_latent_proj.bias", "blk.#.ffn_latent_down.bias", ConfigDim::ExpertInput,
     ConfigDim::None, When::ExpertLatentBias},
    {"backbone.layers.#.mixer.fc2_latent_proj.bias", "blk.#.ffn_latent_up.bias", ConfigDim::Hidden, ConfigDim::None,
     When::ExpertLatentBias},
    {"backbone.layers.#.mixer.shared_experts.up_proj.weight", "blk.#.ffn_up_shexp.weight",
     ConfigDim::SharedIntermediate, ConfigDim::Hidden, When::Shared},
    {"backbone.layers.#.mixer.shared_experts.down_proj.weight", "blk.#.ffn_down_shexp.weight", ConfigDim::Hidden,
     ConfigDim::SharedIntermediate, When::Shared},
    {"backbone.layers.#.mixer.shared_experts.up_proj.bias", "blk.#.ffn_up_shexp.bias", ConfigDim::SharedIntermediate,
     ConfigDim::None, When::SharedBias},
    {"backbone.layers.#.mixer.shared_experts.down_proj.bias", "blk.#.ffn_down_shexp.bias", ConfigDim::Hidden,
     ConfigDim::None, When::SharedBias},
};

// What each layer is, as a list of words or, in older files, one character for each.
static std::vector<std::string> blockTypes(JsonObject &object) {
  const char *key = "hybrid_override_pattern";
  if (object.has("layers_block_type"))
    return object.strings("layers_block_type");
  std::vector<std::string> types;
  for (char kind : object.string(key).value_or(""))
    types.push_back(kind == 'M'   ? "linear_attention"
                    : kind == '*' ? "full_attention"
                    : kind == '-' ? "mlp"
                    : kind == 'E' ? "moe"
                                  : std::string(1, kind));
  if (types.empty())
    object.fail(key, "is missing");
  return types;
}

static void readHybridSizes(JsonObject &object, ModelConfig &config) {
  const ConfigDefaults &defaults = config.family->defaults;
  auto read = [&](const char *key, int64_t fallback) { return object.integer(key).value_or(fallback); };
  object.pass("num_hidden_layers"); // which the reference counts
  config.vocabSize = read("vocab_size", defaults.vocabSize);
  config.hiddenSize = read("hidden_size", 4096);
  config.numHiddenLayers = static_cast<int64_t>(blockTypes(object).size());
  config.numHeads = read("num_attention_heads", defaults.numHeads);
  config.numKvHeads = read("num_key_value_heads", object.isNull("num_key_value_heads") ? config.numHeads : 8);
  config.headDim = read("head_dim", defaults.headDim);
  config.intermediateSize = read("intermediate_size", 21504);
  config.contextLength = read("max_position_embeddings", defaults.context);
  config.normEps = object.number("layer_norm_epsilon").value_or(defaults.normEps);
}

static void readBlockTypes(JsonObject &object, ModelConfig &config) {
  const char *key = object.has("layers_block_type") ? "layers_block_type" : "hybrid_override_pattern";
  config.attending.assign(config.layerWindow.size(), false);
  config.recurrent.layers = config.attending;
  size_t layer = 0;
  for (const std::string &type : blockTypes(object)) {
    config.attending[layer] = type == "full_attention" || type == "attention";
    config.recurrent.layers[layer] = type == "linear_attention" || type == "mamba";
    config.moe.layerIsMoe[layer] = type == "moe";
    if (!config.attending[layer] && !config.recurrent.layers[layer] && type != "moe" && type != "mlp")
      object.fail(key, "holds '" + printable(type, 64) +
                           "', expected linear_attention (M), full_attention (*), mlp (-) or moe (E)");
    ++layer;
  }
}

// Of a model where a layer has them; config files of others have the keys of their class.
static void readUngatedExperts(JsonObject &object, ModelConfig &config) {
  MoeConfig &moe = config.moe;
  std::vector<bool> layers = moe.layerIsMoe;
  RoutedDefaults defaults;
  defaults.numExperts = 8;
  defaults.perToken = 2;
  defaults.width = 7688;
  defaults.numShared = 1;
  defaults.normTopkProb = true;
  readRoutedExperts(object, config, defaults);
  moe.layerIsMoe = layers;
  moe.sharedIntermediateSize =
      object.bounded("moe_shared_expert_intermediate_size",
                     object.integer("moe_shared_expert_intermediate_size").value_or(7688), 1, 1 << 24);
  moe.sigmoidScores = moe.hasCorrection = true;
  moe.numGroups = object.integer("n_group").value_or(1);
  moe.topGroups = object.integer("topk_group").value_or(1);
  moe.latentSize = object.integer("moe_latent_size").value_or(0);
  if (object.has("moe_latent_size") && moe.latentSize == 0)
    object.fail("moe_latent_size", "is 0, expected a positive number or null");
  if (std::find(layers.begin(), layers.end(), true) == layers.end()) {
    moe = MoeConfig();
    moe.layerIsMoe = std::move(layers);
  }
}

static void readHybrid(JsonObject &object, ModelConfig &config) {
  readBlockTypes(object, config);
  readUngatedExperts(object, config);
  readMamba2(object, config, mixerKeys(/*expand=*/nullptr));
  std::string activation = object.string("mamba_hidden_act").value_or("silu");
  if (std::optional<Activation> known = activationNamed(activation))
    config.recurrent.activation = *known;
  else
    object.fail("mamba_hidden_act",
                "is '" + printable(activation, 64) + "', an unknown activation; known: " + knownActivations());
  // The reference's prompts have a least step, what follows them has none.
  constexpr double mostLeast = 1e-3;
  if (double least = object.number("time_step_min").value_or(mostLeast); !(least <= mostLeast))
    object.unsupported("time_step_min", "is " + std::to_string(least) +
                                            ", a bound of steps that is not supported; expected at most 0.001");
}

// A number of each layer, 0 where it has no such block.
static std::vector<bool> layersWith(GgufKeys &keys, const ModelConfig &config, const char *key) {
  Expected<std::vector<int64_t>> numbers = keys.source().integers(
      keys.full(key), {config.numHiddenLayers + config.numPredictionLayers, "layers", keys.full("block_count")});
  keys.adopt(numbers.status());
  std::vector<bool> has(size_t(config.numHiddenLayers), false);
  for (size_t layer = 0; numbers && layer < std::min(has.size(), numbers->size()); ++layer)
    has[layer] = (*numbers)[layer] != 0;
  return has;
}

static void readGgufHybrid(GgufKeys &keys, ModelConfig &config) {
  config.normEps = keys.number("attention.layer_norm_rms_epsilon", config.normEps);
  config.attending = layersWith(keys, config, "attention.head_count_kv");
  std::vector<bool> feedsForward = layersWith(keys, config, "feed_forward_length");
  config.recurrent.layers.assign(config.attending.size(), false);
  for (size_t layer = 0; layer < config.attending.size(); ++layer)
    config.recurrent.layers[layer] = !config.attending[layer] && !feedsForward[layer];
  readGgufMamba2(keys, config);
}

static constexpr KeyName hybridNames[] = {{"rms_norm_eps", "layer_norm_epsilon", "attention.layer_norm_epsilon"},
                                          {"conv_L_cache", "conv_kernel", "ssm.conv_kernel"},
                                          {"linear_num_key_heads", "n_groups"},
                                          {"linear_num_value_heads", "mamba_num_heads"},
                                          {"linear_key_head_dim", "ssm_state_size"},
                                          {"linear_value_head_dim", "mamba_head_dim"},
                                          {"num_hidden_layers", "layers_block_type"},
                                          {"num_local_experts", "n_routed_experts"}};

static constexpr KeyAlias hybridAliases[] = {{"mamba_n_groups", "n_groups"},
                                             {"mamba_d_conv", "conv_kernel"},
                                             {"mamba_conv_bias", "use_conv_bias"},
                                             {"num_local_experts", "n_routed_experts"}};

// What predicts one token more, in GGUF files behind the last layer.
static constexpr UnreadTensor predictionTensors[] = {{"mtp.*"}, {"blk.+.*"}};

static constexpr Family describeNemotronH() {
  Family row = describeMamba2();
  row.modelType = "nemotron_h";
  row.gguf = "nemotron_h";
  row.rules = {modelRules, mixerRules, attendingRules, feedForwardBlockRules, ungatedExpertRules};
  row.unread = predictionTensors;
  row.keyNames = hybridNames;
  row.aliases = hybridAliases;
  row.activationKey = "mlp_hidden_act";
  row.attention.block = "mixer.";
  row.feedForward = {"mixer.", nullptr, "up_proj", "down_proj"};
  row.experts.block = "mixer.";
  row.experts.gate = nullptr;
  row.biases.mlpKey = "mlp_bias";
  row.defaults.vocabSize = 131072;
  row.defaults.numHeads = 32;
  row.defaults.headDim = 128;
  row.defaults.context = 4096;
  row.defaults.activation = Activation::SquaredRelu;
  row.windows.recurrentType = "linear_attention";
  row.readers.huggingFaceAllSizes = readHybridSizes;
  row.readers.huggingFaceSizes = nullptr;
  row.readers.ggufSizes = nullptr;
  row.readers.huggingFaceRest = readHybrid;
  row.readers.ggufRest = readGgufHybrid;
  row.build = build;
  return row;
}
const Family family::nemotronH = describeNemotronH();

static void readGgufHybridExperts(GgufKeys &keys, ModelConfig &config) {
  readGgufHybrid(keys, config);
  readGgufRoutedExperts(keys, config);
  config.moe.sigmoidScores = true;
  config.moe.sharedIntermediateSize = keys.integer("expert_shared_feed_forward_length");
  config.moe.latentSize = keys.integer("moe_latent_size", 0);
}

// Of GGUF files alone: Hugging Face has one name for both.
static constexpr Family describeNemotronHMoe() {
  Family row = describeNemotronH();
  row.gguf = "nemotron_h_moe";
  row.hasExperts = true;
  row.readers.ggufRest = readGgufHybridExperts;
  return row;
}
const Family family::nemotronHMoe = describeNemotronHMoe();

} // namespace heddle
