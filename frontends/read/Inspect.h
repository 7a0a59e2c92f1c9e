// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `heddle inspect` of a model file.
#ifndef HEDDLE_FRONTENDS_READ_INSPECT_H
#define HEDDLE_FRONTENDS_READ_INSPECT_H

#include <string>

namespace heddle {

// Prints config, tensors (name, type, shape, bytes) and totals to stdout, as text or as one JSON object. Returns the
// exit code: 0, or 2 with one line on stderr if the model is refused.
int inspectModel(const std::string &path, bool json);

} // namespace heddle

#endif
