// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// BitNet b1.58 (Ma et al. 2024, arXiv:2402.17764; 2B4T: arXiv:2504.12285), of weights that are plain numbers: Llama with a norm before the last matrix of
// each block, and squared ReLU.

#include "frontends/families/Decoder.h"
#include "frontends/families/Families.h"
#include "frontends/gguf/GgufModel.h"

namespace heddle {

static constexpr TensorRule innerNormRules[] = {
    {"model.layers.#.self_attn.attn_sub_norm.weight", "blk.#.attn_sub_norm.weight", ConfigDim::Queries},
    {"model.layers.#.mlp.ffn_sub_norm.weight", "blk.#.ffn_sub_norm.weight", ConfigDim::Intermediate},
};

static TensorHandle feedForwardOf(ModelBuilder &b, TensorHandle x) {
  TensorHandle gate = b.linear(x, "mlp.gate_proj"), up = b.linear(x, "mlp.up_proj");
  return b.linear(b.rmsNorm(b.glu(gate, up), "mlp.ffn_sub_norm"), "mlp.down_proj");
}

static void buildBitNet(ModelBuilder &b) {
  auto norm = [&](TensorHandle heads) { return b.rmsNorm(heads, "self_attn.attn_sub_norm"); };
  buildDecoder(b, [&](int64_t, TensorHandle x) {
    x = b.add(x, selfAttention(b, b.rmsNorm(x, "input_layernorm"), {}, norm));
    return b.add(x, feedForwardOf(b, b.rmsNorm(x, "post_attention_layernorm")));
  });
}

// Files that do not say it are of models from before squared ReLU.
static void readGgufActivation(GgufKeys &keys, ModelConfig &config) {
  std::string name = keys.string("hidden_activation", "silu");
  config.activation = name == "silu" ? Activation::Silu : Activation::SquaredRelu;
  if (name != "silu" && name != "relu2" && name != "relu_sqr")
    keys.unsupported(keys.full("hidden_activation") + " is '" + printable(name, 64) +
                     "', which is not supported; expected silu or relu2");
}

static constexpr Family describeBitNet() {
  Family row;
  row.modelType = row.gguf = "bitnet";
  row.rules = {embeddingRules,       attentionNormRules, attentionRules,
               feedForwardNormRules, feedForwardRules,   innerNormRules};
  row.defaults.numKvHeads = 5;
  row.defaults.normEps = 1e-5;
  row.defaults.ropeTheta = 500000.0;
  row.defaults.activation = Activation::SquaredRelu;
  row.biases.attentionKey = "attention_bias";
  row.readers.ggufRest = readGgufActivation;
  row.build = buildBitNet;
  return row;
}
const Family family::bitNet = describeBitNet();

} // namespace heddle
