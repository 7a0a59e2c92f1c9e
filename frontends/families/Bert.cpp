// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// BERT (Devlin et al. 2018, arXiv:1810.04805): an encoder with learned positions and token types, LayerNorm behind every residual, GELU; and
// the heads of transformers' BertFor… classes. ERNIE (Sun et al. 2019, arXiv:1907.12412) adds what the task of a text is to what its tokens are.
// Megatron-BERT (Shoeybi et al. 2019, arXiv:1909.08053) norms what attention and the feed-forward block read, and behind the last layer. BERT for generation
// (Rothe et al. 2019, arXiv:1907.12461) is compiled as an encoder, without types of tokens. BigBird (Zaheer et al. 2020, arXiv:2007.14062) is BERT for texts so short
// that its blocks are not sparse.

#include "frontends/families/Bert.h"
#include "frontends/families/EncoderDecoder.h"
#include "frontends/families/Families.h"
#include "frontends/gguf/GgufModel.h"
#include "frontends/huggingface/Config.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

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

TensorHandle bertAttention(ModelBuilder &b, TensorHandle x, AttentionTerms terms) {
  auto heads = [&](const char *name) {
    return b.splitHeads(b.linear(x, std::string("attention.self.") + name), b.config().numHeads);
  };
  TensorHandle query = heads("query"), key = heads("key"), value = heads("value");
  if (b.config().hasGlobalTokens)
    terms.global = {heads("query_global"), heads("key_global"), heads("value_global")};
  TensorHandle attended = b.attention(query, key, value, terms);
  return b.linear(b.mergeHeads(attended), "attention.output.dense");
}

TensorHandle bertLayer(ModelBuilder &b, TensorHandle x, const AttentionTerms &terms) {
  return bertLayer(b, x, bertAttention(b, x, terms));
}

TensorHandle bertLayer(ModelBuilder &b, TensorHandle x, TensorHandle attended) {
  return bertFeedForward(b, b.layerNorm(b.add(attended, x), "attention.output.LayerNorm"));
}

