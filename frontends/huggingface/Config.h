// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// config.json and generation_config.json, in the dialect of published checkpoints (rope_theta, rope_scaling) and in the
// newer one (rope_parameters).
#ifndef HEDDLE_FRONTENDS_HUGGINGFACE_CONFIG_H
#define HEDDLE_FRONTENDS_HUGGINGFACE_CONFIG_H

#include "frontends/Architectures.h"
#include "frontends/huggingface/JsonObject.h"

namespace heddle {

// Config files are small; the bound keeps the objects built of them within the readers' memory limit.
constexpr size_t maxConfigBytes = 2 << 20;

// Reads DIRECTORY/config.json and, if there is one, DIRECTORY/generation_config.json. Sizes are checked, the rest is
// not.
Expected<ModelConfig> readHuggingFaceConfig(const std::string &directory);

// What a graph does not say of a decoder, from the same two files of its directory, where they are: the name of the
// architecture, special tokens, defaults of generation, and the trained length, which may only be less than what
// `config` holds.
Status readConfigBesideGraph(const std::string &directory, ModelConfig &config);

// deepseek_v2 and deepseek_v3: the sizes of their heads and latents; their experts, once sizes are bounded; the scale of
// scores, after readRopes.
void readDeepSeekSizes(JsonObject &object, ModelConfig &config);
void readDeepSeekExperts(JsonObject &object, ModelConfig &config);
void setDeepSeekScale(ModelConfig &config);

// One rotary embedding: `rope` holds type, factors and perhaps theta; `config` what stands outside of it.
RopeConfig readRope(JsonObject &rope, JsonObject &config, const ModelConfig &model, double theta);
// config.ropes and config.layerRope, after layerWindow.
void readRopes(JsonObject &object, const Architecture &architecture, ModelConfig &config);

} // namespace heddle

#endif
