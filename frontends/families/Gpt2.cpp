// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// GPT-2 (Radford et al. 2019): learned positions, LayerNorm, one fused c_attn (q | k | v) per layer, GELU.

#include "frontends/families/Families.h"

using namespace mlir;
using namespace heddle;

static Value attentionBlock(ModelBuilder &b, Value x) {
  const ModelConfig &c = b.config();
  Value qkv = b.linear(x, "attn.c_attn");
  auto part = [&](int64_t index) {
    return b.splitHeads(b.columns(qkv, index * c.hiddenSize, (index + 1) * c.hiddenSize), c.numHeads);
  };
  return b.linear(b.mergeHeads(b.attention(part(0), part(1), part(2))), "attn.c_proj");
}

void heddle::buildGpt2(ModelBuilder &b) {
  Value x = b.add(b.embedTokens("transformer.wte.weight"), b.embedPositions("transformer.wpe.weight"));
  for (int64_t i = 0; i < b.config().numHiddenLayers; ++i)
    x = b.layer(i, "transformer.h." + std::to_string(i) + ".", x, [&](Value x) {
      x = b.add(x, attentionBlock(b, b.layerNorm(x, "ln_1")));
      return b.add(x, b.linear(b.activation(b.linear(b.layerNorm(x, "ln_2"), "mlp.c_fc")), "mlp.c_proj"));
    });
  b.finish(b.layerNorm(x, "transformer.ln_f"),
           b.config().tieWordEmbeddings ? "transformer.wte.weight" : "lm_head.weight");
}
