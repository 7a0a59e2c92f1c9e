// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// BLOOM (arXiv:2211.05100): scores fall with the distance (ALiBi), no positions elsewhere; LayerNorm, also of the embeddings; GELU. Hugging
// Face stores query_key_value head by head, (heads, q | k | v); GGUF stores all queries, all keys, all values.

#include "frontends/families/Decoder.h"
#include "frontends/families/Families.h"
#include "frontends/huggingface/Config.h"

namespace heddle {

static constexpr TensorRule tensorRules[] = {
    {"transformer.word_embeddings.weight", "token_embd.weight", ConfigDim::Vocab, ConfigDim::Hidden},
    {"transformer.word_embeddings_layernorm.weight", "token_embd_norm.weight", ConfigDim::Hidden},
    {"transformer.word_embeddings_layernorm.bias", "token_embd_norm.bias", ConfigDim::Hidden},
    {"transformer.ln_f.weight", "output_norm.weight", ConfigDim::Hidden},
    {"transformer.ln_f.bias", "output_norm.bias", ConfigDim::Hidden},
    {"lm_head.weight", "output.weight", ConfigDim::Vocab, ConfigDim::Hidden, When::Untied},
    {"transformer.h.#.input_layernorm.weight", "blk.#.attn_norm.weight", ConfigDim::Hidden},
    {"transformer.h.#.input_layernorm.bias", "blk.#.attn_norm.bias", ConfigDim::Hidden},
    {"transformer.h.#.self_attention.query_key_value.weight", "blk.#.attn_qkv.weight", ConfigDim::QueriesKeysValues,
     ConfigDim::Hidden, When::Always, StoredOrder::ByKvHead},
    {"transformer.h.#.self_attention.query_key_value.bias", "blk.#.attn_qkv.bias", ConfigDim::QueriesKeysValues,
     ConfigDim::None, When::Always, StoredOrder::ByKvHead},
    {"transformer.h.#.self_attention.dense.weight", "blk.#.attn_output.weight", ConfigDim::Hidden, ConfigDim::Queries},
    {"transformer.h.#.self_attention.dense.bias", "blk.#.attn_output.bias", ConfigDim::Hidden},
    {"transformer.h.#.post_attention_layernorm.weight", "blk.#.ffn_norm.weight", ConfigDim::Hidden},
    {"transformer.h.#.post_attention_layernorm.bias", "blk.#.ffn_norm.bias", ConfigDim::Hidden},
    {"transformer.h.#.mlp.dense_h_to_4h.weight", "blk.#.ffn_up.weight", ConfigDim::Intermediate, ConfigDim::Hidden},
    {"transformer.h.#.mlp.dense_h_to_4h.bias", "blk.#.ffn_up.bias", ConfigDim::Intermediate},
    {"transformer.h.#.mlp.dense_4h_to_h.weight", "blk.#.ffn_down.weight", ConfigDim::Hidden, ConfigDim::Intermediate},
    {"transformer.h.#.mlp.dense_4h_to_h.bias", "blk.#.ffn_down.bias", ConfigDim::Hidden},
};

static constexpr KeyName keyNames[] = {
    {"num_hidden_layers", "n_layer"},
    {"num_attention_heads", "n_head"},
    {"max_position_embeddings", "seq_length"},
    {"rms_norm_eps", "layer_norm_epsilon", "attention.layer_norm_epsilon"},
};

static constexpr KeyAlias aliases[] = {
    {"n_embed", "hidden_size"}, {"num_hidden_layers", "n_layer"}, {"num_attention_heads", "n_head"}};

// The feed-forward block is four times as wide as the model, whatever else stands there.
static void readSizes(JsonObject &object, ModelConfig &config) {
  config.numKvHeads = config.numHeads;
  config.headDim = config.numHeads > 0 ? config.hiddenSize / config.numHeads : 0;
  // Bounded, so that it cannot overflow before hidden_size is checked.
  config.intermediateSize = config.hiddenSize <= 1 << 20 ? 4 * config.hiddenSize : 0;
  config.normEps = object.number("layer_norm_epsilon").value_or(config.family->defaults.normEps);
  config.residualIsNormed = object.boolean("apply_residual_connection_post_layernorm").value_or(false);
  checkEvenHeads(object, config);
}

static void buildBloom(ModelBuilder &b) {
  AttentionTerms terms;
  terms.positions.slopes = alibiSlopes(b.config().numHeads);
  TensorHandle x =
      b.layerNorm(b.embedTokens("transformer.word_embeddings.weight"), "transformer.word_embeddings_layernorm");
  x = decoderLayers(b, "transformer.h.", x, [&](int64_t, TensorHandle x) {
    TensorHandle normed = b.layerNorm(x, "input_layernorm");
    auto residual = [&] { return b.config().residualIsNormed ? normed : x; };
    x = b.add(residual(),
              fusedSelfAttention(b, normed, "self_attention.query_key_value", "self_attention.dense", terms));
    normed = b.layerNorm(x, "post_attention_layernorm");
    return b.add(residual(), b.linear(b.activation(b.linear(normed, "mlp.dense_h_to_4h")), "mlp.dense_4h_to_h"));
  });
  finishDecoder(b, b.layerNorm(x, "transformer.ln_f"));
}

static constexpr Family describeBloom() {
  Family row;
  row.modelType = "bloom";
  row.gguf = "bloom";
  row.embedding = "transformer.word_embeddings.weight";
  row.rules = {tensorRules};
  row.keyNames = keyNames;
  row.aliases = aliases;
  row.defaults.numHeads = 8;
  row.defaults.normEps = 1e-5;
  row.defaults.activation = Activation::GeluTanh;
  row.defaults.tied = true;
  row.activationKey = nullptr;
  row.windows.inGguf = false;
  row.rope.hasRope = false;
  row.readers.huggingFaceSizes = readSizes;
  row.build = buildBloom;
  return row;
}
const Family family::bloom = describeBloom();

} // namespace heddle
