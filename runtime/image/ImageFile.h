// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Images from PNG and JPEG files, upright and in RGB, as Pillow's exif_transpose() and convert("RGB") give them.
#ifndef HEDDLE_RUNTIME_IMAGE_IMAGEFILE_H
#define HEDDLE_RUNTIME_IMAGE_IMAGEFILE_H

#include "bytes/Status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace heddle {

struct Image {
  int64_t width = 0, height = 0;
  std::vector<uint8_t> rgb; // (height, width, 3)
};

// `path` begins the message of every failure, which is one of the input.
Status readImage(const std::string &path, const uint8_t *bytes, uint64_t size, Image &outImage);
Status readImageFile(const std::string &path, Image &outImage);

} // namespace heddle

#endif
