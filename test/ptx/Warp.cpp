// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "test/ptx/Warp.h"

#include <cmath>
#include <cstring>
#include <limits>

namespace heddle::ptx {
namespace {

template <typename To, typename From> To bitCast(From from) {
  To to;
  static_assert(sizeof to <= sizeof from);
  std::memcpy(&to, &from, sizeof to);
  return to;
}

// Half `index` of a register.
float bf16(uint32_t pair, int index) {
  return bitCast<float>((index ? pair >> 16 : pair) << 16);
}

} // namespace

uint32_t toBf16(float value) {
  uint32_t bits = bitCast<uint32_t>(value);
  if (value != value)
    return 0x7fff;
  return (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
}

namespace {

double rounded(double value, Rounding rounding) {
  switch (rounding) {
  case Rounding::None:
    return value;
  case Rounding::Nearest:
    return std::nearbyint(value);
  case Rounding::Zero:
    return std::trunc(value);
  case Rounding::Down:
    return std::floor(value);
  case Rounding::Up:
    return std::ceil(value);
  }
  return value;
}

bool isFloat(Type type) {
  return type == Type::F16 || type == Type::F32 || type == Type::F64 || type == Type::BF16;
}

double floatOf(Type type, uint64_t bits) {
  return type == Type::F64    ? bitCast<double>(bits)
         : type == Type::F16  ? double(bitCast<_Float16>(uint16_t(bits)))
         : type == Type::BF16 ? bf16(uint32_t(bits), 0)
                              : bitCast<float>(uint32_t(bits));
}

// Sign or zeros above the type's bits.
uint64_t extended(Type type, uint64_t bits) {
  int unused = 64 - 8 * sizeOf(type);
  return isSigned(type) ? uint64_t(int64_t(bits << unused) >> unused) : bits << unused >> unused;
}

uint64_t bitsOfFloat(Type type, double value) {
  if (type == Type::F64)
    return bitCast<uint64_t>(value);
  if (type == Type::F16)
    return bitCast<uint16_t>(_Float16(value));
  return type == Type::F32 ? bitCast<uint32_t>(float(value)) : toBf16(float(value));
}

// What is outside of the type's range becomes its nearest number; what is no number, 0.
uint64_t integerOf(Type type, double value) {
  if (value != value)
    return 0;
  int bits = 8 * sizeOf(type) - isSigned(type);
  double end = std::ldexp(1.0, bits), begin = isSigned(type) ? -end : 0;
  if (value >= end)
    return extended(type, bits == 64 ? ~uint64_t(0) : (uint64_t(1) << bits) - 1);
  if (value < begin)
    return extended(type, isSigned(type) ? uint64_t(1) << bits : 0);
  return isSigned(type) ? uint64_t(int64_t(value)) : uint64_t(value);
}

} // namespace

uint64_t convert(const Instruction &instruction, uint64_t value, uint64_t second) {
  Type to = instruction.type, from = instruction.from;
  if (to == Type::BF16x2)
    return toBf16(bitCast<float>(uint32_t(value))) << 16 | toBf16(bitCast<float>(uint32_t(second)));
  if (to == Type::F16x2)
    return bitsOfFloat(Type::F16, bitCast<float>(uint32_t(value))) << 16 |
           bitsOfFloat(Type::F16, bitCast<float>(uint32_t(second)));
  if (isFloat(from) && isFloat(to)) {
    bool isSame = from == to; // of the same type, only a rounding to an integer changes anything
    return bitsOfFloat(to, rounded(floatOf(from, value), isSame ? instruction.rounding : Rounding::None));
  }
  if (isFloat(from))
    return integerOf(to, rounded(floatOf(from, value), instruction.rounding));
  uint64_t integer = extended(from, value);
  if (!isFloat(to))
    return extended(to, integer);
  // Rounded once, from all 64 bits.
  if (to == Type::F32)
    return bitCast<uint32_t>(isSigned(from) ? float(int64_t(integer)) : float(integer));
  return bitCast<uint64_t>(isSigned(from) ? double(int64_t(integer)) : double(integer));
}

void shuffleXor(const WarpValues &sources, WarpValues &results) {
  for (size_t lane = 0; lane < sources.size(); ++lane) {
    if (sources[lane].at(3) != 0xffffffff || (sources[lane][2] & 0x1f1f) != 0x1f)
      throw Error("shuffles of parts of a warp are not known");
    results[lane] = {sources.at(lane ^ sources[lane][1])[0]};
  }
}

namespace {

// Lane 4 g + t holds, of A, rows g and g + 8, columns 2 t and 2 t + 1 and those 8 further; of C, rows g and g + 8, columns 2 t and 2 t + 1.
struct LeftRows {
  explicit LeftRows(const WarpValues &registers) {
    for (int lane = 0; lane < 32; ++lane)
      for (int half = 0; half < 2; ++half)
        for (int i = 0; i < 4; ++i)
          values[lane / 4 + i % 2 * 8][2 * (lane % 4) + half + i / 2 * 8] = bf16(registers[lane].at(i), half);
  }
  // Sum `i` of four, with 8 columns of B.
  uint32_t addTo(uint32_t sum, int lane, int i, const double (&b)[8][16]) const {
    int row = lane / 4 + i / 2 * 8, column = 2 * (lane % 4) + i % 2;
    double result = bitCast<float>(sum);
    for (int k = 0; k < 16; ++k)
      result += values[row][k] * b[column][k];
    return bitCast<uint32_t>(float(result));
  }
  double values[16][16];
};

} // namespace

// Of B, a lane holds column g, the rows that are its columns of A.
void multiply(const WarpValues &sources, WarpValues &results) {
  LeftRows a(sources);
  double b[8][16];
  for (int lane = 0; lane < 32; ++lane)
    for (int half = 0; half < 2; ++half)
      for (int i = 0; i < 2; ++i)
        b[lane / 4][2 * (lane % 4) + half + i * 8] = bf16(sources[lane].at(4 + i), half);
  for (int lane = 0; lane < 32; ++lane)
    for (int i = 0; i < 4; ++i)
      results[lane].push_back(a.addTo(sources[lane].at(6 + i), lane, i, b));
}

void multiplyRows(const WarpValues &registers, const uint8_t *numbers, int columns, WarpValues &sums) {
  LeftRows a(registers);
  for (int first = 0; first < columns; first += 8) {
    double b[8][16];
    for (int i = 0; i < 8 * 16; ++i) {
      uint16_t bits;
      std::memcpy(&bits, numbers + (first * 16 + i) * sizeof bits, sizeof bits);
      b[i / 16][i % 16] = bf16(bits, 0);
    }
    for (int lane = 0; lane < 32; ++lane)
      for (int i = 0; i < 4; ++i)
        sums[lane][first / 2 + i] = a.addTo(sums[lane][first / 2 + i], lane, i, b);
  }
}

// Lane 4 g + t gets columns 2 t and 2 t + 1 of row g of each matrix; of the transposed one where that is asked for.
void loadMatrices(const std::function<const uint8_t *(int)> &row, bool isTransposed, WarpValues &results) {
  uint16_t matrices[4][8][8];
  for (int lane = 0; lane < 32; ++lane)
    std::memcpy(matrices[lane / 8][lane % 8], row(lane), 16);
  for (int lane = 0; lane < 32; ++lane)
    for (auto &matrix : matrices) {
      size_t g = size_t(lane) / 4, t = size_t(lane) % 4;
      uint32_t low = isTransposed ? matrix[2 * t][g] : matrix[g][2 * t];
      uint32_t high = isTransposed ? matrix[2 * t + 1][g] : matrix[g][2 * t + 1];
      results[lane].push_back(high << 16 | low);
    }
}

} // namespace heddle::ptx
