// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Gemma 4 text. Layers that see all tokens have wider heads than those with a window, fewer of keys, and may take values of the keys' projection;
// of such a head a share of the pairs rotates. The last layers may attend to keys and values of earlier ones, with feed-forward blocks twice as
// wide, and each layer may get an embedding of its own for each token (Gemma 3n). What a layer gives is multiplied by a number of its own.
// Beside the feed-forward block of each layer may stand experts, which have norms of their own, as has their router.

#include "bytes/Text.h"
#include "frontends/families/Families.h"
#include "frontends/families/GemmaLayers.h"
#include "frontends/huggingface/Config.h"

#include <cmath>

namespace heddle {

static constexpr TensorRule scalarRules[] = {
    {"model.layers.#.layer_scalar", "blk.#.layer_output_scale.weight", ConfigDim::One},
};

// The feed-forward block stands beside experts, too.
static constexpr TensorRule feedForwardRules4[] = {
    {"model.layers.#.mlp.gate_proj.weight", "blk.#.ffn_gate.weight", ConfigDim::Intermediate, ConfigDim::Hidden},
    {"model.layers.#.mlp.up_proj.weight", "blk.#.ffn_up.weight", ConfigDim::Intermediate, ConfigDim::Hidden},
    {"model.layers.#.mlp.down_proj.weight", "blk.#.ffn_down.weight", ConfigDim::Hidden, ConfigDim::Intermediate},
};

static constexpr TensorRule expertRules4[] = {
    {"model.layers.#.post_feedforward_layernorm_1.weight", "blk.#.post_ffw_norm_1.weight", ConfigDim::Hidden,
     ConfigDim::None, When::Sparse},
    {"model.layers.#.pre_feedforward_layernorm_2.weight", "blk.#.pre_ffw_norm_2.weight", ConfigDim::Hidden,
     ConfigDim::None, When::Sparse},
    {"model.layers.#.post_feedforward_layernorm_2.weight", "blk.#.post_ffw_norm_2.weight", ConfigDim::Hidden,
     ConfigDim::None, When::Sparse},
    {"model.layers.#.router.scale", "blk.#.ffn_gate_inp.scale", ConfigDim::Hidden, ConfigDim::None, When::Sparse},
    {"model.layers.#.router.proj.weight", "blk.#.ffn_gate_inp.weight", ConfigDim::Experts, ConfigDim::Hidden,
     When::Sparse},
    {"model.layers.#.router.per_expert_scale", "blk.#.ffn_down_exps.scale", ConfigDim::Experts, ConfigDim::None,
     When::Sparse},
    {"model.layers.#.experts.@.gate_up_proj.weight", "blk.#.ffn_gate_up_exps.weight", ConfigDim::ExpertGateAndUp,
     ConfigDim::Hidden, When::FusedGates},
    {"model.layers.#.experts.@.gate_proj.weight", "blk.#.ffn_gate_exps.weight", ConfigDim::ExpertIntermediate,
     ConfigDim::Hidden, When::SplitGates},
    {"model.layers.#.experts.@.up_proj.weight", "blk.#.ffn_up_exps.weight", ConfigDim::ExpertIntermediate,
     ConfigDim::Hidden, When::SplitGates},
    {"model.layers.#.experts.@.down_proj.weight", "blk.#.ffn_down_exps.weight", ConfigDim::Hidden,
     ConfigDim::ExpertIntermediate, When::Sparse},
};

constexpr int64_t mostHeads = 1 << 16, widestHead = 1 << 16;

// Of a layer that sees all tokens.
static RopeConfig readFullRope(JsonObject &ropes, JsonObject &rope, JsonObject &object, const ModelConfig &config,
                               int64_t headDim) {
  bool isGiven = ropes.has("full_attention");
  ModelConfig wide = config; // but for its heads
  wide.headDim = headDim;
  std::string kind = rope.string("rope_type").value_or(isGiven ? "default" : "proportional");
  if (kind != "proportional")
    return readRope(rope, object, wide, config.family->defaults.ropeTheta);
  RopeConfig out;
  out.theta = rope.number("rope_theta").value_or(config.family->defaults.ropeTheta);
  out.rotaryDim = headDim;
  out.factor = rope.number("factor").value_or(1.0);
  double share = rope.number("partial_rotary_factor").value_or(isGiven ? 1.0 : 0.25);
  if (!(share > 0.0 && share <= 1.0))
    rope.fail("partial_rotary_factor", "is " + std::to_string(share) + ", expected a number above 0, at most 1");
  else if (!(out.factor > 0.0) || !(out.theta > 0.0) || headDim % 2 != 0)
    rope.fail("rope_theta", "and factor must be positive, and global_head_dim even");
  else
    rotateShare(out, share, config);
  return out;
}

static void refuseOthers(JsonObject &object, const char *perLayer) {
  for (JsonItems layers(object.find(perLayer)); layers.next();)
    for (JsonItems keys(layers.value); keys.next();)
      if (!keys.key.equals("head_dim") && !keys.key.equals("num_key_value_heads"))
        object.unsupported(perLayer,
                           "has " + printable(keys.key.string(), 64) +
                               " of a layer, which is not supported; expected head_dim and num_key_value_heads");
}

// Heads of layers by their kind, or, as transformers writes it, of each layer that differs.
static void readShapes(JsonObject &object, ModelConfig &config) {
  LayerShape near{config.numKvHeads, config.headDim, config.intermediateSize}, full = near;
  full.keysAreValues = object.boolean("attention_k_eq_v").value_or(false);
  const char *perLayer = "per_layer_config";
  int64_t headDim = readWithin(object, "global_head_dim", 512, 1, widestHead);
  int64_t kvHeads = readWithin(object, "num_global_key_value_heads", config.numKvHeads, 1, mostHeads);
  if (!object.has(perLayer)) {
    full.headDim = headDim;
    full.numKvHeads = full.keysAreValues ? kvHeads : config.numKvHeads;
  }
  refuseOthers(object, perLayer);
  JsonObject layers = object.object(perLayer);
  for (int64_t window : config.layerWindow) {
    LayerShape shape = window > 0 ? near : full;
    std::string number = std::to_string(config.layerShapes.size());
    JsonObject layer = layers.object(number.c_str());
    shape.headDim = readWithin(layer, "head_dim", shape.headDim, 1, widestHead);
    shape.numKvHeads = readWithin(layer, "num_key_value_heads", shape.numKvHeads, 1, mostHeads);
    layers.adopt(layer);
    config.layerShapes.push_back(shape);
  }
  object.adopt(layers);
}

// What is known of layers once their kinds are: shapes and rotations.
static void readLayers(JsonObject &object, ModelConfig &config) {
  config.layerWindow.back() = 0; // whatever layer_types has
  readShapes(object, config);
  int64_t headDim = config.layerShapes.back().headDim;
  for (size_t layer = 0; layer < config.layerShapes.size(); ++layer) // layers of a kind rotate alike
    if (config.layerShapes[layer].headDim != (config.layerWindow[layer] > 0 ? config.headDim : headDim))
      object.unsupported("per_layer_config",
                         "has heads of several widths in layers of one kind, which is not supported");
  JsonObject ropes = object.object("rope_parameters");
  JsonObject full = ropes.object("full_attention"), sliding = ropes.object("sliding_attention");
  config.ropes = {readFullRope(ropes, full, object, config, headDim), readRope(sliding, object, config, 10000.0)};
  readCommonTruncate(ropes, config);
  for (const JsonObject *part : {&ropes, &full, &sliding})
    object.adopt(*part);
  rotateWindowsApart(config);
}

// The last layers, which attend to others' keys, are twice as wide.
static void widenSharing(ModelConfig &config) {
  for (size_t layer = 0; layer < config.keyLayers.size(); ++layer)
    if (config.keyLayers[layer] != static_cast<int64_t>(layer))
      config.layerShapes[layer].intermediateSize *= 2;
}

// In every layer, or in none.
static void readExperts(JsonObject &object, ModelConfig &config) {
  MoeConfig &moe = config.moe;
  moe.splitGates = true; // two of the one matrix of a checkpoint
  if (!object.boolean("enable_moe_block").value_or(false)) {
    for (const char *key : {"num_experts", "top_k_experts", "moe_intermediate_size"})
      object.pass(key);
    return;
  }
  moe.numExperts = readSize(object, config, "num_local_experts", 0);
  moe.expertsPerToken = readSize(object, config, "num_experts_per_tok", 0);
  moe.intermediateSize = readSize(object, config, "moe_intermediate_size", 0);
  if (moe.numExperts < 1)
    object.fail("num_experts", "is " + std::to_string(moe.numExperts) + ", expected at least 1");
  moe.layerIsMoe.assign(moe.layerIsMoe.size(), true);
}

static void readRest(JsonObject &object, ModelConfig &config) {
  config.embeddingScale = std::sqrt(static_cast<double>(config.hiddenSize));
  config.attentionScale = 1.0;
  config.finalSoftcap = readSoftcap(object, "final_logit_softcapping", config.family->defaults.finalSoftcap);
  config.layerInputs.vocabSize = readWithin(object, "vocab_size_per_layer_input", 262144, 1, 1 << 24);
  config.layerInputs.size = readWithin(object, "hidden_size_per_layer_input", 256, 0, 1 << 12);
  readExperts(object, config);
  std::string ahead = object.string("use_bidirectional_attention").value_or("vision");
  if (ahead != "vision") // of images, which are not read
    object.unsupported("use_bidirectional_attention",
                       "is '" + ahead + "', which is not supported; expected null or vision");
  readSharedKeys(object, config, "num_kv_shared_layers", 0);
  if (object.boolean("use_double_wide_mlp").value_or(false))
    widenSharing(config);
}

// What is of windows has a name of its own; the first sizes are theirs here.
static void readGgufSizes(GgufKeys &keys, ModelConfig &config) {
  config.headDim = keys.integer("attention.key_length_swa");
  for (auto [values, ofKeys] : {std::pair("attention.value_length_swa", "attention.key_length_swa"),
                                {"attention.value_length", "attention.key_length"}})
    if (int64_t width = keys.integer(ofKeys); keys.integer(values, width) != width)
      keys.fail(keys.full(values) + " is " + std::to_string(keys.integer(values, width)) + ", expected that of keys, " +
                std::to_string(width));
}

static void readGgufRest(GgufKeys &keys, ModelConfig &config) {
  const Checkpoint &tensors = keys.source().tensors();
  config.embeddingScale = std::sqrt(static_cast<double>(config.hiddenSize));
  config.attentionScale = config.attentionScale ? config.attentionScale : 1.0;
  int64_t headDim = readWithin(keys, "attention.key_length", 512, 1, widestHead);
  if (config.layerShapes.empty())
    config.layerShapes.assign(config.layerWindow.size(), config.shapeOf(-1));
  for (size_t layer = 0; layer < config.layerShapes.size(); ++layer) {
    LayerShape &shape = config.layerShapes[layer];
    shape.headDim = config.layerWindow[layer] > 0 ? config.headDim : headDim;
    std::string block = "blk." + std::to_string(layer) + ".";
    shape.keysAreValues = tensors.find(block + "attn_k.weight") && !tensors.find(block + "attn_v.weight");
  }
  RopeConfig local; // never scaled
  local.theta = keys.number("rope.freq_base_swa", 10000.0);
  local.rotaryDim = keys.integer("rope.dimension_count_swa", config.headDim);
  config.ropes.push_back(local);
  rotateWindowsApart(config);
  config.layerInputs.size = readWithin(keys, "embedding_length_per_layer_input", 0, 0, 1 << 12);
  config.layerInputs.vocabSize = rowsOf(tensors, "per_layer_token_embd.weight");
  config.moe.splitGates = !tensors.find("blk.0.ffn_gate_up_exps.weight");
  readSharedKeys(keys, config, "attention.shared_kv_layers", 0);
}

// The block, and what the experts add to it; their router reads the residual itself, normed for it alone.
static TensorHandle feedForward4(ModelBuilder &b, int64_t layer, TensorHandle x) {
  const ModelConfig &c = b.config();
  TensorHandle dense = gatedFeedForward(b, b.rmsNorm(x, "pre_feedforward_layernorm"));
  if (!c.moe.layerIsMoe[layer])
    return dense;
  TensorHandle routed = b.scale(b.scaleColumns(b.rmsNorm(x, "router.norm"), "router.scale"),
                                1.0 / std::sqrt(static_cast<double>(c.hiddenSize)));
  TensorHandle chosen = b.moe(b.rmsNorm(x, "pre_feedforward_layernorm_2"), c.family->experts.block, routed);
  return b.add(b.rmsNorm(dense, "post_feedforward_layernorm_1"), b.rmsNorm(chosen, "post_feedforward_layernorm_2"));
}

static LayerValues layer4(ModelBuilder &b, int64_t layer, const LayerValues &values, LayerValues &heads) {
  TensorHandle x = values.front();
  TensorHandle attended = keySharingAttention(b, layer, b.rmsNorm(x, "input_layernorm"), heads);
  x = b.add(x, b.rmsNorm(attended, "post_attention_layernorm"));
  x = b.add(x, b.rmsNorm(feedForward4(b, layer, x), "post_feedforward_layernorm"));
  if (b.config().layerInputs.size)
    x = b.add(x, ofLayerInput(b, x, values.back()));
  return {b.scaleColumns(x, "layer_scalar")};
}

static void build(ModelBuilder &b) {
  const ModelConfig &c = b.config();
  TensorHandle embedded = b.embedTokens(c.family->embedding);
  LayerValues inputs = c.layerInputs.size ? layerInputs(b, embedded) : LayerValues();
  LayerValues given =
      keySharingLayers(b, {embedded}, inputs, [&](int64_t layer, const LayerValues &values, LayerValues &heads) {
        return layer4(b, layer, values, heads);
      });
  finishDecoder(b, b.rmsNorm(given.front(), c.family->finalNorm));
}

static constexpr KeyName keyNames[] = {
    {"num_local_experts", "num_experts"},
    {"num_experts_per_tok", "top_k_experts"},
};

static constexpr Family describeGemma4() {
  Family row = describeKeySharing("gemma4_text", "gemma4");
  row.rules = {embeddingRules, attentionNormRules, keySharingAttentionRules, sandwichNormRules, feedForwardRules4,
               expertRules4,   scalarRules,        layerInputRules};
  row.keyNames = keyNames;
  row.experts.block = "";
  row.experts.router = "router.proj";
  row.experts.gateAndUp = "gate_up_proj";
  row.experts.gateThenUp = true;
  row.experts.scales = "router.per_expert_scale";
  row.experts.fusedGateAndUp = "experts.gate_up_proj";
  row.experts.fusedDown = "experts.down_proj";
  row.defaults.vocabSize = 262144;
  row.defaults.hiddenSize = 2304;
  row.defaults.intermediateSize = 9216;
  row.defaults.numLayers = 30;
  row.defaults.context = 131072;
  row.windows.fullEvery = 6;
  row.readers.huggingFaceRopes = readLayers;
  row.readers.huggingFaceRest = readRest;
  row.readers.ggufSizes = readGgufSizes;
  row.readers.ggufRest = readGgufRest;
  row.build = build;
  return row;
}
const Family family::gemma4Text = describeGemma4();

} // namespace heddle
