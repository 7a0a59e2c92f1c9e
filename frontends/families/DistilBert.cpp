// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// DistilBERT (Sanh et al. 2019, arXiv:1910.01108): BERT's layers under other names, without token types and pooler.

#include "frontends/families/Bert.h"
#include "frontends/families/Families.h"
#include "frontends/huggingface/Config.h"

namespace heddle {

static constexpr TensorRule tensorRules[] = {
    {"distilbert.embeddings.word_embeddings.weight", nullptr, ConfigDim::Vocab, ConfigDim::Hidden},
    {"distilbert.embeddings.position_embeddings.weight", nullptr, ConfigDim::Positions, ConfigDim::Hidden},
    HEDDLE_NORM_RULES("distilbert.embeddings.LayerNorm", Hidden),
    HEDDLE_LINEAR_RULES("distilbert.transformer.layer.#.attention.q_lin", Queries, Hidden),
    HEDDLE_LINEAR_RULES("distilbert.transformer.layer.#.attention.k_lin", KeyValues, Hidden),
    HEDDLE_LINEAR_RULES("distilbert.transformer.layer.#.attention.v_lin", KeyValues, Hidden),
    HEDDLE_LINEAR_RULES("distilbert.transformer.layer.#.attention.out_lin", Hidden, Queries),
    HEDDLE_NORM_RULES("distilbert.transformer.layer.#.sa_layer_norm", Hidden),
    HEDDLE_LINEAR_RULES("distilbert.transformer.layer.#.ffn.lin1", Intermediate, Hidden),
    HEDDLE_LINEAR_RULES("distilbert.transformer.layer.#.ffn.lin2", Hidden, Intermediate),
    HEDDLE_NORM_RULES("distilbert.transformer.layer.#.output_layer_norm", Hidden),
};
static constexpr TensorRule maskedRules[] = {
    HEDDLE_LINEAR_RULES("vocab_transform", Hidden, Hidden),
    HEDDLE_NORM_RULES("vocab_layer_norm", Hidden),
    {"vocab_projector.weight", nullptr, ConfigDim::Vocab, ConfigDim::Hidden, When::Untied},
    {"vocab_projector.bias", nullptr, ConfigDim::Vocab},
};
static constexpr TensorRule sequenceRules[] = {HEDDLE_LINEAR_RULES("pre_classifier", Hidden, Hidden),
                                               HEDDLE_LINEAR_RULES("classifier", Labels, Hidden)};

// Of heads that are not compiled, and what older releases saved.
static constexpr UnreadTensor unread[] = {
    {"distilbert.embeddings.position_ids"}, {"vocab_*", /*isLoss=*/true},      {"pre_classifier.*", /*isLoss=*/true},
    {"classifier.*", /*isLoss=*/true},      {"qa_outputs.*", /*isLoss=*/true},
};

static constexpr KeyAlias aliases[] = {
    {"hidden_size", "dim"}, {"num_attention_heads", "n_heads"}, {"num_hidden_layers", "n_layers"}};

static constexpr KeyName keyNames[] = {
    {"hidden_size", "dim"},
    {"num_hidden_layers", "n_layers"},
    {"num_attention_heads", "n_heads"},
    {"num_key_value_heads", "n_heads"},
    {"head_dim", "dim"},
    {"intermediate_size", "hidden_dim"},
};

static void readSizes(JsonObject &object, ModelConfig &config) {
  config.numKvHeads = config.numHeads;
  config.headDim = config.numHeads > 0 ? config.hiddenSize / config.numHeads : 0;
  config.intermediateSize = readSize(object, config, "intermediate_size");
  config.normEps = config.family->defaults.normEps;
  object.pass("sinusoidal_pos_embds"); // how the table, which is stored, was made
  checkEvenHeads(object, config);
}

static TensorHandle buildLayer(ModelBuilder &b, TensorHandle x) {
  auto heads = [&](const char *name) { return b.splitHeads(b.linear(x, name), b.config().numHeads); };
  TensorHandle attended = b.attention(heads("attention.q_lin"), heads("attention.k_lin"), heads("attention.v_lin"));
  x = b.layerNorm(b.add(b.linear(b.mergeHeads(attended), "attention.out_lin"), x), "sa_layer_norm");
  TensorHandle wide = b.activation(b.linear(x, "ffn.lin1"));
  return b.layerNorm(b.add(b.linear(wide, "ffn.lin2"), x), "output_layer_norm");
}

static void buildDistilBert(ModelBuilder &b) {
  TensorHandle x = b.add(b.embedTokens("distilbert.embeddings.word_embeddings.weight"),
                         b.embedPositions("distilbert.embeddings.position_embeddings.weight"));
  x = b.layerNorm(x, "distilbert.embeddings.LayerNorm");
  for (int64_t i = 0; i < b.config().numHiddenLayers; ++i)
    x = b.layer(i, "distilbert.transformer.layer." + std::to_string(i) + ".", x,
                [&](TensorHandle x) { return buildLayer(b, x); });
  finishEncoder(b, x, TensorHandle());
}

static void buildMasked(ModelBuilder &b, TensorHandle x, TensorHandle) {
  x = b.layerNorm(b.activation(b.linear(x, "vocab_transform")), "vocab_layer_norm");
  b.output("logits", vocabularyLogits(b, x, "vocab_projector", "vocab_projector.bias"));
}

static void buildSequenceClassifier(ModelBuilder &b, TensorHandle x, TensorHandle) {
  TensorHandle first = b.activation(b.linear(b.firstTokens(x), "pre_classifier"), Activation::Relu);
  b.output("logits", b.linear(first, "classifier"));
}

static constexpr Head heads[] = {
    {"DistilBertForMaskedLM", maskedRules, buildMasked, HeadTask::FillMask},
    {"DistilBertForSequenceClassification", sequenceRules, buildSequenceClassifier, HeadTask::Classify},
    {"DistilBertForTokenClassification", classifierRules, buildTokenClassifier, HeadTask::ClassifyTokens},
    {"DistilBertForQuestionAnswering", answerRules, buildAnswerSpan, HeadTask::Answer},
};

static constexpr Family describeDistilBert() {
  Family row = describeBertKin("distilbert");
  row.heads = heads;
  row.embedding = "distilbert.embeddings.word_embeddings.weight";
  row.head = "vocab_projector.weight";
  row.rules = {tensorRules};
  row.unread = unread;
  row.keyNames = keyNames;
  row.aliases = aliases;
  row.activationKey = "activation";
  row.defaults.vocabSize = 30522;
  row.readers.huggingFaceSizes = readSizes;
  row.build = buildDistilBert;
  return row;
}
const Family family::distilBert = describeDistilBert();

} // namespace heddle
