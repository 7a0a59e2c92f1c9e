// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// MPT (MosaicML 2023): scores fall with the distance (ALiBi), no positions elsewhere; LayerNorm without biases, one matrix for q, k and v, GELU; in some
// checkpoints queries, keys and values are clipped. The slopes go down to 2^-alibi_bias_max, as in the model's own code; transformers does not read
// that key.

#include "frontends/families/Decoder.h"
#include "frontends/families/Families.h"
#include "frontends/gguf/GgufModel.h"
#include "frontends/huggingface/JsonObject.h"

#include <cmath>

namespace heddle {

static constexpr TensorRule tensorRules[] = {
    {"transformer.wte.weight", "token_embd.weight", ConfigDim::Vocab, ConfigDim::Hidden},
    {"transformer.norm_f.weight", "output_norm.weight", ConfigDim::Hidden},
    {"lm_head.weight", "output.weight", ConfigDim::Vocab, ConfigDim::Hidden, When::Untied},
    {"transformer.blocks.#.norm_1.weight", "blk.#.attn_norm.weight", ConfigDim::Hidden},
    {"transformer.blocks.#.attn.Wqkv.weight", "blk.#.attn_qkv.weight", ConfigDim::QueriesKeysValues, ConfigDim::Hidden},
    {"transformer.blocks.#.attn.out_proj.weight", "blk.#.attn_output.weight", ConfigDim::Hidden, ConfigDim::Queries},
    {"transformer.blocks.#.norm_2.weight", "blk.#.ffn_norm.weight", ConfigDim::Hidden},
    {"transformer.blocks.#.ffn.up_proj.weight", "blk.#.ffn_up.weight", ConfigDim::Intermediate, ConfigDim::Hidden},
    {"transformer.blocks.#.ffn.down_proj.weight", "blk.#.ffn_down.weight", ConfigDim::Hidden, ConfigDim::Intermediate},
};

static constexpr KeyName keyNames[] = {
    {"num_hidden_layers", "n_layers"},
    {"hidden_size", "d_model"},
    {"num_attention_heads", "n_heads"},
    {"max_position_embeddings", "max_seq_len"},
    {"rms_norm_eps", "layer_norm_epsilon", "attention.layer_norm_epsilon"},
};

static constexpr KeyAlias aliases[] = {
    {"num_attention_heads", "n_heads"}, {"hidden_size", "d_model"}, {"num_hidden_layers", "n_layers"}};

static bool isPositive(double number) {
  return number > 0.0 && std::isfinite(number);
}

static void readAttention(JsonObject &object, ModelConfig &config) {
  JsonObject attention = object.object("attn_config");
  auto positive = [&](const char *key, double absent) {
    double number = attention.number(key).value_or(absent);
    if (attention.has(key) && !isPositive(number))
      attention.fail(key, "is " + std::to_string(number) + ", expected a positive number");
    return number;
  };
  config.clipQkv = positive("clip_qkv", 0.0);
  config.attentionScale = positive("softmax_scale", 0.0);
  config.alibiMaxBias = positive("alibi_bias_max", config.alibiMaxBias);
  for (const char *key : {"prefix_lm", "qk_ln", "attn_uses_sequence_id"})
    if (attention.boolean(key).value_or(false))
      attention.unsupported(key, "is true, which is not supported for " + config.architecture + "; expected false");
  if (!attention.boolean("alibi").value_or(true))
    attention.unsupported("alibi", "is false, which is not supported for " + config.architecture + "; expected true");
  if (std::string type = attention.string("attn_type").value_or("multihead_attention"); type != "multihead_attention")
    attention.unsupported("attn_type", "is '" + printable(type, 64) + "', which is not supported for " +
                                           config.architecture + "; expected multihead_attention");
  object.adopt(attention);
  if (std::string type = object.string("norm_type").value_or(""); type.find("rms") != std::string::npos)
    object.unsupported("norm_type", "is '" + printable(type, 64) + "', which is not supported for " +
                                        config.architecture + "; expected low_precision_layernorm");
}

static void readGgufAttention(GgufKeys &keys, ModelConfig &config) {
  config.clipQkv = keys.number("attention.clamp_kqv", 0.0);
  config.alibiMaxBias = keys.number("attention.max_alibi_bias", 0.0);
  if (!isPositive(config.alibiMaxBias))
    keys.fail(keys.full("attention.max_alibi_bias") + " is " + std::to_string(config.alibiMaxBias) +
              ", expected a positive number");
}

static void buildMpt(ModelBuilder &b) {
  AttentionTerms terms;
  terms.positions.slopes = alibiSlopes(b.config().numHeads, b.config().alibiMaxBias);
  TensorHandle x = b.embedTokens("transformer.wte.weight");
  x = decoderLayers(b, "transformer.blocks.", x, [&](int64_t, TensorHandle x) {
    x = b.add(x, fusedSelfAttention(b, b.layerNorm(x, "norm_1"), "attn.Wqkv", "attn.out_proj", terms));
    return b.add(x, feedForward(b, b.layerNorm(x, "norm_2")));
  });
  finishDecoder(b, b.layerNorm(x, "transformer.norm_f"));
}

static constexpr Family describeMpt() {
  Family row;
  row.modelType = "mpt";
  row.gguf = "mpt";
  row.embedding = "transformer.wte.weight";
  row.rules = {tensorRules};
  row.plainHeads = true;
  row.keyNames = keyNames;
  row.aliases = aliases;
  row.defaults.widening = 4;
  row.defaults.normEps = 1e-5;
  row.defaults.activation = Activation::Gelu;
  row.defaults.tied = true;
  row.activationKey = nullptr;
  row.windows.inGguf = false;
  row.feedForward = {"ffn.", nullptr, "up_proj", "down_proj"};
  row.rope.hasRope = false;
  row.readers.huggingFaceRest = readAttention;
  row.readers.ggufRest = readGgufAttention;
  row.build = buildMpt;
  return row;
}
const Family family::mpt = describeMpt();

} // namespace heddle
