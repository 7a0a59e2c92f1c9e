// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A regular file mapped read-only and private: processes that run the same model share its pages.
#ifndef HEDDLE_BYTES_FILEMAPPING_H
#define HEDDLE_BYTES_FILEMAPPING_H

#include "bytes/Status.h"

#include <cstdint>

namespace heddle {

class FileMapping {
public:
  FileMapping() = default;
  FileMapping(const FileMapping &) = delete;
  FileMapping &operator=(const FileMapping &) = delete;
  ~FileMapping();

  // Fails with invalidInput where the path does not name a readable regular file.
  Status open(const std::string &path);

  const uint8_t *data() const { return bytes; }
  uint64_t size() const { return length; }

private:
  const uint8_t *bytes = nullptr;
  uint64_t length = 0;
};

} // namespace heddle

#endif
