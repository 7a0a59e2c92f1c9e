// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Gemma 2 (arXiv:2408.00118) and Gemma 3 text (arXiv:2503.19786): norms before and after each block, scores and logits
// softcapped (2), norms of query and key heads (3), windows and rotary embeddings that alternate by layer.

#include "frontends/families/Families.h"

using namespace mlir;
using namespace heddle;

static Value attentionBlock(ModelBuilder &b, Value x) {
  const ModelConfig &c = b.config();
  Value q = b.splitHeads(b.linear(x, "self_attn.q_proj"), c.numHeads);
  Value k = b.splitHeads(b.linear(x, "self_attn.k_proj"), c.numKvHeads);
  Value v = b.splitHeads(b.linear(x, "self_attn.v_proj"), c.numKvHeads);
  if (b.has("self_attn.q_norm.weight")) {
    q = b.rmsNorm(q, "self_attn.q_norm");
    k = b.rmsNorm(k, "self_attn.k_norm");
  }
  return b.linear(b.mergeHeads(b.attention(b.rope(q), b.rope(k), v)), "self_attn.o_proj");
}

static Value feedForward(ModelBuilder &b, Value x) {
  return b.linear(b.glu(b.linear(x, "mlp.gate_proj"), b.linear(x, "mlp.up_proj")), "mlp.down_proj");
}

void heddle::buildGemma(ModelBuilder &b) {
  Value x = b.embedTokens("model.embed_tokens.weight");
  for (int64_t i = 0; i < b.config().numHiddenLayers; ++i)
    x = b.layer(i, "model.layers." + std::to_string(i) + ".", x, [&](Value x) {
      Value attended = attentionBlock(b, b.rmsNorm(x, "input_layernorm"));
      x = b.add(x, b.rmsNorm(attended, "post_attention_layernorm"));
      Value fed = feedForward(b, b.rmsNorm(x, "pre_feedforward_layernorm"));
      return b.add(x, b.rmsNorm(fed, "post_feedforward_layernorm"));
    });
  b.finish(b.rmsNorm(x, "model.norm"), b.config().tieWordEmbeddings ? "model.embed_tokens.weight" : "lm_head.weight");
}
