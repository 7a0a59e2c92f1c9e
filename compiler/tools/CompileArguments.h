// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The words after `heddle compile`, which `heddle verify` reads as well.
#ifndef HEDDLE_COMPILER_TOOLS_COMPILEARGUMENTS_H
#define HEDDLE_COMPILER_TOOLS_COMPILEARGUMENTS_H

#include "compiler/Compile.h"

#include <initializer_list>

namespace heddle {

class CompileArguments {
public:
  explicit CompileArguments(CompileOptions &options) : options(options) {}
  // What `heddle compile --help` prints.
  static const char *const usage;
  // False: `error` is one line.
  bool parse(int argc, char **argv);
  std::string error;
  bool help = false, jsonErrors = false;

private:
  bool parseFlag(llvm::StringRef key, llvm::StringRef value, bool hasValue);
  bool addPass(llvm::StringRef value);
  template <typename T>
  bool choose(llvm::StringRef key, llvm::StringRef value, std::initializer_list<std::pair<const char *, T>> choices, T &out) {
    std::string known;
    for (auto &[name, choice] : choices) {
      if (value == name) {
        out = choice;
        return true;
      }
      known += (known.empty() ? "" : ", ") + std::string(name);
    }
    error = (key + ": '" + value + "' is none of " + known).str();
    return false;
  }
  bool word(llvm::StringRef key, llvm::StringRef value, std::initializer_list<const char *> known, std::string &out);

  CompileOptions &options;
};

// Prints an error, as one JSON object if asked to, and gives back `code`.
int failCommand(int code, const llvm::Twine &message, bool asJson = false);

// The other commands: the words after their name; what to exit with.
int runInspectCommand(int argc, char **argv);
int runVerifyCommand(int argc, char **argv);

} // namespace heddle

#endif
