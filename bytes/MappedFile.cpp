// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "bytes/MappedFile.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace heddle {

MappedFile::~MappedFile() {
  if (bytes)
    munmap(const_cast<uint8_t *>(bytes), length);
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
  void *mapping = info.st_size ? mmap(nullptr, info.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0) : nullptr;
  int error = errno;
  ::close(descriptor);
  if (mapping == MAP_FAILED)
    return Status::failure(path + ": cannot be mapped: " + strerror(error));
  // Weights are read from end to end: huge pages where the file system has them.
  if (mapping)
    (void)madvise(mapping, info.st_size, MADV_HUGEPAGE);
  bytes = static_cast<const uint8_t *>(mapping);
  length = info.st_size;
  name = path;
  return Status();
}

} // namespace heddle
