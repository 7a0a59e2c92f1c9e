// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// ELECTRA (Clark et al. 2020, arXiv:2003.10555): BERT's encoder over embeddings that may be narrower than it. Its discriminator tells of each
// token whether it was replaced, its generator predicts masked ones.

#include "frontends/families/Bert.h"
#include "frontends/families/Families.h"
#include "frontends/huggingface/Config.h"

namespace heddle {

static constexpr TensorRule tensorRules[] = {
    HEDDLE_BERT_EMBEDDING_RULES("electra."),
    {"electra.embeddings_project.weight", nullptr, ConfigDim::Hidden, ConfigDim::Embedding, When::Projected},
    {"electra.embeddings_project.bias", nullptr, ConfigDim::Hidden, ConfigDim::None, When::Projected},
    HEDDLE_BERT_LAYER_RULES("electra.encoder.layer.#."),
};
static constexpr TensorRule discriminatorRules[] = {
    HEDDLE_LINEAR_RULES("discriminator_predictions.dense", Hidden, Hidden),
    HEDDLE_LINEAR_RULES("discriminator_predictions.dense_prediction", One, Hidden)};
static constexpr TensorRule generatorRules[] = {
    HEDDLE_LINEAR_RULES("generator_predictions.dense", Embedding, Hidden),
    HEDDLE_NORM_RULES("generator_predictions.LayerNorm", Embedding),
    {"generator_lm_head.weight", nullptr, ConfigDim::Vocab, ConfigDim::Embedding, When::Untied},
    {"generator_lm_head.bias", nullptr, ConfigDim::Vocab},
};
static constexpr TensorRule sequenceRules[] = {HEDDLE_LINEAR_RULES("classifier.dense", Hidden, Hidden),
                                               HEDDLE_LINEAR_RULES("classifier.out_proj", Labels, Hidden)};

// Of heads that are not compiled, and what older releases saved.
static constexpr UnreadTensor unread[] = {
    {"electra.embeddings.position_ids"}, {"discriminator_predictions.*", /*isLoss=*/true},
    {"generator_*", /*isLoss=*/true},    {"classifier.*", /*isLoss=*/true},
    {"qa_outputs.*", /*isLoss=*/true},
};

static void readSizes(JsonObject &object, ModelConfig &config) {
  readBertSizes(object, config);
  readEmbeddingSize(object, config);
}

static void buildDiscriminator(ModelBuilder &b, TensorHandle x, TensorHandle) {
  x = b.activation(b.linear(x, "discriminator_predictions.dense"));
  b.output("logits", b.linear(x, "discriminator_predictions.dense_prediction"), /*squeezed=*/true);
}

static void buildGenerator(ModelBuilder &b, TensorHandle x, TensorHandle) {
  x = b.activation(b.linear(x, "generator_predictions.dense"), Activation::Gelu);
  x = b.layerNorm(x, "generator_predictions.LayerNorm");
  b.output("logits", vocabularyLogits(b, x, "generator_lm_head", "generator_lm_head.bias"));
}

static void buildSequenceClassifier(ModelBuilder &b, TensorHandle x, TensorHandle) {
  TensorHandle first = b.activation(b.linear(b.firstTokens(x), "classifier.dense"), Activation::Gelu);
  b.output("logits", b.linear(first, "classifier.out_proj"));
}

static constexpr Head heads[] = {
    {"ElectraForPreTraining", discriminatorRules, buildDiscriminator},
    {"ElectraForMaskedLM", generatorRules, buildGenerator, HeadTask::FillMask},
    {"ElectraForCausalLM", generatorRules, buildGenerator, HeadTask::FillMask},
    {"ElectraForSequenceClassification", sequenceRules, buildSequenceClassifier, HeadTask::Classify},
    {"ElectraForTokenClassification", classifierRules, buildTokenClassifier, HeadTask::ClassifyTokens},
    {"ElectraForQuestionAnswering", answerRules, buildAnswerSpan, HeadTask::Answer},
};

static constexpr Family describeElectra() {
  Family row = describeBertKin("electra");
  row.heads = heads;
  row.embedding = "electra.embeddings.word_embeddings.weight";
  row.head = "generator_lm_head.weight";
  row.rules = {tensorRules};
  row.unread = unread;
  row.defaults.vocabSize = 30522;
  row.readers.huggingFaceSizes = readSizes;
  row.readers.huggingFaceRest = refuseOtherBerts;
  row.build = buildBert;
  return row;
}
const Family family::electra = describeElectra();

} // namespace heddle
