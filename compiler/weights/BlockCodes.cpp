// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One decoder per block type, and the table of types. A decoder follows the type's layout in ggml files (`block_q4_0` and so on) and
// leaves unsigned codes, so that one layout of panels and one unpacking serve all types.

#include "compiler/weights/BlockCodes.h"

#include "frontends/IntegerBlocks.h"
#include "frontends/SmallFloats.h"

#include <array>

using namespace heddle;

static uint16_t read16(const uint8_t *bytes) {
  return uint16_t(bytes[0] | bytes[1] << 8);
}
// What is subtracted, as bits of what is added.
static uint16_t negated(uint16_t half) {
  return half ^ 0x8000;
}

// 2 * count codes: the low nibbles of `count` bytes, then their high nibbles.
static void splitNibbles(const uint8_t *bytes, int count, uint8_t *codes) {
  for (int i = 0; i < count; ++i) {
    codes[i] = bytes[i] & 15;
    codes[count + i] = bytes[i] >> 4;
  }
}

static void decodeQ4_0(const uint8_t *block, BlockCodes &out) {
  out.scale = read16(block);
  splitNibbles(block + 2, 16, out.codes);
}
static void decodeQ4_1(const uint8_t *block, BlockCodes &out) {
  out.scale = read16(block);
  out.min = read16(block + 2);
  splitNibbles(block + 4, 16, out.codes);
}

// Bit i of the 32 in `high` is bit 4 of code i.
static void decodeFiveBits(const uint8_t *high, const uint8_t *low, BlockCodes &out) {
  splitNibbles(low, 16, out.codes);
  for (int i = 0; i < 32; ++i)
    out.codes[i] |= (high[i / 8] >> (i % 8) & 1) << 4;
}
static void decodeQ5_0(const uint8_t *block, BlockCodes &out) {
  out.scale = read16(block);
  decodeFiveBits(block + 2, block + 6, out);
}
static void decodeQ5_1(const uint8_t *block, BlockCodes &out) {
  out.scale = read16(block);
  out.min = read16(block + 2);
  decodeFiveBits(block + 4, block + 8, out);
}

static void decodeQ8_0(const uint8_t *block, BlockCodes &out) {
  out.scale = read16(block);
  for (int i = 0; i < 32; ++i)
    out.codes[i] = block[2 + i] ^ 0x80;
}

// Two bits of value v of 256: 32 bytes serve 128 values, four each.
static uint8_t twoBits(const uint8_t *bytes, int v) {
  return bytes[v / 128 * 32 + v % 32] >> (v % 128 / 32 * 2) & 3;
}

static void decodeQ2_K(const uint8_t *block, BlockCodes &out) {
  const uint8_t *scales = block, *quants = block + 16;
  out.scale = read16(block + 80);
  out.min = negated(read16(block + 82));
  for (int i = 0; i < 16; ++i) {
    out.nestedScales[i] = scales[i] & 15;
    out.nestedMins[i] = int8_t(scales[i] >> 4);
  }
  for (int v = 0; v < 256; ++v)
    out.codes[v] = twoBits(quants, v);
}

static void decodeQ3_K(const uint8_t *block, BlockCodes &out) {
  const uint8_t *high = block, *quants = block + 32, *scales = block + 96;
  out.scale = read16(block + 108);
  for (int i = 0; i < 16; ++i) {
    int low = i < 8 ? scales[i] & 15 : scales[i - 8] >> 4;
    int top = scales[8 + i % 4] >> (i / 4 * 2) & 3;
    out.nestedScales[i] = int8_t((low | top << 4) - 32);
  }
  for (int v = 0; v < 256; ++v)
    out.codes[v] = twoBits(quants, v) | (high[v % 32] >> (v / 32) & 1) << 2;
}

// The eight 6-bit scales and mins that Q4_K and Q5_K share. `block` begins with d and dmin.
static void decodeScalesK(const uint8_t *block, BlockCodes &out) {
  const uint8_t *bits = block + 4;
  out.scale = read16(block);
  out.min = negated(read16(block + 2));
  for (int i = 0; i < 8; ++i) {
    int scale = i < 4 ? bits[i] & 63 : (bits[i + 4] & 15) | (bits[i - 4] >> 2 & 0x30);
    int min = i < 4 ? bits[i + 4] & 63 : bits[i + 4] >> 4 | (bits[i] >> 2 & 0x30);
    out.nestedScales[i] = int8_t(scale);
    out.nestedMins[i] = int8_t(min);
  }
}

