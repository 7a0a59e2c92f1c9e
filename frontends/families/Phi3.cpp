// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Phi-3 (arXiv:2404.14219): Llama with fused projections, qkv_proj (q | k | v) and gate_up_proj (gate | up), LongRoPE (arXiv:2402.13753), and
// heads of which a part rotates.

#include "frontends/families/Decoder.h"
#include "frontends/families/Families.h"

namespace heddle {

static constexpr TensorRule layerRules[] = {
    {"model.layers.#.input_layernorm.weight", "blk.#.attn_norm.weight", ConfigDim::Hidden},
    {"model.layers.#.self_attn.qkv_proj.weight", "blk.#.attn_qkv.weight", ConfigDim::QueriesKeysValues,
     ConfigDim::Hidden},
    {"model.layers.#.self_attn.o_proj.weight", "blk.#.attn_output.weight", ConfigDim::Hidden, ConfigDim::Queries},
    {"model.layers.#.mlp.gate_up_proj.weight", "blk.#.ffn_up.weight", ConfigDim::GateAndUp, ConfigDim::Hidden},
    {"model.layers.#.mlp.down_proj.weight", "blk.#.ffn_down.weight", ConfigDim::Hidden, ConfigDim::Intermediate},
};

static void buildPhi3(ModelBuilder &b) {
  buildDecoder(b, [&](int64_t, TensorHandle x) {
    x = b.add(x, fusedSelfAttention(b, b.rmsNorm(x, "input_layernorm"), "self_attn.qkv_proj", "self_attn.o_proj"));
    return b.add(x, fusedFeedForward(b, b.rmsNorm(x, "post_attention_layernorm")));
  });
}

static constexpr Family describePhi3() {
  Family row;
  row.modelType = "phi3";
  row.gguf = "phi3";
  row.rules = {embeddingRules, layerRules, feedForwardNormRules};
  row.defaults.context = 4096;
  row.defaults.normEps = 1e-5;
  row.windows.use = WindowUse::Stated;
  row.rope.partial = row.rope.longropeOnly = true;
  row.rope.originalContext = 4096;
  row.build = buildPhi3;
  return row;
}
const Family family::phi3 = describePhi3();

} // namespace heddle
