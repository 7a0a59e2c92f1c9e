// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// LayoutLM (Xu et al. 2019, arXiv:1912.13318): BERT over the words of a page, whose embeddings also say where on it each stands. Boxes come from who reads
// the page, so that the program is a graph: texts side by side with a mask, and a box for each token.

#include "frontends/families/Bert.h"
#include "frontends/families/Families.h"
#include "frontends/huggingface/Config.h"

namespace heddle {

#define EMBEDDINGS "layoutlm.embeddings."
#define PLACES(name) {EMBEDDINGS name "_position_embeddings.weight", nullptr, ConfigDim::PagePlaces, ConfigDim::Hidden}
static constexpr TensorRule tensorRules[] = {HEDDLE_BERT_RULES("layoutlm."), PLACES("x"), PLACES("y"), PLACES("h"),
                                             PLACES("w")};
static constexpr TensorRule sequenceRules[] = {HEDDLE_BERT_SEQUENCE_RULES("layoutlm.")};
// Of heads that are not compiled, and what older releases saved.
static constexpr UnreadTensor unread[] = {{EMBEDDINGS "position_ids"}, HEDDLE_BERT_UNREAD_HEADS};

static void readSizes(JsonObject &object, ModelConfig &config) {
  readBertSizes(object, config);
  constexpr int64_t most = 1 << 20;
  config.page.places = object.bounded("max_2d_position_embeddings",
                                      object.integer("max_2d_position_embeddings").value_or(1024), 1, most);
}

static void build(ModelBuilder &b) {
  enum Edge : uint8_t { left, top, right, bottom };
  b.beginEntry("text", "texts");
  TensorHandle x = b.embedTokens(EMBEDDINGS "word_embeddings.weight");
  x = b.addTable(x, EMBEDDINGS "position_embeddings.weight");
  for (Edge edge : {left, top, right, bottom})
    x = b.add(x, b.embedBoxes(edge % 2 ? EMBEDDINGS "y_position_embeddings.weight"
                                       : EMBEDDINGS "x_position_embeddings.weight",
                              edge));
  x = b.add(x, b.embedBoxes(EMBEDDINGS "h_position_embeddings.weight", bottom, top));
  x = b.add(x, b.embedBoxes(EMBEDDINGS "w_position_embeddings.weight", right, left));
  x = b.add(x, b.embedTokenTypes(EMBEDDINGS "token_type_embeddings.weight"));
  x = b.layerNorm(x, EMBEDDINGS "LayerNorm");
  AttentionTerms terms;
  terms.bias = b.keyMask();
  for (int64_t i = 0; i < b.config().numHiddenLayers; ++i)
    x = b.layer(i, "layoutlm.encoder.layer." + std::to_string(i) + ".", x,
                [&](TensorHandle x) { return bertLayer(b, x, terms); });
  finishBert(b, x);
}

static constexpr Head heads[] = {
    {"LayoutLMForMaskedLM", bertMaskedRules, buildBertMasked},
    {"LayoutLMForSequenceClassification", sequenceRules, buildBertClassifier, HeadTask::Classify},
    {"LayoutLMForTokenClassification", classifierRules, buildTokenClassifier, HeadTask::ClassifyTokens},
    {"LayoutLMForQuestionAnswering", answerRules, buildAnswerSpan},
};

static constexpr Family describe() {
  Family row = describeBertKin("layoutlm");
  row.isEncoder = false;
  row.isGraph = true;
  row.pooler = "layoutlm.pooler.dense.weight";
  row.heads = heads;
  row.embedding = EMBEDDINGS "word_embeddings.weight";
  row.head = "cls.predictions.decoder.weight";
  row.rules = {tensorRules};
  row.unread = unread;
  row.defaults.vocabSize = 30522;
  row.readers.huggingFaceSizes = readSizes;
  row.build = build;
  return row;
}
const Family family::layoutLm = describe();

} // namespace heddle
