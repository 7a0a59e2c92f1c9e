// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/image/PixelValues.h"

#include "runtime/image/ImageDecoder.h"

#include <algorithm>

namespace heddle {
namespace {

// The size that an image is resized to.
void resizedSize(const Image &image, const PixelOptions &options, double &width, double &height) {
  width = double(options.width), height = double(options.height);
  if (!options.shortestEdge)
    return;
  double shorter = double(std::min(image.width, image.height)), longer = double(std::max(image.width, image.height));
  width = height = double(options.shortestEdge);
  (image.width > image.height ? width : height) = double(uint64_t(double(options.shortestEdge) * longer / shorter));
}

Status resize(const std::string &path, const PixelOptions &options, Image &image) {
  if (!options.shortestEdge && !options.height)
    return Status();
  double width, height;
  resizedSize(image, options, width, height);
  // What is between both passes counts as well.
  if (std::max(width, double(image.width)) * std::max(height, double(image.height)) > double(HEDDLE_MOST_PIXELS))
    return invalidInput(
        format("%s: an image of %lld by %lld pixels would be resized to %.0f by %.0f, which is too large", path.c_str(),
               (long long)image.width, (long long)image.height, width, height));
  image = resized(image, int64_t(width), int64_t(height), options.filter);
  return Status();
}

// Where the first of `cropped` pixels stands among `size`; below 0 where there are fewer.
int64_t cropBegin(int64_t size, int64_t cropped) {
  return size >= cropped ? (size - cropped) / 2 : -((cropped - size + 1) / 2);
}

} // namespace

Status computePixelValues(const std::string &path, const Image &original, const PixelOptions &options, int64_t side,
                          std::vector<float> &outValues) {
  Image image = original;
  HEDDLE_RETURN_IF_ERROR(resize(path, options, image));
  int64_t height = options.cropHeight ? options.cropHeight : image.height;
  int64_t width = options.cropWidth ? options.cropWidth : image.width;
  if (height != side || width != side)
    return invalidInput(format("%s: the image becomes one of %lld by %lld pixels, the model sees %lld by %lld",
                               path.c_str(), (long long)width, (long long)height, (long long)side, (long long)side));
  outValues.resize(size_t(3 * side * side));
  int64_t top = cropBegin(image.height, side), left = cropBegin(image.width, side);
  float *out = outValues.data();
  for (int64_t channel = 0; channel < 3; ++channel) {
    std::array<float, 256> values;
    for (int pixel = 0; pixel < 256; ++pixel) {
      auto value = float(double(pixel) * options.factor);
      values[size_t(pixel)] =
          options.normalizes ? (value - options.mean[size_t(channel)]) / options.deviation[size_t(channel)] : value;
    }
    for (int64_t y = top; y < top + side; ++y)
      for (int64_t x = left; x < left + side; ++x) {
        bool isInside = y >= 0 && y < image.height && x >= 0 && x < image.width;
        *out++ = values[isInside ? image.rgb[size_t((y * image.width + x) * 3 + channel)] : 0];
      }
  }
  return Status();
}

} // namespace heddle
