// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where `operator new` of a program that links no libstdc++ takes its memory from: malloc, or what the program around it says.
#ifndef HEDDLE_BYTES_ALLOCATOR_H
#define HEDDLE_BYTES_ALLOCATOR_H

#include <cstddef>

namespace heddle {

struct Allocator {
  void *(*allocate)(void *user, size_t size, size_t alignment) = nullptr; // null: malloc
  void (*release)(void *user, void *memory) = nullptr;
  void *user = nullptr;
};

// False while memory is held: it would go back to another allocator.
bool setAllocator(const Allocator &allocator);

// Memory at a multiple of `alignment`, a power of two, or null.
void *allocateMemory(size_t size, size_t alignment);
void releaseMemory(void *memory);

} // namespace heddle

#endif
