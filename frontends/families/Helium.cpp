// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Helium (Kyutai 2025): Llama that rotates pairs (2i, 2i + 1), with norms of a small epsilon.

#include "frontends/families/Decoder.h"
#include "frontends/families/Families.h"

namespace heddle {

static constexpr Family describeHelium() {
  Family row;
  row.modelType = "helium";
  row.rules = {embeddingRules, attentionNormRules, attentionRules, feedForwardNormRules, feedForwardRules};
  row.defaults.numKvHeads = 20;
  row.defaults.headDim = 128;
  row.defaults.context = 4096;
  row.defaults.normEps = 1e-8;
  row.defaults.ropeTheta = 100000.0;
  row.biases.attentionKey = "attention_bias";
  row.biases.inOutput = false;
  row.biases.mlpKey = "mlp_bias";
  row.rope.interleaved = true;
  row.build = buildPreNormDecoder;
  return row;
}
const Family family::helium = describeHelium();

} // namespace heddle
