// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parts of checkMetadata (PackageFile.h). Each says what is wrong in one line that begins with `path`.
#ifndef HEDDLE_RUNTIME_MODEL_PACKAGECHECKS_H
#define HEDDLE_RUNTIME_MODEL_PACKAGECHECKS_H

#include "runtime/model/PackageFile.h"

namespace heddle {

// A damaged package, whose `field` is `value`.
Status wrong(const std::string &path, const char *field, double value, const char *expected);

// What commands over files of images rely on.
Status checkImageProcessing(const package::Package &root, const std::string &path);
// Each part of a text is there, and a marker is not empty.
Status checkGivenText(const package::GivenRows &given, const std::string &path);
// Sizes that patches are cut and rotated by.
Status checkGrid(const package::Package &root, const package::GivenGrid &grid, const std::string &path);
// Sizes that images are fitted into, which tiles fill.
Status checkTiles(const package::Package &root, const package::GivenRows &given, const package::GivenTiles &tiles,
                  const std::string &path);

} // namespace heddle

#endif
