// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "bytes/FileMapping.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace heddle {

FileMapping::~FileMapping() {
  if (bytes)
    munmap(const_cast<uint8_t *>(bytes), length);
}

Status FileMapping::open(const std::string &path) {
  // Not blocking: a FIFO would wait for its writer before fstat could refuse it.
  int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0)
    return invalidInput(path + ": " + strerror(errno));
  struct stat info;
  if (fstat(file, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(file);
    return invalidInput(path + ": not a regular file");
  }
  void *mapping = info.st_size ? mmap(nullptr, info.st_size, PROT_READ, MAP_PRIVATE, file, 0) : nullptr;
  int error = errno;
  ::close(file);
  if (mapping == MAP_FAILED)
    return failure(path + ": cannot be mapped: " + strerror(error));
  bytes = static_cast<const uint8_t *>(mapping);
  length = info.st_size;
  return Status();
}

} // namespace heddle
