// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The words after `heddle compile`, which `heddle verify` reads as well.
#ifndef HEDDLE_COMPILER_TOOLS_COMPILEARGUMENTS_H
#define HEDDLE_COMPILER_TOOLS_COMPILEARGUMENTS_H

#include "compiler/Compile.h"

#include <string>

namespace heddle {

class CompileArguments {
public:
  explicit CompileArguments(CompileOptions &options) : options(options) {}
  // What `heddle compile --help` prints.
  static std::string usage();
  // False: `error` is one line.
  bool parse(int argc, char **argv);

  CompileOptions &options;
  std::string error;
  bool help = false, jsonErrors = false;

private:
  bool parseFlag(llvm::StringRef key, llvm::StringRef value, bool hasValue);
};

// Prints an error, as one JSON object if asked to, and gives back `code`.
int failCommand(int code, const llvm::Twine &message, bool asJson = false);

// The other commands: the words after their name; what to exit with.
int runInspectCommand(int argc, char **argv);
int runVerifyCommand(int argc, char **argv);

} // namespace heddle

#endif