static void decodeQ4_K(const uint8_t *block, BlockCodes &out) {
  decodeScalesK(block, out);
  for (size_t i = 0; i < 4; ++i)
    splitNibbles(block + 16 + 32 * i, 32, out.codes + 64 * i);
}

static void decodeQ5_K(const uint8_t *block, BlockCodes &out) {
  const uint8_t *high = block + 16;
  decodeScalesK(block, out);
  for (size_t i = 0; i < 4; ++i)
    splitNibbles(block + 48 + 32 * i, 32, out.codes + 64 * i);
  for (int v = 0; v < 256; ++v)
    out.codes[v] |= (high[v % 32] >> (v / 32) & 1) << 4;
}

static void decodeQ6_K(const uint8_t *block, BlockCodes &out) {
  const uint8_t *high = block + 128, *scales = block + 192;
  out.scale = read16(block + 208);
  for (int i = 0; i < 16; ++i)
    out.nestedScales[i] = int8_t(scales[i]);
  for (size_t half = 0; half < 2; ++half)
    splitNibbles(block + 64 * half, 64, out.codes + 128 * half);
  for (int v = 0; v < 256; ++v)
    out.codes[v] |= twoBits(high, v) << 4;
}

static void decodeIQ4_NL(const uint8_t *block, BlockCodes &out) {
  out.scale = read16(block);
  splitNibbles(block + 2, 16, out.codes);
}

static void decodeIQ4_XS(const uint8_t *block, BlockCodes &out) {
  out.scale = read16(block);
  uint16_t high = read16(block + 2);
  for (size_t i = 0; i < 8; ++i) {
    int low = block[4 + i / 2] >> (i % 2 * 4) & 15;
    out.nestedScales[i] = int8_t((low | (high >> (2 * i) & 3) << 4) - 32);
    splitNibbles(block + 8 + 16 * i, 16, out.codes + 32 * i);
  }
}

// The shared scale 2^(e - 127) is halved, since the values are doubled: bf16 holds it, the two smallest as subnormals.
static void decodeMXFP4(const uint8_t *block, BlockCodes &out) {
  uint8_t exponent = block[0];
  out.scale = uint16_t(exponent < 2 ? 0x20 << exponent : (exponent - 1) << 7);
  splitNibbles(block + 1, 16, out.codes);
}

// A set bit is twice the code for 0, one that is not set none.
static void decodeQ1_0(const uint8_t *block, BlockCodes &out) {
  out.scale = read16(block);
  for (int v = 0; v < 128; ++v)
    out.codes[v] = uint8_t((block[2 + v / 8] >> (v % 8) & 1) << 1);
}

static void decodeE2M1(const uint8_t *block, BlockCodes &out) {
  out.scale = read16(block);
  splitNibbles(block + 2, 8, out.codes);
}

// The code of each integer that codes of a layout stand for.
static std::array<uint8_t, 256> codesOfIntegers(const PackedLayout &layout) {
  std::array<uint8_t, 256> codes = {};
  for (int code = 0; code < 1 << layout.codeBits(); ++code)
    codes[uint8_t(layout.book == CodeBook::None ? code - layout.zero : entriesOf(layout.book)[code])] = uint8_t(code);
  return codes;
}

// Types whose values are spelled out as integers, each an entry of the layout's book.
template <TensorType type> static void decodeIntegers(const uint8_t *block, BlockCodes &out) {
  static const PackedLayout &layout = findBlockFormat(type)->layout;
  static const std::array<uint8_t, 256> codeOf = codesOfIntegers(layout);
  IntegerBlock integers;
  readIntegerBlock(type, block, integers);
  out.scale = integers.scale;
  for (int i = 0; i < layout.blocksPerUnit(); ++i)
    out.nestedScales[i] = integers.scales[i * layout.block / 16];
  for (int v = 0; v < IntegerBlock::numValues; ++v)
    out.codes[v] = codeOf[uint8_t(integers.integers[v])];
}

using Numbers = PackedNumbers;
using Scales = PackedScales;
static constexpr bool withMin = true, withNibbleScales = true;

template <TensorType type> static constexpr BlockFormat ofIntegers(int64_t blockBytes, const PackedLayout &layout) {
  return {type, layout, IntegerBlock::numValues, blockBytes, decodeIntegers<type>};
}

static constexpr PackedLayout inBook(CodeBook book, PackedLayout layout, uint8_t scaleShift = 0) {
  layout.book = book;
  layout.scaleShift = scaleShift;
  return layout;
}

