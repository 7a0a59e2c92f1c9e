// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs PTX kernels on the CPU, one block at a time and thread by thread between the points where threads meet.
//
// What hardware leaves open is made visible: warps run in either order between barriers, and what cp.async brings is not
// a number until its group was waited for. Each access to global memory lies in one of the ranges that were allowed, and
// is aligned.
#ifndef HEDDLE_TEST_PTX_MACHINE_H
#define HEDDLE_TEST_PTX_MACHINE_H

#include "test/ptx/Program.h"

namespace heddle::ptx {

// Global memory: ranges of the process' own.
class Memory {
public:
  enum class Access : uint8_t { Read, ReadWrite };
  struct Span {
    void *begin;
    size_t size;
    Access access;
  };
  void allow(const void *begin, size_t size, Access access);
  void forbid(const void *begin);
  // Throws Error unless [address, address + size) lies in one range that allows it, and address is aligned.
  uint8_t *at(uint64_t address, size_t size, size_t alignment, Access access);
  std::vector<Span> spans() const;

private:
  struct Range {
    uint64_t end;
    Access access;
  };
  std::map<uint64_t, Range> ranges; // by begin
  std::pair<uint64_t, Range> last = {0, {0, Access::Read}};
};

enum class WarpOrder : uint8_t { Ascending, Descending };

struct Launch {
  uint32_t blocks[3] = {1, 1, 1}, threads[3] = {1, 1, 1};
  uint32_t sharedBytes = 0; // besides those that the kernel declares
};

// `arguments`: where each parameter's value lies, as cuLaunchKernel takes them. Throws Error.
void run(const Kernel &kernel, const Launch &launch, const void *const *arguments, Memory &memory,
         WarpOrder order = WarpOrder::Ascending);

} // namespace heddle::ptx

#endif
