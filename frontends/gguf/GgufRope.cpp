// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "bytes/Text.h"
#include "frontends/gguf/GgufModel.h"

namespace heddle {

namespace {

constexpr int64_t mostFactors = 1 << 15;

// The numbers of a small f32 tensor, if the file has it.
std::vector<double> readFactors(GgufKeys &keys, const GgufFile &file, const char *name) {
  const TensorInfo *tensor = file.tensors().find(name);
  if (!tensor)
    return {};
  if (tensor->type != TensorType::F32 || tensor->shape.size() != 1 || tensor->shape[0] > mostFactors) {
    keys.fail(std::string("tensor '") + name + "' has type " + tensorTypeInfo(tensor->type).name + " and shape " +
              shapeText(tensor->shape) + ", expected f32 factors, half as many as rotary dimensions");
    return {};
  }
  std::vector<float> factors(static_cast<size_t>(tensor->shape[0]));
  dequantize(tensor->type, file.tensors().data(*tensor), factors.size(), factors.data());
  return {factors.begin(), factors.end()};
}

void readScaling(GgufKeys &keys, const ModelConfig &config, RopeConfig &rope) {
  bool isScaled = keys.has("rope.scaling.factor") || keys.has("rope.scale_linear");
  std::string type = keys.string("rope.scaling.type", isScaled ? "linear" : "none");
  if (type == "none")
    return;
  if (type == "linear")
    rope.scaling = RopeScalingKind::Linear;
  else if (type == "yarn")
    rope.scaling = RopeScalingKind::Yarn;
  else if (type == "longrope")
    rope.scaling = RopeScalingKind::Longrope;
  else
    keys.unsupported(keys.full("rope.scaling.type") + " is '" + printable(type, 64) +
                     "', which is not supported; known: none, linear, yarn, longrope");
  rope.factor = keys.number("rope.scaling.factor", keys.number("rope.scale_linear", 1.0));
  rope.originalContext = keys.integer("rope.scaling.original_context_length", config.contextLength);
  rope.betaFast = keys.number("rope.scaling.yarn_beta_fast", rope.betaFast);
  rope.betaSlow = keys.number("rope.scaling.yarn_beta_slow", rope.betaSlow);
  // 0.1 mscale_all_dim; published models have mscale equal to it, which leaves cos and sin unscaled.
  rope.mscale = rope.mscaleAllDim = 10.0 * keys.number("rope.scaling.yarn_log_multiplier", 0.0);
  // The reference's attention_factor, which is all that multiplies cos and sin. 1 is also what is written where nothing was stated.
  const char *factor = "rope.scaling.yarn_attn_factor";
  if (rope.scaling == RopeScalingKind::Yarn && keys.number(factor, 1.0) != 1.0)
    rope.attentionFactor = keys.number(factor, 1.0);
}

} // namespace

void readGgufRopes(GgufKeys &keys, ModelConfig &config) {
  const Family &family = *config.family;
  const GgufFile &file = keys.source();
  config.layerRope.assign(static_cast<size_t>(config.numHiddenLayers), 0);
  if (!family.rope.hasRope)
    return;
  RopeConfig rope;
  rope.theta = keys.number("rope.freq_base", family.defaults.ropeTheta);
  rope.rotaryDim = keys.integer("rope.dimension_count", config.headDim);
  rope.interleaved = family.rope.interleavedInGguf;
  readScaling(keys, config, rope);
  if (std::vector<double> divisors = readFactors(keys, file, "rope_freqs.weight"); !divisors.empty())
    rope.shortFactor = std::move(divisors);
  if (file.tensors().find("rope_factors_long.weight")) {
    rope.scaling = RopeScalingKind::Longrope;
    rope.longFactor = readFactors(keys, file, "rope_factors_long.weight");
    rope.shortFactor = readFactors(keys, file, "rope_factors_short.weight");
    rope.originalContext = keys.integer("rope.scaling.original_context_length", config.contextLength);
    rope.factor = rope.originalContext > 0
                      ? static_cast<double>(config.contextLength) / static_cast<double>(rope.originalContext)
                      : 0.0;
    if (keys.has("rope.scaling.attn_factor"))
      rope.attentionFactor = keys.number("rope.scaling.attn_factor", 1.0);
  }
  config.ropes = {rope};
}

} // namespace heddle
