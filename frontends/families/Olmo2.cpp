// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// OLMo 2 (arXiv:2501.00656): Llama whose norms stand behind attention and feed-forward and not before them, with norms over all query heads
// and all key heads at once.

#include "frontends/families/Decoder.h"
#include "frontends/families/Families.h"

namespace heddle {

static constexpr TensorRule normRules[] = {
    {"model.layers.#.self_attn.q_norm.weight", "blk.#.attn_q_norm.weight", ConfigDim::Queries},
    {"model.layers.#.self_attn.k_norm.weight", "blk.#.attn_k_norm.weight", ConfigDim::KeyValues},
    {"model.layers.#.post_attention_layernorm.weight", "blk.#.post_attention_norm.weight", ConfigDim::Hidden},
    {"model.layers.#.post_feedforward_layernorm.weight", "blk.#.post_ffw_norm.weight", ConfigDim::Hidden},
};

static TensorHandle wideNormAttention(ModelBuilder &b, TensorHandle x) {
  const ModelConfig &c = b.config();
  TensorHandle q = b.splitHeads(b.rmsNorm(b.linear(x, "self_attn.q_proj"), "self_attn.q_norm"), c.numHeads);
  TensorHandle k = b.splitHeads(b.rmsNorm(b.linear(x, "self_attn.k_proj"), "self_attn.k_norm"), c.numKvHeads);
  TensorHandle v = b.splitHeads(b.linear(x, "self_attn.v_proj"), c.numKvHeads);
  return b.linear(b.mergeHeads(b.attention(b.rope(q), b.rope(k), v)), "self_attn.o_proj");
}

static void buildOlmo2(ModelBuilder &b) {
  buildDecoder(b, [&](int64_t, TensorHandle x) {
    x = b.add(x, b.rmsNorm(wideNormAttention(b, x), "post_attention_layernorm"));
    return b.add(x, b.rmsNorm(gatedFeedForward(b, x), "post_feedforward_layernorm"));
  });
}

static constexpr Family describeOlmo2() {
  Family row;
  row.modelType = "olmo2";
  row.gguf = "olmo2";
  row.rules = {embeddingRules, attentionRules, normRules, feedForwardRules};
  row.defaults.normEps = 1e-5;
  row.biases.attentionKey = "attention_bias";
  row.build = buildOlmo2;
  return row;
}
const Family family::olmo2 = describeOlmo2();

} // namespace heddle
