// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One quantiser per block type, from the formula that frontends/Quantization.cpp reads it by. Q8_0 and Q4_0 take their scale from the number
// of greatest magnitude, as the format's reference does, so that the bytes are the same. Q4_K has no such rule: its scales and mins are searched
// for the least sum of squared differences.

#include "compiler/weights/Quantize.h"

#include "bytes/HalfFloats.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <vector>

// A product and a sum are rounded one by one, whatever the processor could do at once.
#pragma STDC FP_CONTRACT OFF

using namespace heddle;

static void put16(uint8_t *out, uint16_t bits) {
  std::memcpy(out, &bits, sizeof bits);
}

// Whether f16 has room for it.
static bool putHalf(uint8_t *out, float value) {
  uint16_t half = floatToHalf(value);
  put16(out, half);
  return (half & 0x7c00) != 0x7c00;
}

// The number of greatest magnitude, the first of equals.
static float extremeOf(const float *numbers, int count) {
  float extreme = 0;
  for (int i = 0; i < count; ++i)
    if (std::fabs(numbers[i]) > std::fabs(extreme))
      extreme = numbers[i];
  return extreme;
}

// What numbers are multiplied by to become codes. Scales whose inverse is beyond f32 are 0 as f16, and so are their codes.
static float inverseOf(float scale) {
  float inverse = scale != 0 ? 1 / scale : 0;
  return std::isfinite(inverse) ? inverse : 0;
}

// Codes of 4 bits as ggml pairs them: those of the first half in the low nibbles, those of the second in the high ones.
static void joinNibbles(const uint8_t *codes, int count, uint8_t *out) {
  for (int i = 0; i < count; ++i)
    out[i] = uint8_t(codes[i] | codes[count + i] << 4);
}

// d = largest magnitude / 127, codes to the nearest, ties away from zero.
static bool quantizeQ8_0(const float *numbers, uint8_t *out) {
  float scale = std::fabs(extremeOf(numbers, 32)) / 127, inverse = inverseOf(scale);
  for (int i = 0; i < 32; ++i)
    out[2 + i] = uint8_t(int8_t(std::clamp(std::round(numbers[i] * inverse), -127.0f, 127.0f)));
  return putHalf(out, scale);
}

// The number of greatest magnitude is code 0 of 16, which stands for -8 d; d has the other sign.
static bool quantizeQ4_0(const float *numbers, uint8_t *out) {
  float scale = extremeOf(numbers, 32) / -8, inverse = inverseOf(scale);
  uint8_t codes[32];
  for (int i = 0; i < 32; ++i)
    codes[i] = uint8_t(std::clamp(numbers[i] * inverse + 8.5f, 0.0f, 15.0f));
  joinNibbles(codes, 16, out + 2);
  return putHalf(out, scale);
}

namespace {
// What 32 codes of 4 bits stand for: scale * code - min, neither of them negative.
struct ScaleAndMin {
  float scale = 0, min = 0;
};
} // namespace

static int nearestCode(float value) {
  return int(std::clamp(value + 0.5f, 0.0f, 15.0f));
}

