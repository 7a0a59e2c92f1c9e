// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// EXAONE 4.0 (LG AI Research 2025, arXiv:2507.11407): norms behind attention and feed-forward and not before them, norms of query and key
// heads; where layers alternate, three of four have a window, and only they rotate. K-EXAONE (LG AI Research 2026): that attention with norms before
// the blocks, and DeepSeek-V3's experts.

#include "frontends/families/Decoder.h"
#include "frontends/families/Families.h"
#include "frontends/families/RoutedExperts.h"
#include "frontends/gguf/GgufModel.h"
#include "frontends/huggingface/JsonObject.h"

namespace heddle {

// Where the config has no window, no layer has, and all rotate.
static void readRotation(JsonObject &object, ModelConfig &config) {
  if (!object.isNull("sliding_window"))
    rotateInWindowsOnly(config);
}

static void readGgufRotation(GgufKeys &keys, ModelConfig &config) {
  if (keys.has("attention.sliding_window"))
    rotateInWindowsOnly(config);
}

static constexpr Family describeExaone4() {
  Family row;
  row.modelType = "exaone4";
  row.gguf = "exaone4";
  row.rules = {embeddingRules, attentionRules, queryKeyNormRules, normsBehindRules, feedForwardRules};
  row.defaults.numKvHeads = 32;
  row.defaults.normEps = 1e-5;
  row.defaults.slidingWindow = 4096;
  row.windows.use = WindowUse::Stated;
  row.windows.readsLayerTypes = true;
  row.windows.fullEvery = 4;
  row.windows.statesFullEvery = true;
  row.readers.huggingFaceRest = readRotation;
  row.readers.ggufRest = readGgufRotation;
  row.build = buildPostNormDecoder;
  return row;
}
const Family family::exaone4 = describeExaone4();

static constexpr KeyName expertNames[] = {{"num_local_experts", "num_experts"},
                                          {"n_routed_experts", "num_experts"},
                                          {"n_shared_experts", "num_shared_experts"}};

static constexpr TensorRule biasRules[] = {
    {"model.layers.#.mlp.e_score_correction_bias", "blk.#.exp_probs_b.bias", ConfigDim::Experts, ConfigDim::None,
     When::Correction},
};

// Layers that predict further tokens.
static constexpr UnreadTensor predictionTensors[] = {{"mtp.*"}, {"blk.+.*"}};

static void readExperts(JsonObject &object, ModelConfig &config) {
  readRotation(object, config);
  RoutedDefaults defaults;
  defaults.numExperts = 64;
  defaults.perToken = 8;
  defaults.width = 1024;
  defaults.numShared = defaults.firstSparse = 1;
  defaults.scale = 2.5;
  defaults.normTopkProb = true;
  readRoutedExperts(object, config, defaults);
  readSparseLayers(object, config, defaults.firstSparse);
  MoeConfig &moe = config.moe;
  moe.sigmoidScores = moe.hasCorrection = true;
  moe.numGroups = object.integer("n_group").value_or(1);
  moe.topGroups = object.integer("topk_group").value_or(1);
}

static void readGgufExperts(GgufKeys &keys, ModelConfig &config) {
  refuseOtherWindowBase(keys, config);
  readGgufRotation(keys, config);
  readGgufSigmoidExperts(keys, config);
}

static constexpr Family describeExaoneMoe() {
  Family row = describeExaone4();
  row.modelType = "exaone_moe";
  row.gguf = "exaone-moe";
  row.hasExperts = true;
  row.rules = {embeddingRules,   attentionNormRules, attentionRules, queryKeyNormRules, feedForwardNormRules,
               feedForwardRules, expertRules,        biasRules,      sharedExpertRules};
  row.experts.correction = "e_score_correction_bias";
  row.unread = predictionTensors;
  row.keyNames = expertNames;
  row.readers.huggingFaceRest = readExperts;
  row.readers.ggufRest = readGgufExperts;
  row.build = buildPreNormDecoder;
  return row;
}
const Family family::exaoneMoe = describeExaoneMoe();

} // namespace heddle
