// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/image/PixelValues.h"

#include "runtime/image/ImageDecoder.h"

#include <algorithm>
#include <cmath>

namespace heddle {
namespace {

// In f64 and rounded as idefics3's processor does.
void resizedToLongest(const Image &image, double edge, double &width, double &height) {
  constexpr double mostOnSide = 4096;
  double ratio = double(image.width) / double(image.height);
  auto toLonger = [&](double longer, bool isEven) {
    bool isWide = image.width >= image.height;
    auto shorter = int64_t(isWide ? longer / ratio : longer * ratio);
    shorter = std::max<int64_t>(isEven ? shorter + shorter % 2 : shorter, 1);
    width = isWide ? longer : double(shorter), height = isWide ? double(shorter) : longer;
  };
  toLonger(edge, /*isEven=*/true);
  if (ratio = width / height; edge > mostOnSide)
    toLonger(mostOnSide, /*isEven=*/false);
}

// The size that an image is resized to.
void resizedSize(const Image &image, const PixelOptions &options, double &width, double &height) {
  width = double(options.width), height = double(options.height);
  if (options.longestEdge)
    return resizedToLongest(image, double(options.longestEdge), width, height);
  if (!options.shortestEdge)
    return;
  double shorter = double(std::min(image.width, image.height)), longer = double(std::max(image.width, image.height));
  width = height = double(options.shortestEdge);
  (image.width > image.height ? width : height) = double(uint64_t(double(options.shortestEdge) * longer / shorter));
}

Status resizeTo(const std::string &path, double width, double height, Resampling filter, Image &image) {
  // What is between both passes counts as well.
  if (std::max(width, double(image.width)) * std::max(height, double(image.height)) > double(HEDDLE_MOST_PIXELS))
    return invalidInput(
        format("%s: an image of %lld by %lld pixels would be resized to %.0f by %.0f, which is too large", path.c_str(),
               (long long)image.width, (long long)image.height, width, height));
  image = resized(image, int64_t(width), int64_t(height), filter);
  return Status();
}

Status resize(const std::string &path, const PixelOptions &options, Image &image) {
  if (!options.shortestEdge && !options.longestEdge && !options.height)
    return Status();
  double width, height;
  resizedSize(image, options, width, height);
  return resizeTo(path, width, height, options.filter, image);
}

// Both sides become multiples of `side`: the longer one at once, the other one from it.
Status resizeToTiles(const std::string &path, const PixelOptions &options, int64_t side, Image &image) {
  double ratio = double(image.width) / double(image.height);
  auto rounded = [&](double size) { return std::ceil(size / double(side)) * double(side); };
  double width = double(image.width), height = double(image.height);
  if (image.width >= image.height) {
    width = rounded(width);
    height = rounded(double(int64_t(width / ratio)));
  } else {
    height = rounded(height);
    width = rounded(double(int64_t(height * ratio)));
  }
  return resizeTo(path, width, height, options.filter, image);
}

// Appends the numbers of a square of the image, whose first row and column may lie outside of it.
void appendSquare(const Image &image, const PixelOptions &options, int64_t top, int64_t left, int64_t side,
                  std::vector<float> &values) {
  for (int64_t channel = 0; channel < 3; ++channel) {
    std::array<float, 256> valueOf;
    for (int pixel = 0; pixel < 256; ++pixel) {
      auto value = float(double(pixel) * options.factor);
      valueOf[size_t(pixel)] =
          options.normalizes ? (value - options.mean[size_t(channel)]) / options.deviation[size_t(channel)] : value;
    }
    for (int64_t y = top; y < top + side; ++y)
      for (int64_t x = left; x < left + side; ++x) {
        bool isInside = y >= 0 && y < image.height && x >= 0 && x < image.width;
        values.push_back(valueOf[isInside ? image.rgb[size_t((y * image.width + x) * 3 + channel)] : 0]);
      }
  }
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
  outValues.clear();
  outValues.reserve(size_t(3 * side * side));
  appendSquare(image, options, cropBegin(image.height, side), cropBegin(image.width, side), side, outValues);
  return Status();
}

// Columns and rows of the grid of tiles whose ratio is nearest to the image's; of several the largest that is at most twice the image.
static std::pair<int64_t, int64_t> gridNearest(const Image &image, const PixelOptions &options, int64_t side) {
  double ratio = double(image.width) / double(image.height), area = double(image.width) * double(image.height);
  double least = INFINITY;
  std::pair<int64_t, int64_t> best = {1, 1};
  for (int64_t tiles = options.minTiles; tiles <= options.maxTiles; ++tiles)
    for (int64_t columns = 1; columns <= tiles; ++columns) {
      if (tiles % columns)
        continue;
      int64_t rows = tiles / columns;
      double difference = std::fabs(ratio - double(columns) / double(rows));
      bool isLarge = area > 0.5 * double(side) * double(side) * double(tiles);
      if (difference < least || (difference == least && isLarge))
        best = {columns, rows};
      least = std::min(least, difference);
    }
  return best;
}

// Appends so many tiles of an image, row by row.
static void appendTiles(const Image &image, const PixelOptions &options, int64_t rows, int64_t columns, int64_t side,
                        std::vector<float> &values) {
  values.reserve(size_t((rows * columns + 1) * 3 * side * side));
  for (int64_t tile = 0; tile < rows * columns; ++tile)
    appendSquare(image, options, tile / columns * side, tile % columns * side, side, values);
}

Status computePixelTiles(const std::string &path, const Image &original, const PixelOptions &options, int64_t side,
                         std::vector<float> &outValues, int64_t &outRows, int64_t &outColumns) {
  outRows = outColumns = 0;
  if (!options.longestEdge && !options.tiles && !options.maxTiles)
    return computePixelValues(path, original, options, side, outValues);
  Image image = original;
  if (options.maxTiles) {
    outValues.clear();
    auto [columns, rows] = gridNearest(image, options, side);
    if (rows * columns > 1) {
      HEDDLE_RETURN_IF_ERROR(resizeTo(path, double(columns * side), double(rows * side), options.filter, image));
      appendTiles(image, options, rows, columns, side, outValues);
      outRows = rows, outColumns = columns;
      image = original;
    }
    HEDDLE_RETURN_IF_ERROR(resizeTo(path, double(side), double(side), options.filter, image));
    appendSquare(image, options, 0, 0, side, outValues);
    return Status();
  }
  HEDDLE_RETURN_IF_ERROR(resize(path, options, image));
  outValues.clear();
  if (options.tiles) {
    HEDDLE_RETURN_IF_ERROR(resizeToTiles(path, options, side, image));
    if (image.height > side || image.width > side)
      outRows = image.height / side, outColumns = image.width / side;
    appendTiles(image, options, outRows, outColumns, side, outValues);
  }
  HEDDLE_RETURN_IF_ERROR(resizeTo(path, double(side), double(side), options.filter, image));
  appendSquare(image, options, 0, 0, side, outValues);
  return Status();
}

Status computeMosaic(const std::string &path, const Image &original, const PixelOptions &options, int64_t side,
                     int64_t fittedHeight, int64_t fittedWidth, std::vector<float> &outValues) {
  outValues.clear();
  int64_t rows = fittedHeight / side, columns = fittedWidth / side;
  outValues.reserve(size_t((rows * columns + 1) * 3 * side * side));
  Image image = original;
  HEDDLE_RETURN_IF_ERROR(resizeTo(path, double(side), double(side), options.filter, image));
  appendSquare(image, options, 0, 0, side, outValues);
  double wide = double(fittedWidth), high = double(fittedHeight);
  double across = wide / double(original.width), down = high / double(original.height);
  if (across < down)
    high = std::min(std::ceil(double(original.height) * across), high);
  else
    wide = std::min(std::ceil(double(original.width) * down), wide);
  image = original;
  HEDDLE_RETURN_IF_ERROR(resizeTo(path, wide, high, options.filter, image));
  int64_t top = (fittedHeight - image.height) / 2, left = (fittedWidth - image.width) / 2;
  for (int64_t tile = 0; tile < rows * columns; ++tile)
    appendSquare(image, options, tile / columns * side - top, tile % columns * side - left, side, outValues);
  return Status();
}

// The sides, in f64 and rounded as qwen2_vl's processor does: half a multiple becomes an even one.
static Status roundSides(const std::string &path, const Image &image, const PixelOptions &options, double unit,
                         double &height, double &width) {
  constexpr double mostRatio = 200;
  double tall = double(image.height), wide = double(image.width);
  if (std::max(tall, wide) / std::min(tall, wide) > mostRatio)
    return invalidInput(
        format("%s: an image of %.0f by %.0f pixels, expected at most 200 times as many on a side as on the other",
               path.c_str(), wide, tall));
  height = std::nearbyint(tall / unit) * unit, width = std::nearbyint(wide / unit) * unit;
  if (height * width > double(options.mostPixels)) {
    double factor = std::sqrt(tall * wide / double(options.mostPixels));
    height = std::max(unit, std::floor(tall / factor / unit) * unit);
    width = std::max(unit, std::floor(wide / factor / unit) * unit);
  } else if (height * width < double(options.leastPixels)) {
    double factor = std::sqrt(double(options.leastPixels) / (tall * wide));
    height = std::ceil(tall * factor / unit) * unit;
    width = std::ceil(wide * factor / unit) * unit;
  }
  return Status();
}

// The sides, in f64 and rounded as pixtral's processor does: within the options' size, then up.
static void fitSides(const Image &image, const PixelOptions &options, double unit, double &height, double &width) {
  height = double(image.height), width = double(image.width);
  double ratio = std::max(height / double(options.height), width / double(options.width));
  if (ratio > 1)
    height = std::floor(height / ratio), width = std::floor(width / ratio);
  for (double *side : {&height, &width})
    *side = (std::floor((*side - 1) / unit) + 1) * unit;
}

Status computePatches(const std::string &path, const Image &original, const PixelOptions &options,
                      const PatchShape &shape, std::vector<float> &outValues, int64_t &outHeight, int64_t &outWidth) {
  double height, width, unit = double(shape.patch * shape.merge);
  if (options.isAtMost)
    fitSides(original, options, unit, height, width);
  else
    HEDDLE_RETURN_IF_ERROR(roundSides(path, original, options, unit, height, width));
  if (height < unit || width < unit)
    return invalidInput(format("%s: an image of %lld by %lld pixels becomes one without a row or a column",
                               path.c_str(), (long long)original.width, (long long)original.height));
  Image image = original;
  HEDDLE_RETURN_IF_ERROR(resizeTo(path, width, height, options.filter, image));
  int64_t patch = shape.patch, merge = shape.merge;
  outHeight = image.height / patch, outWidth = image.width / patch;
  outValues.clear();
  outValues.reserve(size_t(image.height * image.width * 3 * shape.frames));
  std::vector<float> square; // (3, patch, patch)
  for (int64_t top = 0; top < outHeight; top += merge)
    for (int64_t left = 0; left < outWidth; left += merge)
      for (int64_t part = 0; part < merge * merge; ++part) {
        square.clear();
        appendSquare(image, options, (top + part / merge) * patch, (left + part % merge) * patch, patch, square);
        for (int64_t channel = 0; channel < 3; ++channel)
          for (int64_t frame = 0; frame < shape.frames; ++frame)
            outValues.insert(outValues.end(), square.begin() + channel * patch * patch,
                             square.begin() + (channel + 1) * patch * patch);
      }
  return Status();
}

} // namespace heddle
