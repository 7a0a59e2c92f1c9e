// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sizes are bounded here, before a table of patches is made by them.

#include "frontends/families/Images.h"

#include "frontends/huggingface/Config.h"

namespace heddle {

// A number, or one for height and one for width, which must be the same.
static int64_t readSide(JsonObject &object, const char *key, int64_t fallback) {
  std::vector<int64_t> sides = object.integers(key);
  if (sides.size() > 2 || (sides.size() == 2 && sides[0] != sides[1]))
    object.unsupported(key, "has sides that differ, which is not supported: expected a square");
  return sides.empty() ? fallback : sides[0];
}

void readImage(JsonObject &object, ImageConfig &image, int64_t patch) {
  image.channels = object.integer("num_channels").value_or(3);
  image.size = readSide(object, "image_size", 224);
  image.patch = readSide(object, "patch_size", patch);
  constexpr int64_t mostChannels = 64, mostPixels = 1 << 14, mostOnSide = 1 << 10;
  if (image.channels < 1 || image.channels > mostChannels)
    return object.fail("num_channels", "is " + std::to_string(image.channels) + ", expected 1 to 64");
  if (image.size < 1 || image.size > mostPixels)
    return object.fail("image_size", "is " + std::to_string(image.size) + ", expected 1 to 16384");
  if (image.patch < 1 || image.patch > image.size)
    return object.fail("patch_size", "is " + std::to_string(image.patch) + ", expected 1 to image_size (" +
                                         std::to_string(image.size) + ")");
  if (image.grid() > mostOnSide)
    object.fail("patch_size", "is " + std::to_string(image.patch) + ": " + std::to_string(image.grid()) +
                                  " patches on a side of the image, expected at most 1024");
}

void requireWholePatches(JsonObject &object, const ImageConfig &image) {
  if (object.status().isOk() && image.size % image.patch != 0)
    object.fail("patch_size", "is " + std::to_string(image.patch) + ", expected a divisor of image_size (" +
                                  std::to_string(image.size) + ")");
}

} // namespace heddle
