// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What Qwen's models have in common, whatever their layers attend by.
#ifndef HEDDLE_FRONTENDS_FAMILIES_QWENLAYERS_H
#define HEDDLE_FRONTENDS_FAMILIES_QWENLAYERS_H

#include "frontends/Family.h"

namespace heddle {

// One expert that every token passes, times a sigmoid of its own.
inline constexpr TensorRule gatedExpertRules[] = {
    {"model.layers.#.mlp.shared_expert.gate_proj.weight", "blk.#.ffn_gate_shexp.weight", ConfigDim::SharedIntermediate,
     ConfigDim::Hidden, When::Sparse},
    {"model.layers.#.mlp.shared_expert.up_proj.weight", "blk.#.ffn_up_shexp.weight", ConfigDim::SharedIntermediate,
     ConfigDim::Hidden, When::Sparse},
    {"model.layers.#.mlp.shared_expert.down_proj.weight", "blk.#.ffn_down_shexp.weight", ConfigDim::Hidden,
     ConfigDim::SharedIntermediate, When::Sparse},
    {"model.layers.#.mlp.shared_expert_gate.weight", "blk.#.ffn_gate_inp_shexp.weight", ConfigDim::One,
     ConfigDim::Hidden, When::Sparse, StoredOrder::Flattened},
};

// What a config class says where config.json does not.
struct GatedExpertDefaults {
  int64_t numExperts = 0, perToken = 0;
  int64_t width = 0, sharedWidth = 0; // moe_intermediate_size, shared_expert_intermediate_size
};

// Counts and widths; and which layers have experts: every decoder_sparse_step-th, but for those that mlp_only_layers names.
void readGatedExperts(JsonObject &object, ModelConfig &config, const GatedExpertDefaults &defaults);
void readSparseSteps(JsonObject &object, ModelConfig &config);

} // namespace heddle

#endif
