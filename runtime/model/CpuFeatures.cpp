// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/model/CpuFeatures.h"

#include <cstdint>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace heddle {
namespace {

#if defined(__x86_64__)

enum Register { Eax, Ebx, Ecx, Edx };
// XCR0 bits: SSE and AVX state; opmask, upper halves and upper registers of AVX-512; tile configuration and data.
constexpr uint64_t avxState = 0x6, avx512State = 0xe6, amxState = 0x60006;

struct Feature {
  const char *name;
  uint32_t leaf, subleaf;
  Register output;
  int bit;
  uint64_t state;
};

constexpr Feature features[] = {
    {"sse3", 1, 0, Ecx, 0, 0},
    {"ssse3", 1, 0, Ecx, 9, 0},
    {"sse4.1", 1, 0, Ecx, 19, 0},
    {"sse4.2", 1, 0, Ecx, 20, 0},
    {"popcnt", 1, 0, Ecx, 23, 0},
    {"fma", 1, 0, Ecx, 12, avxState},
    {"avx", 1, 0, Ecx, 28, avxState},
    {"f16c", 1, 0, Ecx, 29, avxState},
    {"bmi", 7, 0, Ebx, 3, 0},
    {"avx2", 7, 0, Ebx, 5, avxState},
    {"bmi2", 7, 0, Ebx, 8, 0},
    {"lzcnt", 0x80000001, 0, Ecx, 5, 0},
    {"avx512f", 7, 0, Ebx, 16, avx512State},
    {"avx512dq", 7, 0, Ebx, 17, avx512State},
    {"avx512ifma", 7, 0, Ebx, 21, avx512State},
    {"avx512cd", 7, 0, Ebx, 28, avx512State},
    {"avx512bw", 7, 0, Ebx, 30, avx512State},
    {"avx512vl", 7, 0, Ebx, 31, avx512State},
    {"avx512vbmi", 7, 0, Ecx, 1, avx512State},
    {"avx512vbmi2", 7, 0, Ecx, 6, avx512State},
    {"avx512vnni", 7, 0, Ecx, 11, avx512State},
    {"avx512bitalg", 7, 0, Ecx, 12, avx512State},
    {"avx512vpopcntdq", 7, 0, Ecx, 14, avx512State},
    {"avx512fp16", 7, 0, Edx, 23, avx512State},
    {"avxvnni", 7, 1, Eax, 4, avxState},
    {"avx512bf16", 7, 1, Eax, 5, avx512State},
    {"amx-bf16", 7, 0, Edx, 22, amxState},
    {"amx-tile", 7, 0, Edx, 24, amxState},
    {"amx-int8", 7, 0, Edx, 25, amxState},
};

uint64_t enabledState() {
  uint32_t registers[4];
  if (!__get_cpuid_count(1, 0, &registers[Eax], &registers[Ebx], &registers[Ecx], &registers[Edx]) ||
      !(registers[Ecx] >> 27 & 1))
    return 0;
  uint32_t low, high;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t(high) << 32 | low;
}

bool mayUseTiles() {
  constexpr int requestPermission = 0x1023, tileData = 18; // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, requestPermission, tileData) == 0;
}

bool isPresent(const Feature &feature) {
  uint32_t registers[4];
  if (!__get_cpuid_count(feature.leaf, feature.subleaf, &registers[Eax], &registers[Ebx], &registers[Ecx],
                         &registers[Edx]))
    return false;
  if (!(registers[feature.output] >> feature.bit & 1) || (enabledState() & feature.state) != feature.state)
    return false;
  return feature.state != amxState || mayUseTiles();
}

#elif defined(__aarch64__)

struct Feature {
  const char *name;
  unsigned long capability; // AT_HWCAP or AT_HWCAP2
  int bit;
};

constexpr Feature features[] = {
    {"neon", AT_HWCAP, 1},  {"fullfp16", AT_HWCAP, 10}, {"dotprod", AT_HWCAP, 20}, {"sve", AT_HWCAP, 22},
    {"sve2", AT_HWCAP2, 1}, {"i8mm", AT_HWCAP2, 13},    {"bf16", AT_HWCAP2, 14},
};

bool isPresent(const Feature &feature) {
  return getauxval(feature.capability) >> feature.bit & 1;
}

#endif

} // namespace

bool hasCpuFeature(std::string_view name) {
  for (const Feature &feature : features)
    if (name == feature.name)
      return isPresent(feature);
  return false;
}

} // namespace heddle
