// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// FSMT, fairseq's translators of WMT 2019 (Ng et al. 2019, arXiv:1907.06616): the original Transformer with positions as M2M-100 has them, and tables of its
// own for what is read, what is written, and the head.

#include "frontends/families/EncoderDecoder.h"
#include "frontends/families/Families.h"
#include "frontends/huggingface/Config.h"

namespace heddle {

#define SOURCE "model.encoder.embed_tokens.weight"
#define ANSWER "model.decoder.embed_tokens.weight"
#define PROJECTION "model.decoder.output_projection.weight"

static constexpr TensorRule tableRules[] = {
    {SOURCE, nullptr, ConfigDim::Vocab, ConfigDim::Hidden},
    {ANSWER, nullptr, ConfigDim::Vocab, ConfigDim::Hidden},
    {PROJECTION, nullptr, ConfigDim::Vocab, ConfigDim::Hidden},
};
// The table of positions, which the reference saves.
static constexpr UnreadTensor unread[] = {{"model.encoder.embed_positions.weight"},
                                          {"model.decoder.embed_positions.weight"}};

static constexpr KeyName keyNames[] = {
    {"vocab_size", "tgt_vocab_size"},
    HEDDLE_ENCODER_DECODER_KEYS,
    {"max_source_positions", "max_position_embeddings"},
};
static constexpr KeyAlias aliases[] = {{"vocab_size", "tgt_vocab_size"}, HEDDLE_ENCODER_DECODER_ALIASES};

static void readSizes(JsonObject &object, ModelConfig &config) {
  readEncoderDecoderSizes(object, config);
  config.normsBefore = config.hasFinalNorm = false;
  int64_t padding = object.integer("pad_token_id").value_or(1);
  if (padding < 0 || padding >= config.vocabSize)
    return object.fail("pad_token_id", "is " + std::to_string(padding) +
                                           ", behind which positions begin: expected 0 to tgt_vocab_size - 1 (" +
                                           std::to_string(config.vocabSize - 1) + ")");
  config.firstPosition = padding + 1;
}

static void readRest(JsonObject &object, ModelConfig &config) {
  readEncoderDecoderScales(object, config);
  if (int64_t source = object.integer("src_vocab_size").value_or(config.family->defaults.vocabSize);
      source != config.vocabSize)
    object.unsupported("src_vocab_size", "is " + std::to_string(source) +
                                             ", which is not supported beside tgt_vocab_size (" +
                                             std::to_string(config.vocabSize) + ")");
  if (config.tieWordEmbeddings)
    object.unsupported("tie_word_embeddings", "is true, which is not supported of tables of their own; expected false");
}

static TensorHandle embed(ModelBuilder &b, const char *table) {
  return b.add(b.embedTokens(table), b.embedPositions(sinusoidalPositions));
}

static void build(ModelBuilder &b) {
  buildEncoderDecoder(b, embed(b, SOURCE), [&] { return embed(b, ANSWER); });
}

static constexpr Family describe() {
  Family row = describeEncoderDecoder("fsmt");
  row.embedding = ANSWER;
  row.head = PROJECTION;
  row.embeddingCopies = {};
  row.logitsBias = nullptr;
  row.rules = {tableRules, encoderDecoderRules};
  row.unread = unread;
  row.keyNames = keyNames;
  row.aliases = aliases;
  row.positionsSkipMasked = true;
  row.defaults.vocabSize = 42024;
  row.defaults.tied = false;
  row.defaults.activation = Activation::Relu;
  row.defaults.scalesEmbedding = true;
  row.readers.huggingFaceSizes = readSizes;
  row.readers.huggingFaceRest = readRest;
  row.addTensors = addSinusoids<Sinusoids::Tensor2Tensor>;
  row.build = build;
  return row;
}
const Family family::fsmt = describe();

} // namespace heddle
