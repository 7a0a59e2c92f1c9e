// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/onnx/Sha1.h"

#include <cstring>

namespace heddle {
namespace {

uint32_t rotateLeft(uint32_t value, int bits) {
  return value << bits | value >> (32 - bits);
}

void compress(uint32_t state[5], const uint8_t *block) {
  uint32_t words[80];
  for (int i = 0; i < 16; ++i, block += 4)
    words[i] = uint32_t(block[0]) << 24 | uint32_t(block[1]) << 16 | uint32_t(block[2]) << 8 | block[3];
  for (int i = 16; i < 80; ++i)
    words[i] = rotateLeft(words[i - 3] ^ words[i - 8] ^ words[i - 14] ^ words[i - 16], 1);
  uint32_t a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];
  for (int i = 0; i < 80; ++i) {
    bool isMajority = i >= 40 && i < 60;
    uint32_t mixed = i < 20 ? (b & c) | (~b & d) : isMajority ? (b & c) | (b & d) | (c & d) : b ^ c ^ d;
    // The square roots of 2, 3, 5 and 10, times 2^30.
    uint32_t constant = i < 20 ? 0x5a827999 : i < 40 ? 0x6ed9eba1 : isMajority ? 0x8f1bbcdc : 0xca62c1d6;
    uint32_t next = rotateLeft(a, 5) + mixed + e + constant + words[i];
    e = d, d = c, c = rotateLeft(b, 30), b = a, a = next;
  }
  state[0] += a, state[1] += b, state[2] += c, state[3] += d, state[4] += e;
}

} // namespace

Sha1Digest sha1(const void *bytes, size_t size) {
  uint32_t state[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
  const uint8_t *next = static_cast<const uint8_t *>(bytes);
  size_t left = size;
  for (; left >= 64; left -= 64, next += 64)
    compress(state, next);
  // A one behind the last bit, zeros, and the number of bits in the last eight bytes of a block.
  uint8_t last[128] = {};
  if (left > 0)
    std::memcpy(last, next, left);
  last[left] = 0x80;
  size_t padded = left < 56 ? 64 : 128;
  for (int i = 0; i < 8; ++i)
    last[padded - 1 - i] = static_cast<uint8_t>(uint64_t(size) * 8 >> (8 * i));
  for (size_t begin = 0; begin < padded; begin += 64)
    compress(state, last + begin);
  Sha1Digest digest;
  for (size_t i = 0; i < digest.size(); ++i)
    digest[i] = static_cast<uint8_t>(state[i / 4] >> (24 - 8 * (i % 4)));
  return digest;
}

} // namespace heddle
