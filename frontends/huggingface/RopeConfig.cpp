// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/Size.h"
#include "frontends/huggingface/Config.h"

#include <algorithm>

namespace heddle {

namespace {

struct ScalingName {
  const char *name;
  RopeScalingKind kind;
};
// "su" is what the first phi3 checkpoints called longrope.
constexpr ScalingName scalingNames[] = {
    {"default", RopeScalingKind::None},  {"linear", RopeScalingKind::Linear}, {"dynamic", RopeScalingKind::Dynamic},
    {"llama3", RopeScalingKind::Llama3}, {"yarn", RopeScalingKind::Yarn},     {"longrope", RopeScalingKind::Longrope},
    {"su", RopeScalingKind::Longrope},
};

RopeScalingKind readKind(JsonObject &rope) {
  const char *key = rope.has("rope_type") ? "rope_type" : "type";
  std::string name = rope.string(key).value_or("default");
  for (const ScalingName &scaling : scalingNames)
    if (name == scaling.name)
      return scaling.kind;
  rope.fail(key, "is '" + printable(name, 64) +
                     "', which is not supported; known: default, linear, dynamic, llama3, yarn, longrope");
  return RopeScalingKind::None;
}

// The factor, and the context that it stretches. Phi3 gives the latter outside, and no factor: it is the ratio of both
// contexts.
void readFactor(JsonObject &rope, JsonObject &config, const ModelConfig &model, RopeConfig &out) {
  std::optional<int64_t> original = rope.integer("original_max_position_embeddings");
  if (!original)
    original = config.integer("original_max_position_embeddings");
  if (out.scaling == RopeScalingKind::Dynamic)
    original.reset(); // grows from max_position_embeddings, whatever else is said
  out.originalContext = original.value_or(model.contextLength);
  std::optional<double> factor = rope.number("factor");
  bool isRatio = out.scaling == RopeScalingKind::Longrope || (out.scaling == RopeScalingKind::Yarn && !factor);
  if (isRatio && original && *original > 0)
    factor = static_cast<double>(model.contextLength) / static_cast<double>(*original);
  if (!factor && out.scaling == RopeScalingKind::Longrope)
    factor = 1.0;
  if (!factor)
    rope.fail("factor", "is missing");
  out.factor = factor.value_or(1.0);
}

} // namespace

RopeConfig readRope(JsonObject &rope, JsonObject &config, const ModelConfig &model, double theta) {
  RopeConfig out;
  out.theta = rope.number("rope_theta").value_or(theta);
  double partial = rope.number("partial_rotary_factor").value_or(config.number("partial_rotary_factor").value_or(1.0));
  if (!(partial > 0.0 && partial <= 1.0))
    rope.fail("partial_rotary_factor", "is " + std::to_string(partial) + ", expected a number above 0, at most 1");
  else
    out.rotaryDim =
        model.latent.enabled ? model.latent.qkRopeHeadDim
                             : static_cast<int64_t>(static_cast<double>(model.headDim) * partial);
  out.scaling = readKind(rope);
  if (out.scaling == RopeScalingKind::None)
    return out;
  readFactor(rope, config, model, out);
  out.attentionFactor = rope.number("attention_factor");
  out.lowFreqFactor = rope.number("low_freq_factor").value_or(out.lowFreqFactor);
  out.highFreqFactor = rope.number("high_freq_factor").value_or(out.highFreqFactor);
  out.betaFast = rope.number("beta_fast").value_or(out.betaFast);
  out.betaSlow = rope.number("beta_slow").value_or(out.betaSlow);
  out.mscale = rope.number("mscale").value_or(out.mscale);
  out.mscaleAllDim = rope.number("mscale_all_dim").value_or(out.mscaleAllDim);
  out.truncate = rope.boolean("truncate").value_or(true);
  if (out.scaling == RopeScalingKind::Longrope) {
    out.shortFactor = rope.numbers("short_factor");
    out.longFactor = rope.numbers("long_factor");
  }
  return out;
}

void readRopes(JsonObject &object, const Architecture &architecture, ModelConfig &config) {
  config.layerRope.assign(static_cast<size_t>(config.numHiddenLayers), 0);
  if (!architecture.hasRope)
    return;
  double theta = object.number("rope_theta").value_or(architecture.defaults.ropeTheta);
  const char *key = object.has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  JsonObject rope = object.object(key);
  if (config.architecture != "gemma3_text") {
    config.ropes = {readRope(rope, object, config, theta)};
    config.ropes[0].interleaved = architecture.isLatent && object.boolean("rope_interleave").value_or(true);
    object.adopt(rope);
    return;
  }
  // gemma3: full attention has one rotary embedding, layers with a window another, never scaled in the older dialect.
  double localTheta = object.number("rope_local_base_freq").value_or(10000.0);
  bool perType = rope.has("full_attention") || rope.has("sliding_attention");
  JsonObject none = object.object("");
  JsonObject full = rope.object("full_attention"), sliding = rope.object("sliding_attention");
  config.ropes = {readRope(perType ? full : rope, object, config, theta),
                  readRope(perType ? sliding : none, object, config, localTheta)};
  for (const JsonObject *part : {&rope, &full, &sliding, &none})
    object.adopt(*part);
  for (size_t layer = 0; layer < config.layerRope.size(); ++layer)
    config.layerRope[layer] = config.layerWindow[layer] > 0;
}

} // namespace heddle
