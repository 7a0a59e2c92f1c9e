// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Qwen2 (arXiv:2407.10671): Llama with biases of q, k and v. Qwen3 (arXiv:2505.09388): without them, with norms of query and key heads;
// Qwen3-MoE: the same with experts in some layers; Qwen2-MoE: Qwen2 with them, and one beside them that every token passes, multiplied by a
// sigmoid of its own. Flint (RecursiveSI 2026): Qwen3-MoE whose experts are chosen by
// sigmoids, with one beside them, windows, and a logit of each head that takes part in its sum alone. Qwen2-VL, Qwen2.5-VL and Qwen3-VL are those of texts where no image is: the three positions of a token are then the same. A window counts where use_sliding_window says so; GGUF files are read without one.

#include "frontends/families/Decoder.h"
#include "frontends/families/Families.h"
#include "frontends/families/QwenLayers.h"
#include "frontends/families/RoutedExperts.h"
#include "frontends/gguf/GgufModel.h"
#include "frontends/huggingface/Config.h"

namespace heddle {

static constexpr Family describeQwen(const char *modelType, const char *gguf, int64_t numKvHeads) {
  Family row;
  row.modelType = modelType;
  row.gguf = gguf;
  row.defaults.numKvHeads = numKvHeads;
  row.defaults.context = 32768;
  row.defaults.slidingWindow = 4096;
  row.windows.use = WindowUse::Switched;
  row.windows.inGguf = false;
  row.build = buildPreNormDecoder;
  return row;
}

static constexpr Family describeQwen2() {
  Family row = describeQwen("qwen2", "qwen2", 32);
  row.rules = {embeddingRules, attentionNormRules, attentionRules, feedForwardNormRules, feedForwardRules};
  row.biases.alwaysInQkv = true;
  row.windows.readsLayerTypes = true;
  row.windows.fullLayersFirst = 28;
  return row;
}
const Family family::qwen2 = describeQwen2();

static constexpr Family describeQwen3() {
  Family row = describeQwen("qwen3", "qwen3", 32);
  row.rules = {embeddingRules,    attentionNormRules,   attentionRules,
               queryKeyNormRules, feedForwardNormRules, feedForwardRules};
  row.defaults.headDim = 128;
  row.biases.attentionKey = "attention_bias";
  row.windows.readsLayerTypes = true;
  row.windows.fullLayersFirst = 28;
  return row;
}
const Family family::qwen3 = describeQwen3();

static constexpr UnreadTensor imageTensors[] = {
    {"visual.*", /*isLoss=*/true},
    {"model.visual.*", /*isLoss=*/true},
};

// What is wrong with a section of rotary pairs: it is one of those of a head.
static std::string sectionsMisfit(const RopeConfig &rope) {
  for (int64_t section : rope.sections)
    if (section < 0 || section > rope.rotaryDim / 2)
      return "has the number " + std::to_string(section) + ", expected 0 to " + std::to_string(rope.rotaryDim / 2);
  return "";
}

// "mrope" cuts a head into sections that rotate by positions of their own, which are one for a text.
static void readSectionedRope(JsonObject &object, ModelConfig &config) {
  double theta = object.number("rope_theta").value_or(config.family->defaults.ropeTheta);
  JsonObject rope = object.object(ropeKey(object));
  const char *key = rope.has("rope_type") ? "rope_type" : "type";
  RopeConfig plain;
  plain.theta = rope.number("rope_theta").value_or(theta);
  plain.rotaryDim = config.headDim;
  config.ropes = {rope.find(key).equals("mrope") ? plain : readRope(rope, object, config, theta)};
  if (rope.has("mrope_section"))
    config.ropes[0].sections = rope.integers("mrope_section");
  if (std::string what = sectionsMisfit(config.ropes[0]); !what.empty())
    rope.fail("mrope_section", what);
  object.adopt(rope);
}

// The same of GGUF. Layers that images add to are those of an image's tokens.
static void readGgufSections(GgufKeys &keys, ModelConfig &config) {
  constexpr const char *key = "rope.dimension_sections";
  constexpr int64_t sections = 3; // of time, rows and columns; a fourth number is of nothing
  auto value = keys.source().metadata().find(keys.full(key));
  if (value != keys.source().metadata().end() && !config.ropes.empty()) {
    auto count = static_cast<int64_t>(value->second.isArray ? value->second.count : 0);
    if (count < sections || count > sections + 1)
      return keys.fail(keys.full(key) + " has " + std::to_string(count) + " numbers, expected 3 or 4");
    Expected<std::vector<int64_t>> numbers = keys.source().integers(keys.full(key), {count, "sections", "the format"});
    keys.adopt(numbers.status());
    if (numbers)
      config.ropes[0].sections.assign(numbers->begin(), numbers->begin() + sections);
    if (std::string what = sectionsMisfit(config.ropes[0]); !what.empty())
      keys.fail(keys.full(key) + " " + what);
  }
  keys.integer("n_deepstack_layers", 0);
}

// Published files keep the keys of the text part beside vision_config, or in text_config.
static constexpr Family describeSeeing(const char *modelType, const char *part, const char *gguf, Family row) {
  row.modelType = row.wrapper = modelType;
  row.olderPart = part; // of newer files
  row.gguf = gguf;
  row.unread = imageTensors;
  row.headIfStored = true;
  row.readers.huggingFaceRopes = readSectionedRope;
  row.readers.ggufRest = readGgufSections;
  return row;
}

static constexpr Family describeQwen2Vl(const char *modelType, const char *part, const char *gguf) {
  Family row = describeSeeing(modelType, part, gguf, describeQwen2());
  row.defaults.vocabSize = 152064;
  row.defaults.numKvHeads = 8;
  row.defaults.normEps = 1e-5;
  row.defaults.ropeTheta = 1e6;
  row.windows.fullLayersFirst = 80;
  return row;
}
const Family family::qwen2Vl = describeQwen2Vl("qwen2_vl", "qwen2_vl_text", "qwen2vl");
const Family family::qwen25Vl = describeQwen2Vl("qwen2_5_vl", "qwen2_5_vl_text", nullptr);

static constexpr Family describeQwen3Vl() {
  Family row = describeSeeing("qwen3_vl", "qwen3_vl_text", "qwen3vl", describeQwen3());
  row.defaults.context = 128000;
  row.defaults.ropeTheta = 500000.0;
  row.windows = {};
  return row;
}
const Family family::qwen3Vl = describeQwen3Vl();

static constexpr KeyName expertNames[] = {{"num_local_experts", "num_experts"}};
static constexpr KeyAlias qwen3Aliases[] = {{"num_local_experts", "num_experts"}};

void readSparseSteps(JsonObject &object, ModelConfig &config) {
  MoeConfig &moe = config.moe;
  int64_t step = object.integer("decoder_sparse_step").value_or(1);
  if (step < 1)
    object.fail("decoder_sparse_step", "is " + std::to_string(step) + ", expected at least 1");
  for (int64_t layer = 0; step > 0 && layer < config.numHiddenLayers; ++layer)
    moe.layerIsMoe[layer] = (layer + 1) % step == 0;
  for (int64_t layer : object.integers("mlp_only_layers")) {
    if (layer < 0 || layer >= config.numHiddenLayers)
      return object.fail("mlp_only_layers",
                         "holds " + std::to_string(layer) + ", expected layers below num_hidden_layers");
    moe.layerIsMoe[layer] = false;
  }
}

void readGatedExperts(JsonObject &object, ModelConfig &config, const GatedExpertDefaults &defaults) {
  MoeConfig &moe = config.moe;
  readExpertCounts(object, config, defaults.numExperts, defaults.perToken);
  moe.intermediateSize = object.integer("moe_intermediate_size").value_or(defaults.width);
  moe.sharedIntermediateSize = object.integer("shared_expert_intermediate_size").value_or(defaults.sharedWidth);
  if (moe.sharedIntermediateSize < 1)
    object.fail("shared_expert_intermediate_size",
                "is " + std::to_string(moe.sharedIntermediateSize) + ", expected at least 1");
}

static void readQwen3Experts(JsonObject &object, ModelConfig &config) {
  readExpertCounts(object, config, /*numExperts=*/128, /*expertsPerToken=*/8);
  config.moe.intermediateSize = object.integer("moe_intermediate_size").value_or(768);
  config.moe.normTopkProb = object.boolean("norm_topk_prob").value_or(false);
  readSparseSteps(object, config);
}

static constexpr Family describeQwen3Moe() {
  Family row = describeQwen("qwen3_moe", "qwen3moe", 4);
  row.rules = {embeddingRules,       attentionNormRules, attentionRules, queryKeyNormRules,
               feedForwardNormRules, feedForwardRules,   expertRules};
  row.hasExperts = true;
  row.keyNames = expertNames;
  row.aliases = qwen3Aliases;
  row.biases.attentionKey = "attention_bias";
  row.readers.huggingFaceRest = readQwen3Experts;
  return row;
}
const Family family::qwen3Moe = describeQwen3Moe();

// Experts of a layer lie in two tensors, (experts, hidden, gate then up) and (experts, intermediate, hidden); GGUF has three.
static constexpr TensorRule stackedRules[] = {
    {"model.layers.#.mlp.gate.weight", "blk.#.ffn_gate_inp.weight", ConfigDim::Experts, ConfigDim::Hidden,
     When::Sparse},
    {"model.layers.#.mlp.experts.@.gate_up_proj.weight", nullptr, ConfigDim::ExpertGateAndUp, ConfigDim::Hidden,
     When::FusedGates, StoredOrder::Conv1d},
    {"model.layers.#.mlp.experts.@.gate_proj.weight", "blk.#.ffn_gate_exps.weight", ConfigDim::ExpertIntermediate,
     ConfigDim::Hidden, When::SplitGates},
    {"model.layers.#.mlp.experts.@.up_proj.weight", "blk.#.ffn_up_exps.weight", ConfigDim::ExpertIntermediate,
     ConfigDim::Hidden, When::SplitGates},
    {"model.layers.#.mlp.experts.@.down_proj.weight", "blk.#.ffn_down_exps.weight", ConfigDim::Hidden,
     ConfigDim::ExpertIntermediate, When::Sparse, StoredOrder::Conv1d},
};

static void readVlExperts(JsonObject &object, ModelConfig &config) {
  readExpertCounts(object, config, /*numExperts=*/60, /*expertsPerToken=*/4);
  config.moe.intermediateSize = object.integer("moe_intermediate_size").value_or(1408);
  config.moe.normTopkProb = true; // the reference has no key for it
  object.pass("norm_topk_prob");
  readSparseSteps(object, config);
}

static void readGgufVlExperts(GgufKeys &keys, ModelConfig &config) {
  readGgufSections(keys, config);
  config.moe.splitGates = true;
}

static constexpr Family describeQwen3VlMoe() {
  Family row = describeSeeing("qwen3_vl_moe", "qwen3_vl_moe_text", "qwen3vlmoe", describeQwen3Moe());
  row.rules[6] = stackedRules;
  row.defaults.numKvHeads = 16;
  row.defaults.context = 128000;
  row.defaults.ropeTheta = 500000.0;
  row.windows = {};
  row.experts.gateAndUp = "gate_up_proj";
  row.experts.gateThenUp = true;
  row.readers.huggingFaceRest = readVlExperts;
  row.readers.ggufRest = readGgufVlExperts;
  return row;
}
const Family family::qwen3VlMoe = describeQwen3VlMoe();

static void readQwen2Experts(JsonObject &object, ModelConfig &config) {
  GatedExpertDefaults defaults;
  defaults.numExperts = 60;
  defaults.perToken = 4;
  defaults.width = 1408;
  defaults.sharedWidth = 5632;
  readGatedExperts(object, config, defaults);
  config.moe.normTopkProb = object.boolean("norm_topk_prob").value_or(false);
  readSparseSteps(object, config);
}

// Widths that the file does not say follow from feed_forward_length, as in llama.cpp.
static void readGgufQwen2Experts(GgufKeys &keys, ModelConfig &config) {
  MoeConfig &moe = config.moe;
  moe.normTopkProb = keys.boolean("expert_weights_norm", false);
  moe.sharedIntermediateSize = keys.integer("expert_shared_feed_forward_length", config.intermediateSize);
  if (!keys.has("expert_feed_forward_length") && moe.expertsPerToken > 0)
    moe.intermediateSize = config.intermediateSize / moe.expertsPerToken;
}

static constexpr Family describeQwen2Moe() {
  Family row = describeQwen("qwen2_moe", "qwen2moe", 16);
  row.rules = {embeddingRules,   attentionNormRules, attentionRules,  feedForwardNormRules,
               feedForwardRules, expertRules,        gatedExpertRules};
  row.hasExperts = true;
  row.keyNames = expertNames;
  row.biases.attentionKey = "qkv_bias";
  row.biases.attentionDefault = true;
  row.biases.inOutput = false;
  row.windows.readsLayerTypes = true;
  row.windows.fullEvery = 2;
  row.windows.slidingLayersFirst = 28;
  row.experts.shared = "shared_expert";
  row.experts.sharedGate = "shared_expert_gate";
  row.readers.huggingFaceRest = readQwen2Experts;
  row.readers.ggufRest = readGgufQwen2Experts;
  return row;
}
const Family family::qwen2Moe = describeQwen2Moe();

// In all layers, unless the file names others.
static void readMellum(JsonObject &object, ModelConfig &config) {
  readExpertCounts(object, config, /*numExperts=*/64, /*expertsPerToken=*/8);
  config.moe.intermediateSize = object.integer("moe_intermediate_size").value_or(896);
  config.moe.normTopkProb = object.boolean("norm_topk_prob").value_or(true);
  readSparseLayers(object, config, /*firstSparse=*/0);
}

static void readMellumRopes(JsonObject &object, ModelConfig &config) {
  readRopesByType(object, config, /*fullTheta=*/500000.0, /*slidingTheta=*/10000.0, /*scalesBoth=*/false);
  rotateWindowsApart(config);
}

// Layers with a window do not stretch their rotation.
static void readGgufMellum(GgufKeys &keys, ModelConfig &config) {
  RopeConfig sliding;
  sliding.theta = keys.number("rope.freq_base_swa", config.ropes.at(0).theta);
  sliding.rotaryDim = config.ropes.at(0).rotaryDim;
  config.ropes.push_back(sliding);
  rotateWindowsApart(config);
}

static constexpr KeyAlias mellumAliases[] = {{"num_experts", "num_local_experts"}};
static constexpr UnreadTensor mellumPrediction[] = {{"mtp.*"}};

static constexpr Family describeMellum() {
  Family row = describeQwen3Moe();
  row.modelType = row.gguf = "mellum";
  row.unread = mellumPrediction;
  row.keyNames = {};
  row.aliases = mellumAliases;
  row.defaults.context = 131072;
  row.defaults.headDim = 128;
  row.defaults.slidingWindow = 1024;
  row.windows = {};
  row.windows.use = WindowUse::Stated;
  row.windows.readsLayerTypes = true;
  row.windows.fullEvery = 1; // only layer_types gives a layer a window
  row.windows.ggufFullEvery = 4;
  row.readers.huggingFaceRopes = readMellumRopes;
  row.readers.huggingFaceRest = readMellum;
  row.readers.ggufRest = readGgufMellum;
  return row;
}
const Family family::mellum = describeMellum();

static constexpr TensorRule flintRules[] = {
    {"model.layers.#.self_attn.softmax_offset", nullptr, ConfigDim::Heads},
    {"model.layers.#.mlp.shared_expert.gate_proj.weight", nullptr, ConfigDim::SharedIntermediate, ConfigDim::Hidden,
     When::Shared},
    {"model.layers.#.mlp.shared_expert.up_proj.weight", nullptr, ConfigDim::SharedIntermediate, ConfigDim::Hidden,
     When::Shared},
    {"model.layers.#.mlp.shared_expert.down_proj.weight", nullptr, ConfigDim::Hidden, ConfigDim::SharedIntermediate,
     When::Shared},
};

// Where the file does not name them, the first two layers, every fourth and the last see all tokens, which rotate in no such layer; and the first two
// are dense.
static void readFlint(JsonObject &object, ModelConfig &config) {
  for (int64_t layer = 0; !object.has("layer_types") && layer < config.numHiddenLayers; ++layer)
    if (layer < 2 || layer % 4 == 1 || layer + 1 == config.numHiddenLayers)
      config.layerWindow[layer] = 0;
  rotateInWindowsOnly(config);
  GatedExpertDefaults defaults;
  defaults.numExperts = 256;
  defaults.perToken = 6;
  defaults.width = 512;
  defaults.sharedWidth = 1024;
  readGatedExperts(object, config, defaults);
  readSparseSteps(object, config);
  MoeConfig &moe = config.moe;
  for (size_t layer = 0; !object.has("mlp_only_layers") && layer < moe.layerIsMoe.size() && layer < 2; ++layer)
    moe.layerIsMoe[layer] = false;
  moe.normTopkProb = object.boolean("norm_topk_prob").value_or(true);
  moe.sigmoidScores = true;
}

static void buildFlint(ModelBuilder &b) {
  AttentionTerms terms;
  terms.sinks = "self_attn.softmax_offset";
  buildDecoder(b, [&](int64_t layer, TensorHandle x) { return preNormLayer(b, layer, x, terms); });
}

static constexpr Family describeFlint() {
  Family row = describeQwen3Moe();
  row.modelType = "flint";
  row.gguf = nullptr;
  row.rules[7] = flintRules;
  row.defaults.vocabSize = 150144;
  row.defaults.numHeads = 32;
  row.defaults.headDim = 128;
  row.defaults.context = 262144;
  row.defaults.slidingWindow = 513;
  row.windows = {};
  row.windows.use = WindowUse::Stated;
  row.windows.slidesAlways = row.windows.readsLayerTypes = true;
  row.experts.shared = "shared_expert";
  row.readers.huggingFaceRest = readFlint;
  row.build = buildFlint;
  return row;
}
const Family family::flint = describeFlint();

} // namespace heddle
