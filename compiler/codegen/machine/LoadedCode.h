// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which code is at work: what a compilation makes depends on it.
#ifndef HEDDLE_COMPILER_CODEGEN_MACHINE_LOADEDCODE_H
#define HEDDLE_COMPILER_CODEGEN_MACHINE_LOADEDCODE_H

#include "mlir/Support/LLVM.h"

#include <string>
#include <vector>

namespace heddle {

// Adds a line to `lines`: `what`, the file's name and its SHA-256. `error` says why it cannot be read.
mlir::LogicalResult addFile(llvm::StringRef what, const std::string &path, std::vector<std::string> &lines,
                            std::string &error);

// The code at work, a line for the compiler and for each library that it has loaded, sorted: the build id, else the SHA-256 of the file.
mlir::FailureOr<std::vector<std::string>> loadedCode(std::string &error);

} // namespace heddle

#endif
