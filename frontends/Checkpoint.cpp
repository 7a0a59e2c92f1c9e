// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/Checkpoint.h"
#include "frontends/Size.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace heddle {

Expected<std::shared_ptr<MappedFile>> MappedFile::open(const std::string &path) {
  // O_NONBLOCK: opening a FIFO must not wait for its writer.
  int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0)
    return errorIn(path, std::string("cannot be opened: ") + std::strerror(errno));
  return map(descriptor, path);
}

Expected<std::shared_ptr<MappedFile>> MappedFile::map(int descriptor, const std::string &path) {
  struct stat status;
  if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    close(descriptor);
    return errorIn(path, "is not a regular file");
  }
  std::shared_ptr<MappedFile> file(new MappedFile);
  file->name = path;
  if (status.st_size > 0) {
    void *memory = mmap(nullptr, static_cast<size_t>(status.st_size), PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (memory == MAP_FAILED) {
      int reason = errno;
      close(descriptor);
      return errorIn(path, std::string("cannot be mapped: ") + std::strerror(reason));
    }
    file->base = static_cast<const uint8_t *>(memory);
    file->length = static_cast<size_t>(status.st_size);
  }
  close(descriptor);
  return file;
}

MappedFile::~MappedFile() {
  if (base)
    munmap(const_cast<uint8_t *>(base), length);
}

const TensorInfo *Checkpoint::find(std::string_view name) const {
  auto found = tensors.find(name);
  return found == tensors.end() ? nullptr : &found->second;
}

} // namespace heddle
