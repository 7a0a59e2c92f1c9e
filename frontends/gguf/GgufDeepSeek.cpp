// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// deepseek2 in GGUF: DeepSeek V2 and V3. Files hold the up-projections of keys and values either in one tensor, attn_kv_b,
// as Hugging Face does, or apart, attn_k_b (heads, kv_lora_rank, nope) and attn_v_b (heads, v, kv_lora_rank), and then
// describe the cached latent as the one KV head.

#include "frontends/gguf/GgufModel.h"

#include <cmath>

namespace heddle {

void readGgufLatentSizes(GgufKeys &keys, const GgufFile &file, ModelConfig &config) {
  LatentConfig &latent = config.latent;
  latent.enabled = true;
  latent.splitUps = file.tensors().find("blk.0.attn_k_b.weight") != nullptr;
  latent.kvLoraRank = keys.integer("attention.kv_lora_rank");
  latent.qLoraRank = keys.integer("attention.q_lora_rank", 0);
  latent.qkRopeHeadDim = keys.integer("rope.dimension_count");
  const char *keyLength = keys.has("attention.key_length_mla") ? "attention.key_length_mla" : "attention.key_length";
  const char *valueLength =
      keys.has("attention.value_length_mla") ? "attention.value_length_mla" : "attention.value_length";
  config.headDim = keys.integer(keyLength);
  latent.vHeadDim = keys.integer(valueLength);
  if (config.headDim <= latent.qkRopeHeadDim || config.headDim > 1 << 16 || latent.qkRopeHeadDim < 1)
    return keys.fail(keys.full(keyLength) + " (" + std::to_string(config.headDim) + ") must be more than " +
                     keys.full("rope.dimension_count") + " (" + std::to_string(latent.qkRopeHeadDim) +
                     "), at most 65536");
  latent.qkNopeHeadDim = config.headDim - latent.qkRopeHeadDim;
  latent.normEps = config.normEps;
  config.numKvHeads = config.numHeads;
}

void readGgufDeepSeekExperts(GgufKeys &keys, const GgufFile &file, ModelConfig &config) {
  MoeConfig &moe = config.moe;
  int64_t gating = keys.integer("expert_gating_func", 1);
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
  for (int64_t layer = 0; layer < config.numHiddenLayers; ++layer)
    moe.hasCorrection |= file.tensors().find("blk." + std::to_string(layer) + ".exp_probs_b.bias") != nullptr;
}

void setGgufLatentScale(ModelConfig &config) {
  config.attentionScale = config.ropes[0].scoreFactor() / std::sqrt(static_cast<double>(config.headDim));
}

} // namespace heddle
