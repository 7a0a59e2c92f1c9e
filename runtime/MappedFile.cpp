// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/MappedFile.h"

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

bool MappedFile::open(const std::string &path, std::string &outWhy) {
  // Not blocking: a FIFO would wait for its writer before fstat could refuse it.
  int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor >= 0)
    return map(descriptor, path, outWhy);
  outWhy = std::string("cannot be opened: ") + strerror(errno);
  return false;
}

bool MappedFile::map(int descriptor, const std::string &path, std::string &outWhy) {
  struct stat info;
  if (fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode)) {
    close(descriptor);
    outWhy = "is not a regular file";
    return false;
  }
  void *mapping = info.st_size ? mmap(nullptr, info.st_size, PROT_READ, MAP_PRIVATE, descriptor, 0) : nullptr;
  int error = errno;
  close(descriptor);
  if (mapping == MAP_FAILED) {
    outWhy = std::string("cannot be mapped: ") + strerror(error);
    return false;
  }
  name = path;
  bytes = static_cast<const uint8_t *>(mapping);
  length = info.st_size;
  return true;
}

} // namespace heddle
