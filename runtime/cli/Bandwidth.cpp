// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/cli/Bandwidth.h"

#include "runtime/model/CpuFeatures.h"
#include "runtime/session/Reserved.h"

#include <algorithm>
#include <cstring>
#include <ctime>

namespace heddle {
namespace {

constexpr uint64_t bufferSize = uint64_t(512) << 20;

using Line = uint64_t __attribute__((vector_size(64)));

// Combines all lines of a range; eight chains keep as many loads in flight as the core can hold. The compiler picks the widest
// loads that the function may use.
#define HEDDLE_READ_BODY                                                                                               \
  Line sums[8] = {};                                                                                                   \
  for (uint64_t i = 0; i + 8 <= lines; i += 8)                                                                         \
    for (int chain = 0; chain < 8; ++chain)                                                                            \
      sums[chain] |= data[i + chain];                                                                                  \
  return joined(sums)

// The same of two places in turns, 16 lines each, which are asked for 8 lines ahead: some cores read faster so than by what their prefetchers
// foresee (one of an Emerald Rapids 18.7 GB/s instead of 15.9).
#define HEDDLE_READ_AHEAD_BODY                                                                                         \
  constexpr uint64_t apart = 1024, group = 16, ahead = 8;                                                              \
  Line sums[8] = {};                                                                                                   \
  for (uint64_t begin = 0; begin + 2 * apart <= lines; begin += 2 * apart)                                             \
    for (uint64_t i = 0; i < apart; i += group)                                                                        \
      for (const Line *from : {data + begin + i, data + begin + apart + i}) {                                          \
        for (uint64_t line = 0; line < group; ++line)                                                                  \
          __builtin_prefetch(from + ahead + line);                                                                     \
        for (uint64_t line = 0; line < group; ++line)                                                                  \
          sums[line % 8] |= from[line];                                                                                \
      }                                                                                                                \
  return joined(sums)

inline uint64_t joined(const Line (&sums)[8]) {
  uint64_t all = 0;
  for (const Line &sum : sums)
    for (int lane = 0; lane < 8; ++lane)
      all |= sum[lane];
  return all;
}

using Read = uint64_t (*)(const Line *data, uint64_t lines);

uint64_t readBaseline(const Line *data, uint64_t lines) {
  HEDDLE_READ_BODY;
}
uint64_t readAheadBaseline(const Line *data, uint64_t lines) {
  HEDDLE_READ_AHEAD_BODY;
}
#if defined(__x86_64__)
__attribute__((target("avx512f"))) uint64_t readAvx512(const Line *data, uint64_t lines) {
  HEDDLE_READ_BODY;
}
__attribute__((target("avx512f"))) uint64_t readAheadAvx512(const Line *data, uint64_t lines) {
  HEDDLE_READ_AHEAD_BODY;
}
__attribute__((target("avx2"))) uint64_t readAvx2(const Line *data, uint64_t lines) {
  HEDDLE_READ_BODY;
}
__attribute__((target("avx2"))) uint64_t readAheadAvx2(const Line *data, uint64_t lines) {
  HEDDLE_READ_AHEAD_BODY;
}
#endif

struct Pass {
  Read read;
  uint8_t *data;
  std::atomic<uint64_t> sink; // keeps the loads alive
  bool touch;
};

void readShare(void *user, int32_t thread, int32_t numThreads) {
  auto &pass = *static_cast<Pass *>(user);
  uint64_t lines = bufferSize / sizeof(Line), begin = lines * thread / numThreads,
           end = lines * (thread + 1) / numThreads;
  uint8_t *data = pass.data + begin * sizeof(Line);
  if (pass.touch)
    memset(data, 1, (end - begin) * sizeof(Line));
  else
    pass.sink.fetch_or(pass.read(reinterpret_cast<const Line *>(data), end - begin), std::memory_order_relaxed);
}

} // namespace

double secondsNow() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return double(now.tv_sec) + 1e-9 * double(now.tv_nsec);
}

double measureReadBandwidth(ThreadPool &pool, int rounds) {
  Reserved buffer;
  if (!buffer.reserve(bufferSize, "the bandwidth measurement").isOk())
    return 0;
  madvise(buffer.data(), bufferSize, MADV_HUGEPAGE);
  Read read = readBaseline, readAhead = readAheadBaseline;
#if defined(__x86_64__)
  if (hasCpuFeature("avx512f"))
    read = readAvx512, readAhead = readAheadAvx512;
  else if (hasCpuFeature("avx2"))
    read = readAvx2, readAhead = readAheadAvx2;
#endif
  Pass pass = {read, buffer.data(), {0}, true};
  pool.run(readShare, &pass);
  pass.touch = false;
  double best = 0;
  for (int round = 0; round < rounds; ++round)
    for (Read way : {read, readAhead}) {
      pass.read = way;
      double start = secondsNow();
      pool.run(readShare, &pass);
      best = std::max(best, double(bufferSize) / (secondsNow() - start));
    }
  return best;
}

} // namespace heddle
