// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef HEDDLE_RUNTIME_OPENFILE_H
#define HEDDLE_RUNTIME_OPENFILE_H

#include "runtime/MappedFile.h"
#include "runtime/Status.h"

namespace heddle {

// Maps a file that the user names.
inline Status openFile(const std::string &path, MappedFile &outFile) {
  std::string why;
  return outFile.open(path, why) ? Status() : invalidInput(path + ": " + why);
}

} // namespace heddle

#endif
