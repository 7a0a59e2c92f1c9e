// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "bytes/Allocator.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>

namespace heddle {
namespace {

Allocator current;
std::atomic<size_t> blocksHeld{0};

void *take(size_t size, size_t alignment) {
  if (current.allocate)
    return current.allocate(current.user, size, alignment);
  if (alignment <= alignof(std::max_align_t))
    return malloc(size);
  void *memory = nullptr;
  return posix_memalign(&memory, alignment, std::max<size_t>(size, 1)) == 0 ? memory : nullptr;
}

} // namespace

bool setAllocator(const Allocator &allocator) {
  if (blocksHeld != 0)
    return false;
  current = allocator;
  return true;
}

void *allocateMemory(size_t size, size_t alignment) {
  void *memory = take(size, alignment);
  blocksHeld.fetch_add(memory != nullptr, std::memory_order_relaxed);
  return memory;
}

void releaseMemory(void *memory) {
  if (!memory)
    return;
  blocksHeld.fetch_sub(1, std::memory_order_relaxed);
  if (current.release)
    current.release(current.user, memory);
  else
    free(memory);
}

} // namespace heddle
