// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Address space that costs memory only where it is written. Zero at first.
#ifndef HEDDLE_RUNTIME_SESSION_RESERVED_H
#define HEDDLE_RUNTIME_SESSION_RESERVED_H

#include "bytes/MemoryScope.h"
#include "bytes/Status.h"

#include <cstdint>
#include <sys/mman.h>
#include <type_traits>

namespace heddle {

class Reserved {
public:
  Reserved() = default;
  Reserved(const Reserved &) = delete;
  Reserved &operator=(const Reserved &) = delete;
  ~Reserved() { release(); }

  void release() {
    MemoryScope::leave(&mapping);
    mapping.unmap();
  }

  static constexpr uint64_t largePage = 2 << 20;

  // `what` is named in the error. Without `writable`, commit() makes ranges accessible. `inLargePages` begins at a large page and asks for those,
  // which the system gives to each that is accessible as a whole when it is first written.
  Status reserve(uint64_t size, const char *what, bool writable = true, bool inLargePages = false) {
    uint64_t length = size ? size : 1, more = inLargePages ? largePage : 0;
    void *memory = MAP_FAILED;
    if (length + more >= length)
      memory = mmap(nullptr, length + more, writable ? PROT_READ | PROT_WRITE : PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
      return outOfMemory(format("no address space for %llu bytes of %s", (unsigned long long)size, what));
    mapping.bytes = static_cast<uint8_t *>(memory);
    mapping.length = length;
    if (inLargePages) {
      uint64_t before = -reinterpret_cast<uintptr_t>(memory) % largePage, end = (length + 4095) / 4096 * 4096;
      if (before)
        munmap(memory, before);
      mapping.bytes += before;
      munmap(mapping.bytes + end, more - before);
      madvise(mapping.bytes, length, MADV_HUGEPAGE);
    }
    MemoryScope::enter(&mapping);
    return Status();
  }

  // Offset and size are multiples of 4096.
  bool commit(uint64_t offset, uint64_t size) { return mprotect(data() + offset, size, PROT_READ | PROT_WRITE) == 0; }

  // What was written there is forgotten, its memory goes back to the system. Offset and size are multiples of 4096.
  void discard(uint64_t offset, uint64_t size) { madvise(data() + offset, size, MADV_DONTNEED); }

  uint8_t *data() const { return mapping.bytes; }
  template <typename T> T *as() const { return reinterpret_cast<T *>(mapping.bytes); }

private:
  struct Mapping : MemoryScope::Resource {
    Mapping() : Resource([](Resource *resource) { static_cast<Mapping *>(resource)->unmap(); }) {}
    void unmap() {
      if (bytes)
        munmap(bytes, length);
      bytes = nullptr;
    }
    uint8_t *bytes = nullptr;
    uint64_t length = 0;
  } mapping;
};

// (size) elements in such memory: what a caller's numbers size, so that too much of it is a status.
template <typename T> class ReservedArray {
public:
  static_assert(std::is_trivially_copyable_v<T>, "elements begin as zero bytes and are never destroyed");

  Status reserve(uint64_t newSize, const char *what) {
    uint64_t bytes;
    if (__builtin_mul_overflow(newSize, sizeof(T), &bytes))
      return outOfMemory(format("no address space for %llu elements of %s", (unsigned long long)newSize, what));
    HEDDLE_RETURN_IF_ERROR(memory.reserve(bytes, what));
    count = newSize;
    return Status();
  }

  T *data() const { return memory.as<T>(); }
  size_t size() const { return count; }
  T *begin() const { return data(); }
  T *end() const { return data() + count; }
  T &operator[](size_t index) const { return data()[index]; }

private:
  Reserved memory;
  size_t count = 0;
};

} // namespace heddle

#endif