// The scale and min that are best for the codes which steps of 1 / `inverse` from `low` on give. Sums go in eight lanes, which compilers
// make vectors of.
static ScaleAndMin solve(const float *numbers, float low, float inverse, float &outError) {
  constexpr int lanes = 8;
  float codes[32], sumCode[lanes] = {}, sumSquare[lanes] = {}, sumNumber[lanes] = {}, sumProduct[lanes] = {};
  for (int i = 0; i < 32; i += lanes)
    for (int lane = 0; lane < lanes; ++lane) {
      float number = numbers[i + lane], code = float(nearestCode((number - low) * inverse));
      codes[i + lane] = code;
      sumCode[lane] += code;
      sumSquare[lane] += code * code;
      sumNumber[lane] += number;
      sumProduct[lane] += code * number;
    }
  float q = 0, qq = 0, x = 0, qx = 0;
  for (int lane = 0; lane < lanes; ++lane)
    q += sumCode[lane], qq += sumSquare[lane], x += sumNumber[lane], qx += sumProduct[lane];
  // Normal equations of x = scale * q - min over 32 numbers; with min = 0 where it would be negative.
  float determinant = 32 * qq - q * q;
  ScaleAndMin best;
  if (determinant > 0) {
    best.scale = (32 * qx - q * x) / determinant;
    best.min = (q * qx - qq * x) / determinant;
  }
  if (!(determinant > 0) || best.min < 0)
    best = {qq > 0 ? qx / qq : 0, 0};
  if (best.scale < 0)
    best.scale = 0;
  float sumError[lanes] = {};
  for (int i = 0; i < 32; i += lanes)
    for (int lane = 0; lane < lanes; ++lane) {
      float difference = numbers[i + lane] - (best.scale * codes[i + lane] - best.min);
      sumError[lane] += difference * difference;
    }
  outError = 0;
  for (float error : sumError)
    outError += error;
  return best;
}

// Tries codes that stretch from the least number (or 0: a min cannot raise numbers) to somewhat less or more than the greatest.
static ScaleAndMin fitScaleAndMin(const float *numbers) {
  float low = 0, high = numbers[0];
  for (int i = 0; i < 32; ++i) {
    low = std::min(low, numbers[i]);
    high = std::max(high, numbers[i]);
  }
  float range = high - low;
  if (!(range > 1e-30f)) // all are one number that is not positive, or too small for f16
    return {0, -low};
  ScaleAndMin best = {range / 15, -low};
  float leastError = INFINITY;
  for (int step = 0; step <= 16; ++step) {
    float error, steps = 14 + 0.125f * float(step);
    ScaleAndMin candidate = solve(numbers, low, steps / range, error);
    if (error < leastError) {
      leastError = error;
      best = candidate;
    }
  }
  return best;
}

// Eight pairs of 6 bits in 12 bytes: the first four scales and mins with two bits each of the last four above them.
static void joinScales(const int *scales, const int *mins, uint8_t *out) {
  for (int i = 0; i < 4; ++i) {
    out[i] = uint8_t(scales[i] | scales[i + 4] >> 4 << 6);
    out[i + 4] = uint8_t(mins[i] | mins[i + 4] >> 4 << 6);
    out[i + 8] = uint8_t((scales[i + 4] & 15) | (mins[i + 4] & 15) << 4);
  }
}

// Scales and mins of eight blocks are found one by one, then rounded to 6 bits of what the greatest of them is; codes are chosen last, for the
// scales as they will be read.
static bool quantizeQ4_K(const float *numbers, uint8_t *out) {
  ScaleAndMin blocks[8];
  float greatestScale = 0, greatestMin = 0;
  for (size_t i = 0; i < 8; ++i) {
    blocks[i] = fitScaleAndMin(numbers + 32 * i);
    greatestScale = std::max(greatestScale, blocks[i].scale);
    greatestMin = std::max(greatestMin, blocks[i].min);
  }
  if (!putHalf(out, greatestScale / 63) || !putHalf(out + 2, greatestMin / 63))
    return false;
  float d = halfToFloat(floatToHalf(greatestScale / 63)), dmin = halfToFloat(floatToHalf(greatestMin / 63));
  int scales[8], mins[8];
  for (int i = 0; i < 8; ++i) {
    scales[i] = d > 0 ? std::min(int(std::floor(blocks[i].scale / d + 0.5f)), 63) : 0;
    mins[i] = dmin > 0 ? std::min(int(std::floor(blocks[i].min / dmin + 0.5f)), 63) : 0;
  }
  joinScales(scales, mins, out + 4);
  uint8_t codes[256];
  for (size_t i = 0; i < 256; ++i) {
    size_t block = i / 32;
    float scale = d * float(scales[block]), min = dmin * float(mins[block]);
    codes[i] = scale > 0 ? uint8_t(nearestCode((numbers[i] + min) / scale)) : 0;
  }
  for (size_t i = 0; i < 4; ++i)
    joinNibbles(codes + 64 * i, 32, out + 16 + 32 * i);
  return true;
}

