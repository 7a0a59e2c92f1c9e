// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Each kind of multiply-add is a loop over as many accumulators as hide the instruction's latency. The instructions are written out, so
// that a compiler neither folds nor widens them; CPUID chooses among the loops at run time.
#include "runtime/cli/Peaks.h"

#include "runtime/cli/Bandwidth.h"
#include "runtime/model/CpuFeatures.h"

#include <algorithm>
#include <cstring>

namespace heddle {
namespace {

struct Loop {
  const char *name, *arithmetic, *feature; // feature: by LLVM's name; null: every CPU has it
  void (*run)(int64_t steps);
  int64_t steps;
  int32_t operationsPerStep;
};

// In every CPU: vectors of four f32, as the compiler multiplies and adds them.
void multiplyBaseline(int64_t steps) {
  using Vector = float __attribute__((vector_size(16)));
  Vector sums[12] = {}, factor = {0.5f, 0.5f, 0.5f, 0.5f};
  for (int64_t step = 0; step < steps; ++step)
    for (Vector &sum : sums) {
      sum = sum * factor + factor;
#if defined(__x86_64__)
      __asm__ volatile("" : "+x"(sum));
#elif defined(__aarch64__)
      __asm__ volatile("" : "+w"(sum));
#endif
    }
}

#if defined(__x86_64__)

// `chains` accumulators of `Vector`; integers and bf16 pairs are bits like any others, of numbers that stay normal.
#define HEDDLE_MULTIPLY(name, features, Vector, chains, instruction, bits)                                             \
  __attribute__((target(features))) void name(int64_t steps) {                                                         \
    Vector sums[chains] = {}, factor = Vector() + (bits);                                                              \
    for (int64_t step = 0; step < steps; ++step)                                                                       \
      _Pragma("clang loop unroll(full)") for (int chain = 0; chain < (chains); ++chain) __asm__ volatile(              \
          instruction " %1, %1, %0" : "+v"(sums[chain]) : "v"(factor));                                                \
    __asm__ volatile("" ::"v"(sums[0]));                                                                               \
  }

using Wide = uint32_t __attribute__((vector_size(64)));
using Narrow = uint32_t __attribute__((vector_size(32)));
constexpr uint32_t halfF32 = 0x3f000000, halvesBf16 = 0x3f003f00, onesInt16 = 0x00010001, onesInt8 = 0x01010101;

HEDDLE_MULTIPLY(multiplyF32Wide, "avx512f", Wide, 24, "vfmadd231ps", halfF32)
HEDDLE_MULTIPLY(multiplyBf16Wide, "avx512f,avx512bf16", Wide, 24, "vdpbf16ps", halvesBf16)
HEDDLE_MULTIPLY(multiplyInt16Wide, "avx512f,avx512vnni", Wide, 24, "vpdpwssd", onesInt16)
HEDDLE_MULTIPLY(multiplyInt8Wide, "avx512f,avx512vnni", Wide, 24, "vpdpbusd", onesInt8)
HEDDLE_MULTIPLY(multiplyF32Narrow, "avx2,fma", Narrow, 12, "vfmadd231ps", halfF32)
HEDDLE_MULTIPLY(multiplyInt16Narrow, "avx2,avxvnni", Narrow, 12, "%{vex%} vpdpwssd", onesInt16)
HEDDLE_MULTIPLY(multiplyInt8Narrow, "avx2,avxvnni", Narrow, 12, "%{vex%} vpdpbusd", onesInt8)

// Rows and bytes of a row of eight tiles, all of them 16 x 64.
struct TileConfiguration {
  uint8_t palette = 1, startRow = 0, reserved[14] = {};
  uint16_t rowBytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

// Four sums of the products of two and two tiles, as kernels have them.
#define HEDDLE_MULTIPLY_TILES(name, features, instruction, bits)                                                       \
  __attribute__((target("amx-tile," features))) void name(int64_t steps) {                                             \
    alignas(64) TileConfiguration configuration;                                                                       \
    alignas(64) uint32_t ones[16][16];                                                                                 \
    for (auto &row : ones)                                                                                             \
      std::fill(row, row + 16, bits);                                                                                  \
    __asm__ volatile("ldtilecfg %0\n tilezero %%tmm0\n tilezero %%tmm1\n tilezero %%tmm2\n tilezero %%tmm3\n"          \
                     "tileloadd (%1,%2), %%tmm4\n tileloadd (%1,%2), %%tmm5\n"                                         \
                     "tileloadd (%1,%2), %%tmm6\n tileloadd (%1,%2), %%tmm7" ::"m"(configuration),                     \
                     "r"(ones), "r"(int64_t(sizeof ones[0]))                                                           \
                     : "memory");                                                                                      \
    for (int64_t step = 0; step < steps; ++step)                                                                       \
      __asm__ volatile(instruction " %%tmm6, %%tmm4, %%tmm0\n " instruction " %%tmm7, %%tmm4, %%tmm1\n " instruction   \
                                   " %%tmm6, %%tmm5, %%tmm2\n " instruction " %%tmm7, %%tmm5, %%tmm3" ::               \
                                       : "memory");                                                                    \
    __asm__ volatile("tilerelease" ::: "memory");                                                                      \
  }

HEDDLE_MULTIPLY_TILES(multiplyBf16Tiles, "amx-bf16", "tdpbf16ps", halvesBf16)
HEDDLE_MULTIPLY_TILES(multiplyInt8Tiles, "amx-int8", "tdpbssd", onesInt8)

#endif

// Of loops of the same name the first that the CPU can run is taken.
constexpr Loop loops[] = {
#if defined(__x86_64__)
    {"f32", "f32", "avx512f", multiplyF32Wide, 2'000'000, 2 * 24 * 16},
    {"f32", "f32", "fma", multiplyF32Narrow, 4'000'000, 2 * 12 * 8},
    {"bf16", "bf16", "avx512bf16", multiplyBf16Wide, 2'000'000, 2 * 24 * 32},
    {"int16", "int16", "avx512vnni", multiplyInt16Wide, 2'000'000, 2 * 24 * 32},
    {"int16", "int16", "avxvnni", multiplyInt16Narrow, 4'000'000, 2 * 12 * 16},
    {"int8", "int8", "avx512vnni", multiplyInt8Wide, 2'000'000, 2 * 24 * 64},
    {"int8", "int8", "avxvnni", multiplyInt8Narrow, 4'000'000, 2 * 12 * 32},
    {"amx-bf16", "bf16", "amx-bf16", multiplyBf16Tiles, 400'000, 2 * 4 * 16 * 16 * 32},
    {"amx-int8", "int8", "amx-int8", multiplyInt8Tiles, 400'000, 2 * 4 * 16 * 16 * 64},
#endif
    {"f32", "f32", nullptr, multiplyBaseline, 4'000'000, 2 * 12 * 4},
};

} // namespace

std::vector<Peak> measurePeaks(ThreadPool &pool, int rounds) {
  std::vector<Peak> peaks;
  for (const Loop &loop : loops) {
    auto isSame = [&](const Peak &peak) { return !strcmp(peak.name, loop.name); };
    if (std::any_of(peaks.begin(), peaks.end(), isSame) || (loop.feature && !hasCpuFeature(loop.feature)))
      continue;
    auto run = [](void *user, int32_t, int32_t) {
      const Loop &loop = *static_cast<const Loop *>(user);
      loop.run(loop.steps);
    };
    double best = 0, operations = double(loop.steps) * double(loop.operationsPerStep) * pool.size();
    for (int round = 0; round < rounds; ++round) {
      double start = secondsNow();
      pool.run(run, const_cast<Loop *>(&loop));
      best = std::max(best, operations / (secondsNow() - start));
    }
    peaks.push_back({loop.name, loop.arithmetic, best});
  }
  return peaks;
}

double peakOf(const std::vector<Peak> &peaks, std::string_view arithmetic) {
  double best = 0;
  for (const Peak &peak : peaks)
    if (peak.arithmetic == arithmetic || !strcmp(peak.arithmetic, "f32"))
      best = std::max(best, peak.perSecond);
  return best;
}

} // namespace heddle
