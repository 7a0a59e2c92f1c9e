// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// BERT (Devlin et al. 2018, arXiv:1810.04805): an encoder with learned positions and token types, LayerNorm behind every residual, GELU; and
// the heads of transformers' BertFor… classes.

#include "frontends/families/Bert.h"
#include "frontends/families/Families.h"
#include "frontends/gguf/GgufModel.h"
#include "frontends/huggingface/Config.h"

namespace heddle {

void readBertSizes(JsonObject &object, ModelConfig &config) {
  config.numKvHeads = config.numHeads;
  config.headDim = config.numHeads > 0 ? config.hiddenSize / config.numHeads : 0;
  config.intermediateSize = readSize(object, config, "intermediate_size");
  config.normEps = object.number(fieldName(config, "rms_norm_eps").c_str()).value_or(config.family->defaults.normEps);
  config.tokenTypes = object.integer("type_vocab_size").value_or(2);
  constexpr int64_t most = 1 << 16;
  if (config.tokenTypes < 1 || config.tokenTypes > most)
    object.fail("type_vocab_size",
                "is " + std::to_string(config.tokenTypes) + ", expected 1 to " + std::to_string(most));
  checkEvenHeads(object, config);
}

void readEmbeddingSize(JsonObject &object, ModelConfig &config, int64_t fallback) {
  int64_t size = object.integer("embedding_size").value_or(fallback);
  constexpr int64_t most = 1 << 20;
  if (size < 1 || size > most)
    object.fail("embedding_size", "is " + std::to_string(size) + ", expected 1 to " + std::to_string(most));
  config.embeddingSize = size == config.hiddenSize ? 0 : size;
}

void refuseOtherBerts(JsonObject &object, ModelConfig &config) {
  if (object.boolean("is_decoder").value_or(false))
    object.unsupported("is_decoder",
                       "is true, which is not supported: " + config.architecture + " is compiled as an encoder");
  std::string positions = object.string("position_embedding_type").value_or("absolute");
  if (positions != "absolute")
    object.fail("position_embedding_type", "is '" + printable(positions, 64) + "', expected absolute");
}

static TensorHandle attentionBlock(ModelBuilder &b, TensorHandle x) {
  auto heads = [&](const char *name) {
    return b.splitHeads(b.linear(x, std::string("attention.self.") + name), b.config().numHeads);
  };
  TensorHandle query = heads("query"), key = heads("key"), value = heads("value");
  AttentionTerms terms;
  if (b.config().hasGlobalTokens)
    terms.global = {heads("query_global"), heads("key_global"), heads("value_global")};
  TensorHandle attended = b.attention(query, key, value, terms);
  return b.linear(b.mergeHeads(attended), "attention.output.dense");
}

TensorHandle bertLayer(ModelBuilder &b, TensorHandle x) {
  return bertLayer(b, x, attentionBlock(b, x));
}

TensorHandle bertLayer(ModelBuilder &b, TensorHandle x, TensorHandle attended) {
  x = b.layerNorm(b.add(attended, x), "attention.output.LayerNorm");
  TensorHandle wide = b.activation(b.linear(x, "intermediate.dense"));
  return b.layerNorm(b.add(b.linear(wide, "output.dense"), x), "output.LayerNorm");
}

void finishEncoder(ModelBuilder &b, TensorHandle lastHiddenState, TensorHandle pooled) {
  b.output("last_hidden_state", lastHiddenState);
  if (pooled.value)
    b.output("pooler_output", pooled);
  if (b.config().head)
    b.config().head->build(b, lastHiddenState, pooled);
}

std::string prefixOf(const ModelConfig &config) {
  std::string embedding = config.family->embedding;
  return embedding.substr(0, embedding.find('.') + 1);
}

TensorHandle bertEmbeddings(ModelBuilder &b, const std::string &prefix) {
  TensorHandle x = b.embedTokens(prefix + "embeddings.word_embeddings.weight");
  if (b.config().tokenTypes)
    x = b.add(x, b.embedTokenTypes(prefix + "embeddings.token_type_embeddings.weight"));
  x = b.add(x, b.embedPositions(prefix + "embeddings.position_embeddings.weight"));
  return b.layerNorm(x, prefix + "embeddings.LayerNorm");
}

void buildBert(ModelBuilder &b) {
  std::string prefix = prefixOf(b.config());
  TensorHandle x = bertEmbeddings(b, prefix);
  if (b.config().embeddingSize)
    x = b.linear(x, prefix + "embeddings_project");
  for (int64_t i = 0; i < b.config().numHiddenLayers; ++i)
    x = b.layer(i, prefix + "encoder.layer." + std::to_string(i) + ".", x,
                [&](TensorHandle x) { return bertLayer(b, x); });
  TensorHandle pooled;
  if (b.config().hasPooler)
    pooled = b.activation(b.linear(b.firstTokens(x), prefix + "pooler.dense"), Activation::Tanh);
  finishEncoder(b, x, pooled);
}

void buildTokenClassifier(ModelBuilder &b, TensorHandle lastHiddenState, TensorHandle) {
  b.output("logits", b.linear(lastHiddenState, "classifier"));
}

void buildAnswerSpan(ModelBuilder &b, TensorHandle lastHiddenState, TensorHandle) {
  auto ends = [&](int64_t row) { return b.linear(lastHiddenState, "qa_outputs.weight", "qa_outputs.bias", row, 1); };
  b.output("start_logits", ends(0), /*squeezed=*/true);
  b.output("end_logits", ends(1), /*squeezed=*/true);
}

TensorHandle vocabularyLogits(ModelBuilder &b, TensorHandle x, const std::string &decoder, const std::string &bias) {
  if (b.config().tieWordEmbeddings)
    return b.linear(x, b.config().family->embedding, bias);
  return b.linear(x, decoder);
}

static constexpr TensorRule tensorRules[] = {HEDDLE_BERT_RULES("bert.")};

#define PREDICTION_RULES                                                                                               \
  HEDDLE_LINEAR_RULES("cls.predictions.transform.dense", Hidden, Hidden),                                              \
      HEDDLE_NORM_RULES("cls.predictions.transform.LayerNorm", Hidden),                                                \
      {"cls.predictions.bias", nullptr, ConfigDim::Vocab, ConfigDim::None, When::Tied},                                \
      {"cls.predictions.decoder.weight", nullptr, ConfigDim::Vocab, ConfigDim::Hidden, When::Untied}, {                \
    "cls.predictions.decoder.bias", nullptr, ConfigDim::Vocab, ConfigDim::None, When::Untied                           \
  }
#define POOLER_RULES HEDDLE_LINEAR_RULES("bert.pooler.dense", Hidden, Hidden)
static constexpr TensorRule preTrainingRules[] = {PREDICTION_RULES, POOLER_RULES,
                                                  HEDDLE_LINEAR_RULES("cls.seq_relationship", Two, Hidden)};
static constexpr TensorRule maskedRules[] = {PREDICTION_RULES};
static constexpr TensorRule nextSentenceRules[] = {POOLER_RULES,
                                                   HEDDLE_LINEAR_RULES("cls.seq_relationship", Two, Hidden)};
static constexpr TensorRule sequenceRules[] = {POOLER_RULES, HEDDLE_LINEAR_RULES("classifier", Labels, Hidden)};

// Of heads that are not compiled, and what older releases saved.
static constexpr UnreadTensor unread[] = {
    {"bert.embeddings.position_ids"}, // 0, 1, …
    {"cls.predictions.decoder.bias"}, // the other bias again where embeddings are tied
    {"cls.predictions.bias"},          {"cls.*", /*isLoss=*/true},
    {"classifier.*", /*isLoss=*/true}, {"qa_outputs.*", /*isLoss=*/true},
};

static TensorHandle predictionLogits(ModelBuilder &b, TensorHandle x) {
  x = b.activation(b.linear(x, "cls.predictions.transform.dense"));
  return vocabularyLogits(b, b.layerNorm(x, "cls.predictions.transform.LayerNorm"), "cls.predictions.decoder",
                          "cls.predictions.bias");
}

static void buildPreTraining(ModelBuilder &b, TensorHandle x, TensorHandle pooled) {
  b.output("prediction_logits", predictionLogits(b, x));
  b.output("seq_relationship_logits", b.linear(pooled, "cls.seq_relationship"));
}

static void buildMasked(ModelBuilder &b, TensorHandle x, TensorHandle) {
  b.output("logits", predictionLogits(b, x));
}

static void buildNextSentence(ModelBuilder &b, TensorHandle, TensorHandle pooled) {
  b.output("logits", b.linear(pooled, "cls.seq_relationship"));
}

static void buildSequenceClassifier(ModelBuilder &b, TensorHandle, TensorHandle pooled) {
  b.output("logits", b.linear(pooled, "classifier"));
}

static constexpr Head heads[] = {
    {"BertForPreTraining", preTrainingRules, buildPreTraining},
    {"BertForMaskedLM", maskedRules, buildMasked, HeadTask::FillMask},
    {"BertLMHeadModel", maskedRules, buildMasked, HeadTask::FillMask}, // without is_decoder, the same
    {"BertForNextSentencePrediction", nextSentenceRules, buildNextSentence},
    {"BertForSequenceClassification", sequenceRules, buildSequenceClassifier, HeadTask::Classify},
    {"BertForTokenClassification", classifierRules, buildTokenClassifier, HeadTask::ClassifyTokens},
    {"BertForQuestionAnswering", answerRules, buildAnswerSpan, HeadTask::Answer},
};

void readGgufTokenTypes(GgufKeys &keys, ModelConfig &config) {
  // A table of one row is stored as a vector by converters that leave out dimensions of 1.
  const TensorInfo *types = keys.source().tensors().find("token_types.weight");
  config.tokenTypes = !types ? 0 : types->shape.size() == 2 ? types->shape[0] : 1;
}

static constexpr Family describeBert() {
  Family row = describeBertKin("bert");
  row.gguf = "bert";
  row.readers.ggufRest = readGgufTokenTypes;
  row.pooler = "bert.pooler.dense.weight";
  row.heads = heads;
  row.embedding = "bert.embeddings.word_embeddings.weight";
  row.head = "cls.predictions.decoder.weight";
  row.rules = {tensorRules};
  row.unread = unread;
  row.readers.huggingFaceSizes = readBertSizes;
  row.readers.huggingFaceRest = refuseOtherBerts;
  row.build = buildBert;
  return row;
}
const Family family::bert = describeBert();

} // namespace heddle
