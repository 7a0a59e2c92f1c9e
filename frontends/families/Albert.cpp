// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// ALBERT (Lan et al. 2019, arXiv:1909.11942): BERT's encoder with one layer that is run again and again, and embeddings that are narrower
// than it.

#include "frontends/families/Bert.h"
#include "frontends/families/Families.h"
#include "frontends/huggingface/Config.h"

namespace heddle {

#define ALBERT_LAYER "albert.encoder.albert_layer_groups.0.albert_layers.0."
static constexpr TensorRule tensorRules[] = {
    HEDDLE_BERT_EMBEDDING_RULES("albert."),
    HEDDLE_LINEAR_RULES("albert.encoder.embedding_hidden_mapping_in", Hidden, Embedding),
    HEDDLE_LINEAR_RULES(ALBERT_LAYER "attention.query", Queries, Hidden),
    HEDDLE_LINEAR_RULES(ALBERT_LAYER "attention.key", KeyValues, Hidden),
    HEDDLE_LINEAR_RULES(ALBERT_LAYER "attention.value", KeyValues, Hidden),
    HEDDLE_LINEAR_RULES(ALBERT_LAYER "attention.dense", Hidden, Queries),
    HEDDLE_NORM_RULES(ALBERT_LAYER "attention.LayerNorm", Hidden),
    HEDDLE_LINEAR_RULES(ALBERT_LAYER "ffn", Intermediate, Hidden),
    HEDDLE_LINEAR_RULES(ALBERT_LAYER "ffn_output", Hidden, Intermediate),
    HEDDLE_NORM_RULES(ALBERT_LAYER "full_layer_layer_norm", Hidden),
    {"albert.pooler.weight", nullptr, ConfigDim::Hidden, ConfigDim::Hidden, When::Pooler},
    {"albert.pooler.bias", nullptr, ConfigDim::Hidden, ConfigDim::None, When::Pooler},
};
#define PREDICTION_RULES                                                                                               \
  HEDDLE_LINEAR_RULES("predictions.dense", Embedding, Hidden), HEDDLE_NORM_RULES("predictions.LayerNorm", Embedding),  \
      {"predictions.bias", nullptr, ConfigDim::Vocab, ConfigDim::None, When::Tied},                                    \
      {"predictions.decoder.weight", nullptr, ConfigDim::Vocab, ConfigDim::Embedding, When::Untied}, {                 \
    "predictions.decoder.bias", nullptr, ConfigDim::Vocab, ConfigDim::None, When::Untied                               \
  }
#define POOLER_RULES HEDDLE_LINEAR_RULES("albert.pooler", Hidden, Hidden)
static constexpr TensorRule preTrainingRules[] = {PREDICTION_RULES, POOLER_RULES,
                                                  HEDDLE_LINEAR_RULES("sop_classifier.classifier", Two, Hidden)};
static constexpr TensorRule maskedRules[] = {PREDICTION_RULES};
static constexpr TensorRule sequenceRules[] = {POOLER_RULES, HEDDLE_LINEAR_RULES("classifier", Labels, Hidden)};

// Of heads that are not compiled, and what older releases saved.
static constexpr UnreadTensor unread[] = {
    {"albert.embeddings.position_ids"},
    {"predictions.decoder.bias"}, // the other bias again where embeddings are tied
    {"predictions.bias"},
    {"predictions.*", /*isLoss=*/true},
    {"sop_classifier.*", /*isLoss=*/true},
    {"classifier.*", /*isLoss=*/true},
    {"qa_outputs.*", /*isLoss=*/true},
};

// The mapping of embeddings is there even where they are as wide as the model.
static void readSizes(JsonObject &object, ModelConfig &config) {
  readBertSizes(object, config);
  readEmbeddingSize(object, config);
}

static void refuseOthers(JsonObject &object, ModelConfig &config) {
  refuseOtherBerts(object, config);
  for (const char *key : {"num_hidden_groups", "inner_group_num"})
    if (int64_t count = object.integer(key).value_or(1); count != 1)
      object.unsupported(key, "is " + std::to_string(count) + ", which is not supported; expected 1");
}

static TensorHandle buildLayer(ModelBuilder &b, TensorHandle x) {
  auto heads = [&](const char *name) { return b.splitHeads(b.linear(x, name), b.config().numHeads); };
  TensorHandle attended = b.attention(heads("attention.query"), heads("attention.key"), heads("attention.value"));
  x = b.layerNorm(b.add(b.linear(b.mergeHeads(attended), "attention.dense"), x), "attention.LayerNorm");
  TensorHandle wide = b.activation(b.linear(x, "ffn"));
  return b.layerNorm(b.add(b.linear(wide, "ffn_output"), x), "full_layer_layer_norm");
}

static void buildAlbert(ModelBuilder &b) {
  TensorHandle x = b.linear(bertEmbeddings(b, "albert."), "albert.encoder.embedding_hidden_mapping_in");
  for (int64_t i = 0; i < b.config().numHiddenLayers; ++i)
    x = b.layer(i, ALBERT_LAYER, x, [&](TensorHandle x) { return buildLayer(b, x); });
  TensorHandle pooled;
  if (b.config().hasPooler)
    pooled = b.activation(b.linear(b.firstTokens(x), "albert.pooler"), Activation::Tanh);
  finishEncoder(b, x, pooled);
}

static TensorHandle predictionLogits(ModelBuilder &b, TensorHandle x) {
  x = b.layerNorm(b.activation(b.linear(x, "predictions.dense")), "predictions.LayerNorm");
  return vocabularyLogits(b, x, "predictions.decoder", "predictions.bias");
}

static void buildPreTraining(ModelBuilder &b, TensorHandle x, TensorHandle pooled) {
  b.output("prediction_logits", predictionLogits(b, x));
  b.output("sop_logits", b.linear(pooled, "sop_classifier.classifier"));
}

static void buildMasked(ModelBuilder &b, TensorHandle x, TensorHandle) {
  b.output("logits", predictionLogits(b, x));
}

static void buildSequenceClassifier(ModelBuilder &b, TensorHandle, TensorHandle pooled) {
  b.output("logits", b.linear(pooled, "classifier"));
}

static constexpr Head heads[] = {
    {"AlbertForPreTraining", preTrainingRules, buildPreTraining},
    {"AlbertForMaskedLM", maskedRules, buildMasked, HeadTask::FillMask},
    {"AlbertForSequenceClassification", sequenceRules, buildSequenceClassifier, HeadTask::Classify},
    {"AlbertForTokenClassification", classifierRules, buildTokenClassifier, HeadTask::ClassifyTokens},
    {"AlbertForQuestionAnswering", answerRules, buildAnswerSpan, HeadTask::Answer},
};

static constexpr Family describeAlbert() {
  Family row;
  row.modelType = "albert";
  row.isEncoder = true;
  row.pooler = "albert.pooler.weight";
  row.heads = heads;
  row.embedding = "albert.embeddings.word_embeddings.weight";
  row.head = "predictions.decoder.weight";
  row.rules = {tensorRules};
  row.unread = unread;
  row.keyNames = bertKeyNames;
  row.defaults.vocabSize = 30000;
  row.defaults.context = 512;
  row.defaults.normEps = 1e-12;
  row.defaults.activation = Activation::GeluTanh;
  row.defaults.tied = true;
  row.rope.hasRope = false;
  row.readers.huggingFaceSizes = readSizes;
  row.readers.huggingFaceRest = refuseOthers;
  row.build = buildAlbert;
  return row;
}
const Family family::albert = describeAlbert();

} // namespace heddle
