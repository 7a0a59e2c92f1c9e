// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A regular file mapped read-only and private: processes that run the same model share its pages. Or a copy of it in memory.
#ifndef HEDDLE_BYTES_MAPPEDFILE_H
#define HEDDLE_BYTES_MAPPEDFILE_H

#include "bytes/MemoryScope.h"
#include "bytes/Status.h"

#include <cstdint>

namespace heddle {

// Where a file's bytes lie. Whoever truncates a mapped file ends the processes that read it (SIGBUS); a copy costs memory of its own.
enum class FileMemory : uint8_t { Mapped, Copied };

class MappedFile {
public:
  MappedFile() = default;
  MappedFile(const MappedFile &) = delete;
  MappedFile &operator=(const MappedFile &) = delete;
  ~MappedFile();

  // Once per object. Fails with invalidInput where the path does not name a readable regular file, and with outOfMemory where there is
  // no address space for it; the message begins with the path as it is, and ": ".
  Status open(const std::string &path, FileMemory memory = FileMemory::Mapped);
  // The same of an open descriptor, which it closes; `path` is for messages.
  Status map(int descriptor, const std::string &path, FileMemory memory = FileMemory::Mapped);

  const uint8_t *data() const { return mapping.bytes; }
  uint64_t size() const { return mapping.length; }
  std::string_view text() const { return {reinterpret_cast<const char *>(data()), static_cast<size_t>(size())}; }
  const std::string &path() const { return name; }

private:
  struct Mapping : MemoryScope::Resource {
    Mapping() : Resource([](Resource *resource) { static_cast<Mapping *>(resource)->unmap(); }) {}
    void unmap();
    const uint8_t *bytes = nullptr;
    uint64_t length = 0;
  } mapping;
  std::string name;
};

} // namespace heddle

#endif
