// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Mistral (arXiv:2310.06825): Llama with grouped KV heads and a sliding window. Mixtral (arXiv:2401.04088): the same with experts instead of
// the feed-forward block, in every layer. GGUF calls both "llama". Ministral (2024): Mistral some of whose layers see all tokens. With images, "mistral3"
// keeps Mistral in its text_config.

#include "frontends/families/Decoder.h"
#include "frontends/families/Families.h"
#include "frontends/huggingface/Config.h"

namespace heddle {

static constexpr UnreadTensor imageTensors[] = {
    {"vision_tower.*", /*isLoss=*/true},
    {"multi_modal_projector.*", /*isLoss=*/true},
    {"model.vision_tower.*", /*isLoss=*/true},
    {"model.multi_modal_projector.*", /*isLoss=*/true},
};

static constexpr Family describeMistral() {
  Family row;
  row.modelType = "mistral";
  row.wrapper = "mistral3";
  row.unread = imageTensors;
  row.rules = {embeddingRules, attentionNormRules, attentionRules, feedForwardNormRules, feedForwardRules};
  row.defaults.numKvHeads = 8;
  row.defaults.context = 131072;
  row.defaults.slidingWindow = 4096;
  row.windows.use = WindowUse::Stated;
  row.build = buildPreNormDecoder;
  return row;
}
const Family family::mistral = describeMistral();

static constexpr Family describeMinistral() {
  Family row = describeMistral();
  row.modelType = "ministral";
  row.wrapper = nullptr;
  row.unread = {};
  row.windows.readsLayerTypes = true;
  return row;
}
const Family family::ministral = describeMinistral();

static void readMixtralExperts(JsonObject &object, ModelConfig &config) {
  MoeConfig &moe = config.moe;
  readExpertCounts(object, config, /*numExperts=*/8, /*expertsPerToken=*/2);
  moe.intermediateSize = config.intermediateSize;
  moe.normTopkProb = true;
  moe.layerIsMoe.assign(moe.layerIsMoe.size(), true);
}

static constexpr KeyAlias mixtralAliases[] = {{"num_experts", "num_local_experts"}};

static constexpr Family describeMixtral() {
  Family row;
  row.modelType = "mixtral";
  row.gguf = "llama";
  row.hasExperts = true;
  row.rules = {embeddingRules, attentionNormRules, attentionRules, feedForwardNormRules, blockSparseExpertRules};
  row.aliases = mixtralAliases;
  row.defaults.numKvHeads = 8;
  row.defaults.context = 131072;
  row.defaults.normEps = 1e-5;
  row.defaults.ropeTheta = 1e6;
  row.windows.use = WindowUse::Stated;
  row.rope.interleavedInGguf = true;
  row.experts = {"block_sparse_moe.", "w1", "w3", "w2"};
  row.readers.huggingFaceRest = readMixtralExperts;
  row.build = buildPreNormDecoder;
  return row;
}
const Family family::mixtral = describeMixtral();

} // namespace heddle
