// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Mistral (arXiv:2310.06825): Llama with grouped KV heads and a sliding window. Mixtral (arXiv:2401.04088): the same with experts instead of
// the feed-forward block, in every layer. GGUF calls both "llama". Ministral (2024): Mistral some of whose layers see all tokens. Ministral 3 (2025):
// Mistral stretched by YaRN, whose queries grow with what lies behind the original context; programs are made for that context, where nothing has
// grown. With images, "mistral3" keeps either in its text_config.

#include "frontends/families/Decoder.h"
#include "frontends/families/Families.h"
#include "frontends/gguf/GgufModel.h"
#include "frontends/huggingface/Config.h"

#include <algorithm>

namespace heddle {

static constexpr UnreadTensor imageTensors[] = {
    {"vision_tower.*", /*isLoss=*/true},
    {"multi_modal_projector.*", /*isLoss=*/true},
    {"model.vision_tower.*", /*isLoss=*/true},
    {"model.multi_modal_projector.*", /*isLoss=*/true},
};

// Beside images a config may hold any decoder.
static void checkType(JsonObject &object, ModelConfig &config) {
  std::string type = object.string("model_type").value_or(config.family->modelType);
  if (type != config.family->modelType)
    object.unsupported("model_type", "is '" + printable(type, 64) + "', which is not supported; expected '" +
                                         config.family->modelType + "'");
}

static constexpr Family describeMistral() {
  Family row;
  row.modelType = "mistral";
  row.rules = {embeddingRules, attentionNormRules, attentionRules, feedForwardNormRules, feedForwardRules};
  row.defaults.numKvHeads = 8;
  row.defaults.context = 131072;
  row.defaults.slidingWindow = 4096;
  row.windows.use = WindowUse::Stated;
  row.build = buildPreNormDecoder;
  return row;
}
const Family family::mistral = describeMistral();

// Of "mistral3": the whole says whether its head is tied, whatever its text_config does, and published files that do not say it hold one.
static constexpr Family describeSeeing(Family row) {
  row.wrapper = "mistral3";
  row.gguf = nullptr;
  row.unread = imageTensors;
  row.headIfStored = true;
  row.readers.huggingFaceRest = checkType;
  return row;
}
const Family family::mistralThatSees = describeSeeing(describeMistral());

static constexpr Family describeMinistral() {
  Family row = describeMistral();
  row.modelType = "ministral";
  row.windows.readsLayerTypes = true;
  return row;
}
const Family family::ministral = describeMinistral();

// Queries are multiplied by 1 + growth log(1 + floor(position / original context)).
static void keepWithinOriginal(ModelConfig &config, double growth) {
  const RopeConfig &rope = config.ropes.front();
  if (growth != 0.0 && rope.originalContext > 0)
    config.contextLength = std::min(config.contextLength, rope.originalContext);
}

// A config that says nothing of its rotation has that of the published models, whatever base stands outside.
static void readStretchedRope(JsonObject &object, ModelConfig &config) {
  JsonObject rope = object.object(ropeKey(object));
  double theta = object.number("rope_theta").value_or(config.family->defaults.ropeTheta);
  RopeConfig read = readRope(rope, object, config, theta);
  double growth = rope.number("llama_4_scaling_beta").value_or(0.0);
  if (!object.has(ropeKey(object))) {
    read.theta = 1e6;
    read.scaling = RopeScalingKind::Yarn;
    read.factor = 16.0;
    read.originalContext = 16384;
    read.mscale = read.mscaleAllDim = 1.0;
    growth = 0.1;
  } else if (!rope.has("llama_4_scaling_beta")) {
    rope.fail("llama_4_scaling_beta", "is missing");
  } else if (growth != 0.0 && read.originalContext < 1) {
    read.originalContext = rope.integer("original_max_position_embeddings").value_or(0);
    if (read.originalContext < 1)
      rope.fail("original_max_position_embeddings",
                "is " + std::to_string(read.originalContext) + ", expected at least 1");
  }
  config.ropes = {read};
  object.adopt(rope);
  keepWithinOriginal(config, growth);
}

// Without a scaling nothing else has read the original context.
static void readGgufGrowth(GgufKeys &keys, ModelConfig &config) {
  const char *key = "rope.scaling.original_context_length";
  double growth = keys.number("attention.temperature_scale", 0.0);
  RopeConfig &rope = config.ropes.front();
  if (growth != 0.0 && rope.scaling == RopeScalingKind::None)
    rope.originalContext = keys.integer(key, config.contextLength);
  if (growth != 0.0 && rope.originalContext < 1)
    keys.fail(keys.full(key) + " is " + std::to_string(rope.originalContext) + ", expected at least 1");
  keepWithinOriginal(config, growth);
}

static constexpr Family describeMinistral3() {
  Family row = describeMistral();
  row.modelType = "ministral3";
  row.gguf = "mistral3";
  row.defaults.vocabSize = 131072;
  row.defaults.headDim = 128;
  row.defaults.context = 262144;
  row.defaults.normEps = 1e-5;
  row.defaults.slidingWindow = 0;
  row.rope.interleavedInGguf = true;
  row.readers.huggingFaceRopes = readStretchedRope;
  row.readers.ggufRest = readGgufGrowth;
  return row;
}
const Family family::ministral3 = describeMinistral3();
const Family family::ministral3ThatSees = describeSeeing(describeMinistral3());

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
