// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The two 16-bit formats as f32, exactly: what every reader of stored weights, scales and caches asks for.
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

} // namespace heddle

#endif
