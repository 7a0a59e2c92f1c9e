// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the chunks of an image file say beside its pixels: which way is up, and of PNG whether they are as they were written.
#ifndef HEDDLE_RUNTIME_IMAGE_ORIENTATION_H
#define HEDDLE_RUNTIME_IMAGE_ORIENTATION_H

#include "runtime/image/ImageFile.h"

namespace heddle {

// The orientation of EXIF (CIPA DC-008, tag 0x0112), 1 to 8; 1 where the file has none. Fails where a chunk of a PNG file differs from its checksum or
// ends behind the file; `path` begins the message.
Status readOrientation(const std::string &path, const uint8_t *bytes, uint64_t size, int &outOrientation);
// Turns and mirrors an image of that orientation into an upright one.
void makeUpright(int orientation, Image &image);

} // namespace heddle

#endif
