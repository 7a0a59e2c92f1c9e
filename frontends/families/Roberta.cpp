// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// RoBERTa (Liu et al. 2019, arXiv:1907.11692): BERT's encoder, whose tokens are numbered behind the padding id, with heads of its own.
// XLM-RoBERTa (Conneau et al. 2019, arXiv:1911.02116) and CamemBERT (Martin et al. 2019, arXiv:1911.03894) differ in what they were trained on.

#include "frontends/families/Roberta.h"
#include "frontends/families/Families.h"
#include "frontends/huggingface/Config.h"

namespace heddle {

static constexpr TensorRule tensorRules[] = {HEDDLE_BERT_RULES("roberta.")};
static constexpr UnreadTensor unread[] = {HEDDLE_ROBERTA_UNREAD("roberta.")};

void readRobertaSizes(JsonObject &object, ModelConfig &config) {
  readBertSizes(object, config);
  int64_t padding = object.integer("pad_token_id").value_or(1);
  if (padding < 0 || padding + 1 >= config.contextLength)
    return object.fail("pad_token_id", "is " + std::to_string(padding) +
                                           ", expected at least 0 and less than max_position_embeddings less 1 (" +
                                           std::to_string(config.contextLength - 1) + ")");
  config.positionPadding = padding;
  config.positionOffset = padding + 1;
  config.contextLength -= padding + 1;
}

void buildRobertaMasked(ModelBuilder &b, TensorHandle x, TensorHandle) {
  x = b.layerNorm(b.activation(b.linear(x, "lm_head.dense"), Activation::Gelu), "lm_head.layer_norm");
  b.output("logits", vocabularyLogits(b, x, "lm_head.decoder", "lm_head.bias"));
}

void buildRobertaClassifier(ModelBuilder &b, TensorHandle x, TensorHandle) {
  TensorHandle first = b.activation(b.linear(b.firstTokens(x), "classifier.dense"), Activation::Tanh);
  b.output("logits", b.linear(first, "classifier.out_proj"));
}

#define HEDDLE_ROBERTA_HEADS(name)                                                                                     \
  {name "ForMaskedLM", robertaMaskedRules, buildRobertaMasked, HeadTask::FillMask},                                    \
      {name "ForCausalLM", robertaMaskedRules, buildRobertaMasked, HeadTask::FillMask},                                \
      {name "ForSequenceClassification", robertaSequenceRules, buildRobertaClassifier, HeadTask::Classify},            \
      {name "ForTokenClassification", classifierRules, buildTokenClassifier, HeadTask::ClassifyTokens}, {              \
    name "ForQuestionAnswering", answerRules, buildAnswerSpan, HeadTask::Answer                                        \
  }
static constexpr Head robertaHeads[] = {HEDDLE_ROBERTA_HEADS("Roberta")};
static constexpr Head xlmRobertaHeads[] = {HEDDLE_ROBERTA_HEADS("XLMRoberta")};
static constexpr Head camembertHeads[] = {HEDDLE_ROBERTA_HEADS("Camembert")};

static constexpr Family describe(const char *modelType, Listing<Head> heads) {
  Family row = describeBertKin(modelType);
  row.pooler = "roberta.pooler.dense.weight";
  row.heads = heads;
  row.embedding = "roberta.embeddings.word_embeddings.weight";
  row.head = "lm_head.decoder.weight";
  row.rules = {tensorRules};
  row.unread = unread;
  row.readers.huggingFaceSizes = readRobertaSizes;
  row.readers.huggingFaceRest = refuseOtherBerts;
  row.build = buildBert;
  return row;
}
const Family family::roberta = describe("roberta", robertaHeads);
const Family family::xlmRoberta = describe("xlm-roberta", xlmRobertaHeads);
const Family family::camembert = describe("camembert", camembertHeads);

} // namespace heddle
