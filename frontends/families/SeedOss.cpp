// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Seed-OSS (ByteDance 2025): Llama with biases of q, k and v, and a key of its own for that of o.

#include "frontends/families/Decoder.h"
#include "frontends/families/Families.h"

namespace heddle {

static constexpr TensorRule secondNormRules[] = {
    {"model.layers.#.post_attention_layernorm.weight", "blk.#.post_attention_norm.weight", ConfigDim::Hidden},
};

static constexpr Family describeSeedOss() {
  Family row;
  row.modelType = "seed_oss";
  row.gguf = "seed_oss";
  row.rules = {embeddingRules, attentionNormRules, attentionRules, secondNormRules, feedForwardRules};
  row.defaults.numKvHeads = 8;
  row.defaults.headDim = 128;
  row.defaults.context = 524288;
  row.biases.attentionKey = "attention_bias";
  row.biases.attentionDefault = true;
  row.biases.outputKey = "attention_out_bias";
  row.biases.mlpKey = "mlp_bias";
  row.biases.mlpInGguf = true;
  row.build = buildPreNormDecoder;
  return row;
}
const Family family::seedOss = describeSeedOss();

} // namespace heddle
