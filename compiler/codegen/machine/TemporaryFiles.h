// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Files that pass between this process and tools which know files alone: the linker, and Halide's object writer.
#ifndef HEDDLE_COMPILER_CODEGEN_MACHINE_TEMPORARYFILES_H
#define HEDDLE_COMPILER_CODEGEN_MACHINE_TEMPORARYFILES_H

#include "llvm/ADT/StringRef.h"

#include <string>
#include <system_error>
#include <vector>

namespace heddle {

// Removes its files when it goes, also by a signal. No folder: LLVM's handler removes files alone.
class TemporaryFiles {
public:
  TemporaryFiles() = default;
  TemporaryFiles(const TemporaryFiles &) = delete;
  ~TemporaryFiles();

  // A new file that holds `content`.
  std::error_code add(llvm::StringRef content, std::string &outPath);

private:
  std::error_code create(std::string &outPath, int &outDescriptor);

  std::vector<std::string> files;
};

} // namespace heddle

#endif
