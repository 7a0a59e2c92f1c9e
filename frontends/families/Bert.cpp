// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// BERT (Devlin et al. 2018, arXiv:1810.04805): an encoder with learned positions and token types, LayerNorm behind every residual, GELU.
// Its heads (cls.*) are not compiled: the program gives last_hidden_state and, where the checkpoint has a pooler, pooler_output.

#include "frontends/families/Families.h"
#include "frontends/families/ModelBuilder.h"
#include "frontends/huggingface/Config.h"

namespace heddle {

// Without names in GGUF, whose files of this architecture are not read.
static constexpr TensorRule tensorRules[] = {
    {"bert.embeddings.word_embeddings.weight", nullptr, ConfigDim::Vocab, ConfigDim::Hidden},
    {"bert.embeddings.position_embeddings.weight", nullptr, ConfigDim::Positions, ConfigDim::Hidden},
    {"bert.embeddings.token_type_embeddings.weight", nullptr, ConfigDim::TokenTypes, ConfigDim::Hidden},
    {"bert.embeddings.LayerNorm.weight", nullptr, ConfigDim::Hidden},
    {"bert.embeddings.LayerNorm.bias", nullptr, ConfigDim::Hidden},
    {"bert.encoder.layer.#.attention.self.query.weight", nullptr, ConfigDim::Queries, ConfigDim::Hidden},
    {"bert.encoder.layer.#.attention.self.query.bias", nullptr, ConfigDim::Queries},
    {"bert.encoder.layer.#.attention.self.key.weight", nullptr, ConfigDim::KeyValues, ConfigDim::Hidden},
    {"bert.encoder.layer.#.attention.self.key.bias", nullptr, ConfigDim::KeyValues},
    {"bert.encoder.layer.#.attention.self.value.weight", nullptr, ConfigDim::KeyValues, ConfigDim::Hidden},
    {"bert.encoder.layer.#.attention.self.value.bias", nullptr, ConfigDim::KeyValues},
    {"bert.encoder.layer.#.attention.output.dense.weight", nullptr, ConfigDim::Hidden, ConfigDim::Queries},
    {"bert.encoder.layer.#.attention.output.dense.bias", nullptr, ConfigDim::Hidden},
    {"bert.encoder.layer.#.attention.output.LayerNorm.weight", nullptr, ConfigDim::Hidden},
    {"bert.encoder.layer.#.attention.output.LayerNorm.bias", nullptr, ConfigDim::Hidden},
    {"bert.encoder.layer.#.intermediate.dense.weight", nullptr, ConfigDim::Intermediate, ConfigDim::Hidden},
    {"bert.encoder.layer.#.intermediate.dense.bias", nullptr, ConfigDim::Intermediate},
    {"bert.encoder.layer.#.output.dense.weight", nullptr, ConfigDim::Hidden, ConfigDim::Intermediate},
    {"bert.encoder.layer.#.output.dense.bias", nullptr, ConfigDim::Hidden},
    {"bert.encoder.layer.#.output.LayerNorm.weight", nullptr, ConfigDim::Hidden},
    {"bert.encoder.layer.#.output.LayerNorm.bias", nullptr, ConfigDim::Hidden},
    {"bert.pooler.dense.weight", nullptr, ConfigDim::Hidden, ConfigDim::Hidden, When::Pooler},
    {"bert.pooler.dense.bias", nullptr, ConfigDim::Hidden, ConfigDim::None, When::Pooler},
};

// The heads are of transformers' BertFor… classes.
static constexpr UnreadTensor unread[] = {
    {"bert.embeddings.position_ids"}, // 0, 1, …, which transformers once saved
    {"cls.*", /*isLoss=*/true},
    {"classifier.*", /*isLoss=*/true},
    {"qa_outputs.*", /*isLoss=*/true},
};

static constexpr KeyName keyNames[] = {
    {"num_key_value_heads", "num_attention_heads"},
    {"head_dim", "hidden_size"},
    {"rms_norm_eps", "layer_norm_eps"},
};

static void readSizes(JsonObject &object, ModelConfig &config) {
  config.numKvHeads = config.numHeads;
  config.headDim = config.numHeads > 0 ? config.hiddenSize / config.numHeads : 0;
  config.intermediateSize = readSize(object, config, "intermediate_size");
  config.normEps = object.number("layer_norm_eps").value_or(config.family->defaults.normEps);
  config.tokenTypes = object.integer("type_vocab_size").value_or(2);
  constexpr int64_t most = 1 << 16;
  if (config.tokenTypes < 1 || config.tokenTypes > most)
    object.fail("type_vocab_size",
                "is " + std::to_string(config.tokenTypes) + ", expected 1 to " + std::to_string(most));
  checkEvenHeads(object, config);
}

static void refuseOthers(JsonObject &object, ModelConfig &) {
  if (object.boolean("is_decoder").value_or(false))
    object.unsupported("is_decoder", "is true, which is not supported: BERT is compiled as an encoder");
  std::string positions = object.string("position_embedding_type").value_or("absolute");
  if (positions != "absolute")
    object.fail("position_embedding_type", "is '" + printable(positions, 64) + "', expected absolute");
}

static TensorHandle attentionBlock(ModelBuilder &b, TensorHandle x) {
  auto heads = [&](const char *name) {
    return b.splitHeads(b.linear(x, std::string("attention.self.") + name), b.config().numHeads);
  };
  TensorHandle attended = b.attention(heads("query"), heads("key"), heads("value"));
  return b.linear(b.mergeHeads(attended), "attention.output.dense");
}

static void buildBert(ModelBuilder &b) {
  TensorHandle x = b.add(b.embedTokens("bert.embeddings.word_embeddings.weight"),
                         b.embedTokenTypes("bert.embeddings.token_type_embeddings.weight"));
  x = b.add(x, b.embedPositions("bert.embeddings.position_embeddings.weight"));
  x = b.layerNorm(x, "bert.embeddings.LayerNorm");
  for (int64_t i = 0; i < b.config().numHiddenLayers; ++i)
    x = b.layer(i, "bert.encoder.layer." + std::to_string(i) + ".", x, [&](TensorHandle x) {
      x = b.layerNorm(b.add(attentionBlock(b, x), x), "attention.output.LayerNorm");
      TensorHandle wide = b.activation(b.linear(x, "intermediate.dense"));
      return b.layerNorm(b.add(b.linear(wide, "output.dense"), x), "output.LayerNorm");
    });
  TensorHandle pooled;
  if (b.config().hasPooler)
    pooled = b.tanh(b.linear(b.firstTokens(x), "bert.pooler.dense"));
  b.finishEncoder(x, pooled);
}

static constexpr Family describeBert() {
  Family row;
  row.modelType = "bert";
  row.isEncoder = true;
  row.pooler = "bert.pooler.dense.weight";
  row.embedding = "bert.embeddings.word_embeddings.weight";
  row.rules = {tensorRules};
  row.unread = unread;
  row.keyNames = keyNames;
  row.defaults.context = 512;
  row.defaults.normEps = 1e-12;
  row.defaults.activation = Activation::Gelu;
  row.rope.hasRope = false;
  row.readers.huggingFaceSizes = readSizes;
  row.readers.huggingFaceRest = refuseOthers;
  row.build = buildBert;
  return row;
}
const Family family::bert = describeBert();

} // namespace heddle