// Layout: numbers, block, zero, largest code plus zero of the book, scales, min, high bits, nibble scales. Then values and bytes of a block.
static constexpr BlockFormat formats[] = {
    {TensorType::Q4_0, {Numbers::U4, 32, 8, 15}, 32, 18, decodeQ4_0},
    {TensorType::Q4_1, {Numbers::U4, 32, 0, 15, Scales::F16, withMin}, 32, 20, decodeQ4_1},
    {TensorType::Q5_0, {Numbers::U4, 32, 16, 31, Scales::F16, !withMin, 1}, 32, 22, decodeQ5_0},
    {TensorType::Q5_1, {Numbers::U4, 32, 0, 31, Scales::F16, withMin, 1}, 32, 24, decodeQ5_1},
    {TensorType::Q8_0, {Numbers::U8, 32, 128, 255}, 32, 34, decodeQ8_0},
    {TensorType::Q2_K, {Numbers::U2, 16, 0, 3, Scales::Nested, withMin, 0, withNibbleScales}, 256, 84, decodeQ2_K},
    {TensorType::Q3_K, {Numbers::U2, 16, 4, 7, Scales::Nested, !withMin, 1}, 256, 110, decodeQ3_K},
    {TensorType::Q4_K, {Numbers::U4, 32, 0, 15, Scales::Nested, withMin}, 256, 144, decodeQ4_K},
    {TensorType::Q5_K, {Numbers::U4, 32, 0, 31, Scales::Nested, withMin, 1}, 256, 176, decodeQ5_K},
    {TensorType::Q6_K, {Numbers::U4, 16, 32, 63, Scales::Nested, !withMin, 2}, 256, 210, decodeQ6_K},
    {TensorType::IQ4_NL, inBook(CodeBook::NonLinear4, {Numbers::U4, 32, 128, 241}), 32, 18, decodeIQ4_NL},
    {TensorType::IQ4_XS, inBook(CodeBook::NonLinear4, {Numbers::U4, 32, 128, 241, Scales::Nested}), 256, 136,
     decodeIQ4_XS},
    {TensorType::MXFP4, inBook(CodeBook::E2M1, {Numbers::U4, 32, 12, 24, Scales::BF16}), 32, 17, decodeMXFP4},
    {TensorType::E2M1_F16, inBook(CodeBook::E2M1, {Numbers::U4, 16, 12, 24}, e2m1ScaleShift), 16, 10, decodeE2M1},
    ofIntegers<TensorType::IQ1_S>(50, inBook(CodeBook::IQ1_S, {Numbers::U2, 32, 7, 16, Scales::Nested}, 3)),
    ofIntegers<TensorType::IQ1_M>(56,
                                  inBook(CodeBook::IQ1_M, {Numbers::U2, 16, 9, 18, Scales::Nested, !withMin, 1}, 3)),
    ofIntegers<TensorType::IQ2_XXS>(66,
                                    inBook(CodeBook::IQ2, {Numbers::U2, 32, 43, 86, Scales::Nested, !withMin, 1}, 3)),
    ofIntegers<TensorType::IQ2_XS>(74,
                                   inBook(CodeBook::IQ2, {Numbers::U2, 16, 43, 86, Scales::Nested, !withMin, 1}, 3)),
    ofIntegers<TensorType::IQ2_S>(82, inBook(CodeBook::IQ2, {Numbers::U2, 16, 43, 86, Scales::Nested, !withMin, 1}, 3)),
    ofIntegers<TensorType::IQ3_XXS>(98, inBook(CodeBook::IQ3_XXS, {Numbers::U4, 32, 31, 62, Scales::Nested}, 1)),
    ofIntegers<TensorType::IQ3_S>(110, inBook(CodeBook::IQ3_S, {Numbers::U4, 32, 15, 30, Scales::Nested})),
    ofIntegers<TensorType::TQ1_0>(54, {Numbers::U2, 32, 1, 3, Scales::Shared}),
    ofIntegers<TensorType::TQ2_0>(66, {Numbers::U2, 32, 1, 3, Scales::Shared}),
    {TensorType::Q1_0, {Numbers::U2, 32, 1, 2}, 128, 18, decodeQ1_0},
};

const BlockFormat *heddle::findBlockFormat(TensorType type) {
  for (const BlockFormat &format : formats)
    if (format.type == type)
      return &format;
  return nullptr;
}
