// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Llama (Touvron et al. 2023, arXiv:2302.13971): the decoder that most others are a variant of. Checkpoints may have biases in attention
// and in the feed-forward block. In GGUF, "llama" without experts may also be a mistral with a window.

#include "frontends/families/Decoder.h"
#include "frontends/families/Families.h"

namespace heddle {

static constexpr Family describeLlama() {
  Family row;
  row.modelType = "llama";
  row.gguf = "llama";
  row.rules = {embeddingRules, attentionNormRules, attentionRules, feedForwardNormRules, feedForwardRules};
  row.defaults.vocabSize = 32000;
  row.defaults.hiddenSize = 4096, row.defaults.intermediateSize = 11008;
  row.defaults.numLayers = 32, row.defaults.numHeads = 32;
  row.biases.attentionKey = "attention_bias";
  row.biases.mlpKey = "mlp_bias";
  row.biases.mlpInGguf = true;
  row.rope.interleavedInGguf = true;
  row.build = buildPreNormDecoder;
  return row;
}
const Family family::llama = describeLlama();

} // namespace heddle
