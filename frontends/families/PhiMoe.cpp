// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Phi-3.5-MoE (arXiv:2404.14219): Mixtral with LayerNorm, biases, LongRoPE, and two experts that a sparse mixer (arXiv:2409.12136) weighs: each
// among those whose logits are near to its own. GGUF has no key for how near: it is the published model's.

#include "frontends/families/Decoder.h"
#include "frontends/families/Families.h"
#include "frontends/gguf/GgufModel.h"
#include "frontends/huggingface/Config.h"

namespace heddle {

// The reference multiplies cos and sin by numbers of its own for short and long contexts, and rotates with the short factors in both. A context is
// long as rope_scaling says, whatever stands outside.
static void readScaledRope(JsonObject &object, ModelConfig &config) {
  double theta = object.number("rope_theta").value_or(config.family->defaults.ropeTheta);
  JsonObject rope = object.object(ropeKey(object));
  RopeConfig read = readRope(rope, object, config, theta);
  if (read.scaling != RopeScalingKind::None) {
    read.longFactor = read.shortFactor;
    read.originalContext = rope.integer("original_max_position_embeddings").value_or(config.contextLength);
    read.attentionFactor = rope.number("short_mscale");
    read.longAttentionFactor = rope.number("long_mscale");
    for (const char *key : {"short_mscale", "long_mscale"})
      if (!rope.has(key))
        rope.fail(key, "is missing");
  }
  config.ropes = {read};
  object.adopt(rope);
}

static void setMixer(ModelConfig &config, double jitter) {
  config.moe.jitter = jitter;
  config.moe.expertsPerToken = 2;
  config.moe.normTopkProb = false;
}

static void readExperts(JsonObject &object, ModelConfig &config) {
  MoeConfig &moe = config.moe;
  readExpertCounts(object, config, /*numExperts=*/16, /*expertsPerToken=*/2);
  moe.intermediateSize = config.intermediateSize;
  moe.layerIsMoe.assign(moe.layerIsMoe.size(), true);
  setMixer(config, object.number("router_jitter_noise").value_or(0.01));
  config.hasLogitsBias = object.boolean("lm_head_bias").value_or(false);
}

static void readGgufExperts(GgufKeys &keys, ModelConfig &config) {
  setMixer(config, 0.01);
  config.hasLogitsBias = keys.source().tensors().find("output.bias") != nullptr;
}

static constexpr Family describePhiMoe() {
  Family row;
  row.modelType = "phimoe";
  row.gguf = "phimoe";
  row.hasExperts = true;
  row.rules = {embeddingRules,         attentionNormRules, attentionRules, feedForwardNormRules,
               blockSparseExpertRules, normBiasRules,      logitsBiasRules};
  row.defaults.numKvHeads = 8;
  row.defaults.context = 131072;
  row.defaults.normEps = 1e-5;
  row.defaults.ropeTheta = 1e6;
  row.norm = NormKind::Layer;
  row.biases.attentionKey = "attention_bias";
  row.windows.use = WindowUse::Stated;
  row.rope.longropeOnly = true;
  row.experts = {"block_sparse_moe.", "w1", "w3", "w2"};
  row.readers.huggingFaceRopes = readScaledRope;
  row.readers.huggingFaceRest = readExperts;
  row.readers.ggufRest = readGgufExperts;
  row.build = buildPreNormDecoder;
  return row;
}
const Family family::phiMoe = describePhiMoe();

} // namespace heddle
