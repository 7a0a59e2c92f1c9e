// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// RoBERTa (Liu et al. 2019, arXiv:1907.11692): BERT's encoder, whose tokens are numbered behind the padding id, with heads of its own.
// XLM-RoBERTa (Conneau et al. 2019, arXiv:1911.02116), CamemBERT (Martin et al. 2019, arXiv:1911.03894) and data2vec for texts (Baevski et al. 2022,
// arXiv:2202.03555) differ in what they were trained on. XLM-RoBERTa-XL (Goyal et al. 2021, arXiv:2105.00572) and RoBERTa-PreLayerNorm (Ott et al.
// 2019, arXiv:1904.01038) norm what attention and the feed-forward block read, and behind the last layer.

#include "frontends/families/Roberta.h"
#include "frontends/families/Families.h"
#include "frontends/huggingface/Config.h"

namespace heddle {

static constexpr TensorRule tensorRules[] = {HEDDLE_BERT_RULES("roberta.")};
static constexpr TensorRule data2vecRules[] = {HEDDLE_BERT_RULES("data2vec_text.")};
static constexpr TensorRule xlRules[] = {
    HEDDLE_BERT_TABLE_RULES("roberta."),
    HEDDLE_BERT_BLOCK_RULES("roberta.encoder.layer.#."),
    HEDDLE_NORM_RULES("roberta.encoder.layer.#.attention.self_attn_layer_norm", Hidden),
    HEDDLE_NORM_RULES("roberta.encoder.layer.#.LayerNorm", Hidden),
    HEDDLE_NORM_RULES("roberta.encoder.LayerNorm", Hidden),
    HEDDLE_BERT_POOLER_RULES("roberta."),
};
#define PRE_NORM "roberta_prelayernorm."
static constexpr TensorRule preNormRules[] = {
    HEDDLE_BERT_EMBEDDING_RULES(PRE_NORM),
    HEDDLE_BERT_BLOCK_RULES(PRE_NORM "encoder.layer.#."),
    HEDDLE_NORM_RULES(PRE_NORM "encoder.layer.#.attention.LayerNorm", Hidden),
    HEDDLE_NORM_RULES(PRE_NORM "encoder.layer.#.intermediate.LayerNorm", Hidden),
    HEDDLE_NORM_RULES(PRE_NORM "LayerNorm", Hidden),
    HEDDLE_BERT_POOLER_RULES(PRE_NORM),
};
static constexpr UnreadTensor unread[] = {HEDDLE_ROBERTA_UNREAD("roberta.")};
static constexpr UnreadTensor data2vecUnread[] = {HEDDLE_ROBERTA_UNREAD("data2vec_text.")};
static constexpr UnreadTensor preNormUnread[] = {HEDDLE_ROBERTA_UNREAD(PRE_NORM)};

void placePositionsBehind(JsonObject &object, ModelConfig &config, int64_t padding) {
  if (padding < 0 || padding + 1 >= config.contextLength)
    return object.fail("pad_token_id", "is " + std::to_string(padding) +
                                           ", expected at least 0 and less than max_position_embeddings less 1 (" +
                                           std::to_string(config.contextLength - 1) + ")");
  config.positionPadding = padding;
  config.positionOffset = padding + 1;
  config.contextLength -= padding + 1;
}

void readRobertaSizes(JsonObject &object, ModelConfig &config) {
  readBertSizes(object, config);
  placePositionsBehind(object, config, object.integer("pad_token_id").value_or(1));
}

void buildRobertaMasked(ModelBuilder &b, TensorHandle x, TensorHandle) {
  x = b.layerNorm(b.activation(b.linear(x, "lm_head.dense"), Activation::Gelu), "lm_head.layer_norm");
  b.output("logits", vocabularyLogits(b, x, "lm_head.decoder", "lm_head.bias"));
}

void buildRobertaClassifier(ModelBuilder &b, TensorHandle x, TensorHandle) {
  TensorHandle first = b.activation(b.linear(b.firstTokens(x), "classifier.dense"), Activation::Tanh);
  b.output("logits", b.linear(first, "classifier.out_proj"));
}

static constexpr Head robertaHeads[] = {HEDDLE_ROBERTA_HEADS("Roberta")};
static constexpr Head xlmRobertaHeads[] = {HEDDLE_ROBERTA_HEADS("XLMRoberta")};
static constexpr Head camembertHeads[] = {HEDDLE_ROBERTA_HEADS("Camembert")};
static constexpr Head data2vecHeads[] = {HEDDLE_ROBERTA_HEADS("Data2VecText")};
static constexpr Head xlHeads[] = {HEDDLE_ROBERTA_HEADS("XLMRobertaXL")};
static constexpr Head preNormHeads[] = {HEDDLE_ROBERTA_HEADS("RobertaPreLayerNorm")};

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

static constexpr Family describeData2VecText() {
  Family row = describe("data2vec-text", data2vecHeads);
  row.pooler = "data2vec_text.pooler.dense.weight";
  row.embedding = "data2vec_text.embeddings.word_embeddings.weight";
  row.rules = {data2vecRules};
  row.unread = data2vecUnread;
  return row;
}
const Family family::data2VecText = describeData2VecText();

static void buildXl(ModelBuilder &b) {
  buildPreNormBert(b, "attention.self_attn_layer_norm", "LayerNorm", "encoder.LayerNorm");
}

static void readXlSizes(JsonObject &object, ModelConfig &config) {
  readRobertaSizes(object, config);
  config.tokenTypes = object.integer("type_vocab_size").value_or(1);
}

static constexpr Family describeXl() {
  Family row = describe("xlm-roberta-xl", xlHeads);
  row.readers.huggingFaceSizes = readXlSizes;
  row.rules = {xlRules};
  row.defaults.context = 514;
  row.defaults.normEps = 1e-5;
  row.build = buildXl;
  return row;
}
const Family family::xlmRobertaXl = describeXl();

static void buildPreNorm(ModelBuilder &b) {
  buildPreNormBert(b, "attention.LayerNorm", "intermediate.LayerNorm", "LayerNorm");
}

static constexpr Family describePreNorm() {
  Family row = describe("roberta-prelayernorm", preNormHeads);
  row.pooler = PRE_NORM "pooler.dense.weight";
  row.embedding = PRE_NORM "embeddings.word_embeddings.weight";
  row.rules = {preNormRules};
  row.unread = preNormUnread;
  row.build = buildPreNorm;
  return row;
}
const Family family::robertaPreLayerNorm = describePreNorm();

} // namespace heddle
