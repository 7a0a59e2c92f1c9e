// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// One line that the user sees of a compilation, and how it is written. compiler/tools/README.md lists the codes.
#ifndef HEDDLE_COMPILER_FINDING_H
#define HEDDLE_COMPILER_FINDING_H

#include "bytes/Status.h"

namespace heddle {

struct Finding {
  enum class Severity { Error, Warning, Remark, Note };
  Severity severity = Severity::Error;
  std::string code; // a short name that does not change where the words do
  int exitCode = 0; // of an error
  std::string text;
  InputPlace place;

  // Its code is that of the status.
  static Finding error(const Status &status);
};

// To stderr: "heddle: error: TEXT", or a JSON object with what is known.
void printFinding(const Finding &finding, bool asJson);

} // namespace heddle

#endif
