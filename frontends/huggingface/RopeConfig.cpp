// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "bytes/Text.h"
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

RopeScalingKind readKind(JsonObject &rope, const ModelConfig &model) {
  const char *key = rope.has("rope_type") ? "rope_type" : "type";
  std::string name = rope.string(key).value_or("default");
  bool longropeOnly = model.family->rope.longropeOnly;
  if (longropeOnly && name == "yarn")
    name = "longrope"; // what the first of these checkpoints meant by it
  if (model.family->rope.yarn && name == model.family->rope.yarn)
    name = "yarn";
  for (const ScalingName &scaling : scalingNames)
    if (name == scaling.name &&
        (!longropeOnly || scaling.kind == RopeScalingKind::None || scaling.kind == RopeScalingKind::Longrope))
      return scaling.kind;
  rope.unsupported(key, "is '" + printable(name, 64) + "', which is not supported; known: " +
                            (longropeOnly ? "default, longrope" : "default, linear, dynamic, llama3, yarn, longrope"));
  return RopeScalingKind::None;
}

// The share of a head that rotates. Where the family does not know it, the reference rotates whole heads whatever the key says, and fails
// on it where the frequencies are scaled.
double readPartial(JsonObject &rope, JsonObject &config, const ModelConfig &model, RopeScalingKind scaling) {
  std::string outside = fieldName(model, "partial_rotary_factor");
  double partial = rope.number("partial_rotary_factor")
                       .value_or(config.number(outside.c_str()).value_or(model.family->defaults.partialRotary));
  if (!(partial > 0.0 && partial <= 1.0))
    rope.fail("partial_rotary_factor", "is " + std::to_string(partial) + ", expected a number above 0, at most 1");
  if (model.family->rope.partial)
    return partial;
  if (partial != 1.0 && scaling != RopeScalingKind::None)
    rope.fail("partial_rotary_factor", "is " + std::to_string(partial) + ", which " + model.architecture +
                                           " does not support beside scaled frequencies");
  return 1.0;
}

// The factor, and the context that it stretches. A config that gives the latter outside means it, whatever stands inside.
// Without a factor it is the ratio of both contexts.
void readFactor(JsonObject &rope, JsonObject &config, const ModelConfig &model, RopeConfig &out) {
  std::optional<int64_t> original = config.integer("original_max_position_embeddings");
  if (!original && model.family->rope.originalContext)
    original = model.family->rope.originalContext;
  if (!original)
    original = rope.integer("original_max_position_embeddings");
  if (out.scaling == RopeScalingKind::Dynamic)
    original.reset(); // grows from max_position_embeddings, whatever else is said
  out.originalContext = original.value_or(model.contextLength);
  std::optional<double> factor = rope.number("factor");
  bool isRatio = out.scaling == RopeScalingKind::Longrope || out.scaling == RopeScalingKind::Yarn;
  if (!factor && isRatio && original && *original > 0)
    factor = static_cast<double>(model.contextLength) / static_cast<double>(*original);
  if (!factor && out.scaling == RopeScalingKind::Longrope)
    factor = 1.0;
  if (!factor)
    rope.fail("factor", "is missing");
  out.factor = factor.value_or(1.0);
}

} // namespace

static bool isEmpty(JsonValue rope) {
  return !rope || (rope.is(JsonKind::Object) && !JsonItems(rope).next());
}

const char *ropeKey(const JsonObject &object) {
  return isEmpty(object.find("rope_scaling")) ? "rope_parameters" : "rope_scaling";
}

RopeConfig readRope(JsonObject &rope, JsonObject &config, const ModelConfig &model, double theta) {
  RopeConfig out;
  out.theta = rope.number("rope_theta").value_or(theta);
  out.interleaved = model.family->rope.interleaved;
  out.scaling = readKind(rope, model);
  int64_t rotated = model.latent.enabled ? model.latent.qkRopeHeadDim : model.headDim;
  // Of a family whose heads have one width, the reference's rotation still takes that of head_dim.
  if (model.family->plainHeads) {
    rotated = config.integer("head_dim").value_or(rotated);
    if (rotated < 1 || rotated > model.headDim)
      config.fail("head_dim", "is " + std::to_string(rotated) + ", expected 1 to the width of a head (" +
                                  std::to_string(model.headDim) + ")");
  }
  double partial = readPartial(rope, config, model, out.scaling);
  if (!rope.status().isOk())
    return out;
  out.rotaryDim = static_cast<int64_t>(static_cast<double>(rotated) * partial);
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
  out.truncate = rope.flag("truncate", true);
  if (out.scaling == RopeScalingKind::Longrope) {
    out.shortFactor = rope.numbers("short_factor");
    out.longFactor = rope.numbers("long_factor");
  }
  return out;
}

void readCommonTruncate(JsonObject &ropes, ModelConfig &config) {
  bool truncate = ropes.flag("truncate", true);
  for (RopeConfig &rope : config.ropes)
    rope.truncate = truncate;
}

void readRopesByType(JsonObject &object, ModelConfig &config, double fullTheta, double slidingTheta, bool scalesBoth) {
  JsonObject ropes = object.object("rope_parameters"), scaling = object.object("rope_scaling");
  const char *types[] = {"full_attention", "sliding_attention"};
  bool isScaled = !isEmpty(object.find("rope_scaling")), isNew = !isEmpty(object.find("rope_parameters"));
  std::string notOf = "which is not supported for " + config.architecture;
  if (isNew && isScaled)
    object.unsupported("rope_scaling", "is set beside rope_parameters, " + notOf + "; expected one of them");
  if (isNew && !ropes.has(types[0]) && !ropes.has(types[1]))
    object.fail("rope_parameters", "has neither full_attention nor sliding_attention");
  // Neither changes what the reference computes, though the file means it.
  for (const char *type : types)
    if (scaling.has(type))
      scaling.unsupported(type, "is set, " + notOf + "; expected it in rope_parameters");
  if (scaling.has("type") && !scaling.has("rope_type"))
    scaling.unsupported("type", "is set, " + notOf + "; expected rope_type");
  JsonObject full = ropes.object(types[0]), sliding = ropes.object(types[1]);
  config.ropes = {readRope(isScaled ? scaling : full, object, config, fullTheta),
                  readRope(isScaled && scalesBoth ? scaling : sliding, object, config, slidingTheta)};
  if (isNew)
    readCommonTruncate(ropes, config);
  for (const JsonObject *part : {&ropes, &scaling, &full, &sliding})
    object.adopt(*part);
}

void readRopes(JsonObject &object, ModelConfig &config) {
  if (!config.family->rope.hasRope)
    return;
  if (config.family->readers.huggingFaceRopes)
    return config.family->readers.huggingFaceRopes(object, config);
  double theta = object.number(fieldName(config, "rope_theta").c_str()).value_or(config.family->defaults.ropeTheta);
  JsonObject rope = object.object(ropeKey(object));
  for (const char *type : {"full_attention", "sliding_attention"})
    if (rope.has(type))
      rope.unsupported(type, "is not supported: " + config.architecture + " has one rotary embedding for all layers");
  config.ropes = {readRope(rope, object, config, theta)};
  object.adopt(rope);
}

} // namespace heddle
