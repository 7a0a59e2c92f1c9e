// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// BART (Lewis et al. 2019, arXiv:1910.13461): learned positions, of which the first two rows are never read, a norm behind the embeddings and
// behind every residual, GELU. MVP (Tang et al. 2022, arXiv:2206.12131) without its prompts and PLBART (Ahmad et al. 2021, arXiv:2103.06333) are BART.
// mBART (Liu et al. 2020, arXiv:2001.08210) has its norms before attention and feed-forward, and one behind each stack. Blenderbot (Roller et al. 2020,
// arXiv:2004.13637) is mBART without the norm behind the embeddings, and reads positions from the first row on; its smaller models are BART, whose
// decoder norms embeddings before positions are added.

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

static constexpr Family describe(const char *modelType, void (*readSizes)(JsonObject &, ModelConfig &),
                                 int64_t context = 1024) {
  Family row = describeEncoderDecoder(modelType);
  row.defaults.context = context;
  row.rules[2] = learnedPositionRules;
  row.readers.huggingFaceSizes = readSizes;
  row.build = build;
  return row;
}
const Family family::bart = describe("bart", readBartSizes);
const Family family::mbart = describe("mbart", readMbartSizes);
const Family family::blenderbot = describe("blenderbot", readEncoderDecoderSizes, /*context=*/128);

static void readMvpRest(JsonObject &object, ModelConfig &config) {
  readEncoderDecoderScales(object, config);
  if (object.boolean("use_prompt").value_or(false))
    object.unsupported("use_prompt", "is true, which is not supported; expected false");
}

static constexpr Family describeMvp() {
  Family row = describe("mvp", readBartSizes);
  row.readers.huggingFaceRest = readMvpRest;
  return row;
}
const Family family::mvp = describeMvp();

static constexpr Family describePlBart() {
  Family row = describe("plbart", readBartSizes);
  row.defaults.scalesEmbedding = true;
  return row;
}
const Family family::plBart = describePlBart();

static void readSmallSizes(JsonObject &object, ModelConfig &config) {
  readBartSizes(object, config);
  config.firstPosition = 0;
}

static void buildSmall(ModelBuilder &b) {
  buildEncoderDecoder(b, embedText(b, "model.encoder.embed_positions.weight", /*isDecoder=*/false), [&] {
    TensorHandle tokens = b.embedTokens(embeddingOf(b.config(), /*isDecoder=*/true));
    return b.add(b.layerNorm(tokens, "model.decoder.layernorm_embedding"),
                 b.embedPositions("model.decoder.embed_positions.weight"));
  });
}

static constexpr Family describeSmall() {
  Family row = describe("blenderbot-small", readSmallSizes, /*context=*/512);
  row.build = buildSmall;
  return row;
}
const Family family::blenderbotSmall = describeSmall();

} // namespace heddle
