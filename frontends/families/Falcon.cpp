// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Falcon (arXiv:2311.16867): attention and feed-forward read the layer's input side by side, through one LayerNorm or one each, or one after
// the other; queries share one key and value, or groups of them do; rotary embedding, or scores that fall with the distance (ALiBi). Hugging
// Face stores query_key_value KV head by KV head; GGUF stores all queries, all keys, all values, and knows no ALiBi.

#include "frontends/families/Decoder.h"
#include "frontends/families/Families.h"
#include "frontends/gguf/GgufModel.h"
#include "frontends/huggingface/Config.h"

#include <cmath>
#include <cstring>

namespace heddle {

static constexpr TensorRule tensorRules[] = {
    {"transformer.word_embeddings.weight", "token_embd.weight", ConfigDim::Vocab, ConfigDim::Hidden},
    {"transformer.ln_f.weight", "output_norm.weight", ConfigDim::Hidden},
    {"transformer.ln_f.bias", "output_norm.bias", ConfigDim::Hidden},
    {"lm_head.weight", "output.weight", ConfigDim::Vocab, ConfigDim::Hidden, When::Untied},
    {"transformer.h.#.input_layernorm.weight", "blk.#.attn_norm.weight", ConfigDim::Hidden, ConfigDim::None,
     When::SharedNorm},
    {"transformer.h.#.input_layernorm.bias", "blk.#.attn_norm.bias", ConfigDim::Hidden, ConfigDim::None,
     When::SharedNorm},
    {"transformer.h.#.ln_mlp.weight", "blk.#.attn_norm.weight", ConfigDim::Hidden, ConfigDim::None, When::NormEach},
    {"transformer.h.#.ln_mlp.bias", "blk.#.attn_norm.bias", ConfigDim::Hidden, ConfigDim::None, When::NormEach},
    {"transformer.h.#.ln_attn.weight", "blk.#.attn_norm_2.weight", ConfigDim::Hidden, ConfigDim::None, When::NormEach},
    {"transformer.h.#.ln_attn.bias", "blk.#.attn_norm_2.bias", ConfigDim::Hidden, ConfigDim::None, When::NormEach},
    {"transformer.h.#.post_attention_layernorm.weight", "blk.#.ffn_norm.weight", ConfigDim::Hidden, ConfigDim::None,
     When::SequentialNorm},
    {"transformer.h.#.post_attention_layernorm.bias", "blk.#.ffn_norm.bias", ConfigDim::Hidden, ConfigDim::None,
     When::SequentialNorm},
    {"transformer.h.#.self_attention.query_key_value.weight", "blk.#.attn_qkv.weight", ConfigDim::QueriesKeysValues,
     ConfigDim::Hidden, When::Always, StoredOrder::ByKvHead},
    {"transformer.h.#.self_attention.query_key_value.bias", "blk.#.attn_qkv.bias", ConfigDim::QueriesKeysValues,
     ConfigDim::None, When::AttentionBias, StoredOrder::ByKvHead},
    {"transformer.h.#.self_attention.dense.weight", "blk.#.attn_output.weight", ConfigDim::Hidden, ConfigDim::Queries},
    {"transformer.h.#.self_attention.dense.bias", "blk.#.attn_output.bias", ConfigDim::Hidden, ConfigDim::None,
     When::OutputBias},
    {"transformer.h.#.mlp.dense_h_to_4h.weight", "blk.#.ffn_up.weight", ConfigDim::Intermediate, ConfigDim::Hidden},
    {"transformer.h.#.mlp.dense_h_to_4h.bias", "blk.#.ffn_up.bias", ConfigDim::Intermediate, ConfigDim::None,
     When::MlpBias},
    {"transformer.h.#.mlp.dense_4h_to_h.weight", "blk.#.ffn_down.weight", ConfigDim::Hidden, ConfigDim::Intermediate},
    {"transformer.h.#.mlp.dense_4h_to_h.bias", "blk.#.ffn_down.bias", ConfigDim::Hidden, ConfigDim::None,
     When::MlpBias},
};

static constexpr KeyName keyNames[] = {
    {"num_key_value_heads", "num_kv_heads"},
    {"intermediate_size", "ffn_hidden_size"},
    {"rms_norm_eps", "layer_norm_epsilon", "attention.layer_norm_epsilon"},
};

static constexpr KeyAlias aliases[] = {{"n_embed", "hidden_size"}};

// One KV head where queries share it, unless the newer architecture says how many there are.
static void readKvHeads(JsonObject &object, ModelConfig &config, bool isNew) {
  bool sharesOne = object.flag("multi_query", /*absent=*/true);
  int64_t kvHeads = object.integer("num_kv_heads").value_or(config.numHeads);
  if (!isNew && !sharesOne && kvHeads != config.numHeads)
    object.fail("num_kv_heads", "is " + std::to_string(kvHeads) + ", expected num_attention_heads (" +
                                    std::to_string(config.numHeads) + ") without multi_query");
  config.numKvHeads = !isNew && sharesOne ? 1 : kvHeads;
}

static void readSizes(JsonObject &object, ModelConfig &config) {
  readKvHeads(object, config, object.boolean("new_decoder_architecture").value_or(false));
  config.headDim = config.numHeads > 0 ? config.hiddenSize / config.numHeads : 0;
  // Bounded, so that it cannot overflow before hidden_size is checked.
  config.intermediateSize =
      object.integer("ffn_hidden_size").value_or(config.hiddenSize <= 1 << 20 ? 4 * config.hiddenSize : 0);
  config.normEps = object.number("layer_norm_epsilon").value_or(config.family->defaults.normEps);
  checkEvenHeads(object, config);
}

static void readLayers(JsonObject &object, ModelConfig &config) {
  bool isNew = object.boolean("new_decoder_architecture").value_or(false);
  config.parallelResidual = object.flag("parallel_attn", /*absent=*/true);
  int64_t norms = object.integer("num_ln_in_parallel_attn").value_or(isNew ? 2 : 1);
  config.hasNormEach = isNew && norms == 2;
  // What the reference has no forward for.
  if (isNew && !config.parallelResidual)
    object.fail("parallel_attn", "is false, expected true with new_decoder_architecture");
  if (norms != 1 && !config.hasNormEach)
    object.fail("num_ln_in_parallel_attn",
                "is " + std::to_string(norms) + ", expected 1, or 2 with new_decoder_architecture");
  config.hasAlibi = object.boolean("alibi").value_or(false);
  if (config.hasAlibi)
    config.ropes.clear();
}

static void readGgufNorms(GgufKeys &keys, ModelConfig &config) {
  config.parallelResidual = true;
  config.hasNormEach = keys.source().tensors().find("blk.0.attn_norm_2.weight") != nullptr;
}

// The reference rounds slopes to bf16, and scales what they give as it does scores.
static std::vector<float> scaledSlopes(const ModelConfig &c) {
  std::vector<float> slopes = alibiSlopes(c.numHeads);
  for (float &slope : slopes) {
    uint32_t bits;
    std::memcpy(&bits, &slope, sizeof bits);
    bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
    std::memcpy(&slope, &bits, sizeof bits);
    slope = float(slope / std::sqrt(double(c.headDim)));
  }
  return slopes;
}

static void buildFalcon(ModelBuilder &b) {
  const ModelConfig &c = b.config();
  AttentionTerms terms;
  if (c.hasAlibi)
    terms.positions.slopes = scaledSlopes(c);
  auto attend = [&](TensorHandle x) {
    return fusedSelfAttention(b, x, "self_attention.query_key_value", "self_attention.dense", terms);
  };
  auto feedForward = [&](TensorHandle x) {
    return b.linear(b.activation(b.linear(x, "mlp.dense_h_to_4h")), "mlp.dense_4h_to_h");
  };
  TensorHandle x = b.embedTokens("transformer.word_embeddings.weight");
  x = decoderLayers(b, "transformer.h.", x, [&](int64_t, TensorHandle x) {
    TensorHandle normed = b.layerNorm(x, c.hasNormEach ? "ln_attn" : "input_layernorm");
    if (!c.parallelResidual) {
      x = b.add(x, attend(normed));
      return b.add(x, feedForward(b.layerNorm(x, "post_attention_layernorm")));
    }
    TensorHandle toWiden = c.hasNormEach ? b.layerNorm(x, "ln_mlp") : normed;
    return b.add(b.add(x, attend(normed)), feedForward(toWiden));
  });
  finishDecoder(b, b.layerNorm(x, "transformer.ln_f"));
}

static constexpr Family describeFalcon() {
  Family row;
  row.modelType = "falcon";
  row.gguf = "falcon";
  row.embedding = "transformer.word_embeddings.weight";
  row.rules = {tensorRules};
  row.keyNames = keyNames;
  row.aliases = aliases;
  row.defaults.numHeads = 71;
  row.defaults.normEps = 1e-5;
  row.defaults.activation = Activation::Gelu;
  row.defaults.tied = true;
  row.activationKey = "activation";
  row.biases.attentionKey = row.biases.mlpKey = "bias";
  row.windows.inGguf = false;
  row.readers.huggingFaceSizes = readSizes;
  row.readers.huggingFaceRest = readLayers;
  row.readers.ggufRest = readGgufNorms;
  row.build = buildFalcon;
  return row;
}
const Family family::falcon = describeFalcon();

} // namespace heddle
