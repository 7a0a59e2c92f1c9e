// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// LD_PRELOAD: counts what a program asks the C library's allocator for, and the anonymous memory that it maps, and writes the number
// to the file that HEDDLE_ALLOCATIONS names when the program exits.
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): the C library's own names
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

static atomic_long allocations;

void *malloc(size_t size) {
  ++allocations;
  return __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
  ++allocations;
  return __libc_calloc(count, size);
}

void *realloc(void *memory, size_t size) {
  ++allocations;
  return __libc_realloc(memory, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
  ++allocations;
  return __libc_memalign(alignment, size);
}

int posix_memalign(void **memory, size_t alignment, size_t size) {
  ++allocations;
  *memory = __libc_memalign(alignment, size);
  return *memory ? 0 : 12; // ENOMEM
}

void *mmap(void *address, size_t size, int protection, int flags, int file, off_t offset) {
  allocations += (flags & MAP_ANONYMOUS) != 0;
  return (void *)syscall(SYS_mmap, address, size, protection, flags, file, offset); // NOLINT(performance-no-int-to-ptr)
}

__attribute__((destructor)) static void tell(void) {
  const char *path = getenv("HEDDLE_ALLOCATIONS");
  long count = allocations;
  FILE *file = path ? fopen(path, "w") : NULL;
  if (!file)
    return;
  fprintf(file, "%ld\n", count); // NOLINT(clang-analyzer-security.insecureAPI.DeprecatedOrUnsafeBufferHandling)
  fclose(file);
}
