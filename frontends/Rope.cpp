// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Frequencies of rotary position embedding. Hugging Face computes them in f32; so does this, operation by operation,
// because positions multiply the last bit. Correction ranges of YaRN are f64 there and here.
#include "frontends/ModelConfig.h"

#include <algorithm>
#include <cmath>

namespace heddle {

namespace {

constexpr double pi = 3.14159265358979323846;

// base ^ (2 i / dim), (dim / 2)
std::vector<float> positionFrequencies(double base, int64_t dim) {
  std::vector<float> powers(static_cast<size_t>(dim / 2));
  for (size_t i = 0; i < powers.size(); ++i)
    powers[i] = std::pow(static_cast<float>(base), static_cast<float>(2 * i) / static_cast<float>(dim));
  return powers;
}

std::vector<float> plainFrequencies(double base, int64_t dim) {
  std::vector<float> frequencies = positionFrequencies(base, dim);
  for (float &frequency : frequencies)
    frequency = 1.0f / frequency;
  return frequencies;
}

// The base grows once the sequence is longer than the trained context.
double dynamicBase(const RopeConfig &rope, int64_t maxPositions) {
  double length = static_cast<double>(std::max(maxPositions, rope.originalContext));
  double ratio = rope.factor * length / static_cast<double>(rope.originalContext) - (rope.factor - 1.0);
  double dim = static_cast<double>(rope.rotaryDim);
  return rope.theta * std::pow(ratio, dim / (dim - 2.0));
}

// Long waves are stretched by the factor, short ones kept, those between interpolated.
std::vector<float> llama3Frequencies(const RopeConfig &rope) {
  std::vector<float> frequencies = plainFrequencies(rope.theta, rope.rotaryDim);
  double context = static_cast<double>(rope.originalContext);
  float lowWave = static_cast<float>(context / rope.lowFreqFactor),
        highWave = static_cast<float>(context / rope.highFreqFactor);
  float factor = static_cast<float>(rope.factor), low = static_cast<float>(rope.lowFreqFactor);
  float range = static_cast<float>(rope.highFreqFactor - rope.lowFreqFactor);
  for (float &frequency : frequencies) {
    float wave = static_cast<float>(2.0 * pi) / frequency;
    if (wave > lowWave) {
      frequency = frequency / factor;
    } else if (!(wave < highWave)) {
      float smooth = (static_cast<float>(context) / wave - low) / range;
      frequency = (1.0f - smooth) * frequency / factor + smooth * frequency;
    }
  }
  return frequencies;
}

// The dimension that turns `rotations` times within the original context.
double yarnDimension(const RopeConfig &rope, double rotations) {
  return static_cast<double>(rope.rotaryDim) *
         std::log(static_cast<double>(rope.originalContext) / (rotations * 2.0 * pi)) / (2.0 * std::log(rope.theta));
}

double yarnScale(double factor, double mscale) {
  return factor <= 1.0 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

std::vector<float> yarnFrequencies(const RopeConfig &rope) {
  double low = yarnDimension(rope, rope.betaFast), high = yarnDimension(rope, rope.betaSlow);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(rope.rotaryDim - 1));
  if (low == high)
    high += 0.001;
  std::vector<float> powers = positionFrequencies(rope.theta, rope.rotaryDim);
  for (size_t i = 0; i < powers.size(); ++i) {
    float ramp = (static_cast<float>(i) - static_cast<float>(low)) / static_cast<float>(high - low);
    float kept = 1.0f - std::min(std::max(ramp, 0.0f), 1.0f); // share of the unscaled frequency
    float unscaled = 1.0f / powers[i], scaled = 1.0f / (static_cast<float>(rope.factor) * powers[i]);
    powers[i] = scaled * (1.0f - kept) + unscaled * kept;
  }
  return powers;
}

double yarnAttention(const RopeConfig &rope) {
  if (rope.mscale != 0.0 && rope.mscaleAllDim != 0.0)
    return yarnScale(rope.factor, rope.mscale) / yarnScale(rope.factor, rope.mscaleAllDim);
  return yarnScale(rope.factor, 1.0);
}

// 1 / (factors[i] x base ^ (2 i / dim))
std::vector<float> dividedFrequencies(const RopeConfig &rope, const std::vector<double> &factors) {
  std::vector<float> powers = positionFrequencies(rope.theta, rope.rotaryDim);
  for (size_t i = 0; i < powers.size(); ++i)
    powers[i] = 1.0f / (static_cast<float>(factors[i]) * powers[i]);
  return powers;
}

double longropeAttention(const RopeConfig &rope) {
  if (rope.factor <= 1.0)
    return 1.0;
  return std::sqrt(1.0 + std::log(rope.factor) / std::log(static_cast<double>(rope.originalContext)));
}

} // namespace

double RopeConfig::scoreFactor() const {
  if (scaling == RopeScalingKind::None || mscaleAllDim == 0.0)
    return 1.0;
  double scale = yarnScale(factor, mscaleAllDim);
  return scale * scale;
}

std::vector<float> RopeConfig::inverseFrequency(bool longContext, float &attention, int64_t maxPositions) const {
  if (!stated.empty()) {
    attention = static_cast<float>(attentionFactor.value_or(1.0));
    return stated;
  }
  double scale = 1.0;
  std::vector<float> frequencies;
  switch (scaling) {
  case RopeScalingKind::None:
    frequencies = shortFactor.empty() ? plainFrequencies(theta, rotaryDim) : dividedFrequencies(*this, shortFactor);
    break;
  case RopeScalingKind::Linear:
    frequencies = plainFrequencies(theta, rotaryDim);
    for (float &frequency : frequencies)
      frequency /= static_cast<float>(factor);
    break;
  case RopeScalingKind::Dynamic:
    frequencies = plainFrequencies(dynamicBase(*this, maxPositions), rotaryDim);
    break;
  case RopeScalingKind::Llama3:
    frequencies = llama3Frequencies(*this);
    break;
  case RopeScalingKind::Yarn:
    frequencies = yarnFrequencies(*this);
    scale = attentionFactor.value_or(yarnAttention(*this));
    break;
  case RopeScalingKind::Longrope:
    frequencies = dividedFrequencies(*this, longContext ? longFactor : shortFactor);
    scale = attentionFactor.value_or(longropeAttention(*this));
    if (longContext)
      scale = longAttentionFactor.value_or(scale);
    break;
  }
  attention = static_cast<float>(scale);
  for (float &frequency : frequencies)
    frequency = reversed ? -frequency : frequency;
  return frequencies;
}

int64_t ModelConfig::longestContext() const {
  int64_t longest = contextLength;
  for (const RopeConfig &rope : ropes)
    if (rope.scaling == RopeScalingKind::Dynamic)
      longest =
          std::max(longest, static_cast<int64_t>(std::min(rope.factor * static_cast<double>(contextLength), 0x1p30)));
  return longest;
}

} // namespace heddle
