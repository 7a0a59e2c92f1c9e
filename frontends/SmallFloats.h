// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Numbers of 8 and of 4 bits: E4M3 (OCP 8-bit floating point specification 1.0), and E2M1 (OCP Microscaling Formats specification 1.0) in blocks of 16
// that share a scale (NVFP4).
#ifndef HEDDLE_FRONTENDS_SMALLFLOATS_H
#define HEDDLE_FRONTENDS_SMALLFLOATS_H

#include "bytes/HalfFloats.h"

#include <cmath>
#include <cstdint>
#include <cstring>

namespace heddle {

// Sign, 4 bits of exponent with a bias of 7, 3 of mantissa; no infinities, and all ones is not a number.
inline float e4m3ToFloat(uint8_t bits) {
  int exponent = bits >> 3 & 15, mantissa = bits & 7;
  float magnitude = exponent ? std::ldexp(1.0f + static_cast<float>(mantissa) / 8, exponent - 7)
                             : std::ldexp(static_cast<float>(mantissa), -9);
  if ((bits & 0x7f) == 0x7f)
    magnitude = NAN;
  return bits & 0x80 ? -magnitude : magnitude;
}

// The scales of ggml's NVFP4 are magnitudes, of which that without a number is 0.
inline float e4m3Magnitude(uint8_t bits) {
  return (bits & 0x7f) == 0x7f ? 0.0f : e4m3ToFloat(bits & 0x7f);
}

// Twice the numbers of E2M1 by their code, so that they are integers.
constexpr int8_t e2m1Doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// A block of TensorType::E2M1_F16: a scale, of which half is stored, times 2^8, as f16; then 8 bytes, each of which has numbers j (the lower bits) and
// j + 8. It is for twice the numbers, which are whole.
constexpr int e2m1ScaleShift = 8;
constexpr float largestE2M1Scale = 2 * 65504.0f / (1 << e2m1ScaleShift);

inline void putE2M1Scale(float scale, uint8_t *block) {
  uint16_t bits = floatToHalf(std::ldexp(scale, e2m1ScaleShift - 1));
  std::memcpy(block, &bits, sizeof bits);
}

} // namespace heddle

#endif
