// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Address space of many gigabytes, zero at first, of which only touched pages are memory.
#ifndef HEDDLE_TEST_EXECUTE_SPARSEMEMORY_H
#define HEDDLE_TEST_EXECUTE_SPARSEMEMORY_H

#include "gtest/gtest.h"

#include <cstdint>
#include <sys/mman.h>

namespace heddle::test {

class SparseMemory {
public:
  explicit SparseMemory(int64_t bytes) : bytes(bytes) {
    begin = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    EXPECT_NE(begin, MAP_FAILED) << bytes << " bytes of address space";
  }
  SparseMemory(const SparseMemory &) = delete;
  ~SparseMemory() { munmap(begin, bytes); }

  template <typename T> T *at(int64_t offset = 0) const {
    return reinterpret_cast<T *>(static_cast<uint8_t *>(begin) + offset);
  }

private:
  const int64_t bytes;
  void *begin;
};

// Offsets in bytes behind which 32 bits, or the 30 of a constant index, no longer do.
inline constexpr int64_t borders[] = {int64_t(1) << 28, int64_t(1) << 31, int64_t(1) << 32};

} // namespace heddle::test

#endif
