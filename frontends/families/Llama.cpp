// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Llama (Touvron et al. 2023, arXiv:2302.13971) and what differs from it in a bias, a norm, a window or the experts: mistral,
// qwen2 (QKV bias), qwen3 (norms of query and key heads), mixtral and qwen3_moe. Biases and head norms follow from the
// checkpoint's tensors, windows and experts from the config.

#include "frontends/families/Families.h"

using namespace mlir;
using namespace heddle;

static Value attentionBlock(ModelBuilder &b, Value x) {
  const ModelConfig &c = b.config();
  auto heads = [&](const char *projection, int64_t count, const char *norm) {
    Value split = b.splitHeads(b.linear(x, projection), count);
    return norm && b.has(std::string(norm) + ".weight") ? b.rmsNorm(split, norm) : split;
  };
  Value q = b.rope(heads("self_attn.q_proj", c.numHeads, "self_attn.q_norm"));
  Value k = b.rope(heads("self_attn.k_proj", c.numKvHeads, "self_attn.k_norm"));
  Value v = heads("self_attn.v_proj", c.numKvHeads, nullptr);
  return b.linear(b.mergeHeads(b.attention(q, k, v)), "self_attn.o_proj");
}

static Value feedForward(ModelBuilder &b, int64_t layer, Value x) {
  bool experts = b.config().moe.numExperts && b.config().moe.layerIsMoe[layer];
  if (experts && b.config().architecture == "mixtral")
    return b.moe(x, "block_sparse_moe.gate", "block_sparse_moe.experts", "w1", "w3", "w2");
  if (experts)
    return b.moe(x, "mlp.gate", "mlp.experts", "gate_proj", "up_proj", "down_proj");
  return b.linear(b.glu(b.linear(x, "mlp.gate_proj"), b.linear(x, "mlp.up_proj")), "mlp.down_proj");
}

void heddle::buildLlama(ModelBuilder &b) {
  Value x = b.embedTokens("model.embed_tokens.weight");
  for (int64_t i = 0; i < b.config().numHiddenLayers; ++i)
    x = b.layer(i, "model.layers." + std::to_string(i) + ".", x, [&](Value x) {
      x = b.add(x, attentionBlock(b, b.rmsNorm(x, "input_layernorm")));
      return b.add(x, feedForward(b, i, b.rmsNorm(x, "post_attention_layernorm")));
    });
  b.finish(b.rmsNorm(x, "model.norm"), b.config().tieWordEmbeddings ? "model.embed_tokens.weight" : "lm_head.weight");
}
