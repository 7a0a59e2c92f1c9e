// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What families have of DeepSeek V3: attention to a latent that all heads share, and the row that theirs differ from.
#ifndef HEDDLE_FRONTENDS_FAMILIES_DEEPSEEK_H
#define HEDDLE_FRONTENDS_FAMILIES_DEEPSEEK_H

#include "frontends/families/Decoder.h"
#include "frontends/families/RoutedExperts.h"

namespace heddle {

inline constexpr TensorRule latentAttentionRules[] = {
    {"model.layers.#.input_layernorm.weight", "blk.#.attn_norm.weight", ConfigDim::Hidden},
    {"model.layers.#.self_attn.q_proj.weight", "blk.#.attn_q.weight", ConfigDim::Queries, ConfigDim::Hidden,
     When::NoQueryLora},
    {"model.layers.#.self_attn.q_a_proj.weight", "blk.#.attn_q_a.weight", ConfigDim::QueryRank, ConfigDim::Hidden,
     When::QueryLora},
    {"model.layers.#.self_attn.q_a_proj.bias", "blk.#.attn_q_a.bias", ConfigDim::QueryRank, ConfigDim::None,
     When::QueryLoraBias},
    {"model.layers.#.self_attn.q_a_layernorm.weight", "blk.#.attn_q_a_norm.weight", ConfigDim::QueryRank,
     ConfigDim::None, When::QueryLora},
    {"model.layers.#.self_attn.q_b_proj.weight", "blk.#.attn_q_b.weight", ConfigDim::Queries, ConfigDim::QueryRank,
     When::QueryLora},
    {"model.layers.#.self_attn.kv_a_proj_with_mqa.weight", "blk.#.attn_kv_a_mqa.weight", ConfigDim::LatentAndRope,
     ConfigDim::Hidden, When::Attends},
    {"model.layers.#.self_attn.kv_a_proj_with_mqa.bias", "blk.#.attn_kv_a_mqa.bias", ConfigDim::LatentAndRope,
     ConfigDim::None, When::AttentionBias},
    {"model.layers.#.self_attn.kv_a_layernorm.weight", "blk.#.attn_kv_a_norm.weight", ConfigDim::LatentRank,
     ConfigDim::None, When::Attends},
    {"model.layers.#.self_attn.kv_b_proj.weight", "blk.#.attn_kv_b.weight", ConfigDim::LatentUps, ConfigDim::LatentRank,
     When::WholeUps},
    {"model.layers.#.self_attn.k_b_proj.weight", "blk.#.attn_k_b.weight", ConfigDim::LatentKeyUps, ConfigDim::NopeDim,
     When::SplitUps},
    {"model.layers.#.self_attn.v_b_proj.weight", "blk.#.attn_v_b.weight", ConfigDim::LatentOutput,
     ConfigDim::LatentRank, When::SplitUps},
    {"model.layers.#.self_attn.o_proj.weight", "blk.#.attn_output.weight", ConfigDim::Hidden, ConfigDim::LatentOutput,
     When::Attends},
    {"model.layers.#.self_attn.o_proj.bias", "blk.#.attn_output.bias", ConfigDim::Hidden, ConfigDim::None,
     When::OutputBias},
};

// What a config class says where config.json does not, of experts that a corrected sigmoid chooses by groups.
struct LatentExpertDefaults {
  RoutedDefaults routed = {256, 8, 2048, 1, 3, 2.5, true};
  int64_t numGroups = 8, topGroups = 4;
};

// Widths of the latents where config.json does not say them.
struct LatentDefaults {
  int64_t kvLoraRank = 512, qLoraRank = 1536, qkNopeHeadDim = 128, qkRopeHeadDim = 64, vHeadDim = 128;
};

// Heads, widths of latents and epsilon.
void readLatentSizes(JsonObject &object, ModelConfig &config, const LatentDefaults &defaults);
// Experts but for which layers have them, where mlp_layer_types says it.
void readLatentExperts(JsonObject &object, ModelConfig &config, const LatentExpertDefaults &defaults);
// What scales scores, by config.ropes[0] where heads rotate.
void setScoreScale(ModelConfig &config);
// Of pairs, unless rope_interleave says otherwise, and that scale, once config.ropes is read.
void readLatentRotation(JsonObject &object, ModelConfig &config);
// Sizes where a config class has those of DeepSeek V3; the others are of GGUF files.
void readDeepSeekSizes(JsonObject &object, ModelConfig &config);
void readGgufDeepSeekSizes(GgufKeys &keys, ModelConfig &config);
void readGgufDeepSeekRest(GgufKeys &keys, ModelConfig &config);

// Of a file without corrections: groups of experts are scored as those with corrections are, by their two best.
Status addZeroCorrections(Model &model);

TensorHandle latentSelfAttention(ModelBuilder &b, TensorHandle x);
void buildDeepSeek(ModelBuilder &b);

constexpr Family describeDeepSeek(const char *modelType) {
  Family row;
  row.modelType = modelType;
  row.rules = {embeddingRules, latentAttentionRules, feedForwardNormRules, feedForwardRules,
               expertRules,    correctionRules,      sharedExpertRules};
  row.biases.attentionKey = "attention_bias";
  row.rope.interleavedInGguf = true;
  row.readers.huggingFaceSizes = readDeepSeekSizes;
  row.readers.ggufSizes = readGgufDeepSeekSizes;
  row.readers.ggufRest = readGgufDeepSeekRest;
  row.build = buildDeepSeek;
  return row;
}

} // namespace heddle

#endif
