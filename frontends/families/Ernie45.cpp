// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// ERNIE 4.5 (Baidu 2025): Llama whose heads rotate as pairs (2i, 2i + 1), with biases where use_bias says so; and the same with experts, chosen
// by the softmax of all plus a correction, beside some that every token passes.

#include "bytes/Text.h"
#include "frontends/families/Decoder.h"
#include "frontends/families/Families.h"
#include "frontends/families/RoutedExperts.h"
#include "frontends/gguf/GgufModel.h"
#include "frontends/huggingface/JsonObject.h"

#include <algorithm>

namespace heddle {

static constexpr Family describeErnie45() {
  Family row;
  row.modelType = "ernie4_5";
  row.gguf = "ernie4_5";
  row.rules = {embeddingRules, attentionNormRules, attentionRules, feedForwardNormRules, feedForwardRules};
  row.defaults.numKvHeads = 2;
  row.defaults.headDim = 128;
  row.defaults.context = 131072;
  row.defaults.normEps = 1e-5;
  row.defaults.ropeTheta = 500000.0;
  row.defaults.tied = true;
  row.biases.attentionKey = row.biases.mlpKey = "use_bias";
  row.biases.mlpInGguf = true;
  row.rope.interleaved = row.rope.interleavedInGguf = true;
  row.build = buildPreNormDecoder;
  return row;
}
const Family family::ernie45 = describeErnie45();

static constexpr TensorRule staticsRules[] = {
    {"model.layers.#.mlp.moe_statics.e_score_correction_bias", "blk.#.exp_probs_b.bias", ConfigDim::Experts,
     ConfigDim::None, When::Correction, StoredOrder::Flattened},
};

static constexpr UnreadTensor predictionTensors[] = {{"model.mtp*"}};

// Every moe_layer_interval-th layer has experts, from the first to the last that are named.
static void readSparseLayers(JsonObject &object, ModelConfig &config) {
  int64_t interval = object.integer("moe_layer_interval").value_or(1), layers = config.numHiddenLayers;
  int64_t first = object.integer("moe_layer_start_index").value_or(1);
  int64_t last = object.integer("moe_layer_end_index").value_or(-1);
  if (interval < 1)
    return object.fail("moe_layer_interval", "is " + std::to_string(interval) + ", expected at least 1");
  for (int64_t layer = 0; layer < layers; ++layer)
    config.moe.layerIsMoe[layer] =
        (layer + 1) % interval == 0 && layer >= first && layer <= (last == -1 ? layers - 1 : last);
}

// What weights of chosen experts are divided by is at least moe_norm_min, which no program does. The correction may choose any expert, so
// that only a number that is none beside their sum is inert.
static void checkLeastSum(JsonObject &object) {
  constexpr double inert = 1e-12;
  if (!(object.number("moe_norm_min").value_or(inert) <= inert))
    object.unsupported("moe_norm_min", "is " + printable(object.find("moe_norm_min").raw(), 64) +
                                           ", which is not supported; expected at most 1e-12");
}

static void readExperts(JsonObject &object, ModelConfig &config) {
  MoeConfig &moe = config.moe;
  std::string count = fieldName(config, "num_local_experts"), perToken = fieldName(config, "num_experts_per_tok");
  moe.numExperts = object.bounded(count.c_str(), object.integer(count.c_str()).value_or(64), 1, 1 << 12);
  moe.expertsPerToken = object.integer(perToken.c_str()).value_or(6);
  checkLeastSum(object);
  moe.intermediateSize =
      object.bounded("moe_intermediate_size", object.integer("moe_intermediate_size").value_or(1536), 1, 1 << 24);
  moe.sharedIntermediateSize =
      moe.intermediateSize *
      object.bounded("moe_num_shared_experts", object.integer("moe_num_shared_experts").value_or(2), 0, 1 << 12);
  moe.hasCorrection = moe.normTopkProb = true;
  config.hasLogitsBias = config.mlpBias; // use_bias, that of every linear layer
  readSparseLayers(object, config);
}

static void readGgufExperts(GgufKeys &keys, ModelConfig &config) {
  MoeConfig &moe = config.moe;
  moe.normTopkProb = true;
  keys.integer("interleave_moe_layer_step", 1); // which layers have experts, their tensors say
  int64_t shared = std::clamp<int64_t>(keys.integer("expert_shared_count", 0), 0, 1 << 12);
  moe.sharedIntermediateSize = keys.integer("expert_shared_feed_forward_length", moe.intermediateSize * shared);
  for (int64_t layer = 0; layer < config.numHiddenLayers; ++layer)
    moe.hasCorrection |= keys.source().tensors().find("blk." + std::to_string(layer) + ".exp_probs_b.bias") != nullptr;
}

static constexpr KeyName expertNames[] = {{"num_local_experts", "moe_num_experts"}, {"num_experts_per_tok", "moe_k"}};
static constexpr KeyAlias expertAliases[] = {{"num_experts", "moe_num_experts"}, {"num_experts_per_tok", "moe_k"}};

static constexpr Family describeErnie45Moe() {
  Family row = describeErnie45();
  row.modelType = "ernie4_5_moe";
  row.gguf = "ernie4_5-moe";
  row.hasExperts = true;
  row.rules = {embeddingRules, attentionNormRules, attentionRules, feedForwardNormRules, feedForwardRules,
               expertRules,    sharedExpertRules,  staticsRules,   logitsBiasRules};
  row.unread = predictionTensors;
  row.keyNames = expertNames;
  row.aliases = expertAliases;
  row.defaults.numKvHeads = 4;
  row.defaults.headDim = 0;
  row.experts.correction = "moe_statics.e_score_correction_bias";
  row.readers.huggingFaceRest = readExperts;
  row.readers.ggufRest = readGgufExperts;
  return row;
}
const Family family::ernie45Moe = describeErnie45Moe();

} // namespace heddle
