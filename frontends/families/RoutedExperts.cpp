// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Both formats say the same of these experts; scores and groups of a config.json are the families' own.

#include "frontends/families/RoutedExperts.h"
#include "frontends/gguf/GgufModel.h"
#include "frontends/huggingface/JsonObject.h"

#include <algorithm>

namespace heddle {

void readRoutedExperts(JsonObject &object, ModelConfig &config, const RoutedDefaults &defaults) {
  MoeConfig &moe = config.moe;
  auto count = [&](const char *key, int64_t fallback) {
    return object.isNull(key) ? 0 : object.integer(key).value_or(fallback);
  };
  std::string experts = fieldName(config, "n_routed_experts");
  moe.numExperts = count(experts.c_str(), defaults.numExperts);
  if (moe.numExperts < 0)
    object.fail(experts.c_str(), "is negative (" + std::to_string(moe.numExperts) + ")");
  int64_t firstSparse =
      object.integer(fieldName(config, "first_k_dense_replace").c_str()).value_or(defaults.firstSparse);
  for (int64_t layer = std::max<int64_t>(0, firstSparse); moe.numExperts > 0 && layer < config.numHiddenLayers; ++layer)
    moe.layerIsMoe[layer] = true;
  moe.intermediateSize = object.integer("moe_intermediate_size").value_or(defaults.width);
  moe.expertsPerToken = object.integer(fieldName(config, "num_experts_per_tok").c_str()).value_or(defaults.perToken);
  std::string sharedKey = fieldName(config, "n_shared_experts");
  int64_t shared = count(sharedKey.c_str(), defaults.numShared);
  if (shared < 0 || shared > 1 << 12 || moe.intermediateSize > 1 << 24)
    object.fail(sharedKey.c_str(), "is " + std::to_string(shared) + ", expected 0 to 4096");
  else
    moe.sharedIntermediateSize = shared * moe.intermediateSize;
  moe.routedScale = object.number(fieldName(config, "routed_scaling_factor").c_str()).value_or(defaults.scale);
  moe.normTopkProb = object.flag(fieldName(config, "norm_topk_prob").c_str(), defaults.normTopkProb);
}

void readSparseLayers(JsonObject &object, ModelConfig &config, int64_t firstSparse) {
  std::vector<bool> &isMoe = config.moe.layerIsMoe;
  std::vector<std::string> types = object.strings("mlp_layer_types");
  int64_t first = object.integer("first_k_dense_replace").value_or(firstSparse);
  if (object.has("mlp_layer_types") && types.size() != isMoe.size())
    return object.fail("mlp_layer_types", "has " + std::to_string(types.size()) +
                                              " entries, expected num_hidden_layers (" + std::to_string(isMoe.size()) +
                                              ")");
  for (size_t layer = 0; layer < isMoe.size(); ++layer) {
    isMoe[layer] = types.empty() ? int64_t(layer) >= first : types[layer] == "sparse";
    if (!types.empty() && !isMoe[layer] && types[layer] != "dense")
      return object.fail("mlp_layer_types", "holds '" + printable(types[layer], 64) + "', expected dense or sparse");
  }
}

void readSparseLayersButFirst(JsonObject &object, ModelConfig &config) {
  readSparseLayers(object, config, /*firstSparse=*/1);
  if (int64_t first = object.integer("first_k_dense_replace").value_or(1); first != 1 && !object.has("mlp_layer_types"))
    object.unsupported("first_k_dense_replace", "is " + std::to_string(first) + ", which is not supported for " +
                                                    config.architecture + "; expected 1, or mlp_layer_types");
}

static void readGgufExpertsOf(GgufKeys &keys, ModelConfig &config, int64_t usualGating) {
  MoeConfig &moe = config.moe;
  for (int64_t layer = 0; layer < config.numHiddenLayers; ++layer)
    moe.hasCorrection |= keys.source().tensors().find("blk." + std::to_string(layer) + ".exp_probs_b.bias") != nullptr;
  // Of these families only scores of sigmoids are corrected: files of GLM 4.7 Flash have no key.
  int64_t gating = keys.integer("expert_gating_func", moe.hasCorrection ? 2 : usualGating);
  if (gating != 1 && gating != 2)
    keys.fail(keys.full("expert_gating_func") + " is " + std::to_string(gating) +
              ", expected 1 (softmax) or 2 (sigmoid)");
  moe.sigmoidScores = gating == 2;
  moe.normTopkProb = keys.boolean("expert_weights_norm", false);
  moe.routedScale = keys.number("expert_weights_scale", 1.0);
  moe.numGroups = keys.integer("expert_group_count", 1);
  moe.topGroups = keys.integer("expert_group_used_count", moe.numGroups);
  int64_t shared = keys.integer("expert_shared_count", 0);
  if (shared < 0 || shared > 1 << 12)
    keys.fail(keys.full("expert_shared_count") + " is " + std::to_string(shared) + ", expected 0 to 4096");
  else
    moe.sharedIntermediateSize = shared * moe.intermediateSize;
}

void readGgufRoutedExperts(GgufKeys &keys, ModelConfig &config) {
  readGgufExpertsOf(keys, config, /*usualGating=*/1);
}

void readGgufSigmoidExperts(GgufKeys &keys, ModelConfig &config) {
  readGgufExpertsOf(keys, config, /*usualGating=*/2);
}

void readGgufSharedWidth(GgufKeys &keys, ModelConfig &config) {
  const char *key = "expert_shared_feed_forward_length";
  int64_t width = keys.integer(key, config.moe.intermediateSize);
  if (width < 0 || width > 1 << 24)
    return keys.fail(keys.full(key) + " is " + std::to_string(width) + ", expected 0 to 2^24");
  config.moe.sharedIntermediateSize = width;
}

} // namespace heddle
