// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "bytes/MappedFile.h"

#include <algorithm>
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

// Reads `size` bytes into `memory`; false, with errno, or 0 at the end of the file, where it cannot.
static bool readWhole(int descriptor, void *memory, uint64_t size) {
  auto bytes = static_cast<uint8_t *>(memory);
  for (uint64_t done = 0; done < size;) {
    errno = 0;
    ssize_t count = pread(descriptor, bytes + done, std::min<uint64_t>(size - done, 1 << 30), off_t(done));
    if (count <= 0 && errno != EINTR)
      return false;
    done += count > 0 ? uint64_t(count) : 0;
  }
  return true;
}

Status MappedFile::open(const std::string &path, FileMemory memory) {
  // Not blocking: a FIFO would wait for its writer before fstat could refuse it.
  int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0)
    return invalidInput(path + ": cannot be opened: " + strerror(errno)).inFile(path).as(StatusCode::Unreadable);
  return map(descriptor, path, memory);
}

Status MappedFile::map(int descriptor, const std::string &path, FileMemory place) {
  struct stat info;
  if (fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(descriptor);
    return invalidInput(path + ": is not a regular file").inFile(path).as(StatusCode::Unreadable);
  }
  bool isCopy = place == FileMemory::Copied;
  int protection = isCopy ? PROT_READ | PROT_WRITE : PROT_READ,
      flags = isCopy ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_PRIVATE;
  void *memory = info.st_size ? mmap(nullptr, info.st_size, protection, flags, isCopy ? -1 : descriptor, 0) : nullptr;
  int error = errno;
  // Weights are read from end to end: huge pages, for a copy, which is not filled yet, and where the file system has them.
  if (memory && memory != MAP_FAILED)
    (void)madvise(memory, info.st_size, MADV_HUGEPAGE);
  if (memory && memory != MAP_FAILED && isCopy && !readWhole(descriptor, memory, info.st_size)) {
    error = errno;
    munmap(memory, info.st_size);
    ::close(descriptor);
    return Status::failure(path + ": cannot be read whole: " + (error ? strerror(error) : "it has become shorter"));
  }
  ::close(descriptor);
  if (memory == MAP_FAILED) {
    std::string what = path + ": cannot be mapped: " + strerror(error);
    return error == ENOMEM ? outOfMemory(what) : Status::failure(what);
  }
  mapping.bytes = static_cast<const uint8_t *>(memory);
  mapping.length = info.st_size;
  MemoryScope::enter(&mapping);
  name = path;
  return Status();
}

} // namespace heddle
