// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// RemBERT (Chung et al. 2020, arXiv:2010.12821): BERT whose embeddings are narrower than it, and whose head over the vocabulary has a matrix of its
// own, of another width.

#include "frontends/families/Bert.h"
#include "frontends/families/Families.h"
#include "frontends/huggingface/Config.h"

namespace heddle {

static constexpr TensorRule tensorRules[] = {
    HEDDLE_BERT_EMBEDDING_RULES("rembert."),
    HEDDLE_LINEAR_RULES("rembert.encoder.embedding_hidden_mapping_in", Hidden, Embedding),
    HEDDLE_BERT_LAYER_RULES("rembert.encoder.layer.#."),
    HEDDLE_BERT_POOLER_RULES("rembert."),
};
static constexpr TensorRule maskedRules[] = {
    HEDDLE_LINEAR_RULES("cls.predictions.dense", HeadInput, Hidden),
    HEDDLE_NORM_RULES("cls.predictions.LayerNorm", HeadInput),
    HEDDLE_LINEAR_RULES("cls.predictions.decoder", Vocab, HeadInput),
};
static constexpr TensorRule sequenceRules[] = {HEDDLE_LINEAR_RULES("rembert.pooler.dense", Hidden, Hidden),
                                               HEDDLE_LINEAR_RULES("classifier", Labels, Hidden)};

static constexpr KeyName keyNames[] = {
    {"num_key_value_heads", "num_attention_heads"},
    {"head_dim", "hidden_size"},
    {"rms_norm_eps", "layer_norm_eps"},
    {"word_embed_proj_dim", "input_embedding_size"},
};

// Of heads that are not compiled, and what older releases saved.
static constexpr UnreadTensor unread[] = {{"rembert.embeddings.position_ids"},
                                          {"cls.*", /*isLoss=*/true},
                                          {"classifier.*", /*isLoss=*/true},
                                          {"qa_outputs.*", /*isLoss=*/true}};

static int64_t readWidth(JsonObject &object, const char *key, int64_t fallback) {
  int64_t width = object.integer(key).value_or(fallback);
  constexpr int64_t most = 1 << 20;
  if (width < 1 || width > most)
    object.fail(key, "is " + std::to_string(width) + ", expected 1 to " + std::to_string(most));
  return width;
}

static void readSizes(JsonObject &object, ModelConfig &config) {
  readBertSizes(object, config);
  int64_t width = readWidth(object, "input_embedding_size", 256);
  config.embeddingSize = width == config.hiddenSize ? 0 : width;
  config.headInput = readWidth(object, "output_embedding_size", 1664);
}

static void readRest(JsonObject &object, ModelConfig &config) {
  refuseOtherBerts(object, config);
  config.tieWordEmbeddings = false; // whatever config.json says
}

static void build(ModelBuilder &b) {
  TensorHandle x = b.linear(bertEmbeddings(b, "rembert."), "rembert.encoder.embedding_hidden_mapping_in");
  for (int64_t i = 0; i < b.config().numHiddenLayers; ++i)
    x = b.layer(i, "rembert.encoder.layer." + std::to_string(i) + ".", x,
                [&](TensorHandle x) { return bertLayer(b, x); });
  finishBert(b, x);
}

static void buildMasked(ModelBuilder &b, TensorHandle x, TensorHandle) {
  x = b.layerNorm(b.activation(b.linear(x, "cls.predictions.dense")), "cls.predictions.LayerNorm");
  b.output("logits", b.linear(x, "cls.predictions.decoder"));
}

static void buildSequenceClassifier(ModelBuilder &b, TensorHandle, TensorHandle pooled) {
  b.output("logits", b.linear(pooled, "classifier"));
}

static constexpr Head heads[] = {
    {"RemBertForMaskedLM", maskedRules, buildMasked, HeadTask::FillMask},
    {"RemBertForCausalLM", maskedRules, buildMasked, HeadTask::FillMask}, // without is_decoder, the same
    {"RemBertForSequenceClassification", sequenceRules, buildSequenceClassifier, HeadTask::Classify},
    {"RemBertForTokenClassification", classifierRules, buildTokenClassifier, HeadTask::ClassifyTokens},
    {"RemBertForQuestionAnswering", answerRules, buildAnswerSpan, HeadTask::Answer},
};

static constexpr Family describe() {
  Family row = describeBertKin("rembert");
  row.pooler = "rembert.pooler.dense.weight";
  row.heads = heads;
  row.embedding = "rembert.embeddings.word_embeddings.weight";
  row.head = "cls.predictions.decoder.weight";
  row.rules = {tensorRules};
  row.unread = unread;
  row.keyNames = keyNames;
  row.defaults.vocabSize = 250300;
  row.readers.huggingFaceSizes = readSizes;
  row.readers.huggingFaceRest = readRest;
  row.build = build;
  return row;
}
const Family family::remBert = describe();

} // namespace heddle
