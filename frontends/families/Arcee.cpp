// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Arcee's AFM (2025): Llama whose feed-forward block has no gate, and squares what relu leaves.

#include "frontends/families/Decoder.h"
#include "frontends/families/Families.h"

namespace heddle {

static constexpr Family describeArcee() {
  Family row;
  row.modelType = "arcee";
  row.gguf = "arcee";
  row.rules = {embeddingRules, attentionNormRules, attentionRules, feedForwardNormRules, ungatedFeedForwardRules};
  row.defaults.context = 4096;
  row.defaults.normEps = 1e-5;
  row.defaults.activation = Activation::SquaredRelu;
  row.feedForward.gate = nullptr;
  row.biases.attentionKey = "attention_bias";
  row.biases.mlpKey = "mlp_bias";
  row.biases.mlpInGguf = true;
  row.rope.interleavedInGguf = true;
  row.build = buildPreNormDecoder;
  return row;
}
const Family family::arcee = describeArcee();

} // namespace heddle
