// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The two 16-bit formats as f32, exactly: what every reader of stored weights, scales and caches asks for. And the way back, to the nearest
// of them, ties to the even one.
#ifndef HEDDLE_BYTES_HALFFLOATS_H
#define HEDDLE_BYTES_HALFFLOATS_H

#include <cstdint>
#include <cstring>

namespace heddle {

inline float floatFromBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

inline uint32_t bitsOfFloat(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

// f16 (IEEE 754 binary16): sign, 5 bits of exponent, 10 of mantissa. Subnormal, infinite and not-a-number values keep their meaning.
inline float halfToFloat(uint16_t half) {
  uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  uint32_t exponent = half >> 10 & 31, mantissa = half & 0x3ff;
  if (exponent == 0) {
    float magnitude = static_cast<float>(mantissa) * floatFromBits(0x33800000); // 2^-24
    return sign ? -magnitude : magnitude;
  }
  uint32_t wide = exponent == 31 ? 255 : exponent + 112;
  return floatFromBits(sign | wide << 23 | mantissa << 13);
}

// bf16 is the upper half of an f32.
inline float bfloatToFloat(uint16_t bits) {
  return floatFromBits(static_cast<uint32_t>(bits) << 16);
}

// From 65520 on it is infinite. Not-a-number values stay so.
inline uint16_t floatToHalf(float value) {
  uint32_t bits = bitsOfFloat(value), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000)
    return static_cast<uint16_t>(sign | 0x7e00);
  if (magnitude >= 0x477ff000)
    return static_cast<uint16_t>(sign | 0x7c00);
  // Below 2^-14 numbers are multiples of 2^-24, which is the last place of 0.5: the sum rounds as f16 does.
  if (magnitude < 0x38800000)
    return static_cast<uint16_t>(sign | (bitsOfFloat(floatFromBits(magnitude) + 0.5f) - 0x3f000000));
  uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
  return static_cast<uint16_t>(sign | (rounded - 0x38000000) >> 13);
}

inline uint16_t floatToBfloat(float value) {
  uint32_t bits = bitsOfFloat(value);
  if ((bits & 0x7fffffff) > 0x7f800000)
    return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

} // namespace heddle

#endif
