// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// MPNet (Song et al. 2020, arXiv:2004.09297): RoBERTa without token types, whose scores also get what T5's have for the distance of a key, by one
// table of all layers.

#include "frontends/families/Families.h"
#include "frontends/families/Roberta.h"
#include "frontends/huggingface/Config.h"

namespace heddle {

#define LAYER "mpnet.encoder.layer.#."
static constexpr const char *distances = "mpnet.encoder.relative_attention_bias.weight";
static constexpr TensorRule tensorRules[] = {
    {"mpnet.embeddings.word_embeddings.weight", nullptr, ConfigDim::Vocab, ConfigDim::Hidden},
    {"mpnet.embeddings.position_embeddings.weight", nullptr, ConfigDim::Positions, ConfigDim::Hidden},
    HEDDLE_NORM_RULES("mpnet.embeddings.LayerNorm", Hidden),
    {distances, nullptr, ConfigDim::Buckets, ConfigDim::Heads},
    HEDDLE_LINEAR_RULES(LAYER "attention.attn.q", Queries, Hidden),
    HEDDLE_LINEAR_RULES(LAYER "attention.attn.k", Queries, Hidden),
    HEDDLE_LINEAR_RULES(LAYER "attention.attn.v", Queries, Hidden),
    HEDDLE_LINEAR_RULES(LAYER "attention.attn.o", Hidden, Queries),
    HEDDLE_NORM_RULES(LAYER "attention.LayerNorm", Hidden),
    HEDDLE_LINEAR_RULES(LAYER "intermediate.dense", Intermediate, Hidden),
    HEDDLE_LINEAR_RULES(LAYER "output.dense", Hidden, Intermediate),
    HEDDLE_NORM_RULES(LAYER "output.LayerNorm", Hidden),
    HEDDLE_BERT_POOLER_RULES("mpnet."),
};
static constexpr UnreadTensor unread[] = {HEDDLE_ROBERTA_UNREAD("mpnet.")};

// The reference's numbers, whatever config.json says: the id of padding, and what it looks up in the table of distances.
static constexpr int64_t paddingId = 1, bucketsRead = 32, farthest = 128;

static void readSizes(JsonObject &object, ModelConfig &config) {
  readBertSizes(object, config);
  config.tokenTypes = 0;
  placePositionsBehind(object, config, paddingId);
  config.relativeDistance = farthest;
  config.relativeBuckets = object.integer("relative_attention_num_buckets").value_or(bucketsRead);
  if (config.relativeBuckets < bucketsRead || config.relativeBuckets > 1 << 12)
    object.fail("relative_attention_num_buckets",
                "is " + std::to_string(config.relativeBuckets) + ", expected 32, the buckets that are read, to 4096");
}

static void build(ModelBuilder &b) {
  AttentionTerms terms;
  terms.positions = relativeBuckets(distances, /*bidirectional=*/true, bucketsRead, farthest);
  TensorHandle x = bertEmbeddings(b, "mpnet.");
  for (int64_t i = 0; i < b.config().numHiddenLayers; ++i)
    x = b.layer(i, "mpnet.encoder.layer." + std::to_string(i) + ".", x, [&](TensorHandle x) {
      auto heads = [&](const char *name) { return b.splitHeads(b.linear(x, name), b.config().numHeads); };
      TensorHandle attended =
          b.attention(heads("attention.attn.q"), heads("attention.attn.k"), heads("attention.attn.v"), terms);
      x = b.layerNorm(b.add(b.linear(b.mergeHeads(attended), "attention.attn.o"), x), "attention.LayerNorm");
      return bertFeedForward(b, x);
    });
  finishBert(b, x);
}

static constexpr Head heads[] = {HEDDLE_ROBERTA_HEADS("MPNet")};

static constexpr Family describe() {
  Family row = describeBertKin("mpnet");
  row.pooler = "mpnet.pooler.dense.weight";
  row.heads = heads;
  row.embedding = "mpnet.embeddings.word_embeddings.weight";
  row.head = "lm_head.decoder.weight";
  row.rules = {tensorRules};
  row.unread = unread;
  row.defaults.vocabSize = 30527;
  row.readers.huggingFaceSizes = readSizes;
  row.build = build;
  return row;
}
const Family family::mpNet = describe();

} // namespace heddle
