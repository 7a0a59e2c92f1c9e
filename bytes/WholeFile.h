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

// Whether a file of that name can be made: asked before long work. Its folder is there; the name is free or that of a regular file,
// also through links, which stay. A device or a pipe would be replaced by a file and is refused.
Status checkOutputFile(const std::string &path);

// Writes the parts one after the other beside `path`, then gives the file its name. On failure, or where a signal ends the process,
// nothing is left beside, and what was there stays. Changes how signals are handled while it runs: for one thread of a program.
Status writeWholeFile(const std::string &path, const std::vector<std::string_view> &parts);

} // namespace heddle

#endif
