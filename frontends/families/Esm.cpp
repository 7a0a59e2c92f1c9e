// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// ESM (Rives et al. 2021, doi:10.1073/pnas.2016239118; ESM-2: Lin et al. 2023, doi:10.1126/science.ade2574) reads proteins: RoBERTa without token types that
// norms what attention and the feed-forward block read, whose positions are rotations or learned. Masked tokens have embeddings of zeros, for which
// those of the others make up: they are multiplied by what training left of them over what this sequence leaves (token_dropout).

#include "frontends/families/EncoderDecoder.h"
#include "frontends/families/Families.h"
#include "frontends/families/Roberta.h"
#include "frontends/huggingface/Config.h"

#include <array>
#include <cstring>

namespace heddle {

static constexpr TensorRule tensorRules[] = {
    {"esm.embeddings.word_embeddings.weight", nullptr, ConfigDim::Vocab, ConfigDim::Hidden},
    {"esm.embeddings.position_embeddings.weight", nullptr, ConfigDim::Positions, ConfigDim::Hidden,
     When::PositionTable},
    {"esm.embeddings.layer_norm.weight", nullptr, ConfigDim::Hidden, ConfigDim::None, When::EmbeddingNorm},
    {"esm.embeddings.layer_norm.bias", nullptr, ConfigDim::Hidden, ConfigDim::None, When::EmbeddingNorm},
    HEDDLE_BERT_BLOCK_RULES("esm.encoder.layer.#."),
    HEDDLE_NORM_RULES("esm.encoder.layer.#.attention.LayerNorm", Hidden),
    HEDDLE_NORM_RULES("esm.encoder.layer.#.LayerNorm", Hidden),
    HEDDLE_NORM_RULES("esm.encoder.emb_layer_norm_after", Hidden),
    HEDDLE_BERT_POOLER_RULES("esm."),
};
static constexpr TensorRule maskedRules[] = {
    HEDDLE_LINEAR_RULES("lm_head.dense", Hidden, Hidden),
    HEDDLE_NORM_RULES("lm_head.layer_norm", Hidden),
    {"lm_head.bias", nullptr, ConfigDim::Vocab},
    {"lm_head.decoder.weight", nullptr, ConfigDim::Vocab, ConfigDim::Hidden, When::Untied},
};

// What tells which parts of a protein touch, positions of a model that rotates, and what older releases saved.
static constexpr UnreadTensor unread[] = {HEDDLE_ROBERTA_UNREAD("esm."),
                                          {"esm.contact_head.*"},
                                          {"esm.*rotary_embeddings.inv_freq"},
                                          {"esm.embeddings.position_embeddings.weight"}};

static void readSizes(JsonObject &object, ModelConfig &config) {
  readBertSizes(object, config);
  config.tokenTypes = 0;
  std::string positions = object.string("position_embedding_type").value_or("absolute");
  config.hasPositionTable = positions == "absolute";
  if (config.hasPositionTable)
    placePositionsBehind(object, config, object.integer("pad_token_id").value_or(-1));
  else if (positions != "rotary")
    object.fail("position_embedding_type", "is '" + printable(positions, 64) + "', expected absolute or rotary");
}

static void readRotation(JsonObject &object, ModelConfig &config) {
  RopeConfig rope;
  rope.theta = object.number("rope_theta").value_or(10000.0);
  rope.rotaryDim = config.headDim;
  if (!config.hasPositionTable)
    config.ropes = {rope};
}

static void readRest(JsonObject &object, ModelConfig &config) {
  for (const char *key : {"is_decoder", "is_folding_model"})
    if (object.boolean(key).value_or(false))
      object.unsupported(key, "is true, which is not supported; expected false");
  config.hasEmbeddingNorm = object.boolean("emb_layer_norm_before").value_or(false);
  if (!object.boolean("token_dropout").value_or(false))
    return;
  int64_t mask = object.integer("mask_token_id").value_or(-1);
  if (mask < 0 || mask >= config.vocabSize)
    return object.fail("mask_token_id", "is " + std::to_string(mask) + ", expected a token below vocab_size (" +
                                            std::to_string(config.vocabSize) + ")");
  config.droppedId = mask;
}

// Of each id: (wide, 1, 0, 0), or (0, 1, 0, 0) where it is what masks; zeros for queries and keys that meet alike; and 1, or 0 where it is what masks.
static constexpr const char *kinds = "esm.embeddings.kinds.weight";
static constexpr int64_t quad = 4, kindWidth = 2 * quad + 1;
static constexpr float wide = 1 << 15; // which f16 holds
// Of training, where 0.15 of all tokens were chosen, and 0.8 of these masked.
static constexpr double leftByTraining = 1 - 0.15 * 0.8;

static Status addKinds(Model &model) {
  const ModelConfig &config = model.config;
  if (!config.droppedId)
    return Status();
  return addTensor(model, kinds, TensorInfo{TensorType::F32, {config.vocabSize, kindWidth}}, "kinds of tokens",
                   [&](std::vector<char> &out, int64_t id) {
                     bool isLeft = id != *config.droppedId;
                     std::array<float, kindWidth> row = {};
                     row[0] = isLeft ? wide : 0.0f;
                     row[1] = 1.0f;
                     row[2 * quad] = isLeft ? 1.0f : 0.0f;
                     memcpy(out.data(), row.data(), out.size());
                   });
}

// Attention whose scores are all 0 gives every token the mean of all, (wide r, 1, 0, 0) where a part r of the tokens is left. An RMS norm makes
// 2 / (wide r) of its 1, but for a part of 1 / (wide r)^2.
static TensorHandle withoutMasked(ModelBuilder &b, TensorHandle x) {
  if (!b.config().droppedId)
    return x;
  TensorHandle kind = b.embedIds(kinds, 1.0);
  auto head = [&](int64_t begin) { return b.splitHeads(b.columns(kind, begin, begin + quad), 1); };
  TensorHandle means = b.mergeHeads(b.attention(head(quad), head(quad), head(0)));
  TensorHandle inverse = b.columns(b.rmsNorm(means, "esm.embeddings.left", /*eps=*/1e-30), 1, 2);
  x = b.scaleHeads(x, b.columns(kind, 2 * quad, kindWidth));
  return b.scaleHeads(x, b.scale(inverse, leftByTraining * wide / 2));
}

static TensorHandle attend(ModelBuilder &b, TensorHandle x) {
  auto heads = [&](const char *name) {
    return b.splitHeads(b.linear(x, std::string("attention.self.") + name), b.config().numHeads);
  };
  TensorHandle query = b.rope(heads("query")), key = b.rope(heads("key"));
  return b.linear(b.mergeHeads(b.attention(query, key, heads("value"))), "attention.output.dense");
}

static void build(ModelBuilder &b) {
  const ModelConfig &config = b.config();
  TensorHandle x = withoutMasked(b, b.embedTokens(config.family->embedding));
  if (config.hasPositionTable)
    x = b.add(x, b.embedPositions("esm.embeddings.position_embeddings.weight"));
  if (config.hasEmbeddingNorm)
    x = b.layerNorm(x, "esm.embeddings.layer_norm");
  for (int64_t i = 0; i < config.numHiddenLayers; ++i)
    x = b.layer(i, "esm.encoder.layer." + std::to_string(i) + ".", x, [&](TensorHandle x) {
      x = b.add(attend(b, b.layerNorm(x, "attention.LayerNorm")), x);
      TensorHandle wide = b.activation(b.linear(b.layerNorm(x, "LayerNorm"), "intermediate.dense"));
      return b.add(b.linear(wide, "output.dense"), x);
    });
  finishBert(b, b.layerNorm(x, "esm.encoder.emb_layer_norm_after"));
}

static void buildMasked(ModelBuilder &b, TensorHandle x, TensorHandle) {
  x = b.layerNorm(b.activation(b.linear(x, "lm_head.dense"), Activation::Gelu), "lm_head.layer_norm");
  bool isTied = b.config().tieWordEmbeddings;
  b.output("logits", b.linear(x, isTied ? b.config().family->embedding : "lm_head.decoder.weight", "lm_head.bias"));
}

static constexpr Head heads[] = {
    {"EsmForMaskedLM", maskedRules, buildMasked, HeadTask::FillMask},
    {"EsmForSequenceClassification", robertaSequenceRules, buildRobertaClassifier, HeadTask::Classify},
    {"EsmForTokenClassification", classifierRules, buildTokenClassifier, HeadTask::ClassifyTokens},
};

static constexpr Family describe() {
  Family row = describeBertKin("esm");
  row.pooler = "esm.pooler.dense.weight";
  row.heads = heads;
  row.embedding = "esm.embeddings.word_embeddings.weight";
  row.head = "lm_head.decoder.weight";
  row.rules = {tensorRules};
  row.unread = unread;
  row.activationKey = nullptr;
  row.defaults.context = 1026;
  row.rope.hasRope = true;
  row.readers.huggingFaceSizes = readSizes;
  row.readers.huggingFaceRopes = readRotation;
  row.readers.huggingFaceRest = readRest;
  row.addTensors = addKinds;
  row.build = build;
  return row;
}
const Family family::esm = describe();

} // namespace heddle
