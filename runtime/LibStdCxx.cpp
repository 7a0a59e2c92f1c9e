// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The few functions of libstdc++ that header code refers to, so that outputs do not need the library. They are local symbols of
// libheddle.a. Nothing catches exceptions here: what would throw ends the process with a line. Where memory lacks, a call that runs in a
// MemoryScope returns to it; elsewhere, what the numbers of a caller of the C ABI size is reserved (Reserved.h) or made by the nothrow
// forms, and is a status. What is left are the messages of statuses, which have a reserve of their own.
#include "bytes/Allocator.h"
#include "bytes/MemoryScope.h"

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>

// Every member that headers leave to the library.
template class std::basic_string<char>;

namespace {

using heddle::MemoryScope;

[[noreturn]] void die(const char *what) {
  fprintf(stderr, "heddle: error: %s\n", what);
  abort();
}

[[noreturn]] void failForMemory() {
  MemoryScope::fail();
  fputs("heddle: error: out of memory\n", stderr);
  exit(1);
}

void *allocateOrNull(size_t size) {
  using Block = MemoryScope::Block;
  auto *block = size <= SIZE_MAX - sizeof(Block)
                    ? static_cast<Block *>(heddle::allocateMemory(sizeof(Block) + size, alignof(Block)))
                    : nullptr;
  if (!block)
    return nullptr;
  MemoryScope::enter(block);
  return block + 1;
}

// Memory that the program has from its start, for the messages that are built in no scope when the allocator gives none: a status is
// returned as it is, with its words. A slot holds a text that names the longest path twice. A message lives until its call returns, and
// a call has a few, so that the slots suffice for some twenty threads that fail at the same moment. Not one of these pages costs memory
// before it is written.
class MessageReserve {
public:
  // Null where no slot is free, or where the text does not fit into one.
  void *take(size_t size) {
    if (size > slotBytes)
      return nullptr;
    for (size_t slot = 0; slot < numSlots; ++slot)
      if (!isTaken[slot].exchange(true, std::memory_order_acquire))
        return bytes[slot];
    return nullptr;
  }

  // False if `memory` is not of the reserve.
  bool release(void *memory) {
    size_t offset = reinterpret_cast<uintptr_t>(memory) - reinterpret_cast<uintptr_t>(bytes);
    if (offset >= sizeof bytes)
      return false;
    isTaken[offset / slotBytes].store(false, std::memory_order_release);
    return true;
  }

private:
  static constexpr size_t numSlots = 64, slotBytes = 16384;
  std::atomic<bool> isTaken[numSlots] = {};
  alignas(std::max_align_t) char bytes[numSlots][slotBytes] = {};
};

MessageReserve messageReserve;

void *allocate(size_t size) {
  void *memory = allocateOrNull(size);
  if (!memory) {
    MemoryScope::fail(); // returns only where there is no scope
    memory = messageReserve.take(size);
  }
  return memory ? memory : (failForMemory(), nullptr);
}

void release(void *memory) {
  if (!memory || messageReserve.release(memory))
    return;
  MemoryScope::Block *block = static_cast<MemoryScope::Block *>(memory) - 1;
  MemoryScope::leave(block);
  heddle::releaseMemory(block);
}

// Only threads ask for more alignment than malloc's, and they are made in no scope: these blocks are not listed.
void *allocateAlignedOrNull(size_t size, std::align_val_t alignment) {
  return heddle::allocateMemory(size, size_t(alignment));
}

void *allocateAligned(size_t size, std::align_val_t alignment) {
  void *memory = allocateAlignedOrNull(size, alignment);
  return memory ? memory : (failForMemory(), nullptr);
}

} // namespace

void *operator new(size_t size) {
  return allocate(size);
}
void *operator new[](size_t size) {
  return allocate(size);
}
void *operator new(size_t size, const std::nothrow_t &) noexcept {
  return allocateOrNull(size);
}
void *operator new[](size_t size, const std::nothrow_t &) noexcept {
  return allocateOrNull(size);
}
void *operator new(size_t size, std::align_val_t alignment, const std::nothrow_t &) noexcept {
  return allocateAlignedOrNull(size, alignment);
}
void *operator new(size_t size, std::align_val_t alignment) {
  return allocateAligned(size, alignment);
}
void *operator new[](size_t size, std::align_val_t alignment) {
  return allocateAligned(size, alignment);
}
void operator delete(void *memory) noexcept {
  release(memory);
}
void operator delete[](void *memory) noexcept {
  release(memory);
}
void operator delete(void *memory, size_t) noexcept {
  release(memory);
}
void operator delete[](void *memory, size_t) noexcept {
  release(memory);
}
void operator delete(void *memory, const std::nothrow_t &) noexcept {
  release(memory);
}
void operator delete[](void *memory, const std::nothrow_t &) noexcept {
  release(memory);
}
void operator delete(void *memory, std::align_val_t) noexcept {
  heddle::releaseMemory(memory);
}
void operator delete(void *memory, std::align_val_t, const std::nothrow_t &) noexcept {
  heddle::releaseMemory(memory);
}
void operator delete[](void *memory, std::align_val_t) noexcept {
  heddle::releaseMemory(memory);
}
void operator delete(void *memory, size_t, std::align_val_t) noexcept {
  heddle::releaseMemory(memory);
}
void operator delete[](void *memory, size_t, std::align_val_t) noexcept {
  heddle::releaseMemory(memory);
}

// This file is the library whose names these are.
// NOLINTBEGIN(bugprone-std-namespace-modification, bugprone-reserved-identifier, readability-identifier-naming)
namespace std {
const nothrow_t nothrow{};
void __throw_length_error(const char *what) {
  die(what);
}
void __throw_logic_error(const char *what) {
  die(what);
}
void __throw_out_of_range(const char *what) {
  die(what);
}
void __throw_out_of_range_fmt(const char *what, ...) {
  die(what);
}
void __throw_invalid_argument(const char *what) {
  die(what);
}
void __throw_bad_alloc() {
  failForMemory();
}
void __throw_bad_array_new_length() {
  failForMemory();
}
void __throw_bad_function_call() {
  die("an empty function was called");
}
void __throw_bad_optional_access() {
  die("an empty optional was read");
}
} // namespace std

extern "C" void __cxa_pure_virtual() {
  die("a pure virtual function was called");
}
// NOLINTEND(bugprone-std-namespace-modification, bugprone-reserved-identifier, readability-identifier-naming)
