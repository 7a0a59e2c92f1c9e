// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Phi-3 (arXiv:2404.14219): Llama with fused projections, qkv_proj (q | k | v) and gate_up_proj (gate | up), and LongRoPE.

#include "frontends/families/Families.h"

using namespace mlir;
using namespace heddle;

static Value attentionBlock(ModelBuilder &b, Value x) {
  const ModelConfig &c = b.config();
  int64_t qWidth = c.numHeads * c.headDim, kvWidth = c.numKvHeads * c.headDim;
  Value qkv = b.linear(x, "self_attn.qkv_proj");
  Value q = b.splitHeads(b.columns(qkv, 0, qWidth), c.numHeads);
  Value k = b.splitHeads(b.columns(qkv, qWidth, qWidth + kvWidth), c.numKvHeads);
  Value v = b.splitHeads(b.columns(qkv, qWidth + kvWidth, qWidth + 2 * kvWidth), c.numKvHeads);
  return b.linear(b.mergeHeads(b.attention(b.rope(q), b.rope(k), v)), "self_attn.o_proj");
}

static Value feedForward(ModelBuilder &b, Value x) {
  int64_t width = b.config().intermediateSize;
  Value gateUp = b.linear(x, "mlp.gate_up_proj");
  return b.linear(b.glu(b.columns(gateUp, 0, width), b.columns(gateUp, width, 2 * width)), "mlp.down_proj");
}

void heddle::buildPhi3(ModelBuilder &b) {
  Value x = b.embedTokens("model.embed_tokens.weight");
  for (int64_t i = 0; i < b.config().numHiddenLayers; ++i)
    x = b.layer(i, "model.layers." + std::to_string(i) + ".", x, [&](Value x) {
      x = b.add(x, attentionBlock(b, b.rmsNorm(x, "input_layernorm")));
      return b.add(x, feedForward(b, b.rmsNorm(x, "post_attention_layernorm")));
    });
  b.finish(b.rmsNorm(x, "model.norm"), b.config().tieWordEmbeddings ? "model.embed_tokens.weight" : "lm_head.weight");
}
