// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// RoFormer (Su et al. 2021, arXiv:2104.09864): BERT whose queries and keys rotate in pairs (2i, 2i + 1) in place of a table of positions, over embeddings that may be
// narrower than it; some rotate values, too.

#include "frontends/families/Bert.h"
#include "frontends/families/Families.h"
#include "frontends/huggingface/Config.h"

namespace heddle {

static constexpr TensorRule tensorRules[] = {
    {"roformer.embeddings.word_embeddings.weight", nullptr, ConfigDim::Vocab, ConfigDim::Embedding},
    {"roformer.embeddings.token_type_embeddings.weight", nullptr, ConfigDim::TokenTypes, ConfigDim::Embedding},
    HEDDLE_NORM_RULES("roformer.embeddings.LayerNorm", Embedding),
    {"roformer.embeddings_project.weight", nullptr, ConfigDim::Hidden, ConfigDim::Embedding, When::Projected},
    {"roformer.embeddings_project.bias", nullptr, ConfigDim::Hidden, ConfigDim::None, When::Projected},
    HEDDLE_BERT_LAYER_RULES("roformer.encoder.layer.#."),
};
static constexpr TensorRule maskedRules[] = {
    HEDDLE_LINEAR_RULES("cls.predictions.transform.dense", Embedding, Hidden),
    HEDDLE_NORM_RULES("cls.predictions.transform.LayerNorm", Embedding),
    {"cls.predictions.bias", nullptr, ConfigDim::Vocab, ConfigDim::None, When::Tied},
    {"cls.predictions.decoder.weight", nullptr, ConfigDim::Vocab, ConfigDim::Embedding, When::Untied},
    {"cls.predictions.decoder.bias", nullptr, ConfigDim::Vocab, ConfigDim::None, When::Untied},
};
static constexpr TensorRule sequenceRules[] = {HEDDLE_LINEAR_RULES("classifier.dense", Hidden, Hidden),
                                               HEDDLE_LINEAR_RULES("classifier.out_proj", Labels, Hidden)};

// Sines and cosines of the rotation, the bias of logits again, and heads that are not compiled.
static constexpr UnreadTensor unread[] = {{"roformer.encoder.embed_positions.weight"}, HEDDLE_BERT_UNREAD_HEADS};

static void readSizes(JsonObject &object, ModelConfig &config) {
  readBertSizes(object, config);
  readEmbeddingSize(object, config, config.hiddenSize);
}

static void readRotation(JsonObject &object, ModelConfig &config) {
  RopeConfig rope;
  rope.rotaryDim = config.headDim;
  rope.interleaved = true;
  config.ropes = {rope};
  config.rotatesValues = object.boolean("rotary_value").value_or(false);
}

static TensorHandle attend(ModelBuilder &b, TensorHandle x) {
  auto heads = [&](const char *name) {
    return b.splitHeads(b.linear(x, std::string("attention.self.") + name), b.config().numHeads);
  };
  TensorHandle query = b.rope(heads("query")), key = b.rope(heads("key")), value = heads("value");
  TensorHandle attended = b.attention(query, key, b.config().rotatesValues ? b.rope(value) : value);
  return b.linear(b.mergeHeads(attended), "attention.output.dense");
}

static void build(ModelBuilder &b) {
  TensorHandle x = b.add(b.embedTokens(b.config().family->embedding),
                         b.embedTokenTypes("roformer.embeddings.token_type_embeddings.weight"));
  x = b.layerNorm(x, "roformer.embeddings.LayerNorm");
  if (b.config().embeddingSize)
    x = b.linear(x, "roformer.embeddings_project");
  for (int64_t i = 0; i < b.config().numHiddenLayers; ++i)
    x = b.layer(i, "roformer.encoder.layer." + std::to_string(i) + ".", x,
                [&](TensorHandle x) { return bertLayer(b, x, attend(b, x)); });
  finishEncoder(b, x, TensorHandle());
}

static void buildMasked(ModelBuilder &b, TensorHandle x, TensorHandle) {
  x = b.layerNorm(b.activation(b.linear(x, "cls.predictions.transform.dense")), "cls.predictions.transform.LayerNorm");
  b.output("logits", vocabularyLogits(b, x, "cls.predictions.decoder", "cls.predictions.bias"));
}

static void buildSequenceClassifier(ModelBuilder &b, TensorHandle x, TensorHandle) {
  TensorHandle first = b.activation(b.linear(b.firstTokens(x), "classifier.dense"));
  b.output("logits", b.linear(first, "classifier.out_proj"));
}

static constexpr Head heads[] = {
    {"RoFormerForMaskedLM", maskedRules, buildMasked, HeadTask::FillMask},
    {"RoFormerForSequenceClassification", sequenceRules, buildSequenceClassifier, HeadTask::Classify},
    {"RoFormerForTokenClassification", classifierRules, buildTokenClassifier, HeadTask::ClassifyTokens},
    {"RoFormerForQuestionAnswering", answerRules, buildAnswerSpan, HeadTask::Answer},
};

static constexpr Family describe() {
  Family row = describeBertKin("roformer");
  row.heads = heads;
  row.embedding = "roformer.embeddings.word_embeddings.weight";
  row.head = "cls.predictions.decoder.weight";
  row.rules = {tensorRules};
  row.unread = unread;
  row.defaults.vocabSize = 50000;
  row.defaults.context = 1536;
  row.rope.hasRope = true;
  row.readers.huggingFaceSizes = readSizes;
  row.readers.huggingFaceRopes = readRotation;
  row.readers.huggingFaceRest = refuseOtherBerts;
  row.build = build;
  return row;
}
const Family family::roFormer = describe();

} // namespace heddle
