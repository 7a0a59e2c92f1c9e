// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// CTRL (Keskar et al. 2019, arXiv:1909.05858): the original Transformer's decoder with sinusoidal positions, all sines before all cosines, norms before each
// block, and a bias of logits.

#include "frontends/families/Decoder.h"
#include "frontends/families/EncoderDecoder.h"
#include "frontends/families/Families.h"
#include "frontends/huggingface/Config.h"

#include <cmath>

namespace heddle {

#define HEDDLE_CTRL_LINEAR(name, rows, columns)                                                                        \
  {name ".weight", nullptr, ConfigDim::rows, ConfigDim::columns}, {                                                    \
    name ".bias", nullptr, ConfigDim::rows                                                                             \
  }
#define HEDDLE_CTRL_NORM(name)                                                                                         \
  {name ".weight", nullptr, ConfigDim::Hidden}, {                                                                      \
    name ".bias", nullptr, ConfigDim::Hidden                                                                           \
  }

static constexpr TensorRule tensorRules[] = {
    {"transformer.w.weight", nullptr, ConfigDim::Vocab, ConfigDim::Hidden},
    {"lm_head.weight", nullptr, ConfigDim::Vocab, ConfigDim::Hidden, When::Untied},
    {"lm_head.bias", nullptr, ConfigDim::Vocab},
    HEDDLE_CTRL_NORM("transformer.layernorm"),
    HEDDLE_CTRL_NORM("transformer.h.#.layernorm1"),
    HEDDLE_CTRL_LINEAR("transformer.h.#.multi_head_attention.Wq", Queries, Hidden),
    HEDDLE_CTRL_LINEAR("transformer.h.#.multi_head_attention.Wk", KeyValues, Hidden),
    HEDDLE_CTRL_LINEAR("transformer.h.#.multi_head_attention.Wv", KeyValues, Hidden),
    HEDDLE_CTRL_LINEAR("transformer.h.#.multi_head_attention.dense", Hidden, Queries),
    HEDDLE_CTRL_NORM("transformer.h.#.layernorm2"),
    HEDDLE_CTRL_LINEAR("transformer.h.#.ffn.0", Intermediate, Hidden),
    HEDDLE_CTRL_LINEAR("transformer.h.#.ffn.2", Hidden, Intermediate),
};

// The table of positions, which older releases saved.
static constexpr UnreadTensor unread[] = {{"transformer.pos_encoding"}};

static constexpr KeyName keyNames[] = {
    {"num_hidden_layers", "n_layer"},           {"hidden_size", "n_embd"},    {"num_attention_heads", "n_head"},
    {"max_position_embeddings", "n_positions"}, {"intermediate_size", "dff"}, {"rms_norm_eps", "layer_norm_epsilon"},
};

static constexpr KeyAlias aliases[] = {{"hidden_size", "n_embd"},
                                       {"max_position_embeddings", "n_positions"},
                                       {"num_attention_heads", "n_head"},
                                       {"num_hidden_layers", "n_layer"}};

static void scaleEmbeddings(JsonObject &, ModelConfig &config) {
  config.embeddingScale = std::sqrt(double(config.hiddenSize));
}

static void buildCtrl(ModelBuilder &b) {
  constexpr double layerEps = 1e-6; // layer_norm_epsilon is of the last norm alone
  TensorHandle x = b.add(b.embedTokens("transformer.w.weight"), b.embedPositions(sinusoidalPositions));
  x = decoderLayers(b, "transformer.h.", x, [&](int64_t, TensorHandle x) {
    x = b.add(x, selfAttention(b, b.layerNorm(x, "layernorm1", layerEps)));
    return b.add(x, feedForward(b, b.layerNorm(x, "layernorm2", layerEps)));
  });
  finishDecoder(b, b.layerNorm(x, "transformer.layernorm"));
}

static constexpr Family describeCtrl() {
  Family row;
  row.modelType = "ctrl";
  row.embedding = "transformer.w.weight";
  row.rules = {tensorRules};
  row.unread = unread;
  row.plainHeads = true;
  row.keyNames = keyNames;
  row.aliases = aliases;
  row.defaults.context = 256;
  row.defaults.activation = Activation::Relu;
  row.defaults.tied = true;
  row.activationKey = nullptr;
  row.attention = {"multi_head_attention.", "Wq", "Wk", "Wv", "dense"};
  row.feedForward = {"ffn.", nullptr, "0", "2"};
  row.rope.hasRope = false;
  row.readers.huggingFaceRest = scaleEmbeddings;
  row.addTensors = addSinusoids<Sinusoids::Halves>;
  row.build = buildCtrl;
  return row;
}
const Family family::ctrl = describeCtrl();

} // namespace heddle
