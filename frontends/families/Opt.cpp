// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// OPT (Zhang et al. 2022, arXiv:2205.01068): learned positions, whose table has two rows before that of position 0, LayerNorm before or behind
// each block, ReLU; the 350M model embeds tokens in fewer values than its layers have.

#include "frontends/families/Decoder.h"
#include "frontends/families/Families.h"
#include "frontends/huggingface/Config.h"

namespace heddle {

// Without names in GGUF, which does not know the architecture.
static constexpr TensorRule tensorRules[] = {
    {"model.decoder.embed_tokens.weight", nullptr, ConfigDim::Vocab, ConfigDim::Embedding},
    {"model.decoder.embed_positions.weight", nullptr, ConfigDim::Positions, ConfigDim::Hidden},
    {"model.decoder.project_in.weight", nullptr, ConfigDim::Hidden, ConfigDim::Embedding, When::Projected},
    {"model.decoder.project_out.weight", nullptr, ConfigDim::Embedding, ConfigDim::Hidden, When::Projected},
    {"model.decoder.final_layer_norm.weight", nullptr, ConfigDim::Hidden, ConfigDim::None, When::FinalNorm},
    {"model.decoder.final_layer_norm.bias", nullptr, ConfigDim::Hidden, ConfigDim::None, When::FinalNorm},
    {"lm_head.weight", nullptr, ConfigDim::Vocab, ConfigDim::Embedding, When::Untied},
    {"model.decoder.layers.#.self_attn_layer_norm.weight", nullptr, ConfigDim::Hidden},
    {"model.decoder.layers.#.self_attn_layer_norm.bias", nullptr, ConfigDim::Hidden},
    {"model.decoder.layers.#.self_attn.q_proj.weight", nullptr, ConfigDim::Queries, ConfigDim::Hidden},
    {"model.decoder.layers.#.self_attn.k_proj.weight", nullptr, ConfigDim::KeyValues, ConfigDim::Hidden},
    {"model.decoder.layers.#.self_attn.v_proj.weight", nullptr, ConfigDim::KeyValues, ConfigDim::Hidden},
    {"model.decoder.layers.#.self_attn.out_proj.weight", nullptr, ConfigDim::Hidden, ConfigDim::Queries},
    {"model.decoder.layers.#.self_attn.q_proj.bias", nullptr, ConfigDim::Queries, ConfigDim::None, When::AttentionBias},
    {"model.decoder.layers.#.self_attn.k_proj.bias", nullptr, ConfigDim::KeyValues, ConfigDim::None,
     When::AttentionBias},
    {"model.decoder.layers.#.self_attn.v_proj.bias", nullptr, ConfigDim::KeyValues, ConfigDim::None,
     When::AttentionBias},
    {"model.decoder.layers.#.self_attn.out_proj.bias", nullptr, ConfigDim::Hidden, ConfigDim::None, When::OutputBias},
    {"model.decoder.layers.#.final_layer_norm.weight", nullptr, ConfigDim::Hidden},
    {"model.decoder.layers.#.final_layer_norm.bias", nullptr, ConfigDim::Hidden},
    {"model.decoder.layers.#.fc1.weight", nullptr, ConfigDim::Intermediate, ConfigDim::Hidden},
    {"model.decoder.layers.#.fc1.bias", nullptr, ConfigDim::Intermediate, ConfigDim::None, When::MlpBias},
    {"model.decoder.layers.#.fc2.weight", nullptr, ConfigDim::Hidden, ConfigDim::Intermediate},
    {"model.decoder.layers.#.fc2.bias", nullptr, ConfigDim::Hidden, ConfigDim::None, When::MlpBias},
};

static constexpr UnreadTensor unread[] = {{"model.decoder.version"}}; // a number that fairseq saved

static constexpr KeyName keyNames[] = {{"intermediate_size", "ffn_dim"}};

static void readNorms(JsonObject &object, ModelConfig &config) {
  config.firstPosition = 2;
  int64_t width = object.integer("word_embed_proj_dim").value_or(config.hiddenSize);
  if (width < 1 || width > config.hiddenSize)
    object.fail("word_embed_proj_dim", "is " + std::to_string(width) + ", expected 1 to hidden_size (" +
                                           std::to_string(config.hiddenSize) + ")");
  config.embeddingSize = width == config.hiddenSize ? 0 : width;
  config.normsBefore = object.boolean("do_layer_norm_before").value_or(true);
  config.hasFinalNorm = config.normsBefore && !object.boolean("_remove_final_layer_norm").value_or(false);
  // The last hidden state is a result of its own, not the residual that the last layer adds to.
  if (config.normsBefore && !config.hasFinalNorm && !config.embeddingSize)
    object.unsupported("_remove_final_layer_norm",
                       "is true, which is not supported where norms stand before the blocks; expected false");
  config.normEps = config.family->defaults.normEps; // whatever a config says
  if (!object.boolean("layer_norm_elementwise_affine").value_or(true))
    object.unsupported("layer_norm_elementwise_affine", "is false, which is not supported for opt; expected true");
}

// block(norm(x)), or norm(x + block(x)) where norms stand behind.
template <typename Block>
static TensorHandle withNorm(ModelBuilder &b, TensorHandle x, const char *norm, const Block &block) {
  if (b.config().normsBefore)
    return b.add(x, block(b.layerNorm(x, norm)));
  return b.layerNorm(b.add(x, block(x)), norm);
}

static void buildOpt(ModelBuilder &b) {
  const ModelConfig &c = b.config();
  TensorHandle x = b.embedTokens("model.decoder.embed_tokens.weight");
  if (c.embeddingSize)
    x = b.linear(x, "model.decoder.project_in");
  x = b.add(x, b.embedPositions("model.decoder.embed_positions.weight"));
  x = decoderLayers(b, "model.decoder.layers.", x, [&](int64_t, TensorHandle x) {
    x = withNorm(b, x, "self_attn_layer_norm", [&](TensorHandle x) { return selfAttention(b, x); });
    return withNorm(b, x, "final_layer_norm", [&](TensorHandle x) { return feedForward(b, x); });
  });
  if (c.hasFinalNorm)
    x = b.layerNorm(x, "model.decoder.final_layer_norm");
  // The last hidden state is what it gives.
  if (c.embeddingSize)
    x = b.layer(c.numHiddenLayers, "model.decoder.", x, [&](TensorHandle x) { return b.linear(x, "project_out"); });
  finishDecoder(b, x);
}

static constexpr Family describeOpt() {
  Family row;
  row.modelType = "opt";
  row.embedding = "model.decoder.embed_tokens.weight";
  row.rules = {tensorRules};
  row.unread = unread;
  row.plainHeads = true;
  row.positionsSkipMasked = true;
  row.keyNames = keyNames;
  row.defaults.normEps = 1e-5;
  row.defaults.activation = Activation::Relu;
  row.defaults.tied = true;
  row.activationKey = "activation_function";
  row.attention.output = "out_proj";
  row.feedForward = {"", nullptr, "fc1", "fc2"};
  row.biases.attentionKey = row.biases.mlpKey = "enable_bias";
  row.biases.attentionDefault = row.biases.mlpDefault = true;
  row.rope.hasRope = false;
  row.readers.huggingFaceRest = readNorms;
  row.build = buildOpt;
  return row;
}
const Family family::opt = describeOpt();

} // namespace heddle
