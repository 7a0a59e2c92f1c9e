// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What an output says of the files that its model was read from.
#ifndef HEDDLE_COMPILER_SOURCEFILES_H
#define HEDDLE_COMPILER_SOURCEFILES_H

#include "compiler/Compile.h"
#include "frontends/ModelFiles.h"

#include <string>
#include <vector>

namespace heddle {

// Of a single file its SHA-256, as sha256sum prints it; of several that of all names, sizes and contents in order of path. Hashes the bytes
// that are mapped, which the output is made of: a name may lead to another file by now.
std::string sourceHash(const std::vector<SharedFile> &files);

// A rule for make: what `options` write depends on `files`, on their plugins and on their schedules.
std::string makeRule(const CompileOptions &options, const std::vector<SharedFile> &files);

} // namespace heddle

#endif
