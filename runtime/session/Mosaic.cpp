// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sizes are computed in f64 and rounded as transformers does.
#include "runtime/session/Mosaic.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace heddle {

Mosaic::Mosaic(const package::GivenTiles &about, int64_t height, int64_t width)
    : height(height), width(width), side(about.side()), grid(about.grid()) {
  int64_t mostCounted = 0, leastWasted = INT64_MAX;
  const auto &sizes = *about.sizes();
  for (unsigned i = 0; i + 1 < sizes.size(); i += 2) {
    int64_t high = sizes[i], wide = sizes[i + 1];
    double scale = std::min(double(wide) / double(width), double(high) / double(height));
    int64_t fitted = int64_t(double(width) * scale) * int64_t(double(height) * scale);
    int64_t counted = std::min(fitted, width * height), wasted = wide * high - counted;
    if (counted < mostCounted || (counted == mostCounted && wasted >= leastWasted))
      continue;
    mostCounted = counted, leastWasted = wasted;
    rows = high / side, columns = wide / side;
  }
}

// How many rows or columns of a side of `fitted` were filled up before an image that became less than that.
static int64_t filledBefore(int64_t original, double scale, int64_t fitted) {
  constexpr double places = 1e7; // what is nearly whole is
  auto size = int64_t(std::nearbyint(double(original) * scale * places) / places);
  return (fitted - size) / 2;
}

std::vector<int32_t> Mosaic::order() const {
  int64_t high = rows * grid, wide = columns * grid, rowsOfTile = grid * grid + 1;
  int64_t top = 0, left = 0;
  if (double(width) / double(height) > double(wide) / double(high))
    top = filledBefore(height, double(wide) / double(width), high);
  else
    left = filledBefore(width, double(high) / double(height), wide);
  std::vector<int32_t> order;
  order.reserve(size_t(grid * grid + (high - 2 * top) * (wide - 2 * left + 1)));
  for (int64_t row = 0; row < grid * grid; ++row)
    order.push_back(int32_t(row));
  for (int64_t y = top; y < high - top; ++y) {
    for (int64_t x = left; x < wide - left; ++x) {
      int64_t tile = 1 + y / grid * columns + x / grid;
      order.push_back(int32_t(tile * rowsOfTile + y % grid * grid + x % grid));
    }
    order.push_back(int32_t(rowsOfTile - 1));
  }
  return order;
}

std::vector<const char *> mosaicInputs() {
  return {"pixel_values", "image_sizes"};
}

Status readMosaics(const std::vector<StoredTensor> &tensors, const std::string &where, const package::GivenTiles &about,
                   std::vector<std::pair<int64_t, int64_t>> &outSizes, const StoredTensor *&outPixels) {
  const StoredTensor *sizes = nullptr;
  outPixels = nullptr;
  for (const StoredTensor &tensor : tensors)
    (tensor.name == "image_sizes" ? sizes : outPixels) = &tensor;
  if (!outPixels || !sizes)
    return invalidInput(where + ": no tensor '" + (sizes ? "pixel_values" : "image_sizes") + "'");
  if (outPixels->dtype != "F32" || outPixels->shape.size() != 5 || outPixels->shape[3] != int64_t(about.side()) ||
      outPixels->shape[4] != int64_t(about.side()))
    return invalidInput(where + ": tensor 'pixel_values' is " + std::string(outPixels->dtype) + " " +
                        shapeText(outPixels->shape) + ", expected F32 (images, tiles, channels, " +
                        std::to_string(about.side()) + ", " + std::to_string(about.side()) + ")");
  if (sizes->dtype != "I64" || sizes->shape != std::vector<int64_t>{outPixels->shape[0], 2})
    return invalidInput(where + ": tensor 'image_sizes' is " + std::string(sizes->dtype) + " " +
                        shapeText(sizes->shape) + ", expected I64 (" + std::to_string(outPixels->shape[0]) + ", 2)");
  constexpr int64_t mostOnSide = 1 << 24;
  for (int64_t i = 0; i < outPixels->shape[0]; ++i) {
    int64_t size[2];
    memcpy(size, sizes->data + i * int64_t(sizeof size), sizeof size);
    auto [height, width] = size;
    if (height < 1 || width < 1 || height > mostOnSide || width > mostOnSide)
      return invalidInput(format("%s: image_sizes[%lld] is %lld, %lld, expected 1 to %lld", where.c_str(), (long long)i,
                                 (long long)height, (long long)width, (long long)mostOnSide));
    if (int64_t tiles = Mosaic(about, height, width).tiles(); tiles > outPixels->shape[1])
      return invalidInput(format("%s: an image of %lld by %lld has %lld tiles, pixel_values has %lld", where.c_str(),
                                 (long long)height, (long long)width, (long long)tiles,
                                 (long long)outPixels->shape[1]));
    outSizes.emplace_back(height, width);
  }
  return Status();
}

} // namespace heddle
