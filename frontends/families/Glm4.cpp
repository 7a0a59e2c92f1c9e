// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// GLM-4-0414 (Zhipu AI 2025): norms before and behind each block, gate and up in one projection, half of each head rotates, as pairs
// (2i, 2i + 1).

#include "frontends/families/Decoder.h"
#include "frontends/families/Families.h"

namespace heddle {

static constexpr TensorRule layerRules[] = {
    {"model.layers.#.post_self_attn_layernorm.weight", "blk.#.post_attention_norm.weight", ConfigDim::Hidden},
    {"model.layers.#.post_mlp_layernorm.weight", "blk.#.post_ffw_norm.weight", ConfigDim::Hidden},
    {"model.layers.#.mlp.gate_up_proj.weight", "blk.#.ffn_up.weight", ConfigDim::GateAndUp, ConfigDim::Hidden},
    {"model.layers.#.mlp.down_proj.weight", "blk.#.ffn_down.weight", ConfigDim::Hidden, ConfigDim::Intermediate},
};

static void buildGlm4(ModelBuilder &b) {
  buildDecoder(b, [&](int64_t, TensorHandle x) {
    TensorHandle attended = selfAttention(b, b.rmsNorm(x, "input_layernorm"));
    x = b.add(x, b.rmsNorm(attended, "post_self_attn_layernorm"));
    TensorHandle fed = fusedFeedForward(b, b.rmsNorm(x, "post_attention_layernorm"));
    return b.add(x, b.rmsNorm(fed, "post_mlp_layernorm"));
  });
}

static constexpr Family describeGlm4() {
  Family row;
  row.modelType = "glm4";
  row.gguf = "glm4";
  row.rules = {embeddingRules, attentionNormRules, attentionRules, feedForwardNormRules, layerRules};
  row.defaults.numKvHeads = 2;
  row.defaults.headDim = 128;
  row.defaults.context = 131072;
  row.defaults.normEps = 1.5625e-7;
  row.defaults.partialRotary = 0.5;
  row.biases.attentionKey = "attention_bias";
  row.biases.attentionDefault = true;
  row.biases.inOutput = false;
  row.rope.partial = row.rope.interleaved = row.rope.interleavedInGguf = true;
  row.build = buildGlm4;
  return row;
}
const Family family::glm4 = describeGlm4();

static constexpr TensorRule fusedRules[] = {
    {"model.layers.#.mlp.gate_up_proj.weight", "blk.#.ffn_up.weight", ConfigDim::GateAndUp, ConfigDim::Hidden},
    {"model.layers.#.mlp.down_proj.weight", "blk.#.ffn_down.weight", ConfigDim::Hidden, ConfigDim::Intermediate},
};

static void buildGlm(ModelBuilder &b) {
  buildDecoder(b, [&](int64_t, TensorHandle x) {
    x = b.add(x, selfAttention(b, b.rmsNorm(x, "input_layernorm")));
    return b.add(x, fusedFeedForward(b, b.rmsNorm(x, "post_attention_layernorm")));
  });
}

static constexpr Family describeGlm() {
  Family row = describeGlm4();
  row.modelType = "glm";
  row.gguf = "chatglm";
  row.ggufMark = "blk.0.attn_q.weight"; // ChatGLM's own files have one matrix for q, k and v
  row.rules = {embeddingRules, attentionNormRules, attentionRules, feedForwardNormRules, fusedRules};
  row.build = buildGlm;
  return row;
}
const Family family::glm = describeGlm();

} // namespace heddle
