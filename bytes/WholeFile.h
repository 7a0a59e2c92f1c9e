// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A file that appears under its name only when it is whole.
#ifndef HEDDLE_BYTES_WHOLEFILE_H
#define HEDDLE_BYTES_WHOLEFILE_H

#include "bytes/Status.h"

#include <string>
#include <string_view>
#include <vector>

namespace heddle {

// Where an output called `path` is written: a link stays, and the file that it leads to is made or replaced. Fails where none can be made
// there: the folder is missing, or something else than a regular file has the name, which would be replaced by one.
Status resolveOutput(const std::string &path, std::string &outPath);

// Whether that is possible: asked before long work.
Status checkOutputFile(const std::string &path);

// A name beside `path`, for the file while it is written. Nobody can foresee it, and so put a link of that name there.
Status choosePartName(const std::string &path, std::string &outName);

// Creates the file of that name, to be read and written; -1 with errno set where something has the name already, be it a link.
int createPartFile(const std::string &name);

// Writes the parts one after the other beside `path`, then gives the file its name. On failure, or where a signal ends the process,
// nothing is left beside, and what was there stays. Changes how signals are handled while it runs: for one thread of a program.
Status writeWholeFile(const std::string &path, const std::vector<std::string_view> &parts);

} // namespace heddle

#endif
