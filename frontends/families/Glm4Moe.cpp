// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// GLM-4.5 and 4.6 (arXiv:2508.06471): DeepSeek-V3's experts, chosen by sigmoid, behind attention of which half a head rotates, with norms of query
// and key heads in the larger model. The layer behind the last predicts one token more, and GGUF counts it as a layer.

#include "frontends/families/Decoder.h"
#include "frontends/families/Families.h"
#include "frontends/families/RoutedExperts.h"
#include "frontends/gguf/GgufModel.h"
#include "frontends/huggingface/JsonObject.h"

namespace heddle {

static constexpr TensorRule layerRules[] = {
    {"model.layers.#.self_attn.q_norm.weight", "blk.#.attn_q_norm.weight", ConfigDim::HeadDim, ConfigDim::None,
     When::HeadNorms},
    {"model.layers.#.self_attn.k_norm.weight", "blk.#.attn_k_norm.weight", ConfigDim::HeadDim, ConfigDim::None,
     When::HeadNorms},
    {"model.layers.#.post_attention_layernorm.weight", "blk.#.post_attention_norm.weight", ConfigDim::Hidden},
};

static constexpr UnreadTensor predictionTensors[] = {{"model.layers.+.*"}, {"blk.+.*"}};

static void readExperts(JsonObject &object, ModelConfig &config) {
  RoutedDefaults defaults;
  defaults.numExperts = 128;
  defaults.perToken = 8;
  defaults.width = 1408;
  defaults.numShared = defaults.firstSparse = 1;
  defaults.normTopkProb = true;
  readRoutedExperts(object, config, defaults);
  MoeConfig &moe = config.moe;
  moe.sigmoidScores = moe.hasCorrection = true;
  moe.numGroups = object.integer("n_group").value_or(1);
  moe.topGroups = object.integer("topk_group").value_or(1);
  config.normsHeads = object.boolean("use_qk_norm").value_or(false);
  std::string predicting = fieldName(config, "num_nextn_predict_layers");
  config.numPredictionLayers = object.integer(predicting.c_str()).value_or(1);
}

static void readGguf(GgufKeys &keys, ModelConfig &config) {
  readGgufRoutedExperts(keys, config);
  config.normsHeads = keys.source().tensors().find("blk.0.attn_q_norm.weight") != nullptr;
}

static constexpr KeyAlias aliases[] = {{"num_local_experts", "n_routed_experts"},
                                       {"num_mtp_layers", "num_nextn_predict_layers"}};

static constexpr Family describeGlm4Moe() {
  Family row;
  row.modelType = "glm4_moe";
  row.gguf = "glm4moe";
  row.hasExperts = true;
  row.rules = {embeddingRules,   attentionNormRules, attentionRules,  layerRules,
               feedForwardRules, expertRules,        correctionRules, sharedExpertRules};
  row.unread = predictionTensors;
  row.aliases = aliases;
  row.defaults.numKvHeads = 8;
  row.defaults.context = 131072;
  row.defaults.normEps = 1e-5;
  row.defaults.partialRotary = 0.5;
  row.biases.attentionKey = "attention_bias";
  row.biases.inOutput = false;
  row.rope.partial = true;
  row.readers.huggingFaceRest = readExperts;
  row.readers.ggufRest = readGguf;
  row.build = buildPreNormDecoder;
  return row;
}
const Family family::glm4Moe = describeGlm4Moe();

} // namespace heddle