TensorHandle bertFeedForward(ModelBuilder &b, TensorHandle x) {
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

// Of tokens and of the task, in one table.
static constexpr const char *typesOfTask = "ernie.embeddings.types_of_task.weight";

std::string prefixOf(const ModelConfig &config) {
  std::string embedding = config.family->embedding;
  return embedding.substr(0, embedding.find('.') + 1);
}

TensorHandle bertEmbeddings(ModelBuilder &b, const std::string &prefix) {
  TensorHandle x = b.embedTokens(prefix + "embeddings.word_embeddings.weight");
  if (b.config().tokenTypes)
    x = b.add(
        x, b.embedTokenTypes(b.config().taskTypes ? typesOfTask : prefix + "embeddings.token_type_embeddings.weight"));
  x = b.add(x, b.embedPositions(prefix + "embeddings.position_embeddings.weight"));
  std::string norm = prefix + "embeddings.LayerNorm";
  return b.has(norm + ".weight") ? b.layerNorm(x, norm) : x;
}

void finishBert(ModelBuilder &b, TensorHandle lastHiddenState) {
  TensorHandle pooled;
  if (b.config().hasPooler)
    pooled =
        b.activation(b.linear(b.firstTokens(lastHiddenState), prefixOf(b.config()) + "pooler.dense"), Activation::Tanh);
  finishEncoder(b, lastHiddenState, pooled);
}

void buildBert(ModelBuilder &b) {
  std::string prefix = prefixOf(b.config());
  TensorHandle x = bertEmbeddings(b, prefix);
  if (b.config().embeddingSize)
    x = b.linear(x, prefix + "embeddings_project");
  for (int64_t i = 0; i < b.config().numHiddenLayers; ++i)
    x = b.layer(i, prefix + "encoder.layer." + std::to_string(i) + ".", x,
                [&](TensorHandle x) { return bertLayer(b, x); });
  finishBert(b, x);
}

void buildPreNormBert(ModelBuilder &b, const char *attentionNorm, const char *feedForwardNorm, const char *lastNorm) {
  std::string prefix = prefixOf(b.config());
  TensorHandle x = bertEmbeddings(b, prefix);
  for (int64_t i = 0; i < b.config().numHiddenLayers; ++i)
    x = b.layer(i, prefix + "encoder.layer." + std::to_string(i) + ".", x, [&](TensorHandle x) {
      x = b.add(bertAttention(b, b.layerNorm(x, attentionNorm)), x);
      TensorHandle wide = b.activation(b.linear(b.layerNorm(x, feedForwardNorm), "intermediate.dense"));
      return b.add(b.linear(wide, "output.dense"), x);
    });
  finishBert(b, b.layerNorm(x, prefix + lastNorm));
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

// Of heads that read what the pooler gives, which a checkpoint then must have.
#define NEXT_SENTENCE_RULES(prefix)                                                                                    \
  HEDDLE_LINEAR_RULES(prefix "pooler.dense", Hidden, Hidden), HEDDLE_LINEAR_RULES("cls.seq_relationship", Two, Hidden)
static constexpr TensorRule preTrainingRules[] = {HEDDLE_BERT_PREDICTION_RULES, NEXT_SENTENCE_RULES("bert.")};
static constexpr TensorRule nextSentenceRules[] = {NEXT_SENTENCE_RULES("bert.")};
static constexpr TensorRule sequenceRules[] = {HEDDLE_BERT_SEQUENCE_RULES("bert.")};
static constexpr TensorRule erniePreTrainingRules[] = {HEDDLE_BERT_PREDICTION_RULES, NEXT_SENTENCE_RULES("ernie.")};
static constexpr TensorRule ernieNextSentenceRules[] = {NEXT_SENTENCE_RULES("ernie.")};
static constexpr TensorRule ernieSequenceRules[] = {HEDDLE_BERT_SEQUENCE_RULES("ernie.")};

static constexpr TensorRule tensorRules[] = {HEDDLE_BERT_RULES("bert.")};
static constexpr TensorRule ernieRules[] = {
    HEDDLE_BERT_RULES("ernie."),
    {"ernie.embeddings.task_type_embeddings.weight", nullptr, ConfigDim::TaskTypes, ConfigDim::Hidden, When::TaskTypes,
     StoredOrder::Flattened},
};
static constexpr TensorRule megatronRules[] = {
    HEDDLE_BERT_TABLE_RULES("bert."),
    HEDDLE_BERT_BLOCK_RULES("bert.encoder.layer.#."),
    HEDDLE_NORM_RULES("bert.encoder.layer.#.attention.ln", Hidden),
    HEDDLE_NORM_RULES("bert.encoder.layer.#.ln", Hidden),
    HEDDLE_NORM_RULES("bert.encoder.ln", Hidden),
    HEDDLE_BERT_POOLER_RULES("bert."),
};

// Of heads that are not compiled, and what older releases saved. The decoder's bias is the other one again where embeddings are tied.
#define UNREAD(prefix) {prefix "embeddings.position_ids"}, HEDDLE_BERT_UNREAD_HEADS
static constexpr UnreadTensor unread[] = {UNREAD("bert.")};
static constexpr UnreadTensor ernieUnread[] = {UNREAD("ernie."), {"ernie.embeddings.task_type_embeddings.weight"}};

static TensorHandle predictionLogits(ModelBuilder &b, TensorHandle x) {
  x = b.activation(b.linear(x, "cls.predictions.transform.dense"));
  return vocabularyLogits(b, b.layerNorm(x, "cls.predictions.transform.LayerNorm"), "cls.predictions.decoder",
                          "cls.predictions.bias");
}

static void buildPreTraining(ModelBuilder &b, TensorHandle x, TensorHandle pooled) {
  b.output("prediction_logits", predictionLogits(b, x));
  b.output("seq_relationship_logits", b.linear(pooled, "cls.seq_relationship"));
}

void buildBertMasked(ModelBuilder &b, TensorHandle x, TensorHandle) {
  b.output("logits", predictionLogits(b, x));
}

static void buildNextSentence(ModelBuilder &b, TensorHandle, TensorHandle pooled) {
  b.output("logits", b.linear(pooled, "cls.seq_relationship"));
}

void buildBertClassifier(ModelBuilder &b, TensorHandle, TensorHandle pooled) {
  b.output("logits", b.linear(pooled, "classifier"));
}

// Without is_decoder, the class of causal models gives what that of masked ones does.
#define HEADS(name, causal, preTraining, nextSentence, sequence)                                                       \
  {name "ForPreTraining", preTraining, buildPreTraining},                                                              \
      {name "ForMaskedLM", bertMaskedRules, buildBertMasked, HeadTask::FillMask},                                      \
      {causal, bertMaskedRules, buildBertMasked, HeadTask::FillMask},                                                  \
      {name "ForNextSentencePrediction", nextSentence, buildNextSentence},                                             \
      {name "ForSequenceClassification", sequence, buildBertClassifier, HeadTask::Classify},                           \
      {name "ForTokenClassification", classifierRules, buildTokenClassifier, HeadTask::ClassifyTokens}, {              \
    name "ForQuestionAnswering", answerRules, buildAnswerSpan, HeadTask::Answer                                        \
  }
static constexpr Head heads[] = {HEADS("Bert", "BertLMHeadModel", preTrainingRules, nextSentenceRules, sequenceRules)};
static constexpr Head ernieHeads[] = {
    HEADS("Ernie", "ErnieForCausalLM", erniePreTrainingRules, ernieNextSentenceRules, ernieSequenceRules)};
static constexpr Head megatronHeads[] = {
    HEADS("MegatronBert", "MegatronBertForCausalLM", preTrainingRules, nextSentenceRules, sequenceRules)};

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

static void readErnieRest(JsonObject &object, ModelConfig &config) {
  refuseOtherBerts(object, config);
  if (!object.boolean("use_task_id").value_or(false))
    return;
  config.taskTypes = object.integer("task_type_vocab_size").value_or(3);
  constexpr int64_t most = 1 << 16;
  if (config.taskTypes < 1 || config.taskTypes > most)
    object.fail("task_type_vocab_size",
                "is " + std::to_string(config.taskTypes) + ", expected 1 to " + std::to_string(most));
}

// Embeddings of types with that of the first task, which is what a text has whose task nobody says.
static Status addTypesOfTask(Model &model) {
  const ModelConfig &config = model.config;
  if (!config.taskTypes)
    return Status();
  size_t width = size_t(config.hiddenSize);
  std::vector<float> type(width), task(width);
  auto read = [&](const char *name, int64_t row, std::vector<float> &out) {
    const TensorInfo &tensor = *model.checkpoint.find(name);
    uint64_t bytes = uint64_t(width) * tensorTypeInfo(tensor.type).blockBytes;
    dequantize(tensor.type, model.checkpoint.data(tensor) + uint64_t(row) * bytes, width, out.data());
  };
  return addTensor(model, typesOfTask, TensorInfo{TensorType::F32, {config.tokenTypes, config.hiddenSize}},
                   "types of tokens and of their task", [&](std::vector<char> &out, int64_t row) {
                     read("ernie.embeddings.token_type_embeddings.weight", row, type);
                     read("ernie.embeddings.task_type_embeddings.weight", 0, task);
                     std::transform(type.begin(), type.end(), task.begin(), type.begin(), std::plus<float>());
                     memcpy(out.data(), type.data(), out.size());
                   });
}

static constexpr Family describeErnie() {
  Family row = describeBertKin("ernie");
  row.pooler = "ernie.pooler.dense.weight";
  row.heads = ernieHeads;
  row.embedding = "ernie.embeddings.word_embeddings.weight";
  row.head = "cls.predictions.decoder.weight";
  row.rules = {ernieRules};
  row.unread = ernieUnread;
  row.defaults.vocabSize = 30522;
  row.readers.huggingFaceSizes = readBertSizes;
  row.readers.huggingFaceRest = readErnieRest;
  row.addTensors = addTypesOfTask;
  row.build = buildBert;
  return row;
}
const Family family::ernie = describeErnie();

static void buildMegatronBert(ModelBuilder &b) {
  buildPreNormBert(b, "attention.ln", "ln", "encoder.ln");
}

static constexpr Family describeMegatronBert() {
  Family row = describeBert();
  row.modelType = "megatron-bert";
  row.gguf = nullptr;
  row.readers.ggufRest = nullptr;
  row.heads = megatronHeads;
  row.rules = {megatronRules};
  row.defaults.vocabSize = 29056;
  row.build = buildMegatronBert;
  return row;
}
const Family family::megatronBert = describeMegatronBert();

static constexpr TensorRule generationRules[] = {
    {"bert.embeddings.word_embeddings.weight", nullptr, ConfigDim::Vocab, ConfigDim::Hidden},
    {"bert.embeddings.position_embeddings.weight", nullptr, ConfigDim::Positions, ConfigDim::Hidden},
    HEDDLE_NORM_RULES("bert.embeddings.LayerNorm", Hidden),
    HEDDLE_BERT_LAYER_RULES("bert.encoder.layer.#."),
};
static constexpr UnreadTensor generationUnread[] = {{"bert.embeddings.position_ids"}, {"lm_head.*", /*isLoss=*/true}};

static void readGenerationSizes(JsonObject &object, ModelConfig &config) {
  readBertSizes(object, config);
  config.tokenTypes = 0;
}

static constexpr Family describeGeneration() {
  Family row = describeBert();
  row.modelType = "bert-generation";
  row.gguf = nullptr;
  row.readers.ggufRest = nullptr;
  row.pooler = nullptr;
  row.heads = {};
  row.rules = {generationRules};
  row.unread = generationUnread;
  row.defaults.vocabSize = 50358;
  row.readers.huggingFaceSizes = readGenerationSizes;
  return row;
}
const Family family::bertGeneration = describeGeneration();

#define BIASED(name)                                                                                                   \
  {"bert.encoder.layer.#.attention.self." name ".weight", nullptr, ConfigDim::Queries, ConfigDim::Hidden}, {           \
    "bert.encoder.layer.#.attention.self." name ".bias", nullptr, ConfigDim::Queries, ConfigDim::None,                 \
        When::AttentionBias                                                                                            \
  }
static constexpr TensorRule bigBirdRules[] = {
    HEDDLE_BERT_EMBEDDING_RULES("bert."),
    BIASED("query"),
    BIASED("key"),
    BIASED("value"),
    HEDDLE_LINEAR_RULES("bert.encoder.layer.#.attention.output.dense", Hidden, Queries),
    HEDDLE_NORM_RULES("bert.encoder.layer.#.attention.output.LayerNorm", Hidden),
    HEDDLE_LINEAR_RULES("bert.encoder.layer.#.intermediate.dense", Intermediate, Hidden),
    HEDDLE_LINEAR_RULES("bert.encoder.layer.#.output.dense", Hidden, Intermediate),
    HEDDLE_NORM_RULES("bert.encoder.layer.#.output.LayerNorm", Hidden),
    {"bert.pooler.weight", nullptr, ConfigDim::Hidden, ConfigDim::Hidden, When::Pooler},
    {"bert.pooler.bias", nullptr, ConfigDim::Hidden, ConfigDim::None, When::Pooler},
};
static constexpr TensorRule bigBirdSequenceRules[] = {HEDDLE_LINEAR_RULES("classifier.dense", Hidden, Hidden),
                                                      HEDDLE_LINEAR_RULES("classifier.out_proj", Labels, Hidden)};
static constexpr UnreadTensor bigBirdUnread[] = {
    {"bert.embeddings.position_ids"}, {"cls.predictions.decoder.bias"},  {"cls.predictions.bias"},
    {"cls.*", /*isLoss=*/true},       {"classifier.*", /*isLoss=*/true}, {"qa_classifier.*", /*isLoss=*/true}};

// A text of more tokens than those that a query sees of sparse blocks is not attended to as a whole.
static void readBlocks(JsonObject &object, ModelConfig &config) {
  refuseOtherBerts(object, config);
  if (object.boolean("rescale_embeddings").value_or(false))
    config.embeddingScale = std::sqrt(double(config.hiddenSize));
  std::string kind = object.string("attention_type").value_or("block_sparse");
  if (kind != "block_sparse" && kind != "original_full")
    object.fail("attention_type", "is '" + printable(kind, 64) + "', expected block_sparse or original_full");
  int64_t random = object.bounded("num_random_blocks", object.integer("num_random_blocks").value_or(3), 0, 1 << 16);
  int64_t block = object.bounded("block_size", object.integer("block_size").value_or(64), 1, 1 << 16);
  if (kind == "block_sparse")
    config.attendedLength = (5 + 2 * random) * block;
}

static Status shortenTexts(Model &model) {
  ModelConfig &config = model.config;
  if (!config.attendedLength || config.attendedLength >= config.contextLength)
    return Status();
  config.contextLength = config.attendedLength;
  return pickRows(model, "bert.embeddings.position_embeddings.weight", config.contextLength,
                  [](int64_t row) { return row; });
}

static void buildBigBird(ModelBuilder &b) {
  TensorHandle x = bertEmbeddings(b, "bert.");
  for (int64_t i = 0; i < b.config().numHiddenLayers; ++i)
    x = b.layer(i, "bert.encoder.layer." + std::to_string(i) + ".", x, [&](TensorHandle x) { return bertLayer(b, x); });
  TensorHandle pooled;
  if (b.config().hasPooler)
    pooled = b.activation(b.linear(b.firstTokens(x), "bert.pooler"), Activation::Tanh);
  finishEncoder(b, x, pooled);
}

static void buildBigBirdClassifier(ModelBuilder &b, TensorHandle x, TensorHandle) {
  b.output("logits", b.linear(b.activation(b.linear(b.firstTokens(x), "classifier.dense")), "classifier.out_proj"));
}

static constexpr Head bigBirdHeads[] = {
    {"BigBirdForMaskedLM", bertMaskedRules, buildBertMasked, HeadTask::FillMask},
    {"BigBirdForSequenceClassification", bigBirdSequenceRules, buildBigBirdClassifier, HeadTask::Classify},
    {"BigBirdForTokenClassification", classifierRules, buildTokenClassifier, HeadTask::ClassifyTokens},
};

static constexpr Family describeBigBird() {
  Family row = describeBert();
  row.modelType = "big_bird";
  row.gguf = nullptr;
  row.readers.ggufRest = nullptr;
  row.pooler = "bert.pooler.weight";
  row.heads = bigBirdHeads;
  row.rules = {bigBirdRules};
  row.unread = bigBirdUnread;
  row.defaults.vocabSize = 50358;
  row.defaults.numHeads = 12;
  row.defaults.context = 4096;
  row.defaults.activation = Activation::GeluTanh;
  row.biases.attentionKey = "use_bias";
  row.biases.attentionDefault = true;
  row.readers.huggingFaceRest = readBlocks;
  row.addTensors = shortenTexts;
  row.build = buildBigBird;
  return row;
}
const Family family::bigBird = describeBigBird();

} // namespace heddle
