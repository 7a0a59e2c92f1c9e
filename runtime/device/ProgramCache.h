// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a driver made of programs, kept on disk for later processes, so that they do not build the sources again.
//
// An entry is a file named by the SHA-256 of all that its binary depends on: a header with a checksum, then the binary.
// Entries appear under their names when they are whole, so that processes may fill one folder at the same time.
// Whatever is wrong with the folder or an entry means that there is no entry: the program is built. Only memory that
// lacks is an error.
//
// The folder is opencl/ in $HEDDLE_CACHE_DIR, else in $XDG_CACHE_HOME/heddle, else in ~/.cache/heddle; $HEDDLE_NO_CACHE
// turns the cache off. What other users could have written is not read: binaries are code.
#ifndef HEDDLE_RUNTIME_DEVICE_PROGRAMCACHE_H
#define HEDDLE_RUNTIME_DEVICE_PROGRAMCACHE_H

#include "bytes/Allocator.h"
#include "bytes/Sha256.h"
#include "bytes/Status.h"

#include <string>

namespace heddle {

// Bytes that are not of `operator new`: a step that lacks memory for them fails with a status.
class ProgramBinary {
public:
  ProgramBinary() = default;
  ProgramBinary(const ProgramBinary &) = delete;
  ProgramBinary &operator=(const ProgramBinary &) = delete;
  ~ProgramBinary() { releaseMemory(bytes); }
  Status allocate(size_t newSize);
  void swap(ProgramBinary &other) noexcept {
    std::swap(bytes, other.bytes);
    std::swap(length, other.length);
  }
  uint8_t *data() const { return bytes; }
  size_t size() const { return length; }

private:
  uint8_t *bytes = nullptr;
  size_t length = 0;
};

class ProgramCache {
public:
  static constexpr uint64_t defaultLimit = uint64_t(256) << 20, largestBinary = defaultLimit / 4;

  // As the environment says.
  void open();
  // `limit`: bytes of all entries; beyond, those that were not used for the longest time go.
  void open(const std::string &newFolder, uint64_t newLimit = defaultLimit);

  bool isOpen() const { return !folder.empty(); }
  // The binary of that key; `outBinary` stays empty where there is none.
  Status find(const Sha256Digest &key, ProgramBinary &outBinary) const;
  void store(const Sha256Digest &key, const ProgramBinary &binary) const;

private:
  std::string folder; // empty: there is no cache
  uint64_t limit = defaultLimit;
};

} // namespace heddle

#endif
