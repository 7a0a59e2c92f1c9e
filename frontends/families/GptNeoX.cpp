// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// GPT-NeoX (Black et al. 2022, arXiv:2204.06745), Pythia: LayerNorm, heads of which a quarter rotates, a feed-forward block that reads the
// layer's input as attention does, unless the config says otherwise. Hugging Face stores query_key_value head by head, (heads, q | k | v);
// GGUF stores all queries, all keys, all values. GPT-NeoX Japanese (abeja 2022) has one residual behind the other, and of biases but those of norms only
// that of the last attention.

#include "frontends/families/Decoder.h"
#include "frontends/families/Families.h"
#include "frontends/gguf/GgufModel.h"
#include "frontends/huggingface/Config.h"

#include <algorithm>

namespace heddle {

static constexpr TensorRule tensorRules[] = {
    {"gpt_neox.embed_in.weight", "token_embd.weight", ConfigDim::Vocab, ConfigDim::Hidden},
    {"gpt_neox.final_layer_norm.weight", "output_norm.weight", ConfigDim::Hidden},
    {"gpt_neox.final_layer_norm.bias", "output_norm.bias", ConfigDim::Hidden},
    {"embed_out.weight", "output.weight", ConfigDim::Vocab, ConfigDim::Hidden, When::Untied},
    {"gpt_neox.layers.#.input_layernorm.weight", "blk.#.attn_norm.weight", ConfigDim::Hidden},
    {"gpt_neox.layers.#.input_layernorm.bias", "blk.#.attn_norm.bias", ConfigDim::Hidden},
    {"gpt_neox.layers.#.attention.query_key_value.weight", "blk.#.attn_qkv.weight", ConfigDim::QueriesKeysValues,
     ConfigDim::Hidden, When::Always, StoredOrder::ByKvHead},
    {"gpt_neox.layers.#.attention.query_key_value.bias", "blk.#.attn_qkv.bias", ConfigDim::QueriesKeysValues,
     ConfigDim::None, When::AttentionBias, StoredOrder::ByKvHead},
    {"gpt_neox.layers.#.attention.dense.weight", "blk.#.attn_output.weight", ConfigDim::Hidden, ConfigDim::Queries},
    {"gpt_neox.layers.#.attention.dense.bias", "blk.#.attn_output.bias", ConfigDim::Hidden, ConfigDim::None,
     When::OutputBias},
    {"gpt_neox.layers.#.post_attention_layernorm.weight", "blk.#.ffn_norm.weight", ConfigDim::Hidden},
    {"gpt_neox.layers.#.post_attention_layernorm.bias", "blk.#.ffn_norm.bias", ConfigDim::Hidden},
    {"gpt_neox.layers.#.mlp.dense_h_to_4h.weight", "blk.#.ffn_up.weight", ConfigDim::Intermediate, ConfigDim::Hidden},
    {"gpt_neox.layers.#.mlp.dense_h_to_4h.bias", "blk.#.ffn_up.bias", ConfigDim::Intermediate},
    {"gpt_neox.layers.#.mlp.dense_4h_to_h.weight", "blk.#.ffn_down.weight", ConfigDim::Hidden, ConfigDim::Intermediate},
    {"gpt_neox.layers.#.mlp.dense_4h_to_h.bias", "blk.#.ffn_down.bias", ConfigDim::Hidden},
};

// Causal masks, which older releases saved as buffers.
static constexpr UnreadTensor unread[] = {{"gpt_neox.layers.#.attention.bias"},
                                          {"gpt_neox.layers.#.attention.masked_bias"}};

static constexpr KeyName keyNames[] = {
    {"rms_norm_eps", "layer_norm_eps", "attention.layer_norm_epsilon"},
    {"rope_theta", "rotary_emb_base"},
    {"partial_rotary_factor", "rotary_pct"},
};

static void readResidual(JsonObject &object, ModelConfig &config) {
  config.parallelResidual = object.boolean("use_parallel_residual").value_or(true);
}

static void readGgufResidual(GgufKeys &keys, ModelConfig &config) {
  config.parallelResidual = keys.boolean("use_parallel_residual", true);
}

static void buildGptNeoX(ModelBuilder &b) {
  TensorHandle x = b.embedTokens("gpt_neox.embed_in.weight");
  x = decoderLayers(b, "gpt_neox.layers.", x, [&](int64_t, TensorHandle x) {
    TensorHandle normed = b.layerNorm(x, "input_layernorm");
    auto attend = [&] { return fusedSelfAttention(b, normed, "attention.query_key_value", "attention.dense"); };
    if (!b.config().parallelResidual) {
      x = b.add(x, attend());
      return b.add(x, feedForward(b, b.layerNorm(x, "post_attention_layernorm")));
    }
    TensorHandle normedAgain = b.layerNorm(x, "post_attention_layernorm");
    return b.add(b.add(x, attend()), feedForward(b, normedAgain));
  });
  finishDecoder(b, b.layerNorm(x, "gpt_neox.final_layer_norm"));
}

static constexpr Family describeGptNeoX() {
  Family row;
  row.modelType = "gpt_neox";
  row.gguf = "gptneox";
  row.embedding = "gpt_neox.embed_in.weight";
  row.head = "embed_out.weight";
  row.rules = {tensorRules};
  row.unread = unread;
  row.plainHeads = true;
  row.keyNames = keyNames;
  row.defaults.normEps = 1e-5;
  row.defaults.partialRotary = 0.25;
  row.defaults.activation = Activation::Gelu;
  row.biases.attentionKey = "attention_bias";
  row.biases.attentionDefault = true;
  row.feedForward = {"mlp.", nullptr, "dense_h_to_4h", "dense_4h_to_h"};
  row.rope.partial = true;
  row.readers.huggingFaceRest = readResidual;
  row.readers.ggufRest = readGgufResidual;
  row.build = buildGptNeoX;
  return row;
}
const Family family::gptNeoX = describeGptNeoX();

#define PREFIX "gpt_neox_japanese."
#define NORM_RULES(name)                                                                                               \
  {PREFIX name ".weight", nullptr, ConfigDim::Hidden}, {                                                               \
    PREFIX name ".bias", nullptr, ConfigDim::Hidden                                                                    \
  }
static constexpr TensorRule japaneseRules[] = {
    {PREFIX "embed_in.weight", nullptr, ConfigDim::Vocab, ConfigDim::Hidden},
    NORM_RULES("final_layer_norm"),
    {"embed_out.weight", nullptr, ConfigDim::Vocab, ConfigDim::Hidden, When::Untied},
    NORM_RULES("layers.#.input_layernorm"),
    {PREFIX "layers.#.attention.query_key_value.weight", nullptr, ConfigDim::QueriesKeysValues, ConfigDim::Hidden,
     When::Always, StoredOrder::ByKvHead},
    {PREFIX "layers.#.attention.dense.weight", nullptr, ConfigDim::Hidden, ConfigDim::Queries},
    {PREFIX "layers.#.attention.dense_bias", nullptr, ConfigDim::Hidden, ConfigDim::None, When::Last},
    NORM_RULES("layers.#.post_attention_layernorm"),
    {PREFIX "layers.#.mlp.dense_h_to_4h.weight", nullptr, ConfigDim::Intermediate, ConfigDim::Hidden},
    {PREFIX "layers.#.mlp.dense_4h_to_h.weight", nullptr, ConfigDim::Hidden, ConfigDim::Intermediate},
};

static void readJapaneseSizes(JsonObject &object, ModelConfig &config) {
  config.numKvHeads = config.numHeads;
  config.headDim = config.numHeads > 0 ? config.hiddenSize / config.numHeads : 0;
  config.normEps = object.number("layer_norm_eps").value_or(config.family->defaults.normEps);
  const char *key = "intermediate_multiple_size";
  config.intermediateSize =
      std::min<int64_t>(config.hiddenSize, 1 << 20) * object.bounded(key, object.integer(key).value_or(4), 1, 1 << 10);
  checkEvenHeads(object, config);
}

static void buildJapanese(ModelBuilder &b) {
  TensorHandle x = b.embedTokens(PREFIX "embed_in.weight");
  x = decoderLayers(b, PREFIX "layers.", x, [&](int64_t layer, TensorHandle x) {
    std::string bias = layer + 1 == b.config().numHiddenLayers ? "attention.dense_bias" : "";
    TensorHandle normed = b.layerNorm(x, "input_layernorm");
    TensorHandle attended = fusedAttention(b, normed, "attention.query_key_value");
    x = b.add(x, b.linear(attended, "attention.dense.weight", bias));
    return b.add(x, feedForward(b, b.layerNorm(x, "post_attention_layernorm")));
  });
  finishDecoder(b, b.layerNorm(x, PREFIX "final_layer_norm"));
}

static constexpr Family describeJapanese() {
  Family row;
  row.modelType = "gpt_neox_japanese";
  row.embedding = PREFIX "embed_in.weight";
  row.head = "embed_out.weight";
  row.rules = {japaneseRules};
  row.plainHeads = true;
  row.keyNames = keyNames;
  row.defaults.vocabSize = 32000;
  row.defaults.numHeads = 32;
  row.defaults.normEps = 1e-5;
  row.defaults.activation = Activation::Gelu;
  row.defaults.tied = true;
  row.feedForward = {"mlp.", nullptr, "dense_h_to_4h", "dense_4h_to_h"};
  row.rope.partial = true;
  row.readers.huggingFaceSizes = readJapaneseSizes;
  row.build = buildJapanese;
  return row;
}
const Family family::gptNeoXJapanese = describeJapanese();

} // namespace heddle
