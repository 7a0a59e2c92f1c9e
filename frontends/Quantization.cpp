// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The storage types and what their bytes mean. Block layouts follow ggml's definition of its types; a block is read in
// the order in which its values lie in the row. All arithmetic is f32, in the order scale x quant (- offset), as ggml's
// own reference.
#include "frontends/Checkpoint.h"

#include "bytes/HalfFloats.h"
#include "frontends/IntegerBlocks.h"
#include "frontends/SmallFloats.h"

#include <cassert>
#include <cmath>
#include <cstring>
#include <iterator>

namespace heddle {

static constexpr TensorTypeInfo tensorTypes[] = {
    {"f32", 1, 4},      {"f16", 1, 2},        {"bf16", 1, 2},       {"f64", 1, 8},        {"i8", 1, 1},
    {"i16", 1, 2},      {"i32", 1, 4},        {"i64", 1, 8},        {"u8", 1, 1},         {"u16", 1, 2},
    {"u32", 1, 4},      {"u64", 1, 8},        {"bool", 1, 1},       {"q4_0", 32, 18},     {"q4_1", 32, 20},
    {"q5_0", 32, 22},   {"q5_1", 32, 24},     {"q8_0", 32, 34},     {"q2_k", 256, 84},    {"q3_k", 256, 110},
    {"q4_k", 256, 144}, {"q5_k", 256, 176},   {"q6_k", 256, 210},   {"iq4_nl", 32, 18},   {"iq4_xs", 256, 136},
    {"mxfp4", 32, 17},  {"iq1_s", 256, 50},   {"iq1_m", 256, 56},   {"iq2_xxs", 256, 66}, {"iq2_xs", 256, 74},
    {"iq2_s", 256, 82}, {"iq3_xxs", 256, 98}, {"iq3_s", 256, 110},  {"tq1_0", 256, 54},   {"tq2_0", 256, 66},
    {"q1_0", 128, 18},  {"nvfp4", 64, 36},    {"e2m1_f16", 16, 10},
};

const TensorTypeInfo &tensorTypeInfo(TensorType type) {
  return tensorTypes[static_cast<size_t>(type)];
}

std::optional<TensorType> tensorTypeNamed(std::string_view name) {
  for (size_t type = 0; type < std::size(tensorTypes); ++type)
    if (name == tensorTypes[type].name)
      return static_cast<TensorType>(type);
  return std::nullopt;
}

namespace {

template <typename T> T load(const uint8_t *data) {
  T value;
  std::memcpy(&value, data, sizeof(T));
  return value;
}

float half(const uint8_t *data) {
  return halfToFloat(load<uint16_t>(data));
}

template <typename T> void convert(const uint8_t *data, size_t count, float *out) {
  for (size_t i = 0; i < count; ++i)
    out[i] = static_cast<float>(load<T>(data + i * sizeof(T)));
}

// Sixteen levels, denser near zero; the indices are 4 bits.
constexpr int8_t iq4Levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

// Blocks of 32. Byte j of `quants` holds values j (low nibble) and j + 16 (high nibble).

// f16 scale, 16 bytes: d (q - 8)
void q4_0(const uint8_t *block, float *out) {
  float d = half(block);
  for (int j = 0; j < 16; ++j) {
    out[j] = ((block[2 + j] & 15) - 8) * d;
    out[j + 16] = ((block[2 + j] >> 4) - 8) * d;
  }
}

// f16 scale, f16 minimum, 16 bytes: d q + m
void q4_1(const uint8_t *block, float *out) {
  float d = half(block), m = half(block + 2);
  for (int j = 0; j < 16; ++j) {
    out[j] = (block[4 + j] & 15) * d + m;
    out[j + 16] = (block[4 + j] >> 4) * d + m;
  }
}

// f16 scale, u32 with the fifth bit of each value, 16 bytes: d (q - 16)
void q5_0(const uint8_t *block, float *out) {
  float d = half(block);
  uint32_t high = load<uint32_t>(block + 2);
  for (int j = 0; j < 16; ++j) {
    int low = (block[6 + j] & 15) | ((high >> j & 1) << 4);
    int upper = (block[6 + j] >> 4) | ((high >> (j + 16) & 1) << 4);
    out[j] = (low - 16) * d;
    out[j + 16] = (upper - 16) * d;
  }
}

// f16 scale, f16 minimum, u32 of fifth bits, 16 bytes: d q + m
void q5_1(const uint8_t *block, float *out) {
  float d = half(block), m = half(block + 2);
  uint32_t high = load<uint32_t>(block + 4);
  for (int j = 0; j < 16; ++j) {
    int low = (block[8 + j] & 15) | ((high >> j & 1) << 4);
    int upper = (block[8 + j] >> 4) | ((high >> (j + 16) & 1) << 4);
    out[j] = low * d + m;
    out[j + 16] = upper * d + m;
  }
}

// f16 scale, 32 signed bytes: d q
void q8_0(const uint8_t *block, float *out) {
  float d = half(block);
  for (int j = 0; j < 32; ++j)
    out[j] = static_cast<int8_t>(block[2 + j]) * d;
}

void iq4_nl(const uint8_t *block, float *out) {
  float d = half(block);
  for (int j = 0; j < 16; ++j) {
    out[j] = d * iq4Levels[block[2 + j] & 15];
    out[j + 16] = d * iq4Levels[block[2 + j] >> 4];
  }
}

// E8M0 scale, 16 bytes of E2M1 pairs: 2^(e - 127) v
void mxfp4(const uint8_t *block, float *out) {
  float d = std::ldexp(1.0f, block[0] - 128); // half the scale, for doubled values
  for (int j = 0; j < 16; ++j) {
    out[j] = d * e2m1Doubled[block[1 + j] & 15];
    out[j + 16] = d * e2m1Doubled[block[1 + j] >> 4];
  }
}

// Of 64: four scales of E4M3, then 8 bytes of pairs of E2M1 for each, byte j of which holds values j and j + 8.
void nvfp4(const uint8_t *block, float *out) {
  for (int group = 0; group < 4; ++group) {
    float d = e4m3Magnitude(block[group]) / 2;
    for (int j = 0; j < 8; ++j) {
      uint8_t pair = block[4 + 8 * group + j];
      out[16 * group + j] = d * e2m1Doubled[pair & 15];
      out[16 * group + j + 8] = d * e2m1Doubled[pair >> 4];
    }
  }
}

// Of 16: f16 scale, shifted so that small ones are none of f16's subnormals, and the same pairs.
void e2m1(const uint8_t *block, float *out) {
  float d = half(block) / (1 << e2m1ScaleShift);
  for (int j = 0; j < 8; ++j) {
    out[j] = d * e2m1Doubled[block[2 + j] & 15];
    out[j + 8] = d * e2m1Doubled[block[2 + j] >> 4];
  }
}

// Of 128: f16 scale, 16 bytes of which bit j of byte i is of value 8 i + j: d where it is set, else -d.
void q1_0(const uint8_t *block, float *out) {
  float d = half(block);
  for (int i = 0; i < 128; ++i)
    out[i] = block[2 + i / 8] >> (i % 8) & 1 ? d : -d;
}

// Blocks of 256, in which groups of 16 or 32 values have small scales of their own.

// 16 bytes (4-bit scale, 4-bit minimum), 64 bytes of 2-bit values, f16 d, f16 dmin: d s q - dmin m
void q2_k(const uint8_t *block, float *out) {
  const uint8_t *scales = block, *quants = block + 16;
  float d = half(block + 80), dmin = half(block + 82);
  for (int i = 0; i < 256; ++i) {
    // 128 values share 32 bytes: value i takes bits 2 (i / 32 % 4) of byte i % 32.
    int quant = quants[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2) & 3;
    uint8_t scale = scales[i / 16];
    out[i] = d * (scale & 15) * quant - dmin * (scale >> 4);
  }
}

// 32 bytes of third bits, 64 bytes of 2-bit values, 16 scales of 6 bits in 12 bytes, f16 d: d (s - 32) (q - 4)
void q3_k(const uint8_t *block, float *out) {
  const uint8_t *highBits = block, *quants = block + 32, *packed = block + 96;
  float d = half(block + 108);
  float scales[16];
  for (int j = 0; j < 16; ++j) {
    int low = j < 8 ? packed[j] & 15 : packed[j - 8] >> 4;
    int high = packed[8 + j % 4] >> (j / 4 * 2) & 3;
    scales[j] = d * ((low | high << 4) - 32);
  }
  for (int i = 0; i < 256; ++i) {
    int quant = quants[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2) & 3;
    int high = highBits[i % 32] >> (i / 32) & 1;
    out[i] = scales[i / 16] * (quant - (high ? 0 : 4));
  }
}

// Scale and minimum j of the eight pairs of 6 bits in the 12 bytes that q4_k and q5_k share.
void scaleAndMin(const uint8_t *packed, int j, int &scale, int &minimum) {
  if (j < 4) {
    scale = packed[j] & 63;
    minimum = packed[j + 4] & 63;
    return;
  }
  scale = (packed[j + 4] & 15) | (packed[j - 4] >> 6) << 4;
  minimum = (packed[j + 4] >> 4) | (packed[j] >> 6) << 4;
}

// f16 d, f16 dmin, 12 bytes of scales and minimums, 128 bytes: d s q - dmin m. q5_k has 32 bytes of fifth bits before
// the 128.
void q45_k(const uint8_t *block, bool fiveBits, float *out) {
  float d = half(block), dmin = half(block + 2);
  const uint8_t *packed = block + 4, *highBits = block + 16, *quants = block + (fiveBits ? 48 : 16);
  for (int group = 0; group < 8; ++group) {
    int scale, minimum;
    scaleAndMin(packed, group, scale, minimum);
    float groupScale = d * scale, groupMin = dmin * minimum;
    for (int l = 0; l < 32; ++l) {
      int quant = quants[group / 2 * 32 + l] >> (group % 2 * 4) & 15;
      if (fiveBits)
        quant |= (highBits[l] >> group & 1) << 4;
      out[group * 32 + l] = groupScale * quant - groupMin;
    }
  }
}

// 128 bytes of low nibbles, 64 bytes of upper 2 bits, 16 signed scales, f16 d: d s (q - 32)
void q6_k(const uint8_t *block, float *out) {
  const uint8_t *low = block, *high = block + 128, *scales = block + 192;
  float d = half(block + 208);
  for (int i = 0; i < 256; ++i) {
    int part = i / 128, group = i / 32 % 4, l = i % 32; // part: 64 bytes of `low`, 32 of `high`, 4 groups of 32 values
    int nibble = low[part * 64 + group % 2 * 32 + l] >> (group / 2 * 4) & 15;
    int quant = nibble | (high[part * 32 + l] >> (group * 2) & 3) << 4;
    out[i] = d * static_cast<int8_t>(scales[i / 16]) * (quant - 32);
  }
}

// f16 d, u16 upper 2 bits and 4 bytes lower nibbles of 8 scales, 128 bytes: d (s - 32) level[q]
void iq4_xs(const uint8_t *block, float *out) {
  float d = half(block);
  uint16_t high = load<uint16_t>(block + 2);
  for (int group = 0; group < 8; ++group) {
    int scale = (block[4 + group / 2] >> (group % 2 * 4) & 15) | (high >> (group * 2) & 3) << 4;
    float groupScale = d * (scale - 32);
    const uint8_t *quants = block + 8 + size_t(group) * 16;
    for (int j = 0; j < 16; ++j) {
      out[group * 32 + j] = groupScale * iq4Levels[quants[j] & 15];
      out[group * 32 + j + 16] = groupScale * iq4Levels[quants[j] >> 4];
    }
  }
}

// Types of integers: d s i / 2^shift
void integers(TensorType type, const uint8_t *bytes, float *out) {
  IntegerBlock block;
  readIntegerBlock(type, bytes, block);
  float d = std::ldexp(halfToFloat(block.scale), -*integerScaleShift(type));
  for (int i = 0; i < IntegerBlock::numValues; ++i) {
    int group = i / 16;
    out[i] = d * block.scales[group] * block.integers[i];
  }
}

void dequantizeBlock(TensorType type, const uint8_t *block, float *out) {
  switch (type) {
  case TensorType::Q4_0:
    return q4_0(block, out);
  case TensorType::Q4_1:
    return q4_1(block, out);
  case TensorType::Q5_0:
    return q5_0(block, out);
  case TensorType::Q5_1:
    return q5_1(block, out);
  case TensorType::Q8_0:
    return q8_0(block, out);
  case TensorType::Q2_K:
    return q2_k(block, out);
  case TensorType::Q3_K:
    return q3_k(block, out);
  case TensorType::Q4_K:
    return q45_k(block, false, out);
  case TensorType::Q5_K:
    return q45_k(block, true, out);
  case TensorType::Q6_K:
    return q6_k(block, out);
  case TensorType::IQ4_NL:
    return iq4_nl(block, out);
  case TensorType::IQ4_XS:
    return iq4_xs(block, out);
  case TensorType::MXFP4:
    return mxfp4(block, out);
  case TensorType::Q1_0:
    return q1_0(block, out);
  case TensorType::NVFP4:
    return nvfp4(block, out);
  case TensorType::E2M1_F16:
    return e2m1(block, out);
  default:
    assert(integerScaleShift(type) && "a type of blocks");
    if (integerScaleShift(type))
      integers(type, block, out);
  }
}

} // namespace

void dequantize(TensorType type, const uint8_t *data, size_t count, float *out) {
  switch (type) {
  case TensorType::F32:
    return convert<float>(data, count, out);
  case TensorType::F64:
    return convert<double>(data, count, out);
  case TensorType::I8:
    return convert<int8_t>(data, count, out);
  case TensorType::I16:
    return convert<int16_t>(data, count, out);
  case TensorType::I32:
    return convert<int32_t>(data, count, out);
  case TensorType::I64:
    return convert<int64_t>(data, count, out);
  case TensorType::U8:
  case TensorType::Bool:
    return convert<uint8_t>(data, count, out);
  case TensorType::F16:
    for (size_t i = 0; i < count; ++i)
      out[i] = half(data + 2 * i);
    return;
  case TensorType::BF16:
    for (size_t i = 0; i < count; ++i)
      out[i] = bfloatToFloat(load<uint16_t>(data + 2 * i));
    return;
  default:
    break;
  }
  const TensorTypeInfo &info = tensorTypeInfo(type);
  assert(count % info.blockValues == 0);
  for (size_t i = 0; i < count; i += info.blockValues, data += info.blockBytes)
    dequantizeBlock(type, data, out + i);
}

void dequantizeRows(TensorType type, const uint8_t *data, size_t rows, size_t width, size_t stride, float *out) {
  if (!stride)
    return dequantize(type, data, rows * width, out);
  for (size_t row = 0; row < rows; ++row)
    dequantize(type, data + row * stride * tensorTypeInfo(type).blockBytes, width, out + row * width);
}

} // namespace heddle
