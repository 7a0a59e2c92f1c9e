// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A file that appears under its name only when it is whole.
#ifndef HEDDLE_RUNTIME_WHOLEFILE_H
#define HEDDLE_RUNTIME_WHOLEFILE_H

#include "runtime/Status.h"

#include <string>
#include <string_view>
#include <vector>

namespace heddle {

// Writes the parts one after the other beside `path`, then gives the file its name. On failure what was there stays.
Status writeWholeFile(const std::string &path, const std::vector<std::string_view> &parts);

} // namespace heddle

#endif
