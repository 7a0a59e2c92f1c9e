// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/image/ImageFile.h"

#include "bytes/MappedFile.h"
#include "runtime/image/ImageDecoder.h"
#include "runtime/image/Orientation.h"

namespace heddle {

Status readImage(const std::string &path, const uint8_t *bytes, uint64_t size, Image &outImage) {
  int orientation = 1;
  HEDDLE_RETURN_IF_ERROR(readOrientation(path, bytes, size, orientation));
  heddle_pixels pixels = {0, 0, nullptr};
  if (const char *reason = heddle_decode_image(bytes, size, &pixels))
    return invalidInput(path + ": is no image that can be read (" + reason + "): expected a PNG or JPEG file");
  outImage.width = pixels.width;
  outImage.height = pixels.height;
  outImage.rgb.assign(pixels.rgb, pixels.rgb + pixels.width * pixels.height * 3);
  heddle_free_pixels(&pixels);
  makeUpright(orientation, outImage);
  return Status();
}

Status readImageFile(const std::string &path, Image &outImage) {
  MappedFile file;
  HEDDLE_RETURN_IF_ERROR(file.open(path));
  return readImage(path, file.data(), file.size(), outImage);
}

} // namespace heddle
