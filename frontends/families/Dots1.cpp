// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// dots.llm1 (rednote-hilab 2025, arXiv:2506.05767): DeepSeek-V3's experts, chosen by sigmoid, behind the attention of Qwen3, with norms of query
// and key heads.

#include "frontends/families/Decoder.h"
#include "frontends/families/Families.h"
#include "frontends/families/RoutedExperts.h"
#include "frontends/gguf/GgufModel.h"
#include "frontends/huggingface/JsonObject.h"

namespace heddle {

static void readExperts(JsonObject &object, ModelConfig &config) {
  RoutedDefaults defaults;
  defaults.width = 1408;
  readRoutedExperts(object, config, defaults);
  MoeConfig &moe = config.moe;
  moe.sigmoidScores = moe.hasCorrection = true;
  moe.numGroups = object.integer("n_group").value_or(1);
  moe.topGroups = object.integer("topk_group").value_or(1);
}

static constexpr KeyAlias aliases[] = {{"num_local_experts", "n_routed_experts"}};

static constexpr Family describeDots1() {
  Family row;
  row.modelType = "dots1";
  row.gguf = "dots1";
  row.rules = {embeddingRules,   attentionNormRules, attentionRules,  queryKeyNormRules, feedForwardNormRules,
               feedForwardRules, expertRules,        correctionRules, sharedExpertRules};
  row.aliases = aliases;
  row.defaults.numKvHeads = 32;
  row.defaults.slidingWindow = 4096;
  row.biases.attentionKey = "attention_bias";
  row.windows.use = WindowUse::Stated;
  row.windows.readsLayerTypes = true;
  row.windows.fullLayersFirst = 62;
  row.readers.huggingFaceRest = readExperts;
  row.readers.ggufRest = readGgufRoutedExperts;
  row.build = buildPreNormDecoder;
  return row;
}
const Family family::dots1 = describeDots1();

} // namespace heddle
