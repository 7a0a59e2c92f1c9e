// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Mistral (arXiv:2310.06825): Llama with grouped KV heads and a sliding window. Mixtral (arXiv:2401.04088): the same with experts instead of
// the feed-forward block, in every layer. GGUF calls both "llama". Ministral (2024): Mistral some of whose layers see all tokens. Ministral 3 (2025):
// Mistral stretched by YaRN, whose queries grow with what lies behind the original context; programs are made for that context, where nothing has
// grown. Mistral Small 4 (2026) is stretched in the same way, and has DeepSeek's latents and experts, which softmax scores. With images, "mistral3" keeps either in its text_config.

#include "frontends/families/DeepSeek.h"
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
static void readStretchedRope(JsonObject &object, ModelConfig &config, double theta0, double factor, int64_t original) {
  JsonObject rope = object.object(ropeKey(object));
  double theta = object.number("rope_theta").value_or(config.family->defaults.ropeTheta);
  RopeConfig read = readRope(rope, object, config, theta);
  double growth = rope.number("llama_4_scaling_beta").value_or(0.0);
  if (!object.has(ropeKey(object))) {
    read.theta = theta0;
    read.scaling = RopeScalingKind::Yarn;
    read.factor = factor;
    read.originalContext = original;
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

static void readMinistral3Rope(JsonObject &object, ModelConfig &config) {
  readStretchedRope(object, config, 1e6, 16.0, 16384);
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
  row.readers.huggingFaceRopes = readMinistral3Rope;
  row.readers.ggufRest = readGgufGrowth;
  return row;
}
const Family family::ministral3 = describeMinistral3();
const Family family::ministral3ThatSees = describeSeeing(describeMinistral3());

static void readMistral4Sizes(JsonObject &object, ModelConfig &config) {
  readLatentSizes(object, config, LatentDefaults{256, 1024, 64, 64, 128});
}

static void readMistral4Rope(JsonObject &object, ModelConfig &config) {
  readStretchedRope(object, config, 10000.0, 128.0, 8192);
  JsonObject rope = object.object(ropeKey(object));
  RopeConfig &read = config.ropes.front();
  int64_t rotated = config.latent.qkRopeHeadDim;
  if (double share = rope.number("partial_rotary_factor").value_or(0.0); share != 0.0)
    rotated = static_cast<int64_t>(static_cast<double>(config.headDim) * share);
  if (rotated != config.latent.qkRopeHeadDim)
    rope.fail("partial_rotary_factor", "gives " + std::to_string(rotated) +
                                           " rotary dimensions of a head, expected qk_rope_head_dim (" +
                                           std::to_string(config.latent.qkRopeHeadDim) + ")");
  read.rotaryDim = rotated;
  object.adopt(rope);
}

static void readMistral4(JsonObject &object, ModelConfig &config) {
  readRoutedExperts(object, config, RoutedDefaults{128, 4, 2048, 1, 0, 1.0, true});
  config.moe.numGroups = object.integer("n_group").value_or(1);
  config.moe.topGroups = object.integer("topk_group").value_or(1);
  readLatentRotation(object, config);
}

static Status addGroupScores(Model &model) {
  return model.config.moe.numGroups > 1 ? addZeroCorrections(model) : Status();
}

static void readGgufMistral4(GgufKeys &keys, ModelConfig &config) {
  const char *key = "attention.temperature_length";
  readGgufDeepSeekRest(keys, config);
  readGgufGrowth(keys, config);
  int64_t length = keys.integer(key, config.contextLength);
  if (length < 1)
    return keys.fail(keys.full(key) + " is " + std::to_string(length) + ", expected at least 1");
  if (keys.number("attention.temperature_scale", 0.0) != 0.0)
    config.contextLength = std::min(config.contextLength, length);
}

static constexpr KeyAlias mistral4Aliases[] = {{"num_local_experts", "n_routed_experts"}};

static constexpr Family describeMistral4() {
  Family row = describeDeepSeek("mistral4");
  row.gguf = "mistral4";
  row.hasExperts = true;
  row.aliases = mistral4Aliases;
  row.defaults.vocabSize = 131072;
  row.defaults.numHeads = 32;
  row.defaults.context = 1048576;
  row.rope.partial = true; // of a whole head, as readMistral4Rope checks
  row.readers.huggingFaceSizes = readMistral4Sizes;
  row.readers.huggingFaceRopes = readMistral4Rope;
  row.readers.huggingFaceRest = readMistral4;
  row.readers.ggufRest = readGgufMistral4;
  row.addTensors = addGroupScores;
  return row;
}
const Family family::mistral4 = describeMistral4();

// checkType is the same of all; what a row has read besides comes first.
static void readSeeingMistral4(JsonObject &object, ModelConfig &config) {
  checkType(object, config);
  readMistral4(object, config);
}

static constexpr Family describeSeeingMistral4() {
  Family row = describeSeeing(describeMistral4());
  row.readers.huggingFaceRest = readSeeingMistral4;
  return row;
}
const Family family::mistral4ThatSees = describeSeeingMistral4();

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
