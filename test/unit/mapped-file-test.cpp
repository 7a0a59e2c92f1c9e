// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "test/unit/ReferenceModel.h"
#include "test/unit/TestPackage.h"

#include "runtime/model/CpuFeatures.h"
#include "runtime/session/Package.h"

#include <algorithm>
#include <cstring>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace heddle;
using namespace heddle::reference;

namespace {

TEST(CpuFeatures, knowsTheBaseline) {
#if defined(__x86_64__)
  EXPECT_EQ(hasCpuFeature("avx2"), bool(__builtin_cpu_supports("avx2")));
  EXPECT_EQ(hasCpuFeature("avx512vnni"), bool(__builtin_cpu_supports("avx512vnni")));
  EXPECT_EQ(hasCpuFeature("avx512bf16"), bool(__builtin_cpu_supports("avx512bf16")));
#endif
  EXPECT_FALSE(hasCpuFeature("avx1024"));
  EXPECT_FALSE(hasCpuFeature("avx512_bf16")); // LLVM's spelling only
}

// Bytes of the mapping that holds `address` that lie in huge pages.
uint64_t hugeBytes(const void *address) {
  FILE *smaps = fopen("/proc/self/smaps", "re");
  char line[4352];
  bool isHere = false;
  unsigned long long kilobytes = 0;
  constexpr std::string_view huge = "AnonHugePages:";
  while (smaps && fgets(line, sizeof line, smaps)) {
    char *next = nullptr;
    unsigned long long begin = strtoull(line, &next, 16); // of a line that begins a mapping: "begin-end …"
    if (next != line && *next == '-') {
      isHere = begin <= uintptr_t(address) && uintptr_t(address) < strtoull(next + 1, nullptr, 16);
    } else if (isHere && std::string_view(line).substr(0, huge.size()) == huge) {
      kilobytes = strtoull(line + huge.size(), nullptr, 10);
      break;
    }
  }
  if (smaps)
    fclose(smaps);
  return kilobytes * 1024;
}

TEST(MappedFile, aCopyLiesInHugePages) {
  constexpr size_t size = 16 << 20;
  void *control = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(control, MAP_FAILED);
  bool hasAdvice = madvise(control, size, MADV_HUGEPAGE) == 0;
  memset(control, 1, size);
  bool hasHugePages = hasAdvice && hugeBytes(control) >= size / 2;
  munmap(control, size);
  if (!hasHugePages)
    GTEST_SKIP() << "this machine gives none";
  MappedFile file;
  ASSERT_TRUE(file.open(writeFile("huge", Bytes(size, 1)), FileMemory::Copied).isOk());
  EXPECT_GE(hugeBytes(file.data()), size / 2);
}

// A mapped file would end the process here.
TEST(MappedFile, aCopyOutlivesItsFile) {
  std::string path = writeFile("copied", Bytes(100000, 7));
  MappedFile file;
  ASSERT_TRUE(file.open(path, FileMemory::Copied).isOk());
  ASSERT_EQ(truncate(path.c_str(), 0), 0);
  EXPECT_EQ(file.size(), 100000u);
  EXPECT_TRUE(std::all_of(file.data(), file.data() + file.size(), [](uint8_t byte) { return byte == 7; }));
}

} // namespace
