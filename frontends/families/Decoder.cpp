// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "frontends/families/Decoder.h"

namespace heddle {

TensorHandle selfAttention(ModelBuilder &b, TensorHandle x) {
  const ModelConfig &c = b.config();
  auto heads = [&](const char *projection, int64_t count, const char *norm) {
    TensorHandle split = b.splitHeads(b.linear(x, projection), count);
    return norm && b.has(std::string(norm) + ".weight") ? b.rmsNorm(split, norm) : split;
  };
  TensorHandle q = b.rope(heads("self_attn.q_proj", c.numHeads, "self_attn.q_norm"));
  TensorHandle k = b.rope(heads("self_attn.k_proj", c.numKvHeads, "self_attn.k_norm"));
  TensorHandle v = heads("self_attn.v_proj", c.numKvHeads, nullptr);
  return b.linear(b.mergeHeads(b.attention(q, k, v)), "self_attn.o_proj");
}

TensorHandle gatedFeedForward(ModelBuilder &b, TensorHandle x, const std::string &scope) {
  TensorHandle gate = b.linear(x, scope + ".gate_proj");
  TensorHandle up = b.linear(x, scope + ".up_proj");
  return b.linear(b.glu(gate, up), scope + ".down_proj");
}

void buildDecoder(ModelBuilder &b, const std::function<TensorHandle(int64_t layer, TensorHandle x)> &body) {
  TensorHandle x = b.embedTokens("model.embed_tokens.weight");
  for (int64_t i = 0; i < b.config().numHiddenLayers; ++i)
    x = b.layer(i, "model.layers." + std::to_string(i) + ".", x, [&](TensorHandle x) { return body(i, x); });
  b.finish(b.rmsNorm(x, "model.norm"), b.config().tieWordEmbeddings ? "model.embed_tokens.weight" : "lm_head.weight");
}

void buildPreNormDecoder(ModelBuilder &b) {
  const MoeConfig &moe = b.config().moe;
  buildDecoder(b, [&](int64_t layer, TensorHandle x) {
    x = b.add(x, selfAttention(b, b.rmsNorm(x, "input_layernorm")));
    TensorHandle normed = b.rmsNorm(x, "post_attention_layernorm");
    bool hasExperts = moe.numExperts && moe.layerIsMoe[layer];
    return b.add(x, hasExperts ? b.moe(normed) : gatedFeedForward(b, normed));
  });
}

} // namespace heddle
