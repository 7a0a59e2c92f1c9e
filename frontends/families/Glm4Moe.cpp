// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// GLM-4.5 and 4.6 (arXiv:2508.06471): DeepSeek-V3's experts, chosen by sigmoid, behind attention of which half a head rotates, with norms of query
// and key heads in the larger model. The layer behind the last predicts one token more, and GGUF counts it as a layer. Solar Open (Upstage 2025,
// arXiv:2601.07022) is the same without dense layers and norms of heads, Sarvam's 30B model (2026) with heads that rotate as a whole, and one matrix for q, k and v.

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

static void readExpertsWith(JsonObject &object, ModelConfig &config, const RoutedDefaults &defaults) {
  readRoutedExperts(object, config, defaults);
  MoeConfig &moe = config.moe;
  moe.sigmoidScores = moe.hasCorrection = true;
  moe.numGroups = object.integer("n_group").value_or(1);
  moe.topGroups = object.integer("topk_group").value_or(1);
}

static void readPrediction(JsonObject &object, ModelConfig &config, int64_t absent) {
  std::string predicting = fieldName(config, "num_nextn_predict_layers");
  config.numPredictionLayers = object.integer(predicting.c_str()).value_or(absent);
}

static void readExperts(JsonObject &object, ModelConfig &config) {
  readExpertsWith(object, config, RoutedDefaults{128, 8, 1408, 1, 1, 1.0, true});
  config.normsHeads = object.boolean("use_qk_norm").value_or(false);
  readPrediction(object, config, 1);
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

// In every layer.
static void readSolarExperts(JsonObject &object, ModelConfig &config) {
  readExpertsWith(object, config, RoutedDefaults{128, 8, 1280, 1, 0, 1.0, true});
  config.moe.layerIsMoe.assign(config.moe.layerIsMoe.size(), true);
}

static constexpr KeyAlias solarAliases[] = {{"num_local_experts", "n_routed_experts"}};

static constexpr Family describeSolarOpen() {
  Family row = describeGlm4Moe();
  row.modelType = "solar_open";
  row.gguf = nullptr;
  row.rules = {embeddingRules, attentionNormRules, attentionRules,   feedForwardNormRules,
               expertRules,    correctionRules,    sharedExpertRules};
  row.unread = {};
  row.aliases = solarAliases;
  row.defaults.headDim = 128;
  row.defaults.ropeTheta = 1e6;
  row.defaults.partialRotary = 1.0;
  row.defaults.widening = 1; // no layer has a feed-forward block of intermediate_size
  row.rope.partial = false;
  row.readers.huggingFaceRest = readSolarExperts;
  row.readers.ggufRest = nullptr;
  return row;
}
const Family family::solarOpen = describeSolarOpen();

static constexpr TensorRule sarvamRules[] = {
    {"model.word_embeddings.weight", nullptr, ConfigDim::Vocab, ConfigDim::Hidden},
    {"model.norm.weight", nullptr, ConfigDim::Hidden},
    {"lm_head.weight", nullptr, ConfigDim::Vocab, ConfigDim::Hidden, When::Untied},
    {"model.layers.#.attention.query_key_value.weight", nullptr, ConfigDim::QueriesKeysValues, ConfigDim::Hidden},
    {"model.layers.#.attention.query_key_value.bias", nullptr, ConfigDim::QueriesKeysValues, ConfigDim::None,
     When::AttentionBias},
    {"model.layers.#.attention.dense.weight", nullptr, ConfigDim::Hidden, ConfigDim::Queries},
    {"model.layers.#.attention.query_layernorm.weight", nullptr, ConfigDim::HeadDim, ConfigDim::None, When::HeadNorms},
    {"model.layers.#.attention.key_layernorm.weight", nullptr, ConfigDim::HeadDim, ConfigDim::None, When::HeadNorms},
    {"model.layers.#.mlp.gate.expert_bias", nullptr, ConfigDim::Experts, ConfigDim::None, When::Correction},
};

static void readSarvam(JsonObject &object, ModelConfig &config) {
  readExpertsWith(object, config, RoutedDefaults{128, 6, 1024, 1, 1, 2.5, true});
  config.attentionBias = object.boolean(fieldName(config, "attention_bias").c_str()).value_or(false);
  config.normsHeads = object.boolean("use_qk_norm").value_or(true);
  readPrediction(object, config, 0);
}

static void buildSarvam(ModelBuilder &b) {
  const Family &family = *b.config().family;
  TensorHandle x =
      decoderLayers(b, "model.layers.", b.embedTokens(family.embedding), [&](int64_t layer, TensorHandle x) {
        TensorHandle normed = b.rmsNorm(x, "input_layernorm");
        x = b.add(x, fusedSelfAttention(b, normed, "attention.query_key_value", "attention.dense"));
        return b.add(x, layerFeedForward(b, layer, b.rmsNorm(x, "post_attention_layernorm")));
      });
  finishDecoder(b, b.rmsNorm(x, family.finalNorm));
}

static constexpr KeyAlias sarvamAliases[] = {{"num_local_experts", "n_routed_experts"},
                                             {"num_experts", "n_routed_experts"},
                                             {"num_shared_experts", "n_shared_experts"},
                                             {"use_qkv_bias", "attention_bias"},
                                             {"num_mtp_layers", "num_nextn_predict_layers"}};

static constexpr Family describeSarvamMoe() {
  Family row = describeGlm4Moe();
  row.modelType = "sarvam_moe";
  row.gguf = nullptr;
  row.embedding = "model.word_embeddings.weight";
  row.rules = {sarvamRules, attentionNormRules, feedForwardNormRules, feedForwardRules, expertRules, sharedExpertRules};
  row.aliases = sarvamAliases;
  row.attention = {"attention.", "", "", "", "", "query_layernorm", "key_layernorm"};
  row.experts.correction = "gate.expert_bias";
  row.defaults.numKvHeads = 4;
  row.defaults.headDim = 64;
  row.defaults.normEps = 1e-6;
  row.defaults.ropeTheta = 8e6;
  row.defaults.partialRotary = 1.0;
  row.biases.attentionKey = nullptr;
  row.readers.huggingFaceRest = readSarvam;
  row.readers.ggufRest = nullptr;
  row.build = buildSarvam;
  return row;
}
const Family family::sarvamMoe = describeSarvamMoe();

} // namespace heddle
