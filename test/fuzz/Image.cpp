// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "runtime/image/PixelValues.h"

#include "test/fuzz/Targets.h"

using namespace heddle;

std::string fuzz::image(std::string_view bytes) {
  Image image;
  Status status = readImage("file", reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size(), image);
  if (!status.isOk())
    return wrongMessage(status.message());
  if (image.width < 1 || image.height < 1 || image.rgb.size() != uint64_t(image.width) * uint64_t(image.height) * 3)
    return "the image has other pixels than its size says";
  PixelOptions options;
  options.shortestEdge = 9, options.cropHeight = options.cropWidth = 8;
  std::vector<float> values;
  status = computePixelValues("file", image, options, 8, values);
  return status.isOk() ? values.size() == 3 * 8 * 8 ? "" : "the image has another size than the model"
                       : wrongMessage(status.message());
}
