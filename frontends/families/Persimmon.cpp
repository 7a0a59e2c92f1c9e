// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Persimmon (Adept 2023): GPT-NeoX's layers one after the other, with a LayerNorm of each query and key, the square of ReLU, and heads of which half
// rotates. llama.cpp computes no such model.

#include "frontends/families/Decoder.h"
#include "frontends/families/Families.h"
#include "frontends/huggingface/JsonObject.h"

namespace heddle {

static constexpr TensorRule tensorRules[] = {
    {"model.embed_tokens.weight", nullptr, ConfigDim::Vocab, ConfigDim::Hidden},
    {"model.final_layernorm.weight", nullptr, ConfigDim::Hidden},
    {"model.final_layernorm.bias", nullptr, ConfigDim::Hidden},
    {"lm_head.weight", nullptr, ConfigDim::Vocab, ConfigDim::Hidden, When::Untied},
    {"model.layers.#.input_layernorm.weight", nullptr, ConfigDim::Hidden},
    {"model.layers.#.input_layernorm.bias", nullptr, ConfigDim::Hidden},
    {"model.layers.#.self_attn.query_key_value.weight", nullptr, ConfigDim::QueriesKeysValues, ConfigDim::Hidden,
     When::Always, StoredOrder::ByKvHead},
    {"model.layers.#.self_attn.query_key_value.bias", nullptr, ConfigDim::QueriesKeysValues, ConfigDim::None,
     When::Always, StoredOrder::ByKvHead},
    {"model.layers.#.self_attn.q_layernorm.weight", nullptr, ConfigDim::HeadDim, ConfigDim::None, When::HeadNorms},
    {"model.layers.#.self_attn.q_layernorm.bias", nullptr, ConfigDim::HeadDim, ConfigDim::None, When::HeadNorms},
    {"model.layers.#.self_attn.k_layernorm.weight", nullptr, ConfigDim::HeadDim, ConfigDim::None, When::HeadNorms},
    {"model.layers.#.self_attn.k_layernorm.bias", nullptr, ConfigDim::HeadDim, ConfigDim::None, When::HeadNorms},
    {"model.layers.#.self_attn.dense.weight", nullptr, ConfigDim::Hidden, ConfigDim::Queries},
    {"model.layers.#.self_attn.dense.bias", nullptr, ConfigDim::Hidden},
    {"model.layers.#.post_attention_layernorm.weight", nullptr, ConfigDim::Hidden},
    {"model.layers.#.post_attention_layernorm.bias", nullptr, ConfigDim::Hidden},
    {"model.layers.#.mlp.dense_h_to_4h.weight", nullptr, ConfigDim::Intermediate, ConfigDim::Hidden},
    {"model.layers.#.mlp.dense_h_to_4h.bias", nullptr, ConfigDim::Intermediate},
    {"model.layers.#.mlp.dense_4h_to_h.weight", nullptr, ConfigDim::Hidden, ConfigDim::Intermediate},
    {"model.layers.#.mlp.dense_4h_to_h.bias", nullptr, ConfigDim::Hidden},
};

static constexpr KeyName keyNames[] = {{"rms_norm_eps", "layer_norm_eps"}};

static void readNorms(JsonObject &object, ModelConfig &config) {
  config.normsHeads = object.boolean("qk_layernorm").value_or(true);
}

static void buildPersimmon(ModelBuilder &b) {
  buildDecoder(b, [&](int64_t, TensorHandle x) {
    TensorHandle normed = b.layerNorm(x, "input_layernorm");
    x = b.add(x, fusedSelfAttention(b, normed, "self_attn.query_key_value", "self_attn.dense"));
    return b.add(x, feedForward(b, b.layerNorm(x, "post_attention_layernorm")));
  });
}

static constexpr Family describePersimmon() {
  Family row;
  row.modelType = "persimmon";
  row.rules = {tensorRules};
  row.plainHeads = true;
  row.keyNames = keyNames;
  row.defaults.context = 16384;
  row.defaults.normEps = 1e-5;
  row.defaults.partialRotary = 0.5;
  row.defaults.activation = Activation::SquaredRelu;
  row.norm = NormKind::Layer;
  row.finalNorm = "model.final_layernorm";
  row.attention.qNorm = "q_layernorm";
  row.attention.kNorm = "k_layernorm";
  row.feedForward = {"mlp.", nullptr, "dense_h_to_4h", "dense_4h_to_h"};
  row.rope.partial = true;
  row.readers.huggingFaceRest = readNorms;
  row.build = buildPersimmon;
  return row;
}
const Family family::persimmon = describePersimmon();

} // namespace heddle
