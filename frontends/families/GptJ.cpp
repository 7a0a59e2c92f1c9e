// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// GPT-J (Wang and Komatsuzaki 2021): attention and feed-forward read one LayerNorm of the layer's input and are added to that input
// together; the first rotary_dim values of a head rotate as pairs (2i, 2i + 1); the head has a bias. llama.cpp computes no such model.

#include "frontends/families/Decoder.h"
#include "frontends/families/Families.h"
#include "frontends/huggingface/JsonObject.h"

namespace heddle {

static constexpr TensorRule tensorRules[] = {
    {"transformer.wte.weight", nullptr, ConfigDim::Vocab, ConfigDim::Hidden},
    {"transformer.ln_f.weight", nullptr, ConfigDim::Hidden},
    {"transformer.ln_f.bias", nullptr, ConfigDim::Hidden},
    {"lm_head.weight", nullptr, ConfigDim::Vocab, ConfigDim::Hidden, When::Untied},
    {"lm_head.bias", nullptr, ConfigDim::Vocab},
    {"transformer.h.#.ln_1.weight", nullptr, ConfigDim::Hidden},
    {"transformer.h.#.ln_1.bias", nullptr, ConfigDim::Hidden},
    {"transformer.h.#.attn.q_proj.weight", nullptr, ConfigDim::Queries, ConfigDim::Hidden},
    {"transformer.h.#.attn.k_proj.weight", nullptr, ConfigDim::KeyValues, ConfigDim::Hidden},
    {"transformer.h.#.attn.v_proj.weight", nullptr, ConfigDim::KeyValues, ConfigDim::Hidden},
    {"transformer.h.#.attn.out_proj.weight", nullptr, ConfigDim::Hidden, ConfigDim::Queries},
    {"transformer.h.#.mlp.fc_in.weight", nullptr, ConfigDim::Intermediate, ConfigDim::Hidden},
    {"transformer.h.#.mlp.fc_in.bias", nullptr, ConfigDim::Intermediate},
    {"transformer.h.#.mlp.fc_out.weight", nullptr, ConfigDim::Hidden, ConfigDim::Intermediate},
    {"transformer.h.#.mlp.fc_out.bias", nullptr, ConfigDim::Hidden},
};

// Causal masks, which older releases saved as buffers.
static constexpr UnreadTensor unread[] = {{"transformer.h.#.attn.bias"}, {"transformer.h.#.attn.masked_bias"}};

static constexpr KeyName keyNames[] = {
    {"num_hidden_layers", "n_layer"},           {"hidden_size", "n_embd"},
    {"num_attention_heads", "n_head"},          {"intermediate_size", "n_inner"},
    {"max_position_embeddings", "n_positions"}, {"rms_norm_eps", "layer_norm_epsilon"},
    {"partial_rotary_factor", "rotary_dim"},
};

static constexpr KeyAlias aliases[] = {{"hidden_size", "n_embd"},
                                       {"max_position_embeddings", "n_positions"},
                                       {"num_attention_heads", "n_head"},
                                       {"num_hidden_layers", "n_layer"}};

static void readRotaryDim(JsonObject &object, ModelConfig &config) {
  RopeConfig rope;
  rope.interleaved = true;
  rope.rotaryDim = object.integer("rotary_dim").value_or(64);
  if (object.isNull("rotary_dim"))
    object.unsupported("rotary_dim", "is null, which is not supported; expected how many values of a head rotate");
  config.ropes = {rope};
}

static void buildGptJ(ModelBuilder &b) {
  TensorHandle x = b.embedTokens("transformer.wte.weight");
  x = decoderLayers(b, "transformer.h.", x, [&](int64_t, TensorHandle x) {
    TensorHandle normed = b.layerNorm(x, "ln_1");
    x = b.add(x, selfAttention(b, normed));
    return b.add(x, feedForward(b, normed));
  });
  finishDecoder(b, b.layerNorm(x, "transformer.ln_f"));
}

static constexpr Family describeGptJ() {
  Family row;
  row.modelType = "gptj";
  row.embedding = "transformer.wte.weight";
  row.rules = {tensorRules};
  row.unread = unread;
  row.plainHeads = true;
  row.keyNames = keyNames;
  row.aliases = aliases;
  row.defaults.widening = 4;
  row.defaults.normEps = 1e-5;
  row.defaults.activation = Activation::GeluTanh;
  row.activationKey = "activation_function";
  row.attention = {"attn.", "q_proj", "k_proj", "v_proj", "out_proj"};
  row.feedForward = {"mlp.", nullptr, "fc_in", "fc_out"};
  row.readers.huggingFaceRopes = readRotaryDim;
  row.build = buildGptJ;
  return row;
}
const Family family::gptJ = describeGptJ();

} // namespace heddle
