// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// StarCoder2 (Lozhkov et al. 2024, arXiv:2402.19173): grouped KV heads and windows as Mistral has them, with LayerNorm, a feed-forward block
// without a gate, and biases.

#include "frontends/families/Decoder.h"
#include "frontends/families/Families.h"

namespace heddle {

static constexpr TensorRule feedForwardBlock[] = {
    {"model.layers.#.mlp.c_fc.weight", "blk.#.ffn_up.weight", ConfigDim::Intermediate, ConfigDim::Hidden},
    {"model.layers.#.mlp.c_fc.bias", "blk.#.ffn_up.bias", ConfigDim::Intermediate, ConfigDim::None, When::MlpBias},
    {"model.layers.#.mlp.c_proj.weight", "blk.#.ffn_down.weight", ConfigDim::Hidden, ConfigDim::Intermediate},
    {"model.layers.#.mlp.c_proj.bias", "blk.#.ffn_down.bias", ConfigDim::Hidden, ConfigDim::None, When::MlpBias},
};

static constexpr KeyName keyNames[] = {{"rms_norm_eps", "norm_epsilon", "attention.layer_norm_epsilon"}};

static constexpr Family describeStarcoder2() {
  Family row;
  row.modelType = "starcoder2";
  row.gguf = "starcoder2";
  row.rules = {embeddingRules,       attentionNormRules, attentionRules,
               feedForwardNormRules, feedForwardBlock,   normBiasRules};
  row.keyNames = keyNames;
  row.defaults.numKvHeads = 2;
  row.defaults.context = 4096;
  row.defaults.normEps = 1e-5;
  row.defaults.activation = Activation::GeluTanh;
  row.defaults.tied = true;
  row.norm = NormKind::Layer;
  row.feedForward = {"mlp.", nullptr, "c_fc", "c_proj"};
  row.biases.attentionKey = row.biases.mlpKey = "use_bias";
  row.biases.attentionDefault = row.biases.mlpDefault = row.biases.mlpInGguf = true;
  row.windows.use = WindowUse::Stated;
  row.build = buildPreNormDecoder;
  return row;
}
const Family family::starcoder2 = describeStarcoder2();

} // namespace heddle
