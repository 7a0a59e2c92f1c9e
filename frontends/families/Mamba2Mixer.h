// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The mixer of Mamba 2 (arXiv:2405.21060), which keeps a state in the place of attention or beside it: a convolution of a few tokens, then linear
// attention whose state decays by a step of each head, and a gate. Families differ in where it lies and in what their configs call its sizes.
#ifndef HEDDLE_FRONTENDS_FAMILIES_MAMBA2MIXER_H
#define HEDDLE_FRONTENDS_FAMILIES_MAMBA2MIXER_H

#include "frontends/Family.h"
#include "frontends/families/ModelBuilder.h"

namespace heddle {

// The mixer's tensors, whose names begin with `scope`, as "model.layers.#.mamba.".
#define HEDDLE_MAMBA2_RULES(scope)                                                                                     \
  {                                                                                                                    \
      {scope "in_proj.weight", "blk.#.ssm_in.weight", ConfigDim::StateInputs, ConfigDim::Hidden, When::Recurrent},     \
      {scope "in_proj.bias", "blk.#.ssm_in.bias", ConfigDim::StateInputs, ConfigDim::None, When::StateProjectionBias}, \
      {scope "conv1d.weight", "blk.#.ssm_conv1d.weight", ConfigDim::StateChannels, ConfigDim::ConvWidth,               \
       When::Recurrent, StoredOrder::Flattened},                                                                       \
      {scope "conv1d.bias", "blk.#.ssm_conv1d.bias", ConfigDim::StateChannels, ConfigDim::None, When::RecurrentBias},  \
      {scope "A_log", "blk.#.ssm_a", ConfigDim::StateHeads, ConfigDim::None, When::Recurrent, StoredOrder::Flattened}, \
      {scope "D", "blk.#.ssm_d", ConfigDim::StateHeads, ConfigDim::None, When::Recurrent, StoredOrder::Flattened},     \
      {scope "dt_bias", "blk.#.ssm_dt.bias", ConfigDim::StateHeads, ConfigDim::None, When::Recurrent},                 \
      {scope "norm.weight", "blk.#.ssm_norm.weight", ConfigDim::StateValues, ConfigDim::None, When::StateNorm,         \
       StoredOrder::Flattened},                                                                                        \
      {scope "out_proj.weight", "blk.#.ssm_out.weight", ConfigDim::Hidden, ConfigDim::StateValues, When::Recurrent},   \
      {scope "out_proj.bias", "blk.#.ssm_out.bias", ConfigDim::Hidden, ConfigDim::None, When::StateOutputBias},        \
  }

// Of models that keep states in "mamba." of some layers, whose keys all begin with mamba_.
inline constexpr TensorRule mambaRules[] = HEDDLE_MAMBA2_RULES("model.layers.#.mamba.");
#define HEDDLE_MAMBA_KEY_NAMES                                                                                         \
  {"conv_L_cache", "mamba_d_conv", "ssm.conv_kernel"}, {"linear_num_key_heads", "mamba_n_groups"},                     \
      {"linear_num_value_heads", "mamba_n_heads"}, {"linear_key_head_dim", "mamba_d_state"},                           \
      {"linear_value_head_dim", "mamba_d_head"}

// What of config.json is no size, by the family's names for it, and what its class says where it says nothing.
struct Mamba2Keys {
  // hidden_size times the first, unless the second says the width of all heads; null: there is no such key. Without either it is what heads are together.
  const char *expand = "mamba_expand", *width = nullptr;
  const char *convBias = "mamba_conv_bias", *inputBias = "mamba_proj_bias", *outputBias = "mamba_proj_bias";
  int64_t groups = 1, heads = 128, stateSize = 256;
  int64_t headDim = 0; // 0: that of even heads
};

// config.recurrent but for which layers keep a state; its activation is the config's.
void readMamba2(JsonObject &object, ModelConfig &config, const Mamba2Keys &keys = {});

// Of a GGUF file: the sizes of a state, of any linear attention behind a convolution.
void readGgufStateSizes(GgufKeys &keys, ModelConfig &config);
// Whether the first layer that keeps a state has a tensor of that name behind `blk.N.`.
bool hasGgufStatePart(GgufKeys &keys, const ModelConfig &config, const char *part);
// Which of a mixer's convolution and projections have biases.
void readGgufStateBiases(GgufKeys &keys, ModelConfig &config);
// And what else the mixer's tensors say, once it is known which layers keep a state.
void readGgufMamba2(GgufKeys &keys, ModelConfig &config);

// The mixer under `block`, as "mamba.", of the layer that is being built.
TensorHandle mamba2Mixer(ModelBuilder &b, TensorHandle x, const std::string &block);

} // namespace heddle

#endif
