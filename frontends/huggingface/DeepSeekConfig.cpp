// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What config.json of deepseek_v2 (arXiv:2405.04434) and deepseek_v3 (arXiv:2412.19437) says beyond the common keys.
#include "bytes/Text.h"
#include "frontends/huggingface/Config.h"

#include <algorithm>
#include <cmath>

namespace heddle {

namespace {

bool isV3(const ModelConfig &config) {
  return config.architecture == "deepseek_v3";
}

// A key with one supported value says nothing new; any other would change results.
void expectWord(JsonObject &object, const char *key, const std::string &expected) {
  std::string value = object.string(key).value_or(expected);
  if (value != expected)
    object.fail(key, "is '" + printable(value, 64) + "', which is not supported; expected '" + expected + "'");
}

} // namespace

void readDeepSeekSizes(JsonObject &object, ModelConfig &config) {
  LatentConfig &latent = config.latent;
  latent.enabled = true;
  latent.kvLoraRank = object.integer("kv_lora_rank").value_or(512);
  latent.qLoraRank = object.isNull("q_lora_rank") ? 0 : object.integer("q_lora_rank").value_or(1536);
  if (object.has("q_lora_rank") && latent.qLoraRank == 0)
    object.fail("q_lora_rank", "is 0, expected a positive number or null");
  latent.qkNopeHeadDim = object.integer("qk_nope_head_dim").value_or(128);
  latent.qkRopeHeadDim = object.integer("qk_rope_head_dim").value_or(64);
  latent.vHeadDim = object.integer("v_head_dim").value_or(128);
  latent.normEps = 1e-6; // the reference's norms of latents do not take rms_norm_eps
  if (latent.qkNopeHeadDim <= 1 << 16 && latent.qkRopeHeadDim <= 1 << 16)
    config.headDim = latent.qkNopeHeadDim + latent.qkRopeHeadDim;
  config.numKvHeads = object.integer("num_key_value_heads").value_or(config.numHeads);
  if (config.numKvHeads != config.numHeads)
    object.fail("num_key_value_heads", "is " + std::to_string(config.numKvHeads) + ", expected num_attention_heads (" +
                                           std::to_string(config.numHeads) +
                                           "): every head has its own up-projections");
}

void readDeepSeekExperts(JsonObject &object, ModelConfig &config) {
  MoeConfig &moe = config.moe;
  bool v3 = isV3(config);
  moe.numExperts = object.isNull("n_routed_experts") ? 0 : object.integer("n_routed_experts").value_or(v3 ? 256 : 64);
  if (moe.numExperts < 0)
    object.fail("n_routed_experts", "is negative (" + std::to_string(moe.numExperts) + ")");
  if (int64_t frequency = object.integer("moe_layer_freq").value_or(1); frequency != 1)
    object.fail("moe_layer_freq", "is " + std::to_string(frequency) + ", which is not supported; expected 1");
  int64_t firstSparse = object.integer("first_k_dense_replace").value_or(v3 ? 3 : 0);
  for (int64_t layer = std::max<int64_t>(0, firstSparse); moe.numExperts > 0 && layer < config.numHiddenLayers; ++layer)
    moe.layerIsMoe[layer] = true;
  moe.intermediateSize = object.integer("moe_intermediate_size").value_or(v3 ? 2048 : 1407);
  moe.expertsPerToken = object.integer("num_experts_per_tok").value_or(v3 ? 8 : 0);
  int64_t shared = object.isNull("n_shared_experts") ? 0 : object.integer("n_shared_experts").value_or(v3 ? 1 : 2);
  if (shared < 0 || shared > 1 << 12 || moe.intermediateSize > 1 << 24)
    object.fail("n_shared_experts", "is " + std::to_string(shared) + ", expected 0 to 4096");
  else
    moe.sharedIntermediateSize = shared * moe.intermediateSize;
  moe.routedScale = object.number("routed_scaling_factor").value_or(v3 ? 2.5 : 1.0);
  moe.sigmoidScores = moe.hasCorrection = v3;
  expectWord(object, "scoring_func", v3 ? "sigmoid" : "softmax");
  moe.normTopkProb = object.boolean("norm_topk_prob").value_or(v3);
  if (!v3 && moe.normTopkProb)
    object.fail("norm_topk_prob", "is true, which is not supported for deepseek_v2");
  std::string method = object.string("topk_method").value_or(v3 ? "noaux_tc" : "greedy");
  bool isGrouped = v3 || method == "group_limited_greedy";
  if (!v3 && !isGrouped && method != "greedy")
    object.fail("topk_method",
                "is '" + printable(method, 64) + "', which is not supported; known: greedy, group_limited_greedy");
  if (v3)
    expectWord(object, "topk_method", "noaux_tc");
  if (isGrouped) {
    moe.numGroups = object.integer("n_group").value_or(v3 ? 8 : 1);
    moe.topGroups = object.integer("topk_group").value_or(v3 ? 4 : 1);
  }
}

void setDeepSeekScale(ModelConfig &config) {
  config.attentionScale = config.ropes[0].scoreFactor() / std::sqrt(static_cast<double>(config.headDim));
}

} // namespace heddle
