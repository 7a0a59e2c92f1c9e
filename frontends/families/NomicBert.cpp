// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Nomic BERT (Nussbaum et al. 2024, arXiv:2402.01613): BERT's norms behind residuals, with rotations instead of a table of positions, gates in the
// feed-forward block and no biases but the norms'.

#include "frontends/families/Bert.h"
#include "frontends/families/Decoder.h"
#include "frontends/families/Families.h"
#include "frontends/gguf/GgufModel.h"
#include "frontends/huggingface/Config.h"

namespace heddle {

static constexpr TensorRule tensorRules[] = {
    {"bert.embeddings.word_embeddings.weight", "token_embd.weight", ConfigDim::Vocab, ConfigDim::Hidden},
    {"bert.embeddings.token_type_embeddings.weight", "token_types.weight", ConfigDim::TokenTypes, ConfigDim::Hidden,
     When::TokenTypes, StoredOrder::Flattened},
    HEDDLE_NAMED_NORM_RULES("bert.emb_ln", "token_embd_norm", Hidden),
    {"bert.encoder.layers.#.attn.Wqkv.weight", "blk.#.attn_qkv.weight", ConfigDim::QueriesKeysValues,
     ConfigDim::Hidden},
    {"bert.encoder.layers.#.attn.out_proj.weight", "blk.#.attn_output.weight", ConfigDim::Hidden, ConfigDim::Queries},
    HEDDLE_NAMED_NORM_RULES("bert.encoder.layers.#.norm1", "blk.#.attn_output_norm", Hidden),
    {"bert.encoder.layers.#.mlp.fc11.weight", "blk.#.ffn_up.weight", ConfigDim::Intermediate, ConfigDim::Hidden},
    {"bert.encoder.layers.#.mlp.fc12.weight", "blk.#.ffn_gate.weight", ConfigDim::Intermediate, ConfigDim::Hidden},
    {"bert.encoder.layers.#.mlp.fc2.weight", "blk.#.ffn_down.weight", ConfigDim::Hidden, ConfigDim::Intermediate},
    HEDDLE_NAMED_NORM_RULES("bert.encoder.layers.#.norm2", "blk.#.layer_output_norm", Hidden),
};

static void readGgufRest(GgufKeys &keys, ModelConfig &config) {
  readGgufTokenTypes(keys, config);
  if (keys.integer("moe_every_n_layers", 0) != 0)
    keys.unsupported(keys.full("moe_every_n_layers") + " is not 0, which is not supported: layers have no experts");
}

// The first releases' keys, under which the published files have their sizes, and what these say of the layers.
static constexpr KeyAlias aliases[] = {
    {"n_embd", "hidden_size"},
    {"n_layer", "num_hidden_layers"},
    {"n_head", "num_attention_heads"},
    {"n_inner", "intermediate_size"},
    {"n_positions", "max_position_embeddings"},
    {"layer_norm_epsilon", "layer_norm_eps"},
};

// What they may say of layers that are computed otherwise: null or false where they are not.
static constexpr const char *otherLayers[] = {
    "causal",
    "parallel_block",
    "parallel_block_tied_norm",
    "prenorm",
    "rotary_emb_interleaved",
    "rotary_emb_scale_base",
    "rotary_scaling_factor",
    "scale_attn_by_inverse_layer_idx",
    "use_rms_norm",
};

static void readRest(JsonObject &object, ModelConfig &config) {
  if (int64_t dim = object.integer("head_dim").value_or(config.headDim); dim != config.headDim)
    object.fail("head_dim", "is " + std::to_string(dim) + ", expected hidden_size / num_attention_heads, " +
                                std::to_string(config.headDim));
  if (double share = object.number("rotary_emb_fraction").value_or(1.0); share != 1.0)
    object.unsupported("rotary_emb_fraction", "is " + std::to_string(share) + ", which is not supported; expected 1");
  if (double theta = object.number("rotary_emb_base").value_or(0.0); theta && !config.ropes.empty())
    config.ropes[0].theta = theta;
  for (const char *key : otherLayers) {
    JsonValue value = object.find(key);
    bool isOff = value.is(JsonKind::Absent) || value.is(JsonKind::Null) ||
                 (value.is(JsonKind::Bool) && !object.boolean(key).value_or(true));
    if (!isOff)
      object.unsupported(key, "is set, which is not supported; expected null or false");
  }
  if (std::string gate = object.string("activation_function").value_or("swiglu"); gate != "swiglu")
    object.unsupported("activation_function",
                       "is '" + printable(gate, 64) + "', which is not supported; expected swiglu");
  if (int64_t every = object.integer("moe_every_n_layers").value_or(0); every > 0)
    object.unsupported("moe_every_n_layers", "is " + std::to_string(every) + ", which is not supported; expected 0");
}

static TensorHandle buildLayer(ModelBuilder &b, TensorHandle x) {
  x = b.layerNorm(b.add(fusedSelfAttention(b, x, "attn.Wqkv", "attn.out_proj"), x), "norm1");
  TensorHandle up = b.linear(x, "mlp.fc11");
  return b.layerNorm(b.add(b.linear(b.glu(b.linear(x, "mlp.fc12"), up), "mlp.fc2"), x), "norm2");
}

static void build(ModelBuilder &b) {
  TensorHandle x = b.embedTokens(b.config().family->embedding);
  if (b.config().tokenTypes)
    x = b.add(x, b.embedTokenTypes("bert.embeddings.token_type_embeddings.weight"));
  x = decoderLayers(b, "bert.encoder.layers.", b.layerNorm(x, "bert.emb_ln"),
                    [&](int64_t, TensorHandle x) { return buildLayer(b, x); });
  finishEncoder(b, x, TensorHandle());
}

static constexpr Family describe() {
  Family row = describeBertKin("nomic_bert");
  row.gguf = "nomic-bert";
  row.embedding = "bert.embeddings.word_embeddings.weight";
  row.rules = {tensorRules};
  row.defaults.vocabSize = 30528;
  row.defaults.numHeads = 12;
  row.defaults.context = 2048;
  row.defaults.ropeTheta = 1000.0;
  row.defaults.activation = Activation::Silu;
  row.rope.hasRope = true;
  row.aliases = aliases;
  row.readers.huggingFaceSizes = readBertSizes;
  row.readers.huggingFaceRest = readRest;
  row.readers.ggufRest = readGgufRest;
  row.build = build;
  return row;
}
const Family family::nomicBert = describe();

// The second version (Nussbaum and Duderstadt 2025, arXiv:2502.07972): XLM-RoBERTa's biases and GELU, and in every second layer experts that softmax weighs.
static constexpr TensorRule sparseRules[] = {
    {"bert.embeddings.word_embeddings.weight", "token_embd.weight", ConfigDim::Vocab, ConfigDim::Hidden},
    {"bert.embeddings.token_type_embeddings.weight", "token_types.weight", ConfigDim::TokenTypes, ConfigDim::Hidden,
     When::TokenTypes, StoredOrder::Flattened},
    HEDDLE_NAMED_NORM_RULES("bert.emb_ln", "token_embd_norm", Hidden),
    HEDDLE_NAMED_LINEAR_RULES("bert.encoder.layers.#.attn.Wqkv", "blk.#.attn_qkv", QueriesKeysValues, Hidden),
    HEDDLE_NAMED_LINEAR_RULES("bert.encoder.layers.#.attn.out_proj", "blk.#.attn_output", Hidden, Queries),
    HEDDLE_NAMED_NORM_RULES("bert.encoder.layers.#.norm1", "blk.#.attn_output_norm", Hidden),
    {"bert.encoder.layers.#.mlp.fc1.weight", "blk.#.ffn_up.weight", ConfigDim::Intermediate, ConfigDim::Hidden,
     When::Dense},
    {"bert.encoder.layers.#.mlp.fc1.bias", "blk.#.ffn_up.bias", ConfigDim::Intermediate, ConfigDim::None, When::Dense},
    {"bert.encoder.layers.#.mlp.fc2.weight", "blk.#.ffn_down.weight", ConfigDim::Hidden, ConfigDim::Intermediate,
     When::Dense},
    {"bert.encoder.layers.#.mlp.fc2.bias", "blk.#.ffn_down.bias", ConfigDim::Hidden, ConfigDim::None, When::Dense},
    {"bert.encoder.layers.#.mlp.router.layer.weight", "blk.#.ffn_gate_inp.weight", ConfigDim::Experts,
     ConfigDim::Hidden, When::Sparse},
    {"bert.encoder.layers.#.mlp.experts.@.fc1.weight", "blk.#.ffn_up_exps.weight", ConfigDim::ExpertIntermediate,
     ConfigDim::Hidden, When::Sparse},
    {"bert.encoder.layers.#.mlp.experts.@.fc2.weight", "blk.#.ffn_down_exps.weight", ConfigDim::Hidden,
     ConfigDim::ExpertIntermediate, When::Sparse},
    HEDDLE_NAMED_NORM_RULES("bert.encoder.layers.#.norm2", "blk.#.layer_output_norm", Hidden),
};

// Which layers have experts is said by their tensors.
static void readSparseGguf(GgufKeys &keys, ModelConfig &config) {
  readGgufTokenTypes(keys, config);
  (void)keys.full("moe_every_n_layers");
  config.moe.normTopkProb = false;
}

static void buildSparse(ModelBuilder &b) {
  const ModelConfig &c = b.config();
  TensorHandle x = b.embedTokens(c.family->embedding);
  if (c.tokenTypes)
    x = b.add(x, b.embedTokenTypes("bert.embeddings.token_type_embeddings.weight"));
  x = decoderLayers(b, "bert.encoder.layers.", b.layerNorm(x, "bert.emb_ln"), [&](int64_t layer, TensorHandle x) {
    x = b.layerNorm(b.add(fusedSelfAttention(b, x, "attn.Wqkv", "attn.out_proj"), x), "norm1");
    bool isSparse = c.moe.numExperts > 0 && c.moe.layerIsMoe[size_t(layer)];
    TensorHandle fed =
        isSparse ? b.moe(x, c.family->experts.block) : b.linear(b.activation(b.linear(x, "mlp.fc1")), "mlp.fc2");
    return b.layerNorm(b.add(fed, x), "norm2");
  });
  finishEncoder(b, x, TensorHandle());
}

static constexpr Family describeSparse() {
  Family row = describeBertKin("nomic-bert-moe");
  row.gguf = "nomic-bert-moe";
  row.isGgufOnly = row.hasExperts = true;
  row.embedding = "bert.embeddings.word_embeddings.weight";
  row.rules = {sparseRules};
  row.experts = {"mlp.", nullptr, "fc1", "fc2", "router.layer"};
  row.rope.hasRope = true;
  row.readers.ggufRest = readSparseGguf;
  row.build = buildSparse;
  return row;
}
const Family family::nomicBertMoe = describeSparse();

} // namespace heddle
