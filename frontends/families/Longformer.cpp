// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Longformer (Beltagy et al. 2020, arXiv:2004.05150): RoBERTa whose tokens see those within a window on both sides; tokens that are named as
// global see all and are seen by all, through projections of their own.

#include "frontends/families/Families.h"
#include "frontends/families/Roberta.h"
#include "frontends/huggingface/Config.h"
#include "frontends/huggingface/JsonObject.h"

namespace heddle {

#define SELF "longformer.encoder.layer.#.attention.self."
static constexpr TensorRule tensorRules[] = {
    HEDDLE_BERT_RULES("longformer."),
    HEDDLE_LINEAR_RULES(SELF "query_global", Queries, Hidden),
    HEDDLE_LINEAR_RULES(SELF "key_global", KeyValues, Hidden),
    HEDDLE_LINEAR_RULES(SELF "value_global", KeyValues, Hidden),
};
static constexpr UnreadTensor unread[] = {HEDDLE_ROBERTA_UNREAD("longformer.")};

static constexpr Head heads[] = {
    {"LongformerForMaskedLM", robertaMaskedRules, buildRobertaMasked, HeadTask::FillMask},
    {"LongformerForSequenceClassification", robertaSequenceRules, buildRobertaClassifier, HeadTask::Classify,
     GlobalDefault::First},
    {"LongformerForTokenClassification", classifierRules, buildTokenClassifier, HeadTask::ClassifyTokens},
    {"LongformerForQuestionAnswering", answerRules, buildAnswerSpan, HeadTask::Answer, GlobalDefault::Question},
};

// attention_window counts the keys on both sides of a query.
static void readRest(JsonObject &object, ModelConfig &config) {
  refuseOtherBerts(object, config);
  config.hasGlobalTokens = true;
  config.separatorId = object.integer("sep_token_id").value_or(2);
  std::vector<int64_t> windows = object.integers("attention_window");
  if (windows.empty())
    windows = {512};
  if (windows.size() == 1 && !object.find("attention_window").is(JsonKind::Array))
    windows.assign(config.layerWindow.size(), windows.front());
  if (windows.size() != config.layerWindow.size())
    return object.fail("attention_window", "has " + std::to_string(windows.size()) +
                                               " entries, expected num_hidden_layers (" +
                                               std::to_string(config.numHiddenLayers) + ")");
  for (size_t layer = 0; layer < windows.size(); ++layer) {
    constexpr int64_t most = 1 << 24;
    if (windows[layer] < 2 || windows[layer] > most || windows[layer] % 2)
      return object.fail("attention_window", "is " + std::to_string(windows[layer]) + " for layer " +
                                                 std::to_string(layer) + ", expected an even number from 2 to " +
                                                 std::to_string(most));
    config.layerWindow[layer] = windows[layer] / 2 + 1;
  }
}

static constexpr Family describe() {
  Family row = describeBertKin("longformer");
  row.pooler = "longformer.pooler.dense.weight";
  row.heads = heads;
  row.embedding = "longformer.embeddings.word_embeddings.weight";
  row.head = "lm_head.decoder.weight";
  row.rules = {tensorRules};
  row.unread = unread;
  row.readers.huggingFaceSizes = readRobertaSizes;
  row.readers.huggingFaceRest = readRest;
  row.build = buildBert;
  return row;
}
const Family family::longformer = describe();

} // namespace heddle
