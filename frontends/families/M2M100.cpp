// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// M2M-100 (Fan et al. 2020, arXiv:2010.11125) and NLLB-200 (NLLB Team 2022, arXiv:2207.04672): sinusoidal positions as tensor2tensor has them, of
// which the first are those of padding, norms before attention and feed-forward, and one behind each stack.

#include "frontends/families/EncoderDecoder.h"
#include "frontends/families/Families.h"
#include "frontends/huggingface/Config.h"

namespace heddle {

static void readSizes(JsonObject &object, ModelConfig &config) {
  readEncoderDecoderSizes(object, config);
  int64_t padding = object.integer("pad_token_id").value_or(1);
  if (padding < -1 || padding >= config.vocabSize)
    return object.fail("pad_token_id", "is " + std::to_string(padding) +
                                           ", behind which positions begin: expected -1 to vocab_size - 1 (" +
                                           std::to_string(config.vocabSize - 1) + ")");
  config.firstPosition = padding + 1;
}

static void build(ModelBuilder &b) {
  buildEncoderDecoder(b, sinusoidalPositions, sinusoidalPositions);
}

static constexpr Family describeM2M100() {
  Family row = describeEncoderDecoder("m2m_100");
  row.logitsBias = nullptr;
  row.positionsSkipMasked = true;
  row.defaults.activation = Activation::Relu;
  row.defaults.scalesEmbedding = true;
  row.readers.huggingFaceSizes = readSizes;
  row.addTensors = addSinusoids<Sinusoids::Tensor2Tensor>;
  row.build = build;
  return row;
}
const Family family::m2m100 = describeM2M100();

} // namespace heddle
