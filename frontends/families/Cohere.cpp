// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Command R (Cohere) and Command R7B (Cohere2): attention and feed-forward read one LayerNorm, without a bias, of the layer's input and are
// added to that input together; pairs (2i, 2i + 1) rotate; logits are scaled. Command R+ norms queries and keys, each head with a weight of
// its own. In Cohere2 three layers of four have a window, and only they rotate. Command A+ (2026) is Cohere2 with experts behind its first layers;
// Compass (2026) rotates halves, each type of layer in its way or not at all, and sees images, whose part is left out.

#include "frontends/families/Decoder.h"
#include "frontends/families/Families.h"
#include "frontends/families/RoutedExperts.h"
#include "frontends/gguf/GgufModel.h"
#include "frontends/huggingface/Config.h"

namespace heddle {

static constexpr KeyName keyNames[] = {{"rms_norm_eps", "layer_norm_eps", "attention.layer_norm_epsilon"}};

static constexpr TensorRule headNormRules[] = {
    {"model.layers.#.self_attn.q_norm.weight", "blk.#.attn_q_norm.weight", ConfigDim::Heads, ConfigDim::HeadDim,
     When::HeadNorms},
    {"model.layers.#.self_attn.k_norm.weight", "blk.#.attn_k_norm.weight", ConfigDim::KvHeads, ConfigDim::HeadDim,
     When::HeadNorms},
};

static void readScale(JsonObject &object, ModelConfig &config) {
  config.logitScale = object.number("logit_scale").value_or(0.0625);
}

static void readGgufScale(GgufKeys &keys, ModelConfig &config) {
  config.logitScale = keys.number("logit_scale", 1.0);
}

static void readCohere(JsonObject &object, ModelConfig &config) {
  readScale(object, config);
  config.normsHeads = object.boolean("use_qk_norm").value_or(false);
}

// The format has no key for the norms.
static void readGgufCohere(GgufKeys &keys, ModelConfig &config) {
  readGgufScale(keys, config);
  config.normsHeads = keys.source().tensors().find("blk.0.attn_q_norm.weight");
}

static void readCohere2(JsonObject &object, ModelConfig &config) {
  readScale(object, config);
  rotateInWindowsOnly(config);
}

static void readGgufCohere2(GgufKeys &keys, ModelConfig &config) {
  readGgufScale(keys, config);
  rotateInWindowsOnly(config);
}

static constexpr Family describeModel(const char *modelType, const char *gguf) {
  Family row;
  row.modelType = modelType;
  row.gguf = gguf;
  row.rules = {embeddingRules, attentionNormRules, attentionRules, feedForwardRules};
  row.keyNames = keyNames;
  row.defaults.context = 8192;
  row.defaults.normEps = 1e-5;
  row.defaults.tied = true;
  row.norm = NormKind::Layer;
  row.parallelResidual = true;
  row.biases.attentionKey = "attention_bias";
  row.rope.interleaved = row.rope.interleavedInGguf = true;
  row.build = buildPreNormDecoder;
  return row;
}

static constexpr Family describeCohere() {
  Family row = describeModel("cohere", "command-r");
  row.rules[4] = headNormRules;
  row.defaults.ropeTheta = 500000.0;
  row.readers.huggingFaceRest = readCohere;
  row.readers.ggufRest = readGgufCohere;
  return row;
}
const Family family::cohere = describeCohere();

static constexpr Family describeCohere2() {
  Family row = describeModel("cohere2", "cohere2");
  row.defaults.slidingWindow = 4096;
  row.windows.use = WindowUse::Stated;
  row.windows.slidesAlways = row.windows.readsLayerTypes = true;
  row.windows.fullEvery = 4;
  row.windows.statesFullEvery = true;
  row.readers.huggingFaceRest = readCohere2;
  row.readers.ggufRest = readGgufCohere2;
  return row;
}
const Family family::cohere2 = describeCohere2();

static constexpr UnreadTensor imageTensors[] = {{"visual.*", /*isLoss=*/true}, {"model.visual.*", /*isLoss=*/true}};

// A type of layer whose rotation is null has none.
static void readCompassRopes(JsonObject &object, ModelConfig &config) {
  JsonObject ropes = object.object("rope_parameters");
  const char *types[] = {"full_attention", "sliding_attention"};
  config.ropes.resize(2);
  for (size_t type = 0; type < 2; ++type) {
    bool isUsed = false;
    for (size_t layer = 0; layer < config.layerRope.size(); ++layer)
      if ((config.layerWindow[layer] > 0) == (type == 1)) {
        isUsed = true;
        config.layerRope[layer] = ropes.isNull(types[type]) ? noRope : uint8_t(type);
      }
    if (isUsed && !ropes.isNull(types[type]) && !ropes.has(types[type]))
      object.fail("rope_parameters", "has no " + std::string(types[type]));
    JsonObject rope = ropes.object(types[type]);
    config.ropes[type] = readRope(rope, object, config, config.family->defaults.ropeTheta);
    ropes.adopt(rope);
  }
  if (object.has("rope_scaling"))
    object.unsupported("rope_scaling",
                       "is set, which is not supported for " + config.architecture + "; expected rope_parameters");
  readCommonTruncate(ropes, config);
  object.adopt(ropes);
}

static void readCompassScale(JsonObject &object, ModelConfig &config) {
  config.logitScale = object.number("logit_scale").value_or(1.0);
}

static constexpr Family describeCompass() {
  Family row = describeCohere2();
  row.modelType = "cohere_compass_text";
  row.wrapper = "cohere_compass";
  row.gguf = nullptr;
  row.unread = imageTensors;
  row.windows.fullEvery = 1; // only layer_types gives a layer a window
  row.windows.slidesAlways = row.windows.statesFullEvery = false;
  row.rope.interleaved = false;
  row.readers.huggingFaceRopes = readCompassRopes;
  row.readers.huggingFaceRest = readCompassScale;
  row.readers.ggufRest = nullptr;
  return row;
}
const Family family::cohereCompassText = describeCompass();

static constexpr KeyName expertKeyNames[] = {{"rms_norm_eps", "layer_norm_eps", "attention.layer_norm_epsilon"},
                                             {"num_local_experts", "num_experts"}};
static constexpr UnreadTensor predictionTensors[] = {{"blk.+.*"}};

// The first layers, which are dense, have a pattern of windows of their own. Where it is 1, none has one, and they rotate all the same.
static void readPrefix(JsonObject &object, ModelConfig &config) {
  int64_t first = object.integer("first_k_dense_replace").value_or(0);
  int64_t period =
      object.bounded("sliding_window_pattern", object.integer("sliding_window_pattern").value_or(4), 1, INT32_MAX);
  const char *key = "prefix_dense_sliding_window_pattern";
  int64_t ofPrefix = object.bounded(key, object.integer(key).value_or(1), 1, INT32_MAX);
  int64_t window = object.integer("sliding_window").value_or(config.family->defaults.slidingWindow);
  for (int64_t layer = 0; !object.has("layer_types") && layer < config.numHiddenLayers; ++layer) {
    bool isFull = layer < first ? (layer + 1) % ofPrefix == 0 : (layer - first + 1) % period == 0;
    config.layerWindow[layer] = isFull ? 0 : window;
  }
  for (size_t layer = 0; layer < config.layerRope.size(); ++layer)
    if (config.layerWindow[layer] == 0 && (config.moe.layerIsMoe[layer] || ofPrefix != 1))
      config.layerRope[layer] = noRope;
}

// A word of `object` that is one of two, the first without the key; whether it is the second.
static bool isSecond(JsonObject &object, const char *key, const char *first, const char *second) {
  std::string value = object.string(key).value_or(first);
  if (value != first && value != second)
    object.fail(key, "is '" + printable(value, 64) + "', expected " + first + " or " + second);
  return value == second;
}

static void readCohere2Moe(JsonObject &object, ModelConfig &config) {
  readScale(object, config);
  // The reference passes over it, though the file means it.
  if (object.has("rope_scaling"))
    object.unsupported("rope_scaling", "is set, which is not supported for cohere2_moe; expected rope_parameters");
  MoeConfig &moe = config.moe;
  readExpertCounts(object, config, /*numExperts=*/8, /*expertsPerToken=*/2);
  readSparseLayers(object, config, /*firstSparse=*/0);
  readPrefix(object, config);
  moe.intermediateSize = config.intermediateSize;
  config.intermediateSize = object.integer("prefix_dense_intermediate_size").value_or(config.intermediateSize);
  int64_t shared = object.bounded("num_shared_experts", object.integer("num_shared_experts").value_or(0), 0, 1 << 12);
  if (moe.intermediateSize <= 1 << 24)
    moe.sharedIntermediateSize = shared * moe.intermediateSize;
  moe.averagesShared = !isSecond(object, "shared_expert_combination_strategy", "average", "sum");
  moe.sigmoidScores = isSecond(object, "expert_selection_fn", "softmax", "sigmoid");
  moe.normTopkProb = !moe.sigmoidScores || object.boolean("norm_topk_prob").value_or(true);
  if (std::optional<double> eps = object.number("rms_norm_eps")) {
    config.hasRmsNorms = true;
    config.normEps = *eps;
  }
}

// The first layers, which are dense, rotate whatever they see.
static void readGgufCohere2Moe(GgufKeys &keys, ModelConfig &config) {
  refuseOtherWindowBase(keys, config);
  readGgufScale(keys, config);
  MoeConfig &moe = config.moe;
  readGgufSigmoidExperts(keys, config);
  int64_t shared = moe.sharedIntermediateSize;
  if (keys.has("expert_shared_feed_forward_length") && shared)
    readGgufSharedWidth(keys, config);
  moe.averagesShared = true;
  if (keys.has("attention.layer_norm_rms_epsilon")) {
    config.hasRmsNorms = true;
    config.normEps = keys.number("attention.layer_norm_rms_epsilon", config.normEps);
  }
  for (size_t layer = 0; layer < config.layerRope.size(); ++layer)
    if (config.layerWindow[layer] == 0 && moe.layerIsMoe[layer])
      config.layerRope[layer] = noRope;
}

static constexpr Family describeCohere2Moe() {
  Family row = describeCohere2();
  row.modelType = "cohere2_moe";
  row.gguf = "cohere2moe";
  row.unread = predictionTensors;
  row.hasExperts = true;
  row.rules = {embeddingRules, attentionNormRules, attentionRules, feedForwardRules, expertRules, sharedExpertRules};
  row.keyNames = expertKeyNames;
  row.defaults.headDim = 128;
  row.windows.ggufFullEvery = 4;
  row.windows.ggufFullFirst = true;
  row.readers.huggingFaceRest = readCohere2Moe;
  row.readers.ggufRest = readGgufCohere2Moe;
  return row;
}
const Family family::cohere2Moe = describeCohere2Moe();

} // namespace heddle
