// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// DeepSeek V2 (arXiv:2405.04434) and V3 (arXiv:2412.19437): keys and values from a low-rank latent that all heads share, a rotary key beside
// it, queries from a latent of their own or projected at once; the first layers dense, the others a mixture of experts, chosen by groups,
// with experts that every token passes. GGUF calls both deepseek2, and its files say all of what differs: they hold the up-projections of
// keys and values either in one tensor, attn_kv_b, as Hugging Face does, or apart, attn_k_b (heads, kv_lora_rank, nope) and attn_v_b
// (heads, v, kv_lora_rank), and then describe the cached latent as the one KV head. MiniCPM3 (arXiv:2404.06395) has the same attention, dense
// layers, and multipliers of embeddings, residuals and logits.

#include "frontends/families/DeepSeek.h"
#include "bytes/Text.h"
#include "frontends/families/EncoderDecoder.h"
#include "frontends/families/Families.h"
#include "frontends/gguf/GgufModel.h"
#include "frontends/huggingface/Config.h"

#include <cmath>

namespace heddle {

// A key with one supported value says nothing new; any other would change results.
static void expectWord(JsonObject &object, const char *key, const std::string &expected) {
  std::string value = object.string(key).value_or(expected);
  if (value != expected)
    object.unsupported(key, "is '" + printable(value, 64) + "', which is not supported; expected '" + expected + "'");
}

void readLatentSizes(JsonObject &object, ModelConfig &config, const LatentDefaults &defaults) {
  config.intermediateSize = readSize(object, config, "intermediate_size");
  config.normEps = object.number("rms_norm_eps").value_or(config.family->defaults.normEps);
  LatentConfig &latent = config.latent;
  latent.enabled = true;
  latent.kvLoraRank = object.integer("kv_lora_rank").value_or(defaults.kvLoraRank);
  latent.qLoraRank = object.isNull("q_lora_rank") ? 0 : object.integer("q_lora_rank").value_or(defaults.qLoraRank);
  if (object.has("q_lora_rank") && latent.qLoraRank == 0)
    object.fail("q_lora_rank", "is 0, expected a positive number or null");
  latent.qkNopeHeadDim = object.integer("qk_nope_head_dim").value_or(defaults.qkNopeHeadDim);
  latent.qkRopeHeadDim = object.integer(fieldName(config, "qk_rope_head_dim").c_str()).value_or(defaults.qkRopeHeadDim);
  latent.vHeadDim = object.integer("v_head_dim").value_or(defaults.vHeadDim);
  latent.normEps = 1e-6; // the reference's norms of latents do not take rms_norm_eps
  if (latent.qkNopeHeadDim <= 1 << 16 && latent.qkRopeHeadDim <= 1 << 16)
    config.headDim = latent.qkNopeHeadDim + latent.qkRopeHeadDim;
  config.numKvHeads = object.integer("num_key_value_heads").value_or(config.numHeads);
  if (config.numKvHeads != config.numHeads)
    object.fail("num_key_value_heads", "is " + std::to_string(config.numKvHeads) + ", expected num_attention_heads (" +
                                           std::to_string(config.numHeads) +
                                           "): every head has its own up-projections");
}

void readDeepSeekSizes(JsonObject &object, ModelConfig &config) {
  readLatentSizes(object, config, LatentDefaults());
}

// How experts are scored and chosen; any other way is refused.
static std::string readChoice(JsonObject &object, bool v3, const char *usual) {
  if (int64_t frequency = object.integer("moe_layer_freq").value_or(1); frequency != 1)
    object.unsupported("moe_layer_freq", "is " + std::to_string(frequency) + ", which is not supported; expected 1");
  expectWord(object, "scoring_func", v3 ? "sigmoid" : "softmax");
  return object.string("topk_method").value_or(usual);
}

void readLatentExperts(JsonObject &object, ModelConfig &config, const LatentExpertDefaults &defaults) {
  readChoice(object, /*v3=*/true, "noaux_tc");
  expectWord(object, "topk_method", "noaux_tc");
  readRoutedExperts(object, config, defaults.routed);
  MoeConfig &moe = config.moe;
  moe.sigmoidScores = moe.hasCorrection = true;
  moe.numGroups = object.integer(fieldName(config, "n_group").c_str()).value_or(defaults.numGroups);
  moe.topGroups = object.integer("topk_group").value_or(defaults.topGroups);
}

static void readV2Experts(JsonObject &object, ModelConfig &config) {
  RoutedDefaults defaults;
  defaults.numExperts = 64;
  defaults.width = 1407;
  defaults.numShared = 2;
  readRoutedExperts(object, config, defaults);
  MoeConfig &moe = config.moe;
  if (moe.normTopkProb)
    object.unsupported("norm_topk_prob", "is true, which is not supported for deepseek_v2");
  std::string method = readChoice(object, /*v3=*/false, "greedy");
  if (method == "group_limited_greedy") {
    moe.numGroups = object.integer("n_group").value_or(1);
    moe.topGroups = object.integer("topk_group").value_or(1);
  } else if (method != "greedy") {
    object.unsupported("topk_method", "is '" + printable(method, 64) +
                                          "', which is not supported; known: greedy, group_limited_greedy");
  }
}

void setScoreScale(ModelConfig &config) {
  double factor = config.ropes.empty() ? 1.0 : config.ropes[0].scoreFactor();
  config.attentionScale = factor / std::sqrt(static_cast<double>(config.headDim));
}

static void readV2(JsonObject &object, ModelConfig &config) {
  readV2Experts(object, config);
  if (config.ropes.empty())
    return;
  config.ropes[0].interleaved = true;
  setScoreScale(config);
}

void readLatentRotation(JsonObject &object, ModelConfig &config) {
  bool interleaved = object.flag("rope_interleave", /*absent=*/true);
  if (config.ropes.empty())
    return;
  config.ropes[0].interleaved = interleaved;
  setScoreScale(config);
}

static void readV3(JsonObject &object, ModelConfig &config) {
  readLatentExperts(object, config, LatentExpertDefaults());
  config.numPredictionLayers = object.integer(fieldName(config, "num_nextn_predict_layers").c_str()).value_or(1);
  readLatentRotation(object, config);
}

void readGgufDeepSeekSizes(GgufKeys &keys, ModelConfig &config) {
  LatentConfig &latent = config.latent;
  latent.enabled = true;
  int64_t layer = 0;
  while (config.isRecurrent(layer))
    ++layer;
  latent.splitUps = keys.source().tensors().find("blk." + std::to_string(layer) + ".attn_k_b.weight") != nullptr;
  latent.kvLoraRank = keys.integer("attention.kv_lora_rank");
  latent.qLoraRank = keys.integer("attention.q_lora_rank", 0);
  latent.qkRopeHeadDim = keys.integer("rope.dimension_count");
  const char *keyLength = keys.has("attention.key_length_mla") ? "attention.key_length_mla" : "attention.key_length";
  const char *valueLength =
      keys.has("attention.value_length_mla") ? "attention.value_length_mla" : "attention.value_length";
  config.headDim = keys.integer(keyLength);
  int64_t evenHead = config.numHeads > 0 ? config.hiddenSize / config.numHeads : 0;
  latent.vHeadDim = keys.integer(valueLength, evenHead);
  if (config.headDim <= latent.qkRopeHeadDim || config.headDim > 1 << 16 || latent.qkRopeHeadDim < 1)
    return keys.fail(keys.full(keyLength) + " (" + std::to_string(config.headDim) + ") must be more than " +
                     keys.full("rope.dimension_count") + " (" + std::to_string(latent.qkRopeHeadDim) +
                     "), at most 65536");
  latent.qkNopeHeadDim = config.headDim - latent.qkRopeHeadDim;
  latent.normEps = config.normEps;
  config.numKvHeads = config.numHeads;
}

void readGgufDeepSeekRest(GgufKeys &keys, ModelConfig &config) {
  if (config.moe.numExperts > 0)
    readGgufRoutedExperts(keys, config);
  setScoreScale(config);
}

static TensorHandle queries(ModelBuilder &b, TensorHandle x) {
  const LatentConfig &latent = b.config().latent;
  if (latent.qLoraRank)
    return b.linear(b.rmsNorm(b.linear(x, "self_attn.q_a_proj"), "self_attn.q_a_layernorm", latent.normEps),
                    "self_attn.q_b_proj");
  return b.linear(x, "self_attn.q_proj");
}

// Each head's rows of kv_b_proj, (heads, nope + v, kv_lora_rank), or of the two tensors that hold keys' and values' apart,
// keys' transposed.
static void upProjections(ModelBuilder &b, std::vector<TensorHandle> &keyUps, std::vector<TensorHandle> &valueUps) {
  const LatentConfig &latent = b.config().latent;
  int64_t rank = latent.kvLoraRank, nope = latent.qkNopeHeadDim, v = latent.vHeadDim;
  for (int64_t head = 0; head < b.config().numHeads; ++head) {
    if (latent.splitUps) {
      keyUps.push_back(b.weightRows("self_attn.k_b_proj.weight", head * rank, rank, /*transposed=*/true));
      valueUps.push_back(b.weightRows("self_attn.v_b_proj.weight", head * v, v));
      continue;
    }
    keyUps.push_back(b.weightRows("self_attn.kv_b_proj.weight", head * (nope + v), nope));
    valueUps.push_back(b.weightRows("self_attn.kv_b_proj.weight", head * (nope + v) + nope, v));
  }
}

Status addZeroCorrections(Model &model) {
  ModelConfig &config = model.config;
  for (int64_t layer = 0; layer < config.numHiddenLayers && !config.moe.hasCorrection; ++layer)
    if (config.moe.layerIsMoe[size_t(layer)])
      HEDDLE_RETURN_IF_ERROR(addTensor(model, tensorName(correctionRules[0].name, layer, 0),
                                       TensorInfo{TensorType::F32, {config.moe.numExperts}}, "corrections of scores",
                                       [](std::vector<char> &row, int64_t) { std::fill(row.begin(), row.end(), 0); }));
  config.moe.hasCorrection = true;
  return Status();
}

TensorHandle latentSelfAttention(ModelBuilder &b, TensorHandle x) {
  const ModelConfig &c = b.config();
  int64_t rank = c.latent.kvLoraRank, rope = c.latent.qkRopeHeadDim;
  TensorHandle q = b.rope(b.splitHeads(queries(b, x), c.numHeads), c.latent.qkNopeHeadDim);
  TensorHandle kv = b.linear(x, "self_attn.kv_a_proj_with_mqa");
  TensorHandle latent = b.rmsNorm(b.columns(kv, 0, rank), "self_attn.kv_a_layernorm", c.latent.normEps);
  TensorHandle keyRope = b.rope(b.splitHeads(b.columns(kv, rank, rank + rope), 1));
  std::vector<TensorHandle> keyUps, valueUps;
  upProjections(b, keyUps, valueUps);
  TensorHandle attended = b.latentAttention(q, b.splitHeads(latent, 1), keyRope, keyUps, valueUps);
  return b.linear(b.mergeHeads(attended), "self_attn.o_proj");
}

void buildDeepSeek(ModelBuilder &b) {
  buildDecoder(b, [&](int64_t layer, TensorHandle x) {
    auto addTo = [&](TensorHandle x, TensorHandle block) { return b.add(x, b.scale(block, b.config().residualScale)); };
    x = addTo(x, latentSelfAttention(b, b.rmsNorm(x, "input_layernorm")));
    return addTo(x, layerFeedForward(b, layer, b.rmsNorm(x, "post_attention_layernorm")));
  });
}

static constexpr KeyAlias v2Aliases[] = {{"num_experts", "n_routed_experts"}};
static constexpr KeyAlias v3Aliases[] = {{"num_local_experts", "n_routed_experts"},
                                         {"num_mtp_layers", "num_nextn_predict_layers"}};

static constexpr Family describeV2() {
  Family row = describeDeepSeek("deepseek_v2");
  row.gguf = "deepseek2";
  row.aliases = v2Aliases;
  row.biases.mlpKey = "mlp_bias";
  row.readers.huggingFaceRest = readV2;
  return row;
}
const Family family::deepSeekV2 = describeV2();

// The layer that predicts one token more (arXiv:2412.19437, 2.2), which training and speculation use.
static constexpr UnreadTensor predictionTensors[] = {{"model.layers.+.*"}};

static constexpr Family describeV3() {
  Family row = describeDeepSeek("deepseek_v3");
  row.unread = predictionTensors;
  row.aliases = v3Aliases;
  row.defaults.context = 4096;
  row.readers.huggingFaceRest = readV3;
  return row;
}
const Family family::deepSeekV3 = describeV3();

static void readMiniCpmSizes(JsonObject &object, ModelConfig &config) {
  LatentDefaults defaults{256, 768, 64, 32, config.numHeads > 0 ? config.hiddenSize / config.numHeads : 0};
  readLatentSizes(object, config, defaults);
}

// Multipliers of embeddings, of what a block adds to the residual, and, by a divisor of the width, of logits.
static void setMiniCpmScales(ModelConfig &config, double embedding, double depth, double base) {
  config.embeddingScale = embedding;
  config.residualScale = depth / std::sqrt(static_cast<double>(config.numHiddenLayers));
  config.logitScale = base / static_cast<double>(config.hiddenSize);
}

static void readMiniCpm(JsonObject &object, ModelConfig &config) {
  auto number = [&](const char *key, double absent, double null) {
    double value = object.isNull(key) ? null : object.number(key).value_or(absent);
    if (!(value > 0.0))
      object.fail(key, "is " + std::to_string(value) + ", expected a positive number");
    return value;
  };
  double layers = static_cast<double>(config.numHiddenLayers), width = static_cast<double>(config.hiddenSize);
  double embedding = number("scale_emb", 12.0, 12.0), depth = number("scale_depth", 1.4, std::sqrt(layers));
  setMiniCpmScales(config, embedding, depth, number("dim_model_base", 256.0, width));
  if (!config.ropes.empty())
    setScoreScale(config);
}

// The format has no keys for the multipliers: llama.cpp knows those of the published model.
static void readGgufMiniCpm(GgufKeys &, ModelConfig &config) {
  setMiniCpmScales(config, 12.0, 1.4, 256.0);
  setScoreScale(config);
}

static constexpr Family describeMiniCpm3() {
  Family row = describeDeepSeek("minicpm3");
  row.gguf = "minicpm3";
  row.defaults.context = 32768;
  row.defaults.normEps = 1e-5;
  row.defaults.tied = true;
  row.biases.mlpKey = "mlp_bias";
  row.rope.interleavedInGguf = false;
  row.readers.huggingFaceSizes = readMiniCpmSizes;
  row.readers.huggingFaceRest = readMiniCpm;
  row.readers.ggufRest = readGgufMiniCpm;
  return row;
}
const Family family::miniCpm3 = describeMiniCpm3();

} // namespace heddle
