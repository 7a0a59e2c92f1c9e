// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Hunyuan dense (Tencent 2025): Llama with norms of query and key heads behind their rotation. Checkpoints stretch the rotation by a fixed alpha,
// which they call dynamic; GGUF files hold the base that it gives. Hunyuan MoE (Hunyuan-A13B): the same with experts in every layer, beside one that
// every token passes.

#include "frontends/families/Decoder.h"
#include "frontends/families/Families.h"
#include "frontends/gguf/GgufModel.h"
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

// The reference norms heads whatever the key says.
static void passNorms(JsonObject &object, ModelConfig &) {
  object.pass("use_qk_norm");
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
  row.readers.huggingFaceRest = passNorms;
  row.build = buildPreNormDecoder;
  return row;
}
const Family family::hunYuanDense = describeHunYuan();

static constexpr TensorRule expertBlockRules[] = {
    {"model.layers.#.mlp.gate.wg.weight", "blk.#.ffn_gate_inp.weight", ConfigDim::Experts, ConfigDim::Hidden},
    {"model.layers.#.mlp.experts.@.gate_proj.weight", "blk.#.ffn_gate_exps.weight", ConfigDim::ExpertIntermediate,
     ConfigDim::Hidden},
    {"model.layers.#.mlp.experts.@.up_proj.weight", "blk.#.ffn_up_exps.weight", ConfigDim::ExpertIntermediate,
     ConfigDim::Hidden},
    {"model.layers.#.mlp.experts.@.down_proj.weight", "blk.#.ffn_down_exps.weight", ConfigDim::Hidden,
     ConfigDim::ExpertIntermediate},
    {"model.layers.#.mlp.shared_mlp.gate_proj.weight", "blk.#.ffn_gate_shexp.weight", ConfigDim::SharedIntermediate,
     ConfigDim::Hidden},
    {"model.layers.#.mlp.shared_mlp.up_proj.weight", "blk.#.ffn_up_shexp.weight", ConfigDim::SharedIntermediate,
     ConfigDim::Hidden},
    {"model.layers.#.mlp.shared_mlp.down_proj.weight", "blk.#.ffn_down_shexp.weight", ConfigDim::Hidden,
     ConfigDim::SharedIntermediate},
};

// A number, or that of each layer, which has to be the same.
static int64_t readUniform(JsonObject &object, const char *key, int64_t absent) {
  std::vector<int64_t> values = object.integers(key);
  for (int64_t value : values)
    if (value != values.front())
      object.unsupported(key, "holds " + std::to_string(value) + " beside " + std::to_string(values.front()) +
                                  ", which is not supported; expected the same in every layer");
  return values.empty() ? absent : values.front();
}

static void readExperts(JsonObject &object, ModelConfig &config) {
  passNorms(object, config);
  MoeConfig &moe = config.moe;
  std::string count = fieldName(config, "num_local_experts"), perToken = fieldName(config, "num_experts_per_tok");
  moe.numExperts = object.bounded(count.c_str(), readUniform(object, count.c_str(), 1), 1, 1 << 12);
  moe.expertsPerToken = readUniform(object, perToken.c_str(), 1);
  moe.intermediateSize = moe.sharedIntermediateSize = config.intermediateSize;
  moe.layerIsMoe.assign(moe.layerIsMoe.size(), true);
}

static void readGgufExperts(GgufKeys &keys, ModelConfig &config) {
  keys.integer("expert_shared_count", 1); // of as many one is made
  config.moe.sharedIntermediateSize = keys.integer("expert_shared_feed_forward_length", config.intermediateSize);
}

static constexpr KeyName expertNames[] = {{"num_local_experts", "num_experts"}, {"num_experts_per_tok", "moe_topk"}};
static constexpr KeyAlias expertAliases[] = {{"num_local_experts", "num_experts"}, {"num_experts_per_tok", "moe_topk"}};

static constexpr Family describeMoe() {
  Family row = describeHunYuan();
  row.modelType = "hunyuan_v1_moe";
  row.gguf = "hunyuan-moe";
  row.hasExperts = true;
  row.rules = {embeddingRules, attentionNormRules,   attentionRules,
               headNormRules,  feedForwardNormRules, expertBlockRules};
  row.keyNames = expertNames;
  row.aliases = expertAliases;
  row.experts.router = "gate.wg";
  row.experts.shared = "shared_mlp";
  row.readers.huggingFaceRest = readExperts;
  row.readers.ggufRest = readGgufExperts;
  return row;
}
const Family family::hunYuanMoe = describeMoe();

} // namespace heddle
