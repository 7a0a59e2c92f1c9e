// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// GPT (Radford et al. 2018): learned positions and norms behind what each block is added to, none behind the last layer; "gelu" means its
// approximation. llama.cpp computes no such model.

#include "frontends/families/Decoder.h"
#include "frontends/families/Families.h"
#include "frontends/huggingface/Config.h"

namespace heddle {

static constexpr TensorRule tensorRules[] = {
    {"transformer.tokens_embed.weight", nullptr, ConfigDim::Vocab, ConfigDim::Hidden},
    {"transformer.positions_embed.weight", nullptr, ConfigDim::Positions, ConfigDim::Hidden},
    {"lm_head.weight", nullptr, ConfigDim::Vocab, ConfigDim::Hidden, When::Untied},
    {"transformer.h.#.attn.c_attn.weight", nullptr, ConfigDim::QueriesKeysValues, ConfigDim::Hidden, When::Always,
     StoredOrder::Conv1d},
    {"transformer.h.#.attn.c_attn.bias", nullptr, ConfigDim::QueriesKeysValues},
    {"transformer.h.#.attn.c_proj.weight", nullptr, ConfigDim::Hidden, ConfigDim::Queries, When::Always,
     StoredOrder::Conv1d},
    {"transformer.h.#.attn.c_proj.bias", nullptr, ConfigDim::Hidden},
    {"transformer.h.#.ln_1.weight", nullptr, ConfigDim::Hidden},
    {"transformer.h.#.ln_1.bias", nullptr, ConfigDim::Hidden},
    {"transformer.h.#.mlp.c_fc.weight", nullptr, ConfigDim::Intermediate, ConfigDim::Hidden, When::Always,
     StoredOrder::Conv1d},
    {"transformer.h.#.mlp.c_fc.bias", nullptr, ConfigDim::Intermediate},
    {"transformer.h.#.mlp.c_proj.weight", nullptr, ConfigDim::Hidden, ConfigDim::Intermediate, When::Always,
     StoredOrder::Conv1d},
    {"transformer.h.#.mlp.c_proj.bias", nullptr, ConfigDim::Hidden},
    {"transformer.h.#.ln_2.weight", nullptr, ConfigDim::Hidden},
    {"transformer.h.#.ln_2.bias", nullptr, ConfigDim::Hidden},
};

// Causal masks, which older releases saved as buffers.
static constexpr UnreadTensor unread[] = {{"transformer.h.#.attn.bias"}};

static constexpr KeyName keyNames[] = {
    {"num_hidden_layers", "n_layer"},           {"hidden_size", "n_embd"},
    {"num_attention_heads", "n_head"},          {"rms_norm_eps", "layer_norm_epsilon"},
    {"max_position_embeddings", "n_positions"},
};

static constexpr KeyAlias aliases[] = {{"hidden_size", "n_embd"},
                                       {"max_position_embeddings", "n_positions"},
                                       {"num_attention_heads", "n_head"},
                                       {"num_hidden_layers", "n_layer"}};

// Blocks are four times as wide as the model, whatever else stands there.
static void readSizes(JsonObject &object, ModelConfig &config) {
  config.numKvHeads = config.numHeads;
  config.headDim = config.numHeads > 0 ? config.hiddenSize / config.numHeads : 0;
  // Bounded, so that it cannot overflow before hidden_size is checked.
  config.intermediateSize = config.hiddenSize <= 1 << 20 ? 4 * config.hiddenSize : 0;
  config.normEps = object.number("layer_norm_epsilon").value_or(config.family->defaults.normEps);
  checkEvenHeads(object, config);
}

static void readActivation(JsonObject &object, ModelConfig &config) {
  std::string name = object.string("afn").value_or("gelu");
  if (name == "gelu")
    config.activation = Activation::GeluTanh;
  else if (name == "relu")
    config.activation = Activation::Relu;
  else if (name == "silu" || name == "swish")
    config.activation = Activation::Silu;
  else
    object.fail("afn", "is '" + printable(name, 64) + "', expected gelu, relu, silu or swish");
}

static void buildOpenAiGpt(ModelBuilder &b) {
  TensorHandle x =
      b.add(b.embedTokens("transformer.tokens_embed.weight"), b.embedPositions("transformer.positions_embed.weight"));
  x = decoderLayers(b, "transformer.h.", x, [&](int64_t, TensorHandle x) {
    x = b.layerNorm(b.add(x, fusedSelfAttention(b, x, "attn.c_attn", "attn.c_proj")), "ln_1");
    return b.layerNorm(b.add(x, feedForward(b, x)), "ln_2");
  });
  finishDecoder(b, x);
}

static constexpr Family describeOpenAiGpt() {
  Family row;
  row.modelType = "openai-gpt";
  row.embedding = "transformer.tokens_embed.weight";
  row.rules = {tensorRules};
  row.unread = unread;
  row.keyNames = keyNames;
  row.aliases = aliases;
  row.defaults.context = 512;
  row.defaults.normEps = 1e-5;
  row.defaults.activation = Activation::GeluTanh;
  row.defaults.tied = true;
  row.activationKey = nullptr;
  row.feedForward = {"mlp.", nullptr, "c_fc", "c_proj"};
  row.rope.hasRope = false;
  row.readers.huggingFaceSizes = readSizes;
  row.readers.huggingFaceRest = readActivation;
  row.build = buildOpenAiGpt;
  return row;
}
const Family family::openAiGpt = describeOpenAiGpt();

} // namespace heddle
