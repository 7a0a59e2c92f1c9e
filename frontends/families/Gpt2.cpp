// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// GPT-2 (Radford et al. 2019): learned positions, LayerNorm, one fused c_attn (q | k | v) per layer, GELU. Hugging Face's files store
// linear weights as (in, out) and have names of their own for most keys. StarCoder and SantaCoder (gpt_bigcode; Li et al. 2023,
// arXiv:2305.06161): the same with weights as (out, in), of which all queries share one key and value, or q, k and v stand head by head.

#include "frontends/families/Decoder.h"
#include "frontends/families/Families.h"
#include "frontends/huggingface/JsonObject.h"

namespace heddle {

static constexpr TensorRule outerRules[] = {
    {"transformer.wte.weight", "token_embd.weight", ConfigDim::Vocab, ConfigDim::Hidden},
    {"transformer.wpe.weight", "position_embd.weight", ConfigDim::Positions, ConfigDim::Hidden},
    {"transformer.ln_f.weight", "output_norm.weight", ConfigDim::Hidden},
    {"transformer.ln_f.bias", "output_norm.bias", ConfigDim::Hidden},
    {"lm_head.weight", "output.weight", ConfigDim::Vocab, ConfigDim::Hidden, When::Untied},
    {"transformer.h.#.ln_1.weight", "blk.#.attn_norm.weight", ConfigDim::Hidden},
    {"transformer.h.#.ln_1.bias", "blk.#.attn_norm.bias", ConfigDim::Hidden},
    {"transformer.h.#.attn.c_proj.bias", "blk.#.attn_output.bias", ConfigDim::Hidden},
    {"transformer.h.#.ln_2.weight", "blk.#.ffn_norm.weight", ConfigDim::Hidden},
    {"transformer.h.#.ln_2.bias", "blk.#.ffn_norm.bias", ConfigDim::Hidden},
    {"transformer.h.#.mlp.c_fc.bias", "blk.#.ffn_up.bias", ConfigDim::Intermediate},
    {"transformer.h.#.mlp.c_proj.bias", "blk.#.ffn_down.bias", ConfigDim::Hidden},
};

static constexpr TensorRule matrixRules[] = {
    {"transformer.h.#.attn.c_attn.weight", "blk.#.attn_qkv.weight", ConfigDim::QueriesKeysValues, ConfigDim::Hidden,
     When::Always, StoredOrder::Conv1d},
    {"transformer.h.#.attn.c_attn.bias", "blk.#.attn_qkv.bias", ConfigDim::QueriesKeysValues},
    {"transformer.h.#.attn.c_proj.weight", "blk.#.attn_output.weight", ConfigDim::Hidden, ConfigDim::Queries,
     When::Always, StoredOrder::Conv1d},
    {"transformer.h.#.mlp.c_fc.weight", "blk.#.ffn_up.weight", ConfigDim::Intermediate, ConfigDim::Hidden, When::Always,
     StoredOrder::Conv1d},
    {"transformer.h.#.mlp.c_proj.weight", "blk.#.ffn_down.weight", ConfigDim::Hidden, ConfigDim::Intermediate,
     When::Always, StoredOrder::Conv1d},
};

static constexpr TensorRule bigCodeMatrixRules[] = {
    {"transformer.h.#.attn.c_attn.weight", "blk.#.attn_qkv.weight", ConfigDim::QueriesKeysValues, ConfigDim::Hidden,
     When::Always, StoredOrder::ByKvHead},
    {"transformer.h.#.attn.c_attn.bias", "blk.#.attn_qkv.bias", ConfigDim::QueriesKeysValues, ConfigDim::None,
     When::Always, StoredOrder::ByKvHead},
    {"transformer.h.#.attn.c_proj.weight", "blk.#.attn_output.weight", ConfigDim::Hidden, ConfigDim::Queries},
    {"transformer.h.#.mlp.c_fc.weight", "blk.#.ffn_up.weight", ConfigDim::Intermediate, ConfigDim::Hidden},
    {"transformer.h.#.mlp.c_proj.weight", "blk.#.ffn_down.weight", ConfigDim::Hidden, ConfigDim::Intermediate},
};

// Causal masks, which older releases saved as buffers.
static constexpr UnreadTensor unread[] = {{"transformer.h.#.attn.bias"}, {"transformer.h.#.attn.masked_bias"}};

static constexpr KeyName keyNames[] = {
    {"num_hidden_layers", "n_layer"},
    {"hidden_size", "n_embd"},
    {"num_attention_heads", "n_head"},
    {"num_key_value_heads", "n_head"},
    {"head_dim", "n_embd"},
    {"intermediate_size", "n_inner"},
    {"max_position_embeddings", "n_positions"},
    {"rms_norm_eps", "layer_norm_epsilon", "attention.layer_norm_epsilon"},
};

static constexpr KeyAlias aliases[] = {{"hidden_size", "n_embd"},
                                       {"max_position_embeddings", "n_positions"},
                                       {"num_attention_heads", "n_head"},
                                       {"num_hidden_layers", "n_layer"}};

static void readScales(JsonObject &object, ModelConfig &config) {
  config.attentionScale = object.boolean("scale_attn_weights").value_or(true) ? 0.0 : 1.0;
  config.scaleByLayer = object.boolean("scale_attn_by_inverse_layer_idx").value_or(false);
}

static void buildGpt2(ModelBuilder &b) {
  TensorHandle x = b.add(b.embedTokens("transformer.wte.weight"), b.embedPositions("transformer.wpe.weight"));
  x = decoderLayers(b, "transformer.h.", x, [&](int64_t, TensorHandle x) {
    x = b.add(x, fusedSelfAttention(b, b.layerNorm(x, "ln_1"), "attn.c_attn", "attn.c_proj"));
    return b.add(x, feedForward(b, b.layerNorm(x, "ln_2")));
  });
  finishDecoder(b, b.layerNorm(x, "transformer.ln_f"));
}

static constexpr Family describeGpt2() {
  Family row;
  row.modelType = "gpt2";
  row.gguf = "gpt2";
  row.embedding = "transformer.wte.weight";
  row.rules = {outerRules, matrixRules};
  row.unread = unread;
  row.plainHeads = true;
  row.keyNames = keyNames;
  row.aliases = aliases;
  row.defaults.context = 1024;
  row.defaults.widening = 4;
  row.defaults.normEps = 1e-5;
  row.defaults.activation = Activation::GeluTanh;
  row.defaults.tied = true;
  row.activationKey = "activation_function";
  row.windows.inGguf = false;
  row.feedForward = {"mlp.", nullptr, "c_fc", "c_proj"};
  row.rope.hasRope = false;
  row.readers.huggingFaceRest = readScales;
  row.build = buildGpt2;
  return row;
}
const Family family::gpt2 = describeGpt2();

static void readBigCode(JsonObject &object, ModelConfig &config) {
  config.attentionScale = object.boolean("scale_attn_weights").value_or(true) ? 0.0 : 1.0;
  if (object.flag("multi_query", /*absent=*/true))
    config.numKvHeads = 1;
}

static constexpr Family describeGptBigCode() {
  Family row = describeGpt2();
  row.modelType = "gpt_bigcode";
  row.gguf = "starcoder";
  row.rules = {outerRules, bigCodeMatrixRules};
  row.readers.huggingFaceRest = readBigCode;
  return row;
}
const Family family::gptBigCode = describeGptBigCode();

} // namespace heddle
