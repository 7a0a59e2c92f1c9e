// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// BioGPT (Luo et al. 2022, arXiv:2210.10341): learned positions, whose table has two rows before that of position 0, LayerNorm before each block,
// embeddings that are scaled. llama.cpp computes no such model.

#include "frontends/families/Decoder.h"
#include "frontends/families/Families.h"
#include "frontends/huggingface/JsonObject.h"

#include <cmath>

namespace heddle {

static constexpr TensorRule tensorRules[] = {
    {"biogpt.embed_tokens.weight", nullptr, ConfigDim::Vocab, ConfigDim::Hidden},
    {"biogpt.embed_positions.weight", nullptr, ConfigDim::Positions, ConfigDim::Hidden},
    {"biogpt.layer_norm.weight", nullptr, ConfigDim::Hidden},
    {"biogpt.layer_norm.bias", nullptr, ConfigDim::Hidden},
    {"output_projection.weight", nullptr, ConfigDim::Vocab, ConfigDim::Hidden, When::Untied},
    {"biogpt.layers.#.self_attn_layer_norm.weight", nullptr, ConfigDim::Hidden},
    {"biogpt.layers.#.self_attn_layer_norm.bias", nullptr, ConfigDim::Hidden},
    {"biogpt.layers.#.self_attn.q_proj.weight", nullptr, ConfigDim::Queries, ConfigDim::Hidden},
    {"biogpt.layers.#.self_attn.q_proj.bias", nullptr, ConfigDim::Queries},
    {"biogpt.layers.#.self_attn.k_proj.weight", nullptr, ConfigDim::KeyValues, ConfigDim::Hidden},
    {"biogpt.layers.#.self_attn.k_proj.bias", nullptr, ConfigDim::KeyValues},
    {"biogpt.layers.#.self_attn.v_proj.weight", nullptr, ConfigDim::KeyValues, ConfigDim::Hidden},
    {"biogpt.layers.#.self_attn.v_proj.bias", nullptr, ConfigDim::KeyValues},
    {"biogpt.layers.#.self_attn.out_proj.weight", nullptr, ConfigDim::Hidden, ConfigDim::Queries},
    {"biogpt.layers.#.self_attn.out_proj.bias", nullptr, ConfigDim::Hidden},
    {"biogpt.layers.#.final_layer_norm.weight", nullptr, ConfigDim::Hidden},
    {"biogpt.layers.#.final_layer_norm.bias", nullptr, ConfigDim::Hidden},
    {"biogpt.layers.#.fc1.weight", nullptr, ConfigDim::Intermediate, ConfigDim::Hidden},
    {"biogpt.layers.#.fc1.bias", nullptr, ConfigDim::Intermediate},
    {"biogpt.layers.#.fc2.weight", nullptr, ConfigDim::Hidden, ConfigDim::Intermediate},
    {"biogpt.layers.#.fc2.bias", nullptr, ConfigDim::Hidden},
};

static void readScales(JsonObject &object, ModelConfig &config) {
  config.firstPosition = 2;
  config.normEps = config.family->defaults.normEps; // whatever a config says
  if (object.boolean("scale_embedding").value_or(true))
    config.embeddingScale = std::sqrt(double(config.hiddenSize));
}

static void buildBioGpt(ModelBuilder &b) {
  TensorHandle x =
      b.add(b.embedTokens("biogpt.embed_tokens.weight"), b.embedPositions("biogpt.embed_positions.weight"));
  x = decoderLayers(b, "biogpt.layers.", x, [&](int64_t, TensorHandle x) {
    x = b.add(x, selfAttention(b, b.layerNorm(x, "self_attn_layer_norm")));
    return b.add(x, feedForward(b, b.layerNorm(x, "final_layer_norm")));
  });
  finishDecoder(b, b.layerNorm(x, "biogpt.layer_norm"));
}

static constexpr Family describeBioGpt() {
  Family row;
  row.modelType = "biogpt";
  row.embedding = "biogpt.embed_tokens.weight";
  row.head = "output_projection.weight";
  row.rules = {tensorRules};
  row.plainHeads = true;
  row.defaults.context = 1024;
  row.defaults.normEps = 1e-5;
  row.defaults.activation = Activation::Gelu;
  row.defaults.tied = true;
  row.attention.output = "out_proj";
  row.feedForward = {"", nullptr, "fc1", "fc2"};
  row.rope.hasRope = false;
  row.readers.huggingFaceRest = readScales;
  row.build = buildBioGpt;
  return row;
}
const Family family::bioGpt = describeBioGpt();

} // namespace heddle
