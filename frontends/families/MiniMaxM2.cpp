// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// MiniMax-M2 (2025): Mixtral whose experts a corrected sigmoid chooses, norms over all query heads and all key heads at once, and heads of which a
// part rotates.

#include "frontends/families/Decoder.h"
#include "frontends/families/Families.h"
#include "frontends/families/RoutedExperts.h"
#include "frontends/gguf/GgufModel.h"
#include "frontends/huggingface/Config.h"

namespace heddle {

static constexpr TensorRule biasRules[] = {
    {"model.layers.#.block_sparse_moe.e_score_correction_bias", "blk.#.exp_probs_b.bias", ConfigDim::Experts,
     ConfigDim::None, When::Correction},
};

static constexpr KeyAlias aliases[] = {{"num_experts", "num_local_experts"}};

// Published files say in rotary_dim how much of a head rotates; partial_rotary_factor comes before it.
static void readRotation(JsonObject &object, ModelConfig &config) {
  JsonObject rope = object.object(ropeKey(object));
  RopeConfig read =
      readRope(rope, object, config, object.number("rope_theta").value_or(config.family->defaults.ropeTheta));
  std::optional<int64_t> rotaryDim = object.integer("rotary_dim");
  if (rotaryDim && !rope.has("partial_rotary_factor") && !object.has("partial_rotary_factor"))
    read.rotaryDim = *rotaryDim;
  config.ropes = {read};
  object.adopt(rope);
}

// What published files say beside the reference's keys, and the reference takes for granted.
static void checkAssumed(JsonObject &object, const ModelConfig &config) {
  auto refuse = [&](const char *key, const std::string &value, const char *expected) {
    object.unsupported(key, "is " + value + ", which is not supported for " + config.architecture + "; expected " +
                                expected);
  };
  for (auto [key, expected] : {std::pair("scoring_func", "sigmoid"), {"qk_norm_type", "per_layer"}})
    if (std::string value = object.string(key).value_or(expected); value != expected)
      refuse(key, "'" + printable(value, 64) + "'", expected);
  for (const char *key : {"use_qk_norm", "use_routing_bias"})
    if (!object.boolean(key).value_or(true))
      refuse(key, "false", "true");
  if (int64_t width = object.integer("shared_intermediate_size").value_or(0); width != 0)
    refuse("shared_intermediate_size", std::to_string(width), "0");
  for (int64_t type : object.integers("attn_type_list"))
    if (type != 1)
      return refuse("attn_type_list", "with " + std::to_string(type), "1 for each layer");
}

static void setExperts(ModelConfig &config) {
  config.moe.sigmoidScores = config.moe.normTopkProb = true;
}

static void readExperts(JsonObject &object, ModelConfig &config) {
  MoeConfig &moe = config.moe;
  readExpertCounts(object, config, /*numExperts=*/256, /*expertsPerToken=*/8);
  moe.intermediateSize = config.intermediateSize;
  moe.layerIsMoe.assign(moe.layerIsMoe.size(), true);
  moe.hasCorrection = true;
  setExperts(config);
  checkAssumed(object, config);
}

static void readGgufExperts(GgufKeys &keys, ModelConfig &config) {
  readGgufRoutedExperts(keys, config);
  if (!config.moe.sigmoidScores)
    keys.unsupported(keys.full("expert_gating_func") + " is 1, which is not supported for " + config.architecture +
                     "; expected 2 (sigmoid)");
  setExperts(config);
}

static constexpr Family describeMiniMaxM2() {
  Family row;
  row.modelType = "minimax_m2";
  row.gguf = "minimax-m2";
  row.hasExperts = true;
  row.rules = {embeddingRules,       attentionNormRules,     attentionRules, wideNormRules,
               feedForwardNormRules, blockSparseExpertRules, biasRules};
  row.aliases = aliases;
  row.defaults.numKvHeads = 8;
  row.defaults.headDim = 128;
  row.defaults.context = 196608;
  row.defaults.ropeTheta = 5e6;
  row.headNorms = HeadNorms::AllHeads;
  row.rope.partial = true;
  row.experts = {"block_sparse_moe.", "w1", "w3", "w2"};
  row.experts.correction = "e_score_correction_bias";
  row.readers.huggingFaceRopes = readRotation;
  row.readers.huggingFaceRest = readExperts;
  row.readers.ggufRest = readGgufExperts;
  row.build = buildPreNormDecoder;
  return row;
}
const Family family::miniMaxM2 = describeMiniMaxM2();

} // namespace heddle
