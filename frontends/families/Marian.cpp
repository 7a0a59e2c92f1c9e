// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Marian (Junczys-Dowmunt et al. 2018, arXiv:1804.00344), as the OPUS-MT models have it: the original Transformer with sinusoidal positions, all
// sines before all cosines, and norms behind residuals.

#include "frontends/families/EncoderDecoder.h"
#include "frontends/families/Families.h"
#include "frontends/huggingface/Config.h"

namespace heddle {

// The table of positions, which older releases saved.
static constexpr UnreadTensor unread[] = {{"model.encoder.embed_positions.weight"},
                                          {"model.decoder.embed_positions.weight"}};

static void readSizes(JsonObject &object, ModelConfig &config) {
  readEncoderDecoderSizes(object, config);
  config.normsBefore = config.hasFinalNorm = false;
}

static void readRest(JsonObject &object, ModelConfig &config) {
  readEncoderDecoderScales(object, config);
  if (int64_t own = object.integer("decoder_vocab_size").value_or(config.vocabSize); own != config.vocabSize)
    object.unsupported("decoder_vocab_size", "is " + std::to_string(own) +
                                                 ", which is not supported beside vocab_size (" +
                                                 std::to_string(config.vocabSize) + ")");
  if (!object.boolean("share_encoder_decoder_embeddings").value_or(true))
    object.unsupported("share_encoder_decoder_embeddings", "is false, which is not supported; expected true");
}

static void build(ModelBuilder &b) {
  buildEncoderDecoder(b, sinusoidalPositions, sinusoidalPositions);
}

static constexpr Family describeMarian() {
  Family row = describeEncoderDecoder("marian");
  row.unread = unread;
  row.readers.huggingFaceSizes = readSizes;
  row.readers.huggingFaceRest = readRest;
  row.addTensors = addSinusoids<Sinusoids::Halves>;
  row.build = build;
  return row;
}
const Family family::marian = describeMarian();

} // namespace heddle
