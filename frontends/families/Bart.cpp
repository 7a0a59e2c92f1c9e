// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// BART (Lewis et al. 2019, arXiv:1910.13461): learned positions, of which the first two rows are never read, a norm behind the embeddings and
// behind every residual, GELU. mBART (Liu et al. 2020, arXiv:2001.08210) has its norms before attention and feed-forward, and one behind each stack.

#include "frontends/families/EncoderDecoder.h"
#include "frontends/families/Families.h"
#include "frontends/huggingface/Config.h"

namespace heddle {

static void readMbartSizes(JsonObject &object, ModelConfig &config) {
  readEncoderDecoderSizes(object, config);
  config.firstPosition = 2;
  config.hasEmbeddingNorm = true;
}

static void readBartSizes(JsonObject &object, ModelConfig &config) {
  readMbartSizes(object, config);
  config.normsBefore = config.hasFinalNorm = false;
}

static void build(ModelBuilder &b) {
  buildEncoderDecoder(b, "model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight");
}

static constexpr Family describe(const char *modelType, void (*readSizes)(JsonObject &, ModelConfig &)) {
  Family row = describeEncoderDecoder(modelType);
  row.rules[2] = learnedPositionRules;
  row.readers.huggingFaceSizes = readSizes;
  row.build = build;
  return row;
}
const Family family::bart = describe("bart", readBartSizes);
const Family family::mbart = describe("mbart", readMbartSizes);

} // namespace heddle
