// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Experts as DeepSeek's models have them: the first layers are dense, the others choose among routed experts, beside experts that every
// token passes.
#ifndef HEDDLE_FRONTENDS_FAMILIES_ROUTEDEXPERTS_H
#define HEDDLE_FRONTENDS_FAMILIES_ROUTEDEXPERTS_H

#include "frontends/Family.h"

namespace heddle {

inline constexpr TensorRule correctionRules[] = {
    {"model.layers.#.mlp.gate.e_score_correction_bias", "blk.#.exp_probs_b.bias", ConfigDim::Experts, ConfigDim::None,
     When::Correction},
};

inline constexpr TensorRule sharedExpertRules[] = {
    {"model.layers.#.mlp.shared_experts.gate_proj.weight", "blk.#.ffn_gate_shexp.weight", ConfigDim::SharedIntermediate,
     ConfigDim::Hidden, When::Shared},
    {"model.layers.#.mlp.shared_experts.up_proj.weight", "blk.#.ffn_up_shexp.weight", ConfigDim::SharedIntermediate,
     ConfigDim::Hidden, When::Shared},
    {"model.layers.#.mlp.shared_experts.down_proj.weight", "blk.#.ffn_down_shexp.weight", ConfigDim::Hidden,
     ConfigDim::SharedIntermediate, When::Shared},
    {"model.layers.#.mlp.shared_experts.gate_proj.bias", "blk.#.ffn_gate_shexp.bias", ConfigDim::SharedIntermediate,
     ConfigDim::None, When::SharedBias},
    {"model.layers.#.mlp.shared_experts.up_proj.bias", "blk.#.ffn_up_shexp.bias", ConfigDim::SharedIntermediate,
     ConfigDim::None, When::SharedBias},
    {"model.layers.#.mlp.shared_experts.down_proj.bias", "blk.#.ffn_down_shexp.bias", ConfigDim::Hidden,
     ConfigDim::None, When::SharedBias},
};

// What a config class says where config.json does not.
struct RoutedDefaults {
  int64_t numExperts = 0, perToken = 0;
  int64_t width = 0; // moe_intermediate_size
  int64_t numShared = 0;
  int64_t firstSparse = 0; // first_k_dense_replace
  double scale = 1.0;      // routed_scaling_factor
  bool normTopkProb = false;
};

// config.moe but for scores and groups.
void readRoutedExperts(JsonObject &object, ModelConfig &config, const RoutedDefaults &defaults);
// Which layers have experts, of families whose files may name each: mlp_layer_types, before first_k_dense_replace.
void readSparseLayers(JsonObject &object, ModelConfig &config, int64_t firstSparse);
// The same where the reference knows mlp_layer_types alone, without which all layers but the first have experts.
void readSparseLayersButFirst(JsonObject &object, ModelConfig &config);
// All of it; sigmoids choose, where the file does not say how, of the second; of both the experts of all tokens are as wide as the others together.
void readGgufRoutedExperts(GgufKeys &keys, ModelConfig &config);
void readGgufSigmoidExperts(GgufKeys &keys, ModelConfig &config);
// How wide these are, of families whose files say it beside the number of them or without it.
void readGgufSharedWidth(GgufKeys &keys, ModelConfig &config);

} // namespace heddle

#endif
