// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "bytes/Sha256.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace heddle {
namespace {

// First 32 bits of the fractional parts of the cube roots of the first 64 primes.
alignas(16) constexpr uint32_t roundConstants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

uint32_t rotateRight(uint32_t value, int bits) {
  return value >> bits | value << (32 - bits);
}

void compress(uint32_t state[8], const uint8_t *block) {
  uint32_t words[64];
  for (size_t i = 0; i < 16; ++i)
    words[i] = uint32_t(block[4 * i]) << 24 | uint32_t(block[4 * i + 1]) << 16 | uint32_t(block[4 * i + 2]) << 8 |
               block[4 * i + 3];
  for (int i = 16; i < 64; ++i) {
    uint32_t low = words[i - 15], high = words[i - 2];
    words[i] = words[i - 16] + (rotateRight(low, 7) ^ rotateRight(low, 18) ^ low >> 3) + words[i - 7] +
               (rotateRight(high, 17) ^ rotateRight(high, 19) ^ high >> 10);
  }
  uint32_t a = state[0], b = state[1], c = state[2], d = state[3], e = state[4], f = state[5], g = state[6],
           h = state[7];
  for (int i = 0; i < 64; ++i) {
    uint32_t first = h + (rotateRight(e, 6) ^ rotateRight(e, 11) ^ rotateRight(e, 25)) + ((e & f) ^ (~e & g)) +
                     roundConstants[i] + words[i];
    uint32_t second = (rotateRight(a, 2) ^ rotateRight(a, 13) ^ rotateRight(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + first, d = c, c = b, b = a, a = first + second;
  }
  state[0] += a, state[1] += b, state[2] += c, state[3] += d, state[4] += e, state[5] += f, state[6] += g,
      state[7] += h;
}

#ifdef __x86_64__
// SHA, and SSE4.1 for the blend and the shuffle of bytes.
bool hasShaInstructions() {
  unsigned a, b = 0, c = 0, d;
  bool hasBlend = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_SSE4_1);
  return hasBlend && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_SHA);
}

// Two registers hold the state as the instructions take it, from the highest lane: (a, b, e, f) and (c, d, g, h). Four words of
// the schedule are one register; the group of round 4 (i + 4) takes the place of that of round 4 i.
__attribute__((target("sha,sse4.1"))) void compressBlocks(uint32_t state[8], const uint8_t *blocks, size_t count) {
  const __m128i bigEndian = _mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3);
  __m128i abef = _mm_set_epi32(int(state[0]), int(state[1]), int(state[4]), int(state[5]));
  __m128i cdgh = _mm_set_epi32(int(state[2]), int(state[3]), int(state[6]), int(state[7]));
  for (; count > 0; --count, blocks += 64) {
    __m128i words[4], abefBefore = abef, cdghBefore = cdgh;
    for (size_t i = 0; i < 4; ++i)
      words[i] = _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i *>(blocks + 16 * i)), bigEndian);
#pragma GCC unroll 16
    for (size_t i = 0; i < 16; ++i) {
      __m128i &oldest = words[i % 4], newest = words[(i + 3) % 4];
      __m128i sum = _mm_add_epi32(oldest, _mm_load_si128(reinterpret_cast<const __m128i *>(roundConstants + 4 * i)));
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0e));
      // w[t] = s1(w[t - 2]) + w[t - 7] + s0(w[t - 15]) + w[t - 16]
      if (i < 12) {
        __m128i sevenBefore = _mm_alignr_epi8(newest, words[(i + 2) % 4], 4);
        __m128i partial = _mm_add_epi32(_mm_sha256msg1_epu32(oldest, words[(i + 1) % 4]), sevenBefore);
        oldest = _mm_sha256msg2_epu32(partial, newest);
      }
    }
    abef = _mm_add_epi32(abef, abefBefore);
    cdgh = _mm_add_epi32(cdgh, cdghBefore);
  }
  const __m128i halves[2] = {abef, cdgh};
  for (size_t half = 0; half < 2; ++half) {
    state[2 * half] = uint32_t(_mm_extract_epi32(halves[half], 3));
    state[2 * half + 1] = uint32_t(_mm_extract_epi32(halves[half], 2));
    state[2 * half + 4] = uint32_t(_mm_extract_epi32(halves[half], 1));
    state[2 * half + 5] = uint32_t(_mm_extract_epi32(halves[half], 0));
  }
}
#else
bool hasShaInstructions() {
  return false;
}
void compressBlocks(uint32_t *, const uint8_t *, size_t) {}
#endif

void compressAll(uint32_t state[8], const uint8_t *blocks, size_t count) {
  static std::atomic<int> known{-1}; // asked once: a virtual machine answers slowly
  int isFast = known.load(std::memory_order_relaxed);
  if (isFast < 0)
    known.store(isFast = hasShaInstructions(), std::memory_order_relaxed);
  if (isFast)
    return compressBlocks(state, blocks, count);
  for (size_t i = 0; i < count; ++i)
    compress(state, blocks + 64 * i);
}

} // namespace

void Sha256::update(const void *bytes, size_t count) {
  const auto *data = static_cast<const uint8_t *>(bytes);
  size_t held = size % 64;
  size += count;
  if (held) {
    size_t taken = std::min(count, 64 - held);
    memcpy(pending + held, data, taken);
    data += taken, count -= taken;
    if (held + taken < 64)
      return;
    compressAll(state, pending, 1);
  }
  compressAll(state, data, count / 64);
  if (count % 64)
    memcpy(pending, data + count / 64 * 64, count % 64);
}

Sha256Digest Sha256::finish() {
  // The rest, a one bit, zeros, and the length in bits as 64 bits, in one or two blocks.
  uint8_t tail[128] = {};
  size_t rest = size % 64, tailSize = rest < 56 ? 64 : 128;
  memcpy(tail, pending, rest);
  tail[rest] = 0x80;
  for (int i = 0; i < 8; ++i)
    tail[tailSize - 1 - i] = uint8_t(size * 8 >> (8 * i));
  compressAll(state, tail, tailSize / 64);

  Sha256Digest digest;
  for (int i = 0; i < 32; ++i)
    digest[i] = uint8_t(state[i / 4] >> (24 - 8 * (i % 4)));
  return digest;
}

Sha256Digest sha256(const void *bytes, size_t size) {
  Sha256 hash;
  hash.update(bytes, size);
  return hash.finish();
}

} // namespace heddle
