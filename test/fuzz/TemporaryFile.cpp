// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "test/fuzz/TemporaryFile.h"

#include <cstdio>
#include <cstdlib>

const std::string &heddle::fuzzFolder() {
  static const std::string folder = [] {
    // Memory, where the system has it: a fuzzer writes thousands of files per second.
    for (const char *base : {"/dev/shm", "/tmp"}) {
      std::string path = std::string(base) + "/heddle-fuzz-XXXXXX";
      if (mkdtemp(path.data()))
        return path;
    }
    perror("heddle-fuzz");
    exit(1);
  }();
  return folder;
}

std::string heddle::writeFuzzFile(const std::string &name, const uint8_t *data, size_t size) {
  std::string path = fuzzFolder() + "/" + name;
  FILE *file = fopen(path.c_str(), "wb");
  if (!file || fwrite(data, 1, size, file) != size || fclose(file) != 0) {
    perror(path.c_str());
    exit(1);
  }
  return path;
}
