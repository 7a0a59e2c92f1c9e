// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What BERT and its next of kin have in common: the tensors of the encoder under the family's prefix, its graph, and the heads that differ in
// nothing but their names.
#ifndef HEDDLE_FRONTENDS_FAMILIES_BERT_H
#define HEDDLE_FRONTENDS_FAMILIES_BERT_H

#include "frontends/Family.h"
#include "frontends/families/ModelBuilder.h"

namespace heddle {

class GgufKeys;
class JsonObject;

// A linear layer and a LayerNorm, weight and bias each, and the same of those that GGUF has names for.
#define HEDDLE_LINEAR_RULES(name, out, in)                                                                             \
  {name ".weight", nullptr, ConfigDim::out, ConfigDim::in}, {                                                          \
    name ".bias", nullptr, ConfigDim::out                                                                              \
  }
#define HEDDLE_NORM_RULES(name, width)                                                                                 \
  {name ".weight", nullptr, ConfigDim::width}, {                                                                       \
    name ".bias", nullptr, ConfigDim::width                                                                            \
  }
#define HEDDLE_NAMED_LINEAR_RULES(name, gguf, out, in)                                                                 \
  {name ".weight", gguf ".weight", ConfigDim::out, ConfigDim::in}, {                                                   \
    name ".bias", gguf ".bias", ConfigDim::out                                                                         \
  }
#define HEDDLE_NAMED_NORM_RULES(name, gguf, width)                                                                     \
  {name ".weight", gguf ".weight", ConfigDim::width}, {                                                                \
    name ".bias", gguf ".bias", ConfigDim::width                                                                       \
  }

// The layers of an encoder whose attention and feed-forward block have BERT's names; and with its norms.
#define HEDDLE_BERT_BLOCK_RULES(layer)                                                                                 \
  HEDDLE_NAMED_LINEAR_RULES(layer "attention.self.query", "blk.#.attn_q", Queries, Hidden),                            \
      HEDDLE_NAMED_LINEAR_RULES(layer "attention.self.key", "blk.#.attn_k", KeyValues, Hidden),                        \
      HEDDLE_NAMED_LINEAR_RULES(layer "attention.self.value", "blk.#.attn_v", KeyValues, Hidden),                      \
      HEDDLE_NAMED_LINEAR_RULES(layer "attention.output.dense", "blk.#.attn_output", Hidden, Queries),                 \
      HEDDLE_NAMED_LINEAR_RULES(layer "intermediate.dense", "blk.#.ffn_up", Intermediate, Hidden),                     \
      HEDDLE_NAMED_LINEAR_RULES(layer "output.dense", "blk.#.ffn_down", Hidden, Intermediate)
#define HEDDLE_BERT_LAYER_RULES(layer)                                                                                 \
  HEDDLE_BERT_BLOCK_RULES(layer),                                                                                      \
      HEDDLE_NAMED_NORM_RULES(layer "attention.output.LayerNorm", "blk.#.attn_output_norm", Hidden),                   \
      HEDDLE_NAMED_NORM_RULES(layer "output.LayerNorm", "blk.#.layer_output_norm", Hidden)

#define HEDDLE_BERT_TABLE_RULES(prefix)                                                                                \
  {prefix "embeddings.word_embeddings.weight", "token_embd.weight", ConfigDim::Vocab, ConfigDim::Embedding},           \
      {prefix "embeddings.position_embeddings.weight", "position_embd.weight", ConfigDim::Positions,                   \
       ConfigDim::Embedding},                                                                                          \
  {                                                                                                                    \
    prefix "embeddings.token_type_embeddings.weight", "token_types.weight", ConfigDim::TokenTypes,                     \
        ConfigDim::Embedding, When::TokenTypes, StoredOrder::Flattened                                                 \
  }
#define HEDDLE_BERT_EMBEDDING_RULES(prefix)                                                                            \
  HEDDLE_BERT_TABLE_RULES(prefix), HEDDLE_NAMED_NORM_RULES(prefix "embeddings.LayerNorm", "token_embd_norm", Embedding)

#define HEDDLE_BERT_POOLER_RULES(prefix)                                                                               \
  {prefix "pooler.dense.weight", nullptr, ConfigDim::Hidden, ConfigDim::Hidden, When::Pooler}, {                       \
    prefix "pooler.dense.bias", nullptr, ConfigDim::Hidden, ConfigDim::None, When::Pooler                              \
  }

// All of the model below its head.
#define HEDDLE_BERT_RULES(prefix)                                                                                      \
  HEDDLE_BERT_EMBEDDING_RULES(prefix), HEDDLE_BERT_LAYER_RULES(prefix "encoder.layer.#."),                             \
      HEDDLE_BERT_POOLER_RULES(prefix)

// What predicts masked tokens, under the names that all of this kin have.
#define HEDDLE_BERT_PREDICTION_RULES                                                                                   \
  HEDDLE_LINEAR_RULES("cls.predictions.transform.dense", Hidden, Hidden),                                              \
      HEDDLE_NORM_RULES("cls.predictions.transform.LayerNorm", Hidden),                                                \
      {"cls.predictions.bias", nullptr, ConfigDim::Vocab, ConfigDim::None, When::Tied},                                \
      {"cls.predictions.decoder.weight", nullptr, ConfigDim::Vocab, ConfigDim::Hidden, When::Untied}, {                \
    "cls.predictions.decoder.bias", nullptr, ConfigDim::Vocab, ConfigDim::None, When::Untied                           \
  }
// A classifier that reads what the pooler gives, which a checkpoint then must have.
#define HEDDLE_BERT_SEQUENCE_RULES(prefix)                                                                             \
  HEDDLE_LINEAR_RULES(prefix "pooler.dense", Hidden, Hidden), HEDDLE_LINEAR_RULES("classifier", Labels, Hidden)

// Of heads that are not compiled, and the bias of logits again.
#define HEDDLE_BERT_UNREAD_HEADS                                                                                       \
  {"cls.predictions.decoder.bias"}, {"cls.predictions.bias"}, {"cls.*", /*isLoss=*/true},                              \
      {"classifier.*", /*isLoss=*/true}, {                                                                             \
    "qa_outputs.*", /*isLoss=*/true                                                                                    \
  }

inline constexpr TensorRule bertMaskedRules[] = {HEDDLE_BERT_PREDICTION_RULES};
inline constexpr TensorRule classifierRules[] = {HEDDLE_LINEAR_RULES("classifier", Labels, Hidden)};
inline constexpr TensorRule answerRules[] = {HEDDLE_LINEAR_RULES("qa_outputs", Two, Hidden)};

inline constexpr KeyName bertKeyNames[] = {
    {"num_key_value_heads", "num_attention_heads"},
    {"head_dim", "hidden_size"},
    {"rms_norm_eps", "layer_norm_eps", "attention.layer_norm_epsilon"},
};

// Widths and epsilon of a config that has BERT's keys.
void readBertSizes(JsonObject &object, ModelConfig &config);
// embedding_size, where it is not the width of the model; `fallback` where config.json does not say it.
void readEmbeddingSize(JsonObject &object, ModelConfig &config, int64_t fallback = 128);
// Of a GGUF file, which has the table or not. Those of BERT's next of kin, as RoBERTa and DistilBERT, say bert too: their positions begin at the
// table's first row, and types of tokens may be missing.
void readGgufTokenTypes(GgufKeys &keys, ModelConfig &config);
// Refuses what makes a decoder of it, and positions other than learned ones.
void refuseOtherBerts(JsonObject &object, ModelConfig &config);

// Attention of a layer, with its output projection.
TensorHandle bertAttention(ModelBuilder &b, TensorHandle x, AttentionTerms terms = {});
// One layer, which norms behind its residuals; and what of it stands behind its attention.
TensorHandle bertLayer(ModelBuilder &b, TensorHandle x, const AttentionTerms &terms = {});
TensorHandle bertLayer(ModelBuilder &b, TensorHandle x, TensorHandle attended);
// The feed-forward block of a layer, with the norm behind its residual.
TensorHandle bertFeedForward(ModelBuilder &b, TensorHandle x);
// Sum and norm of the three embeddings, under `prefix`; of those that the model has.
TensorHandle bertEmbeddings(ModelBuilder &b, const std::string &prefix);
// "bert." of the row whose embedding is "bert.embeddings.…".
std::string prefixOf(const ModelConfig &config);
// The model below its head, under the prefix of the row's embedding; then the head of the config.
void buildBert(ModelBuilder &b);
// The same of layers that norm what attention and the feed-forward block read: what the norms are called in a layer, and the one behind the last.
void buildPreNormBert(ModelBuilder &b, const char *attentionNorm, const char *feedForwardNorm, const char *lastNorm);
// Gives the pooled first token where the model has a pooler, and the outputs.
void finishBert(ModelBuilder &b, TensorHandle lastHiddenState);
// Gives the outputs of an encoder without a head, `pooled` null where there is none, and then those of the config's head.
void finishEncoder(ModelBuilder &b, TensorHandle lastHiddenState, TensorHandle pooled);

// Heads: `logits` of each token from `classifier`; start_logits and end_logits of each token from `qa_outputs`.
void buildTokenClassifier(ModelBuilder &b, TensorHandle lastHiddenState, TensorHandle pooled);
void buildAnswerSpan(ModelBuilder &b, TensorHandle lastHiddenState, TensorHandle pooled);
// `logits` of each token over the vocabulary, and of a text from its pooled token.
void buildBertMasked(ModelBuilder &b, TensorHandle lastHiddenState, TensorHandle pooled);
void buildBertClassifier(ModelBuilder &b, TensorHandle lastHiddenState, TensorHandle pooled);
// x times the embedding, or `decoder` where that is a matrix of its own, with `bias` or the decoder's.
TensorHandle vocabularyLogits(ModelBuilder &b, TensorHandle x, const std::string &decoder, const std::string &bias);

// What rows of this kin have in common.
constexpr Family describeBertKin(const char *modelType) {
  Family row;
  row.modelType = modelType;
  row.isEncoder = true;
  row.keyNames = bertKeyNames;
  row.defaults.context = 512;
  row.defaults.normEps = 1e-12;
  row.defaults.activation = Activation::Gelu;
  row.defaults.tied = true;
  row.rope.hasRope = false;
  return row;
}

} // namespace heddle

#endif
