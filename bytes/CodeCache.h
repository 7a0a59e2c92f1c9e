// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Code that took long to make, kept on disk for later processes: what a driver made of programs, what the compiler made of kernels.
//
// An entry is a file named by the SHA-256 of all that its binary depends on: a header with a checksum, then the binary.
// Entries appear under their names when they are whole, so that processes may fill one folder at the same time.
// Whatever is wrong with the folder or an entry means that there is no entry: the code is made. Only memory that lacks is
// an error.
//
// There is a folder for each kind (opencl, kernels) in $HEDDLE_CACHE_DIR, else in $XDG_CACHE_HOME/heddle, else in
// ~/.cache/heddle. $HEDDLE_NO_CACHE turns off the kind that it names; with any other value but none, all. What other users could have
// written is not read: it is run.
#ifndef HEDDLE_BYTES_CODECACHE_H
#define HEDDLE_BYTES_CODECACHE_H

#include "bytes/Allocator.h"
#include "bytes/Sha256.h"
#include "bytes/Status.h"

#include <string>

namespace heddle {

// Bytes that are not of `operator new`: a step that lacks memory for them fails with a status.
class CachedCode {
public:
  CachedCode() = default;
  CachedCode(const CachedCode &) = delete;
  CachedCode &operator=(const CachedCode &) = delete;
  ~CachedCode() { releaseMemory(bytes); }
  Status allocate(size_t newSize);
  void swap(CachedCode &other) noexcept {
    std::swap(bytes, other.bytes);
    std::swap(length, other.length);
  }
  uint8_t *data() const { return bytes; }
  size_t size() const { return length; }

private:
  uint8_t *bytes = nullptr;
  size_t length = 0;
};

enum class CodeKind {
  OpenCl,  // programs, by a driver
  Kernels, // objects, by the compiler
};

class CodeCache {
public:
  static constexpr uint64_t defaultLimit = uint64_t(256) << 20, largestBinary = defaultLimit / 4;

  // The folder of `kind`, as the environment says.
  void open(CodeKind kind);
  // `limit`: bytes of all entries after trim().
  void open(const std::string &newFolder, uint64_t newLimit);

  bool isOpen() const { return !folder.empty(); }
  // The binary of that key; `outBinary` stays empty where there is none.
  Status find(const Sha256Digest &key, CachedCode &outBinary) const;
  void store(const Sha256Digest &key, const CachedCode &binary) const;
  // For who has stored: beyond the limit, entries that were not used for the longest time go. Looks at all entries, so that many are stored first.
  void trim() const;

private:
  std::string folder; // empty: there is no cache
  uint64_t limit = defaultLimit;
};

} // namespace heddle

#endif
