// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "bytes/MappedFile.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace heddle {

void MappedFile::Mapping::unmap() {
  if (bytes)
    munmap(const_cast<uint8_t *>(bytes), length);
}

MappedFile::~MappedFile() {
  MemoryScope::leave(&mapping);
  mapping.unmap();
}

Status MappedFile::open(const std::string &path) {
  // Not blocking: a FIFO would wait for its writer before fstat could refuse it.
  int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0)
    return invalidInput(path + ": cannot be opened: " + strerror(errno));
  return map(descriptor, path);
}

Status MappedFile::map(int descriptor, const std::string &path) {
  struct stat info;
  if (fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(descriptor);
    return invalidInput(path + ": is not a regular file");
  }
  void *memory = info.st_size ? mmap(nullptr, info.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0) : nullptr;
  int error = errno;
  ::close(descriptor);
  if (memory == MAP_FAILED) {
    std::string what = path + ": cannot be mapped: " + strerror(error);
    return error == ENOMEM ? outOfMemory(what) : Status::failure(what);
  }
  // Weights are read from end to end: huge pages where the file system has them.
  if (memory)
    (void)madvise(memory, info.st_size, MADV_HUGEPAGE);
  mapping.bytes = static_cast<const uint8_t *>(memory);
  mapping.length = info.st_size;
  MemoryScope::enter(&mapping);
  name = path;
  return Status();
}

} // namespace heddle
