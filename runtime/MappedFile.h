// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A regular file mapped read-only and private: processes that run the same model share its pages. The runtime and the readers of
// frontends/ map theirs with it, so it knows the error type of neither.
#ifndef HEDDLE_RUNTIME_MAPPEDFILE_H
#define HEDDLE_RUNTIME_MAPPEDFILE_H

#include <cstdint>
#include <string>

namespace heddle {

class MappedFile {
public:
  MappedFile() = default;
  MappedFile(const MappedFile &) = delete;
  MappedFile &operator=(const MappedFile &) = delete;
  ~MappedFile();

  // Maps the regular file `path`; once per object. False: `outWhy` follows the path in a message.
  bool open(const std::string &path, std::string &outWhy);
  // The same of an open descriptor, which it closes; `path` is what path() says.
  bool map(int descriptor, const std::string &path, std::string &outWhy);

  const std::string &path() const { return name; }
  const uint8_t *data() const { return bytes; }
  uint64_t size() const { return length; }

private:
  std::string name;
  const uint8_t *bytes = nullptr;
  uint64_t length = 0;
};

} // namespace heddle

#endif
