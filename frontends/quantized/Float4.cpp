// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Scales of NVFP4, each the product of two, are rounded to f16, which has eight bits more than those of E4M3; where the two are no more than a power of two
// apart nothing is rounded. Where f16 ends, numbers become bf16.
#include "frontends/quantized/Float4.h"

#include "frontends/SmallFloats.h"

#include <algorithm>
#include <atomic>
#include <cmath>

namespace heddle {

static uint8_t numberAt(const uint8_t *pairs, int64_t i) {
  return pairs[i / 2] >> (i % 2 * 4) & 15;
}

// Numbers 0 to 2 * half of `pairs`, byte i with numbers i and i + half.
static void putPairs(const uint8_t *pairs, int half, uint8_t *out) {
  for (int i = 0; i < half; ++i)
    out[i] = static_cast<uint8_t>(numberAt(pairs, i) | numberAt(pairs, i + half) << 4);
}

void putMxfp4Block(uint8_t scale, const uint8_t *pairs, uint8_t *out) {
  *out = scale;
  putPairs(pairs, 16, out + 1);
}

namespace {

// What both have in common, read and checked.
struct Float4Weight {
  WeightPart pairs, scales;
  int64_t rows = 0, columns = 0, perRow = 0; // the last: blocks
};

Expected<Float4Weight> readParts(WeightRestorer &weights, const std::string &module, const Float4Parts &parts,
                                 int64_t block) {
  Expected<WeightPart> pairs = weights.part(module + parts.packed, {TensorType::U8}, {-1, -1});
  if (!pairs)
    return pairs.status();
  int64_t rows = pairs->shape[0], columns = 2 * pairs->shape[1];
  if (columns % block)
    return weights.refused(module + parts.packed, "has rows of " + std::to_string(columns) +
                                                      " numbers, expected a multiple of " + std::to_string(block));
  Expected<WeightPart> scales = weights.part(module + parts.scales, {TensorType::U8}, {rows, columns / block});
  if (!scales)
    return scales.status();
  return Float4Weight{*pairs, *scales, rows, columns, columns / block};
}

Expected<float> readFactor(WeightRestorer &weights, const std::string &module, const Float4Parts &parts) {
  if (!parts.factor)
    return 1.0f;
  std::string name = module + parts.factor;
  Expected<WeightPart> part = weights.part(name, {TensorType::F32, TensorType::BF16, TensorType::F16});
  if (!part)
    return part.status();
  std::vector<float> numbers = part->numbers();
  if (numbers.size() != 1)
    return weights.refused(name, "has " + std::to_string(numbers.size()) + " numbers, expected one");
  if (!std::isfinite(numbers[0]) || numbers[0] <= 0)
    return weights.refused(name, "is not a positive number");
  return parts.divides ? 1.0f / numbers[0] : numbers[0];
}

void dropParts(WeightRestorer &weights, const std::string &module, const Float4Parts &parts) {
  if (module + parts.packed != module + ".weight")
    weights.drop(module + parts.packed);
  weights.drop(module + parts.scales);
  if (parts.factor)
    weights.drop(module + parts.factor);
}

} // namespace

Status restoreNvfp4(WeightRestorer &weights, const std::string &module, const Float4Parts &parts) {
  constexpr int64_t block = 16, blockBytes = 10;
  Expected<Float4Weight> weight = readParts(weights, module, parts, block);
  if (!weight)
    return weight.status();
  Expected<float> factor = readFactor(weights, module, parts);
  if (!factor)
    return factor.status();
  size_t count = static_cast<size_t>(weight->rows * weight->perRow);
  std::vector<float> scales(count);
  float largest = 0;
  for (size_t i = 0; i < count; ++i) {
    scales[i] = e4m3ToFloat(weight->scales.data[i]) * *factor;
    if (!(scales[i] >= 0 && std::isfinite(scales[i])))
      return weights.refused(module + parts.scales, "has a scale that is not a positive number");
    largest = std::max(largest, scales[i]);
  }
  bool fits = largest <= largestE2M1Scale;
  auto fill = [&](int64_t first, int64_t last, float *numbers, uint8_t *out) {
    const uint8_t *pairs = weight->pairs.data + first * weight->columns / 2;
    for (int64_t i = first * weight->perRow; i < last * weight->perRow; ++i, pairs += block / 2, out += blockBytes) {
      float scale = scales[static_cast<size_t>(i)];
      for (int64_t j = 0; j < block; ++j)
        *numbers++ = static_cast<float>(e2m1Doubled[numberAt(pairs, j)]) / 2 * scale;
      if (!fits)
        continue;
      putE2M1Scale(scale, out);
      putPairs(pairs, block / 2, out + 2);
    }
    return fits;
  };
  HEDDLE_RETURN_IF_ERROR(weights.addRows(module + ".weight", fits ? TensorType::E2M1_F16 : TensorType::BF16,
                                         weight->rows, weight->columns, fill));
  dropParts(weights, module, parts);
  return Status();
}

Status restoreMxfp4(WeightRestorer &weights, const std::string &module, const Float4Parts &parts) {
  constexpr uint8_t notANumber = 255;
  Expected<Float4Weight> weight = readParts(weights, module, parts, 32);
  if (!weight)
    return weight.status();
  std::atomic<bool> isFinite{true};
  auto fill = [&](int64_t first, int64_t last, uint8_t *out) {
    const uint8_t *scale = weight->scales.data + first * weight->perRow;
    const uint8_t *pairs = weight->pairs.data + first * weight->columns / 2;
    for (int64_t i = 0; i < (last - first) * weight->perRow; ++i, pairs += 16, out += 17) {
      if (scale[i] == notANumber)
        isFinite = false;
      putMxfp4Block(scale[i], pairs, out);
    }
  };
  HEDDLE_RETURN_IF_ERROR(weights.addBlocks(module + ".weight", TensorType::MXFP4, weight->rows, weight->columns, fill));
  if (!isFinite)
    return weights.refused(module + parts.scales, "has the scale 255, which is not a number");
  dropParts(weights, module, parts);
  return Status();
}

} // namespace heddle
