// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The hash of a linked file's code, as the runtime checks it. In a file of its own: Status is another class here than there.
#ifndef HEDDLE_COMPILER_PACKAGE_CODEHASH_H
#define HEDDLE_COMPILER_PACKAGE_CODEHASH_H

#include <string>

namespace heddle {

// The 32 bytes of HEDDLE_CODE_SECTION of `elf`; one line in `error` where its sections are not to be read.
bool hashCode(const std::string &elf, std::string &outHash, std::string &error);

} // namespace heddle

#endif
