// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A block of a lattice holds indices of points, whose coordinates number magnitudes, the signs of the values and small odd scales. The
// layouts are those of ggml's `block_iq3_s` and so on; fields follow each other in the order in which they are read here.

#include "frontends/IntegerBlocks.h"
#include "frontends/LatticePoints.h"

#include <bitset>
#include <cassert>
#include <cstring>

namespace heddle {

static constexpr int octets = IntegerBlock::numValues / 8;

template <typename T> static T load(const uint8_t *data) {
  T value;
  std::memcpy(&value, data, sizeof(T));
  return value;
}

// Scales of 4 bits, two to a byte, of so many values each, as 2 s + 1.
static void readNibbleScales(const uint8_t *bytes, int valuesOfScale, IntegerBlock &out) {
  for (int i = 0; i < 16; ++i) {
    int number = 16 * i / valuesOfScale;
    out.scales[i] = int8_t(2 * (bytes[number / 2] >> (4 * (number % 2)) & 15) + 1);
  }
}

// Seven signs of an octet; the number of negative ones is even, which gives the eighth.
static uint8_t evenSigns(uint32_t seven) {
  return uint8_t(seven | (std::bitset<7>(seven).count() & 1) << 7);
}

// Bit i of `signs` is set where value i is negative.
static void applySigns(uint8_t signs, int8_t *octet) {
  for (int i = 0; i < 8; ++i)
    octet[i] = int8_t(signs >> i & 1 ? -octet[i] : octet[i]);
}

// Of coordinates of `bits` bits, the magnitudes that they number.
static void readPoint(uint16_t point, int bits, const int8_t *magnitudes, int8_t *out) {
  int count = bits == 2 ? 8 : 4;
  for (int i = 0; i < count; ++i)
    out[i] = magnitudes[point >> (bits * i) & ((1 << bits) - 1)];
}

//===- IQ3: two points of four magnitudes to an octet ---------------------===//

static constexpr int8_t iq3sMagnitudes[8] = {1, 3, 5, 7, 9, 11, 13, 15};
// Half of what ggml has, where the scale is a quarter.
static constexpr int8_t iq3xxsMagnitudes[8] = {2, 6, 10, 14, 18, 22, 26, 31};

// f16 d, 64 low bytes of indices, 8 of their ninth bits, 32 of signs, 4 of scales
static void readIq3s(const uint8_t *block, IntegerBlock &out) {
  const uint8_t *low = block + 2, *high = low + 64, *signs = high + 8;
  out.scale = load<uint16_t>(block);
  readNibbleScales(signs + 32, 32, out);
  for (size_t octet = 0; octet < octets; ++octet) {
    int8_t *values = out.integers + 8 * octet;
    for (size_t point = 2 * octet; point < 2 * octet + 2; ++point)
      readPoint(iq3sPoints[low[point] | (high[point / 8] >> (point % 8) & 1) << 8], 3, iq3sMagnitudes,
                values + 4 * (point % 2));
    applySigns(signs[octet], values);
  }
}

// f16 d, 64 indices, 8 words: signs of four octets, 7 bits each, and a scale of 4 bits
static void readIq3xxs(const uint8_t *block, IntegerBlock &out) {
  const uint8_t *indices = block + 2, *words = indices + 64;
  out.scale = load<uint16_t>(block);
  for (size_t octet = 0; octet < octets; ++octet) {
    auto word = load<uint32_t>(words + octet / 4 * 4);
    int8_t *values = out.integers + 8 * octet;
    out.scales[octet / 2] = int8_t(2 * (word >> 28) + 1);
    readPoint(iq3xxsPoints[indices[2 * octet]], 3, iq3xxsMagnitudes, values);
    readPoint(iq3xxsPoints[indices[2 * octet + 1]], 3, iq3xxsMagnitudes, values + 4);
    applySigns(evenSigns(word >> (7 * (octet % 4)) & 127), values);
  }
}

//===- IQ2: a point of eight magnitudes to an octet -----------------------===//

static constexpr int8_t iq2Magnitudes[3] = {8, 25, 43};

// f16 d, 8 times 4 indices and a word: signs of four octets, 7 bits each, and a scale of 4 bits
static void readIq2xxs(const uint8_t *block, IntegerBlock &out) {
  out.scale = load<uint16_t>(block);
  for (size_t octet = 0; octet < octets; ++octet) {
    const uint8_t *indices = block + 2 + octet / 4 * 8;
    auto word = load<uint32_t>(indices + 4);
    out.scales[octet / 2] = int8_t(2 * (word >> 28) + 1);
    readPoint(iq2xxsPoints[indices[octet % 4]], 2, iq2Magnitudes, out.integers + 8 * octet);
    applySigns(evenSigns(word >> (7 * (octet % 4)) & 127), out.integers + 8 * octet);
  }
}

// f16 d, 32 words of 16 bits: an index of 9 bits and 7 signs; 8 bytes of scales
static void readIq2xs(const uint8_t *block, IntegerBlock &out) {
  const uint8_t *words = block + 2;
  out.scale = load<uint16_t>(block);
  readNibbleScales(words + 64, 16, out);
  for (size_t octet = 0; octet < octets; ++octet) {
    auto word = load<uint16_t>(words + 2 * octet);
    readPoint(iq2xsPoints[word & 511], 2, iq2Magnitudes, out.integers + 8 * octet);
    applySigns(evenSigns(word >> 9), out.integers + 8 * octet);
  }
}

// f16 d, 32 low bytes of indices, 32 of signs, 8 of the indices' upper 2 bits, 8 of scales
static void readIq2s(const uint8_t *block, IntegerBlock &out) {
  const uint8_t *low = block + 2, *signs = low + 32, *high = signs + 32;
  out.scale = load<uint16_t>(block);
  readNibbleScales(high + 8, 16, out);
  for (size_t octet = 0; octet < octets; ++octet) {
    int index = low[octet] | (high[octet / 4] >> (octet % 4 * 2) & 3) << 8;
    readPoint(iq2sPoints[index], 2, iq2Magnitudes, out.integers + 8 * octet);
    applySigns(signs[octet], out.integers + 8 * octet);
  }
}

//===- IQ1: scale * (t + delta), t ternary, delta an eighth or minus one --===//

// t, of which a point has eight.
static constexpr int8_t ternary[3] = {-1, 0, 1};

// f16 d, 32 low bytes of indices, 8 words of 16 bits for 32 values each: upper 3 bits of four indices, a scale of 3 bits, the sign of delta.
// Where that is set, t + delta = -(-t + 1/8): the scale takes it, and integers are 8 t + 1 alone.
static void readIq1s(const uint8_t *block, IntegerBlock &out) {
  const uint8_t *low = block + 2, *words = low + 32;
  out.scale = load<uint16_t>(block);
  for (size_t octet = 0; octet < octets; ++octet) {
    auto word = load<uint16_t>(words + octet / 4 * 2);
    int sign = word >> 15 ? -1 : 1;
    out.scales[octet / 2] = int8_t(sign * (2 * (word >> 12 & 7) + 1));
    int8_t *values = out.integers + 8 * octet;
    readPoint(iq1Points[low[octet] | (word >> (octet % 4 * 3) & 7) << 8], 2, ternary, values);
    for (int i = 0; i < 8; ++i)
      values[i] = int8_t(8 * sign * values[i] + 1);
  }
}

// 32 low bytes of indices, 16 bytes of two octets each (upper 3 bits of the index, the sign of delta), 4 words of 16 bits (scales of 3 bits
// for 16 values each, and in the upper four bits a quarter of the f16 d, the lowest first)
static void readIq1m(const uint8_t *block, IntegerBlock &out) {
  const uint8_t *low = block, *high = low + 32, *words = high + 16;
  out.scale = 0;
  for (size_t i = 0; i < 16; ++i) {
    auto word = load<uint16_t>(words + i / 4 * 2);
    out.scales[i] = int8_t(2 * (word >> (i % 4 * 3) & 7) + 1);
    if (i % 4 == 0)
      out.scale |= uint16_t(word >> 12 << i);
  }
  for (size_t octet = 0; octet < octets; ++octet) {
    int ofOctet = high[octet / 2] >> (octet % 2 * 4), delta = ofOctet & 8 ? -1 : 1;
    int8_t *values = out.integers + 8 * octet;
    readPoint(iq1Points[low[octet] | (ofOctet & 7) << 8], 2, ternary, values);
    for (int i = 0; i < 8; ++i)
      values[i] = int8_t(8 * values[i] + delta);
  }
}

//===- Ternary ------------------------------------------------------------===//

// 64 bytes of four values, f16 d. The bits may say 2.
static void readTq2(const uint8_t *block, IntegerBlock &out) {
  out.scale = load<uint16_t>(block + 64);
  std::memset(out.scales, 1, sizeof out.scales);
  for (int i = 0; i < IntegerBlock::numValues; ++i)
    out.integers[i] = int8_t((block[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3) - 1);
}

// 52 bytes, f16 d. A byte is a fraction of 256 whose digits to the base of 3 are values: five of the first 48, four of the last 4. Digit d of
// the bytes of a run of 32, 16 or 4 lies before their digit d + 1.
static void readTq1(const uint8_t *block, IntegerBlock &out) {
  out.scale = load<uint16_t>(block + 52);
  std::memset(out.scales, 1, sizeof out.scales);
  int8_t *next = out.integers;
  auto readRun = [&](const uint8_t *bytes, int count, int digits) {
    for (int digit = 0, power = 1; digit < digits; ++digit, power *= 3)
      for (int i = 0; i < count; ++i)
        *next++ = int8_t((uint8_t(bytes[i] * power) * 3 >> 8) - 1);
  };
  readRun(block, 32, 5);
  readRun(block + 32, 16, 5);
  readRun(block + 48, 4, 4);
}

namespace {
struct IntegerType {
  TensorType type;
  int scaleShift;
  void (*read)(const uint8_t *block, IntegerBlock &out);
};
} // namespace

static const IntegerType *findIntegerType(TensorType type) {
  static constexpr IntegerType types[] = {
      {TensorType::IQ1_S, 3, readIq1s},   {TensorType::IQ1_M, 3, readIq1m}, {TensorType::IQ2_XXS, 3, readIq2xxs},
      {TensorType::IQ2_XS, 3, readIq2xs}, {TensorType::IQ2_S, 3, readIq2s}, {TensorType::IQ3_XXS, 1, readIq3xxs},
      {TensorType::IQ3_S, 0, readIq3s},   {TensorType::TQ1_0, 0, readTq1},  {TensorType::TQ2_0, 0, readTq2},
  };
  for (const IntegerType &known : types)
    if (known.type == type)
      return &known;
  return nullptr;
}

std::optional<int> integerScaleShift(TensorType type) {
  const IntegerType *known = findIntegerType(type);
  return known ? std::optional(known->scaleShift) : std::nullopt;
}

void readIntegerBlock(TensorType type, const uint8_t *block, IntegerBlock &out) {
  const IntegerType *known = findIntegerType(type);
  assert(known && "a type of integers");
  known->read(block, out);
}

} // namespace heddle
