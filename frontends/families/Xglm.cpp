// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// XGLM (Lin et al. 2021, arXiv:2112.10668): sinusoidal positions as tensor2tensor has them, the first of which is the third of their table,
// LayerNorm before each block, embeddings that are scaled. llama.cpp computes no such model.

#include "frontends/families/Decoder.h"
#include "frontends/families/EncoderDecoder.h"
#include "frontends/families/Families.h"
#include "frontends/huggingface/JsonObject.h"

#include <cmath>

namespace heddle {

static constexpr TensorRule tensorRules[] = {
    {"model.embed_tokens.weight", nullptr, ConfigDim::Vocab, ConfigDim::Hidden},
    {"model.layer_norm.weight", nullptr, ConfigDim::Hidden},
    {"model.layer_norm.bias", nullptr, ConfigDim::Hidden},
    {"lm_head.weight", nullptr, ConfigDim::Vocab, ConfigDim::Hidden, When::Untied},
    {"model.layers.#.self_attn_layer_norm.weight", nullptr, ConfigDim::Hidden},
    {"model.layers.#.self_attn_layer_norm.bias", nullptr, ConfigDim::Hidden},
    {"model.layers.#.self_attn.q_proj.weight", nullptr, ConfigDim::Queries, ConfigDim::Hidden},
    {"model.layers.#.self_attn.q_proj.bias", nullptr, ConfigDim::Queries},
    {"model.layers.#.self_attn.k_proj.weight", nullptr, ConfigDim::KeyValues, ConfigDim::Hidden},
    {"model.layers.#.self_attn.k_proj.bias", nullptr, ConfigDim::KeyValues},
    {"model.layers.#.self_attn.v_proj.weight", nullptr, ConfigDim::KeyValues, ConfigDim::Hidden},
    {"model.layers.#.self_attn.v_proj.bias", nullptr, ConfigDim::KeyValues},
    {"model.layers.#.self_attn.out_proj.weight", nullptr, ConfigDim::Hidden, ConfigDim::Queries},
    {"model.layers.#.self_attn.out_proj.bias", nullptr, ConfigDim::Hidden},
    {"model.layers.#.final_layer_norm.weight", nullptr, ConfigDim::Hidden},
    {"model.layers.#.final_layer_norm.bias", nullptr, ConfigDim::Hidden},
    {"model.layers.#.fc1.weight", nullptr, ConfigDim::Intermediate, ConfigDim::Hidden},
    {"model.layers.#.fc1.bias", nullptr, ConfigDim::Intermediate},
    {"model.layers.#.fc2.weight", nullptr, ConfigDim::Hidden, ConfigDim::Intermediate},
    {"model.layers.#.fc2.bias", nullptr, ConfigDim::Hidden},
};

static constexpr UnreadTensor unread[] = {{"model.embed_positions.weights"}}; // what addSinusoids() computes

static constexpr KeyName keyNames[] = {
    {"num_hidden_layers", "num_layers"},
    {"hidden_size", "d_model"},
    {"num_attention_heads", "attention_heads"},
    {"intermediate_size", "ffn_dim"},
};

static constexpr KeyAlias aliases[] = {
    {"num_attention_heads", "attention_heads"}, {"hidden_size", "d_model"}, {"num_hidden_layers", "num_layers"}};

static void readPositions(JsonObject &object, ModelConfig &config) {
  config.firstPosition = 2;
  config.normEps = config.family->defaults.normEps; // no key says it
  if (object.boolean("scale_embedding").value_or(true))
    config.embeddingScale = std::sqrt(double(config.hiddenSize));
  // The reference clears the row of this number.
  int64_t padding = object.integer("pad_token_id").value_or(1);
  if (padding >= config.firstPosition && padding < config.firstPosition + config.contextLength)
    object.unsupported("pad_token_id", "is " + std::to_string(padding) + ", which is not supported for " +
                                           config.architecture + ": it takes away the position " +
                                           std::to_string(padding - config.firstPosition) + "; expected 0 or 1");
}

static void buildXglm(ModelBuilder &b) {
  TensorHandle x = b.add(b.embedTokens("model.embed_tokens.weight"), b.embedPositions(sinusoidalPositions));
  x = decoderLayers(b, "model.layers.", x, [&](int64_t, TensorHandle x) {
    x = b.add(x, selfAttention(b, b.layerNorm(x, "self_attn_layer_norm")));
    return b.add(x, feedForward(b, b.layerNorm(x, "final_layer_norm")));
  });
  finishDecoder(b, b.layerNorm(x, "model.layer_norm"));
}

static constexpr Family describeXglm() {
  Family row;
  row.modelType = "xglm";
  row.rules = {tensorRules};
  row.unread = unread;
  row.plainHeads = true;
  row.keyNames = keyNames;
  row.aliases = aliases;
  row.defaults.normEps = 1e-5;
  row.defaults.activation = Activation::Gelu;
  row.defaults.tied = true;
  row.activationKey = "activation_function";
  row.attention.output = "out_proj";
  row.feedForward = {"", nullptr, "fc1", "fc2"};
  row.rope.hasRope = false;
  row.readers.huggingFaceRest = readPositions;
  row.addTensors = addSinusoids<Sinusoids::Tensor2Tensor>;
  row.build = buildXglm;
  return row;
}
const Family family::xglm = describeXglm();

} // namespace heddle
