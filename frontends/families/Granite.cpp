// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Granite 3 (IBM 2024): Llama with four multipliers: of embeddings, of scores in place of 1 / sqrt(head_dim), of what a block adds to the
// residual, and a divisor of logits. Granite MoE has experts in every layer, "shared" of them one that every token passes besides; both matrices of
// gate and up lie in one. Granite "SWA" (IBM 2026) has a window in all layers but the first of four, and a logit of each head that takes part in its sum
// alone, with experts or without. HyperCLOVA X SEED Think (NAVER 2025, arXiv:2601.03286) is Granite that multiplies logits, and norms what attention and
// feed-forward give. Granite 4 ("hybrid") has layers that keep a state in the place of attention, as Mamba 2 does (arXiv:2405.21060), behind a convolution of a few
// tokens; the others may do without a rotation, and models without experts have the shared one alone.

#include "frontends/families/Decoder.h"
#include "frontends/families/Families.h"
#include "frontends/families/Mamba2Mixer.h"
#include "frontends/gguf/GgufModel.h"
#include "frontends/huggingface/Config.h"

namespace heddle {

static constexpr KeyName keyNames[] = {{"query_pre_attn_scalar", "attention_multiplier"}};

static void readScales(JsonObject &object, ModelConfig &config) {
  config.embeddingScale = object.number("embedding_multiplier").value_or(1.0);
  config.attentionScale = object.number("attention_multiplier").value_or(1.0);
  if (config.attentionScale == 0.0) // which stands for 1 / sqrt(head_dim)
    object.fail("attention_multiplier", "is 0, expected a positive number");
  config.residualScale = object.number("residual_multiplier").value_or(1.0);
  double divisor = object.number("logits_scaling").value_or(1.0);
  if (!(divisor > 0.0))
    object.fail("logits_scaling", "is " + std::to_string(divisor) + ", expected a positive number");
  config.logitScale = 1.0 / divisor;
}

static void readGgufScales(GgufKeys &keys, ModelConfig &config) {
  config.embeddingScale = keys.number("embedding_scale", 1.0);
  config.residualScale = keys.number("residual_scale", 1.0);
  double divisor = keys.number("logit_scale", 1.0);
  if (!(divisor > 0.0))
    keys.fail(keys.full("logit_scale") + " is " + std::to_string(divisor) + ", expected a positive number");
  config.logitScale = 1.0 / divisor;
}

static constexpr Family describeGranite() {
  Family row;
  row.modelType = "granite";
  row.gguf = "granite";
  row.rules = {embeddingRules, attentionNormRules, attentionRules, feedForwardNormRules, feedForwardRules};
  row.keyNames = keyNames;
  row.scalesInputs = true;
  row.biases.attentionKey = "attention_bias";
  row.biases.mlpKey = "mlp_bias";
  row.biases.mlpInGguf = true;
  row.rope.interleavedInGguf = true;
  row.readers.huggingFaceRest = readScales;
  row.readers.ggufRest = readGgufScales;
  row.build = buildPreNormDecoder;
  return row;
}
const Family family::granite = describeGranite();

static constexpr TensorRule sinkRules[] = {
    {"model.layers.#.self_attn.sinks", "blk.#.attn_sinks.weight", ConfigDim::Heads}};

// Each layer may have a base of its own; one of 0 does not rotate.
static void readLayerRopes(JsonObject &object, ModelConfig &config) {
  double theta = object.number("rope_theta").value_or(config.family->defaults.ropeTheta);
  JsonObject rope = object.object(ropeKey(object));
  RopeConfig common = readRope(rope, object, config, theta);
  object.adopt(rope);
  std::vector<double> thetas = object.numbers("layer_rope_theta");
  if (!object.has("layer_rope_theta"))
    thetas.assign(config.layerRope.size(), common.theta);
  if (thetas.size() != config.layerRope.size())
    return object.fail("layer_rope_theta", "has " + std::to_string(thetas.size()) +
                                               " entries, expected num_hidden_layers (" +
                                               std::to_string(config.layerRope.size()) + ")");
  for (size_t layer = 0; layer < thetas.size(); ++layer) {
    size_t table = 0;
    while (table < config.ropes.size() && config.ropes[table].theta != thetas[layer])
      ++table;
    if (table == noRope)
      return object.unsupported("layer_rope_theta", "has more than 255 bases, which is not supported");
    config.layerRope[layer] = thetas[layer] == 0.0 ? noRope : uint8_t(table);
    if (thetas[layer] != 0.0 && table == config.ropes.size()) {
      config.ropes.push_back(common);
      config.ropes.back().theta = thetas[layer];
    }
  }
}

static void buildWithSinks(ModelBuilder &b) {
  AttentionTerms terms;
  terms.sinks = "self_attn.sinks";
  buildDecoder(b, [&](int64_t layer, TensorHandle x) { return preNormLayer(b, layer, x, terms); });
}

static void readGgufSwa(GgufKeys &keys, ModelConfig &config) {
  readGgufScales(keys, config);
  const char *key = "attention.rope_pattern";
  if (!keys.has(key))
    return;
  GgufCount layers{config.numHiddenLayers, "layers", keys.full("block_count")};
  Expected<std::vector<bool>> rotates = keys.source().booleans(keys.full(key), layers);
  keys.adopt(rotates.status());
  for (size_t layer = 0; rotates && layer < config.layerRope.size(); ++layer)
    config.layerRope[layer] = (*rotates)[layer] ? 0 : noRope;
}

static constexpr Family describeGraniteSwa() {
  Family row = describeGranite();
  row.modelType = row.gguf = "granite_swa";
  row.rules[5] = sinkRules;
  row.defaults.numKvHeads = 4;
  row.defaults.context = 8192;
  row.defaults.normEps = 1e-5;
  row.defaults.slidingWindow = 128;
  row.defaults.tied = true;
  row.windows.use = WindowUse::Stated;
  row.windows.slidesAlways = row.windows.readsLayerTypes = true;
  row.windows.fullEvery = 4;
  row.windows.fullFirst = true;
  row.readers.huggingFaceRopes = readLayerRopes;
  row.readers.ggufRest = readGgufSwa;
  row.build = buildWithSinks;
  return row;
}
const Family family::graniteSwa = describeGraniteSwa();

static constexpr TensorRule behindRules[] = {
    {"model.layers.#.post_norm1.weight", nullptr, ConfigDim::Hidden, ConfigDim::None, When::NormsBehind},
    {"model.layers.#.post_norm2.weight", nullptr, ConfigDim::Hidden, ConfigDim::None, When::NormsBehind},
};

static void readClovaScales(JsonObject &object, ModelConfig &config) {
  config.embeddingScale = object.number("embedding_multiplier").value_or(1.0);
  config.residualScale = object.number("residual_multiplier").value_or(1.0);
  config.logitScale = object.number("logits_scaling").value_or(1.0);
  config.attentionScale = object.number("attention_multiplier").value_or(0.0);
  if (config.attentionScale == 0.0 && !object.isNull("attention_multiplier") && object.has("attention_multiplier"))
    object.fail("attention_multiplier", "is 0, expected a positive number");
  config.hasNormsBehind = object.flag("use_post_norm", true);
}

static void buildClova(ModelBuilder &b) {
  const ModelConfig &c = b.config();
  auto addTo = [&](TensorHandle x, TensorHandle block, const char *behind) {
    return b.add(x, b.scale(c.hasNormsBehind ? b.rmsNorm(block, behind) : block, c.residualScale));
  };
  buildDecoder(b, [&](int64_t, TensorHandle x) {
    x = addTo(x, selfAttention(b, b.rmsNorm(x, "input_layernorm")), "post_norm1");
    return addTo(x, feedForward(b, b.rmsNorm(x, "post_attention_layernorm")), "post_norm2");
  });
}

static constexpr Family describeHyperClovaX() {
  Family row = describeGranite();
  row.modelType = "hyperclovax";
  row.gguf = nullptr;
  row.rules[5] = behindRules;
  row.readers.huggingFaceRest = readClovaScales;
  row.readers.ggufRest = nullptr;
  row.build = buildClova;
  return row;
}
const Family family::hyperClovaX = describeHyperClovaX();

static constexpr TensorRule routerRules[] = {
    {"model.layers.#.block_sparse_moe.router.layer.weight", "blk.#.ffn_gate_inp.weight", ConfigDim::Experts,
     ConfigDim::Hidden, When::Sparse},
};

static constexpr TensorRule expertBlockRules[] = {
    {"model.layers.#.block_sparse_moe.experts.@.gate_proj.weight", "blk.#.ffn_gate_exps.weight",
     ConfigDim::ExpertIntermediate, ConfigDim::Hidden, When::Sparse},
    {"model.layers.#.block_sparse_moe.experts.@.up_proj.weight", "blk.#.ffn_up_exps.weight",
     ConfigDim::ExpertIntermediate, ConfigDim::Hidden, When::Sparse},
    {"model.layers.#.block_sparse_moe.experts.@.down_proj.weight", "blk.#.ffn_down_exps.weight", ConfigDim::Hidden,
     ConfigDim::ExpertIntermediate, When::Sparse},
    {"model.layers.#.block_sparse_moe.shared_experts.gate_proj.weight", "blk.#.ffn_gate_shexp.weight",
     ConfigDim::SharedIntermediate, ConfigDim::Hidden, When::Shared},
    {"model.layers.#.block_sparse_moe.shared_experts.up_proj.weight", "blk.#.ffn_up_shexp.weight",
     ConfigDim::SharedIntermediate, ConfigDim::Hidden, When::Shared},
    {"model.layers.#.block_sparse_moe.shared_experts.down_proj.weight", "blk.#.ffn_down_shexp.weight",
     ConfigDim::Hidden, ConfigDim::SharedIntermediate, When::Shared},
};

static void readExperts(JsonObject &object, ModelConfig &config) {
  readScales(object, config);
  MoeConfig &moe = config.moe;
  readExpertCounts(object, config, /*numExperts=*/8, /*expertsPerToken=*/2);
  moe.intermediateSize = config.intermediateSize;
  moe.layerIsMoe.assign(moe.layerIsMoe.size(), true);
}

static int64_t readSharedWidth(JsonObject &object, int64_t absent, int64_t least) {
  return object.bounded("shared_intermediate_size", object.integer("shared_intermediate_size").value_or(absent), least,
                        1 << 24);
}

static void readSharedExpert(JsonObject &object, ModelConfig &config) {
  readExperts(object, config);
  config.moe.sharedIntermediateSize = readSharedWidth(object, 0, 0);
}

static void readGgufExperts(GgufKeys &keys, ModelConfig &config) {
  readGgufScales(keys, config);
  config.moe.sharedIntermediateSize = keys.integer("expert_shared_feed_forward_length", 0);
}

static constexpr Family describeMoe() {
  Family row = describeGranite();
  row.modelType = "granitemoe";
  row.gguf = nullptr;
  row.rules = {embeddingRules, attentionNormRules, attentionRules, feedForwardNormRules, routerRules, expertBlockRules};
  row.biases.mlpKey = nullptr;
  row.experts.block = "block_sparse_moe.";
  row.experts.router = "router.layer";
  row.experts.fusedGateAndUp = "block_sparse_moe.input_linear.weight";
  row.experts.fusedDown = "block_sparse_moe.output_linear.weight";
  row.experts.fusedSharedGateAndUp = "shared_mlp.input_linear.weight";
  row.experts.fusedSharedDown = "shared_mlp.output_linear.weight";
  row.readers.huggingFaceRest = readExperts;
  row.readers.ggufRest = nullptr;
  return row;
}
const Family family::graniteMoe = describeMoe();

static constexpr Family describeShared() {
  Family row = describeMoe();
  row.modelType = "granitemoeshared";
  row.gguf = "granitemoe";
  row.hasExperts = true;
  row.readers.huggingFaceRest = readSharedExpert;
  row.readers.ggufRest = readGgufExperts;
  return row;
}
const Family family::graniteMoeShared = describeShared();

static constexpr TensorRule plainRouterRules[] = {
    {"model.layers.#.block_sparse_moe.router.weight", nullptr, ConfigDim::Experts, ConfigDim::Hidden, When::Sparse},
};

static constexpr Family describeMoeSwa() {
  Family row = describeShared();
  Family windowed = describeGraniteSwa();
  row.modelType = "granitemoe_swa";
  row.gguf = nullptr;
  row.rules[4] = plainRouterRules;
  row.rules[6] = sinkRules;
  row.experts.router = "router";
  row.experts.fusedGateAndUp = "block_sparse_moe.experts.gate_up_proj";
  row.experts.fusedDown = "block_sparse_moe.experts.down_proj";
  row.defaults.slidingWindow = windowed.defaults.slidingWindow;
  row.windows = windowed.windows;
  row.readers.huggingFaceRopes = windowed.readers.huggingFaceRopes;
  row.readers.ggufRest = nullptr;
  row.build = windowed.build;
  return row;
}
const Family family::graniteMoeSwa = describeMoeSwa();

static void readHybridSizes(JsonObject &object, ModelConfig &config) {
  const ConfigDefaults &defaults = config.family->defaults;
  config.intermediateSize = readSharedWidth(object, 1024, 1);
  config.normEps = object.number("rms_norm_eps").value_or(defaults.normEps);
  config.numKvHeads = object.integer("num_key_value_heads").value_or(config.numHeads);
  config.headDim = config.numHeads > 0 ? config.hiddenSize / config.numHeads : 0;
  checkEvenHeads(object, config);
}

static void readHybridRopes(JsonObject &object, ModelConfig &config) {
  std::string kind = object.string("position_embedding_type").value_or("nope");
  double theta = object.number("rope_theta").value_or(config.family->defaults.ropeTheta);
  JsonObject rope = object.object(ropeKey(object));
  config.ropes = {readRope(rope, object, config, theta)};
  object.adopt(rope);
  if (kind != "rope")
    config.ropes.clear();
}

// As the reference: without the key all layers keep a state.
static void readLayerTypes(JsonObject &object, ModelConfig &config) {
  const char *key = object.has("layers_block_type") ? "layers_block_type" : "layer_types";
  std::vector<std::string> types = object.strings(key);
  std::vector<bool> &recurrent = config.recurrent.layers;
  recurrent.assign(static_cast<size_t>(config.numHiddenLayers), true);
  if (object.has(key) && types.size() != recurrent.size())
    return object.fail(key, "has " + std::to_string(types.size()) + " entries, expected num_hidden_layers (" +
                                std::to_string(recurrent.size()) + ")");
  for (size_t layer = 0; layer < types.size(); ++layer) {
    recurrent[layer] = types[layer] == "mamba" || types[layer] == "linear_attention";
    if (!recurrent[layer] && types[layer] != "attention" && types[layer] != "full_attention")
      return object.fail(key, "holds '" + printable(types[layer], 64) +
                                  "', expected full_attention or linear_attention, older: attention or mamba");
  }
}

static void readHybrid(JsonObject &object, ModelConfig &config) {
  readScales(object, config);
  readLayerTypes(object, config);
  readMamba2(object, config);
  if (object.integer("num_local_experts").value_or(8) == 0)
    return;
  MoeConfig &moe = config.moe;
  readExpertCounts(object, config, /*numExperts=*/8, /*expertsPerToken=*/2);
  moe.intermediateSize = object.integer("intermediate_size").value_or(11008);
  moe.sharedIntermediateSize = config.intermediateSize;
  moe.layerIsMoe.assign(moe.layerIsMoe.size(), true);
}

// Bamba's files, which rotate a part of each head, have the same name. What every token passes is as wide as its own key says, whether there are experts
// beside it or not.
static void readGgufHybrid(GgufKeys &keys, ModelConfig &config) {
  readGgufExperts(keys, config);
  if (!keys.boolean("rope.scaling.finetuned", false)) // which says whether layers rotate at all
    config.ropes.clear();
  else if (int64_t rotary = config.ropes.at(0).rotaryDim; rotary != config.headDim)
    keys.unsupported(keys.full("rope.dimension_count") + " is " + std::to_string(rotary) +
                     ", which is not supported for " + config.architecture + "; expected that of a head, " +
                     std::to_string(config.headDim));
  if (config.moe.sharedIntermediateSize)
    config.intermediateSize = config.moe.sharedIntermediateSize;
  if (config.hasStates())
    readGgufMamba2(keys, config);
}

static void buildHybrid(ModelBuilder &b) {
  const ModelConfig &c = b.config();
  buildDecoder(b, [&](int64_t layer, TensorHandle x) {
    if (!c.isRecurrent(layer))
      return preNormLayer(b, layer, x);
    x = b.add(x, b.scale(mamba2Mixer(b, b.rmsNorm(x, "input_layernorm"), "mamba."), c.residualScale));
    TensorHandle fed = layerFeedForward(b, layer, b.rmsNorm(x, "post_attention_layernorm"));
    return b.add(x, b.scale(fed, c.residualScale));
  });
}

static constexpr KeyName hybridNames[] = {{"query_pre_attn_scalar", "attention_multiplier"}, HEDDLE_MAMBA_KEY_NAMES};

static constexpr Family describeHybrid() {
  Family row = describeMoe();
  row.modelType = "granitemoehybrid";
  row.gguf = "granitehybrid";
  row.keyNames = hybridNames;
  row.windows.recurrentType = "linear_attention";
  row.rules = {embeddingRules,   attentionNormRules, attentionRules,   feedForwardNormRules,
               feedForwardRules, routerRules,        expertBlockRules, mambaRules};
  row.readers.huggingFaceSizes = readHybridSizes;
  row.readers.huggingFaceRopes = readHybridRopes;
  row.readers.huggingFaceRest = readHybrid;
  row.readers.ggufRest = readGgufHybrid;
  row.build = buildHybrid;
  return row;
}
const Family family::graniteHybrid = describeHybrid();

} // namespace heddle
