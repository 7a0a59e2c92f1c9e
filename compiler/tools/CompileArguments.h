// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The words after `heddle compile`, which `heddle verify` and `heddle tune` read as well.
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
  bool help = false;

private:
  bool parseFlag(llvm::StringRef key, llvm::StringRef value, bool hasValue);
};

// Prints what is wrong with a command line, as one JSON object if asked to, and gives back what to exit with.
int refuseCommand(const std::string &message, bool asJson = false);
// The same of what a command met.
int failCommand(const Status &status, bool asJson = false);

// Whether the line of a process that cannot go on, for lack of memory say, is an object too.
void setDeathAsJson(bool asJson);

// The other commands: the words after their name; what to exit with.
int runInspectCommand(int argc, char **argv);
int runTuneCommand(int argc, char **argv);
int runVerifyCommand(int argc, char **argv);

} // namespace heddle

#endif
