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
  Line all = ((sums[0] | sums[1]) | (sums[2] | sums[3])) | ((sums[4] | sums[5]) | (sums[6] | sums[7]));                \
  return all[0] | all[1] | all[2] | all[3] | all[4] | all[5] | all[6] | all[7];

uint64_t readBaseline(const Line *data, uint64_t lines) {
  HEDDLE_READ_BODY
}
#if defined(__x86_64__)
__attribute__((target("avx512f"))) uint64_t readAvx512(const Line *data, uint64_t lines) {
  HEDDLE_READ_BODY
}
__attribute__((target("avx2"))) uint64_t readAvx2(const Line *data, uint64_t lines) {
  HEDDLE_READ_BODY
}
#endif

struct Pass {
  uint64_t (*read)(const Line *data, uint64_t lines);
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
  Pass pass = {readBaseline, buffer.data(), {0}, true};
#if defined(__x86_64__)
  pass.read = hasCpuFeature("avx512f") ? readAvx512 : hasCpuFeature("avx2") ? readAvx2 : readBaseline;
#endif
  pool.run(readShare, &pass);
  pass.touch = false;
  double best = 0;
  for (int round = 0; round < rounds; ++round) {
    double start = secondsNow();
    pool.run(readShare, &pass);
    best = std::max(best, double(bufferSize) / (secondsNow() - start));
  }
  return best;
}

} // namespace heddle
