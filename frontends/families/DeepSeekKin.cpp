// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Families with the graph of DeepSeek V3: GLM-4.7-Flash (2026), whose files may name the layers with experts; Youtu-LLM (arXiv:2512.24618), which has
// none; Sarvam's 105B model (2026), whose experts are of one group; and A.X-K1 (SK Telecom 2026), which norms what a sparse layer gives and chooses
// experts without a correction. DeepSeek V3.2 (2025) and GLM-5 (2026) choose the tokens that a query sees, which are all while there are no more
// than index_topk. GGUF files of the first are those of DeepSeek.

#include "frontends/families/DeepSeek.h"
#include "frontends/families/Families.h"
#include "frontends/gguf/GgufModel.h"
#include "frontends/huggingface/Config.h"

#include <algorithm>

namespace heddle {

// A layer behind the last predicts one token more.
static constexpr UnreadTensor predictionTensors[] = {{"model.layers.+.*"}};

static int64_t predictionLayers(JsonObject &object, const ModelConfig &config, int64_t absent) {
  return object.integer(fieldName(config, "num_nextn_predict_layers").c_str()).value_or(absent);
}

static void readGlmSizes(JsonObject &object, ModelConfig &config) {
  readLatentSizes(object, config, LatentDefaults{512, 768, 192, 64, 256});
}

// Without mlp_layer_types all layers but the first have experts.
static void readGlm(JsonObject &object, ModelConfig &config) {
  readLatentExperts(object, config, LatentExpertDefaults{{64, 4, 1536, 1, 1, 1.8, true}, 1, 1});
  readSparseLayersButFirst(object, config);
  config.numPredictionLayers = predictionLayers(object, config, 1);
  readLatentRotation(object, config);
}

static constexpr KeyAlias glmAliases[] = {{"num_local_experts", "n_routed_experts"}, {"head_dim", "qk_rope_head_dim"}};

static constexpr Family describeGlm4MoeLite() {
  Family row = describeDeepSeek("glm4_moe_lite");
  row.unread = predictionTensors;
  row.aliases = glmAliases;
  row.defaults.context = 202752;
  row.defaults.normEps = 1e-5;
  row.rope.partial = true;
  row.readers.huggingFaceSizes = readGlmSizes;
  row.readers.huggingFaceRest = readGlm;
  return row;
}
const Family family::glm4MoeLite = describeGlm4MoeLite();

static constexpr Family describeYoutu() {
  Family row = describeDeepSeek("youtu");
  row.rules = {embeddingRules, latentAttentionRules, feedForwardNormRules, feedForwardRules};
  row.defaults.context = 131072;
  row.defaults.tied = true;
  row.readers.huggingFaceRest = readLatentRotation;
  return row;
}
const Family family::youtu = describeYoutu();

static void readSarvamSizes(JsonObject &object, ModelConfig &config) {
  LatentDefaults defaults;
  defaults.qLoraRank = 0;
  readLatentSizes(object, config, defaults);
}

static void readSarvam(JsonObject &object, ModelConfig &config) {
  readLatentExperts(object, config, LatentExpertDefaults{{128, 8, 2048, 1, 1, 2.5, true}, 1, 1});
  config.numPredictionLayers = predictionLayers(object, config, 0);
  readLatentRotation(object, config);
}

static constexpr KeyAlias sarvamAliases[] = {{"num_local_experts", "n_routed_experts"},
                                             {"num_experts", "n_routed_experts"},
                                             {"num_shared_experts", "n_shared_experts"},
                                             {"num_mtp_layers", "num_nextn_predict_layers"}};

static constexpr Family describeSarvamMla() {
  Family row = describeDeepSeek("sarvam_mla");
  row.unread = predictionTensors;
  row.aliases = sarvamAliases;
  row.defaults.context = 4096;
  row.rope.yarn = "deepseek_yarn";
  row.readers.huggingFaceSizes = readSarvamSizes;
  row.readers.huggingFaceRest = readSarvam;
  return row;
}
const Family family::sarvamMla = describeSarvamMla();

// What chooses the tokens that a query sees, and layers that predict further ones.
static constexpr UnreadTensor indexTensors[] = {
    {"model.layers.#.self_attn.indexer.*"}, {"model.layers.+.*"}, {"blk.#.indexer.*"}, {"blk.+.*"}};

// Programs are made for texts of which each query sees all that come before.
static void readIndexed(JsonObject &object, ModelConfig &config, const LatentExpertDefaults &defaults) {
  for (const std::string &type : object.strings("layer_types"))
    if (type != "indexed_attention")
      object.fail("layer_types", "holds '" + printable(type, 64) + "', expected indexed_attention");
  readLatentExperts(object, config, defaults);
  readSparseLayers(object, config, defaults.routed.firstSparse);
  config.numPredictionLayers = predictionLayers(object, config, 1);
  readLatentRotation(object, config);
  if (!config.ropes.empty())
    config.ropes[0].interleaved = true; // the reference has no key for it
  const char *key = "index_topk";
  int64_t seen = object.bounded(key, object.integer(key).value_or(2048), 1, 1 << 30);
  config.contextLength = std::min(config.contextLength, seen);
}

static void readV32(JsonObject &object, ModelConfig &config) {
  readIndexed(object, config, LatentExpertDefaults());
}

static void readGlmDsaSizes(JsonObject &object, ModelConfig &config) {
  readLatentSizes(object, config, LatentDefaults{512, 2048, 192, 64, 256});
}

static void readGlmDsa(JsonObject &object, ModelConfig &config) {
  readIndexed(object, config, LatentExpertDefaults{{256, 8, 2048, 1, 3, 2.5, true}, 1, 1});
}

static void readGgufIndexed(GgufKeys &keys, ModelConfig &config) {
  readGgufSigmoidExperts(keys, config);
  setScoreScale(config);
  for (const char *key : {"attention.indexer.head_count", "attention.indexer.key_length", "attention.indexer.types"})
    (void)keys.full(key);
  const char *key = "attention.indexer.top_k";
  int64_t seen = keys.integer(key);
  if (seen < 1)
    keys.fail(keys.full(key) + " is " + std::to_string(seen) + ", expected at least 1");
  config.contextLength = std::min(config.contextLength, std::max<int64_t>(1, seen));
}

static constexpr KeyAlias indexedAliases[] = {
    {"num_local_experts", "n_routed_experts"}, {"num_experts", "n_routed_experts"}, {"head_dim", "qk_rope_head_dim"}};

static constexpr Family describeIndexed(const char *modelType, const char *gguf) {
  Family row = describeDeepSeek(modelType);
  row.gguf = gguf;
  row.unread = indexTensors;
  row.aliases = indexedAliases;
  row.defaults.context = 163840;
  row.rope.partial = true;
  row.readers.huggingFaceRest = readV32;
  row.readers.ggufRest = readGgufIndexed;
  return row;
}
const Family family::deepSeekV32 = describeIndexed("deepseek_v32", "deepseek32");

static constexpr Family describeGlmDsa() {
  Family row = describeIndexed("glm_moe_dsa", "glm-dsa");
  row.defaults.context = 202752;
  row.defaults.normEps = 1e-5;
  row.readers.huggingFaceSizes = readGlmDsaSizes;
  row.readers.huggingFaceRest = readGlmDsa;
  return row;
}
const Family family::glmMoeDsa = describeGlmDsa();

static void readGgufPlm(GgufKeys &, ModelConfig &config) {
  setScoreScale(config);
}

// PLM (arXiv:2503.12167): latents, and feed-forward blocks without gates that square what ReLU leaves. Its folders bring code of their own.
static constexpr Family describePlm() {
  Family row = describeDeepSeek("plm");
  row.gguf = "plm";
  row.isGgufOnly = true;
  row.rules = {embeddingRules, latentAttentionRules, feedForwardNormRules, ungatedFeedForwardRules};
  row.feedForward.gate = nullptr;
  row.defaults.activation = Activation::SquaredRelu;
  row.readers.ggufRest = readGgufPlm;
  return row;
}
const Family family::plm = describePlm();

static constexpr TensorRule normBehindRules[] = {
    {"model.layers.#.post_mlp_layernorm.weight", nullptr, ConfigDim::Hidden, ConfigDim::None, When::Sparse},
};

// Published files have a norm for dense layers as well.
static constexpr UnreadTensor denseNorms[] = {{"model.layers.#.post_mlp_layernorm.weight"}};

static void readAxk1(JsonObject &object, ModelConfig &config) {
  readLatentExperts(object, config, LatentExpertDefaults{{192, 8, 2048, 1, 1, 2.5, true}, 8, 4});
  readSparseLayers(object, config, /*firstSparse=*/1);
  readLatentRotation(object, config);
}

static void buildAxk1(ModelBuilder &b) {
  buildDecoder(b, [&](int64_t layer, TensorHandle x) {
    x = b.add(x, latentSelfAttention(b, b.rmsNorm(x, "input_layernorm")));
    TensorHandle fed = layerFeedForward(b, layer, b.rmsNorm(x, "post_attention_layernorm"));
    return b.add(x, b.config().moe.layerIsMoe[size_t(layer)] ? b.rmsNorm(fed, "post_mlp_layernorm") : fed);
  });
}

static constexpr KeyAlias axk1Aliases[] = {{"num_local_experts", "n_routed_experts"}};

static constexpr Family describeAxk1() {
  Family row = describeDeepSeek("axk1");
  row.rules[7] = normBehindRules;
  row.unread = denseNorms;
  row.aliases = axk1Aliases;
  row.correctionIfStored = true;
  row.defaults.context = 32768;
  row.readers.huggingFaceRest = readAxk1;
  row.addTensors = addZeroCorrections; // which published files lack
  row.build = buildAxk1;
  return row;
}
const Family family::axk1 = describeAxk1();

} // namespace heddle
