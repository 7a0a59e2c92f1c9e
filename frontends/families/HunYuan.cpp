// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Hunyuan dense (Tencent 2025): Llama with norms of query and key heads behind their rotation. Checkpoints stretch the rotation by a fixed alpha,
// which they call dynamic; GGUF files hold the base that it gives.

#include "frontends/families/Decoder.h"
#include "frontends/families/Families.h"
#include "frontends/huggingface/Config.h"

#include <cmath>

namespace heddle {

static constexpr TensorRule headNormRules[] = {
    {"model.layers.#.self_attn.query_layernorm.weight", "blk.#.attn_q_norm.weight", ConfigDim::HeadDim},
    {"model.layers.#.self_attn.key_layernorm.weight", "blk.#.attn_k_norm.weight", ConfigDim::HeadDim},
};

static void readAlpha(JsonObject &object, ModelConfig &config) {
  double theta = object.number("rope_theta").value_or(config.family->defaults.ropeTheta);
  JsonObject rope = object.object(ropeKey(object));
  double alpha = rope.number("alpha").value_or(0.0), dim = static_cast<double>(config.headDim);
  config.ropes = {readRope(rope, object, config, theta)};
  object.adopt(rope);
  RopeConfig &stretched = config.ropes[0];
  if (alpha == 0.0 || stretched.scaling != RopeScalingKind::Dynamic)
    return;
  if (!(alpha > 0.0) || dim < 4)
    return object.fail("alpha",
                       "is " + std::to_string(alpha) + ", expected a positive number, and heads of at least 4");
  RopeConfig plain;
  plain.theta = stretched.theta * std::pow(alpha, dim / (dim - 2));
  plain.rotaryDim = stretched.rotaryDim;
  config.ropes = {plain};
}

static constexpr Family describeHunYuan() {
  Family row;
  row.modelType = "hunyuan_v1_dense";
  row.gguf = "hunyuan-dense";
  row.rules = {embeddingRules, attentionNormRules,   attentionRules,
               headNormRules,  feedForwardNormRules, feedForwardRules};
  row.defaults.normEps = 1e-5;
  row.headNorms = HeadNorms::Rotated;
  row.attention.qNorm = "query_layernorm";
  row.attention.kNorm = "key_layernorm";
  row.biases.attentionKey = "attention_bias";
  row.readers.huggingFaceRopes = readAlpha;
  row.build = buildPreNormDecoder;
  return row;
}
const Family family::hunYuanDense = describeHunYuan();

} // namespace heddle
