// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// ESM Cambrian (EvolutionaryScale 2024) reads proteins: Llama's layers with LayerNorms, norms of all queries and keys of a token, and blocks that add less
// to the residual the more layers there are. A token sees all of its text.

#include "frontends/families/Bert.h"
#include "frontends/families/Decoder.h"
#include "frontends/families/Families.h"
#include "frontends/families/Roberta.h"
#include "frontends/huggingface/Config.h"

#include <cmath>

namespace heddle {

#define BIASED(name, out, in, when)                                                                                    \
  {"esmc.layers.#." name ".weight", nullptr, ConfigDim::out, ConfigDim::in}, {                                         \
    "esmc.layers.#." name ".bias", nullptr, ConfigDim::out, ConfigDim::None, When::when                                \
  }
static constexpr TensorRule tensorRules[] = {
    {"esmc.embed_tokens.weight", nullptr, ConfigDim::Vocab, ConfigDim::Hidden},
    {"esmc.norm.weight", nullptr, ConfigDim::Hidden},
    HEDDLE_NORM_RULES("esmc.layers.#.input_layernorm", Hidden),
    BIASED("self_attn.q_proj", Queries, Hidden, AttentionBias),
    BIASED("self_attn.k_proj", KeyValues, Hidden, AttentionBias),
    BIASED("self_attn.v_proj", KeyValues, Hidden, AttentionBias),
    BIASED("self_attn.o_proj", Hidden, Queries, OutputBias),
    {"esmc.layers.#.self_attn.q_norm.weight", nullptr, ConfigDim::Hidden},
    {"esmc.layers.#.self_attn.k_norm.weight", nullptr, ConfigDim::Hidden},
    HEDDLE_NORM_RULES("esmc.layers.#.post_attention_layernorm", Hidden),
    BIASED("mlp.gate_proj", Intermediate, Hidden, MlpBias),
    BIASED("mlp.up_proj", Intermediate, Hidden, MlpBias),
    BIASED("mlp.down_proj", Hidden, Intermediate, MlpBias),
};
static constexpr TensorRule maskedRules[] = {
    HEDDLE_LINEAR_RULES("lm_head.dense", Hidden, Hidden),
    HEDDLE_NORM_RULES("lm_head.layer_norm", Hidden),
    HEDDLE_LINEAR_RULES("lm_head.decoder", Vocab, Hidden),
};
static constexpr TensorRule tokenRules[] = {HEDDLE_LINEAR_RULES("score", Labels, Hidden)};

// Of heads that are not compiled.
static constexpr UnreadTensor unread[] = {
    {"lm_head.*", /*isLoss=*/true}, {"classifier.*", /*isLoss=*/true}, {"score.*", /*isLoss=*/true}};

static void readSizes(JsonObject &object, ModelConfig &config) {
  config.intermediateSize = readSize(object, config, "intermediate_size");
  config.normEps = config.family->defaults.normEps;
  config.numKvHeads = object.integer("num_key_value_heads").value_or(config.numHeads);
  int64_t even = config.numHeads > 0 ? config.hiddenSize / config.numHeads : 0;
  config.headDim = object.integer("head_dim").value_or(even);
  checkEvenHeads(object, config);
  if (config.numKvHeads != config.numHeads)
    object.fail("num_key_value_heads", "is " + std::to_string(config.numKvHeads) + ", expected num_attention_heads (" +
                                           std::to_string(config.numHeads) + ")");
  if (config.headDim != even)
    object.fail("head_dim", "is " + std::to_string(config.headDim) + ", expected hidden_size / num_attention_heads, " +
                                std::to_string(even) + ": queries are normed as hidden states are");
}

static void readRest(JsonObject &, ModelConfig &config) {
  config.residualScale = 1.0 / std::sqrt(double(config.numHiddenLayers) / 36.0);
}

static void build(ModelBuilder &b) {
  TensorHandle x = b.embedTokens(b.config().family->embedding);
  x = decoderLayers(b, "esmc.layers.", x, [&](int64_t layer, TensorHandle x) { return preNormLayer(b, layer, x); });
  finishEncoder(b, b.layerNorm(x, "esmc.norm"), TensorHandle());
}

static void buildMasked(ModelBuilder &b, TensorHandle x, TensorHandle) {
  x = b.layerNorm(b.activation(b.linear(x, "lm_head.dense"), Activation::Gelu), "lm_head.layer_norm");
  b.output("logits", b.linear(x, "lm_head.decoder"));
}

static void buildTokens(ModelBuilder &b, TensorHandle x, TensorHandle) {
  b.output("logits", b.linear(x, "score"));
}

static constexpr Head heads[] = {
    {"EsmcForMaskedLM", maskedRules, buildMasked, HeadTask::FillMask},
    {"EsmcForSequenceClassification", robertaSequenceRules, buildRobertaClassifier, HeadTask::Classify},
    {"EsmcForTokenClassification", tokenRules, buildTokens, HeadTask::ClassifyTokens},
};

static constexpr Family describe() {
  Family row;
  row.modelType = "esmc";
  row.isEncoder = true;
  row.heads = heads;
  row.embedding = "esmc.embed_tokens.weight";
  row.head = "lm_head.decoder.weight";
  row.rules = {tensorRules};
  row.unread = unread;
  row.norm = NormKind::Layer;
  row.headNorms = HeadNorms::AllHeads;
  row.defaults.vocabSize = 64;
  row.defaults.numHeads = 40;
  row.defaults.context = 2048;
  row.defaults.normEps = 1e-5;
  row.biases.attentionKey = "attention_bias";
  row.biases.mlpKey = "mlp_bias";
  row.readers.huggingFaceSizes = readSizes;
  row.readers.huggingFaceRest = readRest;
  row.build = build;
  return row;
}
const Family family::esmc = describe();

} // namespace heddle
