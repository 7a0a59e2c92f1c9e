// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "test/fuzz/TemporaryFile.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>

const std::string &heddle::fuzzFolder() {
  struct Folder {
    std::string path;
    Folder() {
      // Memory, where the system has it: a fuzzer writes thousands of files per second.
      for (const char *base : {"/dev/shm", "/tmp"}) {
        path = std::string(base) + "/heddle-fuzz-XXXXXX";
        if (mkdtemp(path.data()))
          return;
      }
      perror("heddle-fuzz");
      exit(1);
    }
    ~Folder() {
      std::error_code ignored;
      std::filesystem::remove_all(path, ignored);
    }
  };
  static const Folder folder;
  return folder.path;
}

std::string heddle::writeFuzzFile(const std::string &name, std::string_view bytes) {
  std::string path = fuzzFolder() + "/" + name;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  FILE *file = fopen(path.c_str(), "wb");
  if (!file || fwrite(bytes.data(), 1, bytes.size(), file) != bytes.size() || fclose(file) != 0) {
    perror(path.c_str());
    exit(1);
  }
  return path;
}
