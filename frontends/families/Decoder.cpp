// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "frontends/families/Decoder.h"

namespace heddle {

GraphValue selfAttention(ModelBuilder &b, GraphValue x) {
  const ModelConfig &c = b.config();
  auto heads = [&](const char *projection, int64_t count, const char *norm) {
    GraphValue split = b.splitHeads(b.linear(x, projection), count);
    return norm && b.has(std::string(norm) + ".weight") ? b.rmsNorm(split, norm) : split;
  };
  GraphValue q = b.rope(heads("self_attn.q_proj", c.numHeads, "self_attn.q_norm"));
  GraphValue k = b.rope(heads("self_attn.k_proj", c.numKvHeads, "self_attn.k_norm"));
  GraphValue v = heads("self_attn.v_proj", c.numKvHeads, nullptr);
  return b.linear(b.mergeHeads(b.attention(q, k, v)), "self_attn.o_proj");
}

GraphValue gatedFeedForward(ModelBuilder &b, GraphValue x, const std::string &scope) {
  GraphValue gate = b.linear(x, scope + ".gate_proj");
  GraphValue up = b.linear(x, scope + ".up_proj");
  return b.linear(b.glu(gate, up), scope + ".down_proj");
}

void buildDecoder(ModelBuilder &b, const std::function<GraphValue(int64_t layer, GraphValue x)> &body) {
  GraphValue x = b.embedTokens("model.embed_tokens.weight");
  for (int64_t i = 0; i < b.config().numHiddenLayers; ++i)
    x = b.layer(i, "model.layers." + std::to_string(i) + ".", x, [&](GraphValue x) { return body(i, x); });
  b.finish(b.rmsNorm(x, "model.norm"), b.config().tieWordEmbeddings ? "model.embed_tokens.weight" : "lm_head.weight");
}

void buildPreNormDecoder(ModelBuilder &b) {
  const MoeConfig &moe = b.config().moe;
  buildDecoder(b, [&](int64_t layer, GraphValue x) {
    x = b.add(x, selfAttention(b, b.rmsNorm(x, "input_layernorm")));
    GraphValue normed = b.rmsNorm(x, "post_attention_layernorm");
    bool hasExperts = moe.numExperts && moe.layerIsMoe[layer];
    return b.add(x, hasExperts ? b.moe(normed) : gatedFeedForward(b, normed));
  });
}

} // namespace heddle
