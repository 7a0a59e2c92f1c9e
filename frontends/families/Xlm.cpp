// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// XLM (Conneau and Lample 2019, arXiv:1901.07291): BERT's layers under names that have the layer's number behind them, without types of tokens. FlauBERT (Le et al.
// 2020, arXiv:1912.05372): the same.

#include "frontends/families/Bert.h"
#include "frontends/families/Decoder.h"
#include "frontends/families/Families.h"
#include "frontends/huggingface/Config.h"

namespace heddle {

static constexpr TensorRule tensorRules[] = {
    {"transformer.embeddings.weight", nullptr, ConfigDim::Vocab, ConfigDim::Hidden},
    {"transformer.position_embeddings.weight", nullptr, ConfigDim::Positions, ConfigDim::Hidden},
    HEDDLE_NORM_RULES("transformer.layer_norm_emb", Hidden),
    HEDDLE_LINEAR_RULES("transformer.attentions.#.q_lin", Queries, Hidden),
    HEDDLE_LINEAR_RULES("transformer.attentions.#.k_lin", KeyValues, Hidden),
    HEDDLE_LINEAR_RULES("transformer.attentions.#.v_lin", KeyValues, Hidden),
    HEDDLE_LINEAR_RULES("transformer.attentions.#.out_lin", Hidden, Queries),
    HEDDLE_NORM_RULES("transformer.layer_norm1.#", Hidden),
    HEDDLE_LINEAR_RULES("transformer.ffns.#.lin1", Intermediate, Hidden),
    HEDDLE_LINEAR_RULES("transformer.ffns.#.lin2", Hidden, Intermediate),
    HEDDLE_NORM_RULES("transformer.layer_norm2.#", Hidden),
};
static constexpr TensorRule maskedRules[] = {
    {"pred_layer.proj.weight", nullptr, ConfigDim::Vocab, ConfigDim::Hidden, When::Untied},
    {"pred_layer.proj.bias", nullptr, ConfigDim::Vocab},
};

// Of heads that are not compiled, of languages, which texts are told nothing of, and what older releases saved.
static constexpr UnreadTensor unread[] = {
    {"transformer.lang_embeddings.weight"},  {"transformer.position_ids"},
    {"pred_layer.*", /*isLoss=*/true},       {"classifier.*", /*isLoss=*/true},
    {"sequence_summary.*", /*isLoss=*/true}, {"qa_outputs.*", /*isLoss=*/true},
};

static constexpr KeyAlias aliases[] = {{"hidden_size", "emb_dim"},
                                       {"num_attention_heads", "n_heads"},
                                       {"num_hidden_layers", "n_layers"},
                                       {"n_words", "vocab_size"}};

static constexpr KeyName keyNames[] = {
    {"hidden_size", "emb_dim"},         {"num_hidden_layers", "n_layers"}, {"num_attention_heads", "n_heads"},
    {"num_key_value_heads", "n_heads"}, {"head_dim", "emb_dim"},           {"rms_norm_eps", "layer_norm_eps"},
};

static void readSizes(JsonObject &object, ModelConfig &config) {
  config.numKvHeads = config.numHeads;
  config.headDim = config.numHeads > 0 ? config.hiddenSize / config.numHeads : 0;
  config.intermediateSize = 4 * config.hiddenSize;
  config.normEps = object.number("layer_norm_eps").value_or(config.family->defaults.normEps);
  checkEvenHeads(object, config);
}

static void readRest(JsonObject &object, ModelConfig &config) {
  config.activation = object.boolean("gelu_activation").value_or(true) ? Activation::Gelu : Activation::Relu;
  for (const char *key : {"causal", "asm"})
    if (object.boolean(key).value_or(false))
      object.unsupported(key, "is true, which is not supported for " + config.architecture + "; expected false");
  if (!object.boolean("is_encoder").value_or(true))
    object.unsupported("is_encoder", "is false, which is not supported for " + config.architecture + "; expected true");
  for (const char *key : {"sinusoidal_embeddings", "use_lang_emb", "n_langs", "lang_id"})
    object.pass(key); // how the table, which is stored, was made; and languages
}

// Norms before the blocks, which the reference fails on.
static void readFlaubert(JsonObject &object, ModelConfig &config) {
  readRest(object, config);
  if (object.boolean("pre_norm").value_or(false))
    object.unsupported("pre_norm", "is true, which is not supported for " + config.architecture + "; expected false");
}

static TensorHandle buildLayer(ModelBuilder &b, const std::string &number, TensorHandle x) {
  auto attention = [&](TensorHandle x) {
    std::string block = "attentions." + number + ".";
    auto heads = [&](const char *name) { return b.splitHeads(b.linear(x, block + name), b.config().numHeads); };
    TensorHandle attended = b.attention(heads("q_lin"), heads("k_lin"), heads("v_lin"));
    return b.linear(b.mergeHeads(attended), block + "out_lin");
  };
  auto feedForward = [&](TensorHandle x) {
    return b.linear(b.activation(b.linear(x, "ffns." + number + ".lin1")), "ffns." + number + ".lin2");
  };
  std::string first = "layer_norm1." + number, second = "layer_norm2." + number;
  x = b.layerNorm(b.add(x, attention(x)), first);
  return b.layerNorm(b.add(x, feedForward(x)), second);
}

static void build(ModelBuilder &b) {
  TensorHandle x =
      b.add(b.embedTokens("transformer.embeddings.weight"), b.embedPositions("transformer.position_embeddings.weight"));
  x = b.layerNorm(x, "transformer.layer_norm_emb");
  for (int64_t i = 0; i < b.config().numHiddenLayers; ++i)
    x = b.layer(i, "transformer.", x, [&](TensorHandle x) { return buildLayer(b, std::to_string(i), x); });
  finishEncoder(b, x, TensorHandle());
}

static void buildMasked(ModelBuilder &b, TensorHandle x, TensorHandle) {
  b.output("logits", vocabularyLogits(b, x, "pred_layer.proj", "pred_layer.proj.bias"));
}

static constexpr Head xlmHeads[] = {
    {"XLMWithLMHeadModel", maskedRules, buildMasked, HeadTask::FillMask},
    {"XLMForTokenClassification", classifierRules, buildTokenClassifier, HeadTask::ClassifyTokens},
    {"XLMForQuestionAnsweringSimple", answerRules, buildAnswerSpan, HeadTask::Answer},
};
static constexpr Head flaubertHeads[] = {
    {"FlaubertWithLMHeadModel", maskedRules, buildMasked, HeadTask::FillMask},
    {"FlaubertForTokenClassification", classifierRules, buildTokenClassifier, HeadTask::ClassifyTokens},
    {"FlaubertForQuestionAnsweringSimple", answerRules, buildAnswerSpan, HeadTask::Answer},
};

static constexpr Family describeXlm() {
  Family row = describeBertKin("xlm");
  row.heads = xlmHeads;
  row.embedding = "transformer.embeddings.weight";
  row.head = "pred_layer.proj.weight";
  row.rules = {tensorRules};
  row.unread = unread;
  row.keyNames = keyNames;
  row.aliases = aliases;
  row.activationKey = nullptr;
  row.defaults.vocabSize = 30145;
  row.defaults.hiddenSize = 2048;
  row.defaults.numLayers = 12;
  row.defaults.numHeads = 16;
  row.readers.huggingFaceSizes = readSizes;
  row.readers.huggingFaceRest = readRest;
  row.build = build;
  return row;
}

const Family family::xlm = describeXlm();

static constexpr Family describeFlaubert() {
  Family row = describeXlm();
  row.modelType = "flaubert";
  row.heads = flaubertHeads;
  row.readers.huggingFaceRest = readFlaubert;
  return row;
}
const Family family::flaubert = describeFlaubert();

} // namespace heddle
