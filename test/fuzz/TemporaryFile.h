// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Bytes as files, for readers that take a path.
#ifndef HEDDLE_TEST_FUZZ_TEMPORARYFILE_H
#define HEDDLE_TEST_FUZZ_TEMPORARYFILE_H

#include <string>
#include <string_view>

namespace heddle {

// A folder of this process, made on the first call, gone when it exits.
const std::string &fuzzFolder();

// Writes the bytes to `name` in that folder, replacing what is there; the file's path.
std::string writeFuzzFile(const std::string &name, std::string_view bytes);

} // namespace heddle

#endif
