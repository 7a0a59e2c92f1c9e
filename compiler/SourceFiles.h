// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The files that a model is read from: what an output depends on, and must not replace.
#ifndef HEDDLE_COMPILER_SOURCEFILES_H
#define HEDDLE_COMPILER_SOURCEFILES_H

#include "compiler/Compile.h"
#include "frontends/Checkpoint.h"

#include <string>
#include <vector>

namespace heddle {

// Of the model at `path`, sorted: its weights, and config and tokenizer in its folder; of a file these only if it `hasCompanions`.
std::vector<std::string> sourceFiles(const std::string &path, const Checkpoint &checkpoint, bool hasCompanions);

// Of a single file its SHA-256, as sha256sum prints it; of several that of all names, sizes and contents in order of name.
std::string sourceHash(const std::vector<std::string> &files);

// A rule for make: what `options` write depends on `files` and on their plugins.
std::string makeRule(const CompileOptions &options, const std::vector<std::string> &files);

} // namespace heddle

#endif