static bool quantizeBlock(TensorType type, const float *numbers, uint8_t *out) {
  switch (type) {
  case TensorType::Q8_0:
    return quantizeQ8_0(numbers, out);
  case TensorType::Q4_0:
    return quantizeQ4_0(numbers, out);
  case TensorType::Q4_K:
    return quantizeQ4_K(numbers, out);
  default:
    assert(false && "no type that numbers are converted to");
    return false;
  }
}

bool heddle::isConvertedTo(TensorType type) {
  switch (type) {
  case TensorType::F32:
  case TensorType::F16:
  case TensorType::BF16:
  case TensorType::Q8_0:
  case TensorType::Q4_0:
  case TensorType::Q4_K:
    return true;
  default:
    return false;
  }
}

bool heddle::convertRow(TensorType type, const float *numbers, size_t count, uint8_t *out) {
  bool fits = true;
  if (type == TensorType::F32) {
    std::memcpy(out, numbers, count * sizeof(float));
  } else if (type == TensorType::F16) {
    for (size_t i = 0; i < count; ++i)
      fits &= putHalf(out + 2 * i, numbers[i]);
  } else if (type == TensorType::BF16) {
    for (size_t i = 0; i < count; ++i) {
      uint16_t bits = floatToBfloat(numbers[i]);
      put16(out + 2 * i, bits);
      fits &= (bits & 0x7f80) != 0x7f80;
    }
  } else {
    const TensorTypeInfo &info = tensorTypeInfo(type);
    assert(count % info.blockValues == 0);
    for (size_t i = 0; i < count; i += info.blockValues, out += info.blockBytes) {
      bool isFinite =
          std::all_of(numbers + i, numbers + i + info.blockValues, [](float x) { return std::isfinite(x); });
      if (!isFinite)
        std::memset(out, 0, info.blockBytes);
      fits &= isFinite && quantizeBlock(type, numbers + i, out);
    }
  }
  return fits;
}

void ConversionLoss::add(const float *before, const float *after, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    double difference = double(after[i]) - before[i];
    differences += difference * difference;
    numbers += double(before[i]) * before[i];
    largest = std::max(largest, std::fabs(difference));
  }
}

void ConversionLoss::add(const ConversionLoss &other) {
  differences += other.differences;
  numbers += other.numbers;
  largest = std::max(largest, other.largest);
  if (!unfit)
    unfit = other.unfit;
  if (!from)
    from = other.from;
}

double ConversionLoss::relative() const {
  return numbers > 0 ? std::sqrt(differences / numbers) : 0;
}

void heddle::readNumbers(TensorType type, std::optional<TensorType> fileType, bool acrossRows, const uint8_t *data,
                         size_t rows, size_t width, size_t stride, float *out) {
  dequantizeRows(fileType.value_or(type), data, rows, width, stride, out);
  if (!fileType)
    return;
  size_t count = acrossRows ? rows : width, lines = acrossRows ? width : rows, step = acrossRows ? width : 1;
  const TensorTypeInfo &info = tensorTypeInfo(type);
  std::vector<uint8_t> bytes(count / info.blockValues * info.blockBytes);
  std::vector<float> line(count);
  for (size_t i = 0; i < lines; ++i) {
    float *first = out + (acrossRows ? i : i * width);
    for (size_t j = 0; j < count; ++j)
      line[j] = first[j * step];
    convertRow(type, line.data(), count, bytes.data());
    dequantize(type, bytes.data(), count, line.data());
    for (size_t j = 0; j < count; ++j)
      first[j * step] = line[j];
  }
}
