// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A model that makes small numbers: what stands beside large ones unseen, an epsilon, is then most of a result.
#ifndef HEDDLE_COMPILER_VERIFY_QUIETMODEL_H
#define HEDDLE_COMPILER_VERIFY_QUIETMODEL_H

#include "bytes/Expected.h"

#include <string>

namespace heddle {

// Writes the model file or folder at `path` into `folder` once more, every stored matrix of floats 1/64 of what it is; those in blocks are
// left. Gives its new path; empty where the model is too large for another look, or has no such matrix.
Expected<std::string> writeQuietModel(const std::string &path, const std::string &folder);

} // namespace heddle

#endif
