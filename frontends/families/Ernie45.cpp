// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// ERNIE 4.5, dense (Baidu 2025): Llama whose heads rotate as pairs (2i, 2i + 1), with biases where use_bias says so.

#include "frontends/families/Decoder.h"
#include "frontends/families/Families.h"

namespace heddle {

static constexpr Family describeErnie45() {
  Family row;
  row.modelType = "ernie4_5";
  row.gguf = "ernie4_5";
  row.rules = {embeddingRules, attentionNormRules, attentionRules, feedForwardNormRules, feedForwardRules};
  row.defaults.numKvHeads = 2;
  row.defaults.headDim = 128;
  row.defaults.context = 131072;
  row.defaults.normEps = 1e-5;
  row.defaults.ropeTheta = 500000.0;
  row.defaults.tied = true;
  row.biases.attentionKey = row.biases.mlpKey = "use_bias";
  row.biases.mlpInGguf = true;
  row.rope.interleaved = row.rope.interleavedInGguf = true;
  row.build = buildPreNormDecoder;
  return row;
}
const Family family::ernie45 = describeErnie45();

} // namespace heddle
