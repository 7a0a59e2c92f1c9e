// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "frontends/families/Decoder.h"

namespace heddle {

TensorHandle selfAttention(ModelBuilder &b, TensorHandle x, const AttentionNames &names) {
  const ModelConfig &c = b.config();
  const std::string block = names.block;
  auto heads = [&](const char *projection, int64_t count) {
    return b.splitHeads(b.linear(x, block + projection), count);
  };
  auto normed = [&](TensorHandle heads, const std::string &norm) {
    return b.has(norm + ".weight") ? b.rmsNorm(heads, norm) : heads;
  };
  TensorHandle q = b.rope(normed(heads(names.q, c.numHeads), block + "q_norm"));
  TensorHandle k = b.rope(normed(heads(names.k, c.numKvHeads), block + "k_norm"));
  TensorHandle v = heads(names.v, c.numKvHeads);
  return b.linear(b.mergeHeads(b.attention(q, k, v)), block + names.output);
}

TensorHandle fusedSelfAttention(ModelBuilder &b, TensorHandle x, const std::string &qkv, const std::string &output) {
  const ModelConfig &c = b.config();
  int64_t qWidth = c.numHeads * c.headDim, kvWidth = c.numKvHeads * c.headDim;
  TensorHandle all = b.linear(x, qkv);
  TensorHandle q = b.splitHeads(b.columns(all, 0, qWidth), c.numHeads);
  TensorHandle k = b.splitHeads(b.columns(all, qWidth, qWidth + kvWidth), c.numKvHeads);
  TensorHandle v = b.splitHeads(b.columns(all, qWidth + kvWidth, qWidth + 2 * kvWidth), c.numKvHeads);
  return b.linear(b.mergeHeads(b.attention(b.rope(q), b.rope(k), v)), output);
}

TensorHandle gatedFeedForward(ModelBuilder &b, TensorHandle x, const std::string &scope) {
  TensorHandle gate = b.linear(x, scope + ".gate_proj");
  TensorHandle up = b.linear(x, scope + ".up_proj");
  return b.linear(b.glu(gate, up), scope + ".down_proj");
}

TensorHandle decoderLayers(ModelBuilder &b, const std::string &scope, TensorHandle x, const DecoderLayer &body) {
  for (int64_t i = 0; i < b.config().numHiddenLayers; ++i)
    x = b.layer(i, scope + std::to_string(i) + ".", x, [&](TensorHandle x) { return body(i, x); });
  return x;
}

void finishDecoder(ModelBuilder &b, TensorHandle x) {
  const Family &family = *b.config().family;
  b.finish(x, b.config().tieWordEmbeddings ? family.embedding : family.head);
}

void buildDecoder(ModelBuilder &b, const DecoderLayer &body) {
  TensorHandle x = decoderLayers(b, "model.layers.", b.embedTokens("model.embed_tokens.weight"), body);
  finishDecoder(b, b.rmsNorm(x, "model.norm"));
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
