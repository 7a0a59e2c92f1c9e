// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// GPT-J (Wang and Komatsuzaki 2021): attention and feed-forward read one LayerNorm of the layer's input and are added to that input
// together; the first rotary_dim values of a head rotate as pairs (2i, 2i + 1); the head has a bias. CodeGen (Nijkamp et al. 2022,
// arXiv:2203.13474): the same with one matrix for q, k and v, in the shards of four devices that trained it. llama.cpp computes neither.

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
    {"transformer.h.#.attn.out_proj.weight", nullptr, ConfigDim::Hidden, ConfigDim::Queries},
    {"transformer.h.#.mlp.fc_in.weight", nullptr, ConfigDim::Intermediate, ConfigDim::Hidden},
    {"transformer.h.#.mlp.fc_in.bias", nullptr, ConfigDim::Intermediate},
    {"transformer.h.#.mlp.fc_out.weight", nullptr, ConfigDim::Hidden, ConfigDim::Intermediate},
    {"transformer.h.#.mlp.fc_out.bias", nullptr, ConfigDim::Hidden},
};

static constexpr TensorRule gptJRules[] = {
    {"transformer.h.#.attn.q_proj.weight", nullptr, ConfigDim::Queries, ConfigDim::Hidden},
    {"transformer.h.#.attn.k_proj.weight", nullptr, ConfigDim::KeyValues, ConfigDim::Hidden},
    {"transformer.h.#.attn.v_proj.weight", nullptr, ConfigDim::KeyValues, ConfigDim::Hidden},
};
static constexpr TensorRule codeGenRules[] = {
    {"transformer.h.#.attn.qkv_proj.weight", nullptr, ConfigDim::QueriesKeysValues, ConfigDim::Hidden, When::Always,
     StoredOrder::ByShard},
};

// Causal masks, which older releases saved as buffers.
static constexpr UnreadTensor gptJUnread[] = {{"transformer.h.#.attn.bias"}, {"transformer.h.#.attn.masked_bias"}};
static constexpr UnreadTensor codeGenUnread[] = {{"transformer.h.#.attn.causal_mask"}};

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

static void checkShards(JsonObject &object, ModelConfig &config) {
  if (config.hiddenSize % 4)
    object.fail("n_embd",
                "is " + std::to_string(config.hiddenSize) + ", expected a multiple of 4, the number of shards");
}

template <typename Attention> static void buildParallel(ModelBuilder &b, Attention attention) {
  TensorHandle x = b.embedTokens("transformer.wte.weight");
  x = decoderLayers(b, "transformer.h.", x, [&](int64_t, TensorHandle x) {
    TensorHandle normed = b.layerNorm(x, "ln_1");
    x = b.add(x, attention(normed));
    return b.add(x, feedForward(b, normed));
  });
  finishDecoder(b, b.layerNorm(x, "transformer.ln_f"));
}

static void buildGptJ(ModelBuilder &b) {
  buildParallel(b, [&](TensorHandle x) { return selfAttention(b, x); });
}

static void buildCodeGen(ModelBuilder &b) {
  buildParallel(b, [&](TensorHandle x) { return fusedSelfAttention(b, x, "attn.qkv_proj", "attn.out_proj"); });
}

static constexpr Family describeGptJ() {
  Family row;
  row.modelType = "gptj";
  row.embedding = "transformer.wte.weight";
  row.rules = {tensorRules, gptJRules};
  row.unread = gptJUnread;
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

static constexpr Family describeCodeGen() {
  Family row = describeGptJ();
  row.modelType = "codegen";
  row.rules = {tensorRules, codeGenRules};
  row.unread = codeGenUnread;
  row.readers.huggingFaceRest = checkShards;
  row.build = buildCodeGen;
  return row;
}
const Family family::codeGen = describeCodeGen();

} // namespace heddle
