// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sizes are bounded here, before a table of patches is made by them.

#include "frontends/families/Images.h"

#include "frontends/huggingface/Config.h"

#include <algorithm>
#include <cmath>

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

namespace {

double cubic(double x, double a) {
  x = std::fabs(x);
  if (x < 1)
    return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

// Rows of a side, and what each counts.
using Taps = std::vector<std::pair<int64_t, double>>;

Taps tapsOf(int64_t place, int64_t from, int64_t to, bool antialiased) {
  double scale = double(from) / double(to), center = (double(place) + 0.5) * scale - 0.5;
  double stretch = antialiased ? std::max(scale, 1.0) : 1.0, sum = 0;
  Taps taps;
  for (auto row = int64_t(std::floor(center - 2 * stretch)); row <= int64_t(std::ceil(center + 2 * stretch)); ++row) {
    double weight = cubic((double(row) - center) / stretch, antialiased ? -0.5 : -0.75);
    bool isInside = row >= 0 && row < from;
    if (weight == 0 || (antialiased && !isInside))
      continue;
    // Beyond the border its row stands again, or nothing does.
    taps.emplace_back(std::clamp<int64_t>(row, 0, from - 1), weight);
    sum += weight;
  }
  for (auto &[row, weight] : taps)
    weight /= sum;
  return taps;
}

} // namespace

std::vector<float> interpolateGrid(const std::vector<float> &table, int64_t from, int64_t to, int64_t width,
                                   bool antialiased) {
  std::vector<Taps> taps;
  taps.reserve(static_cast<size_t>(to));
  for (int64_t place = 0; place < to; ++place)
    taps.push_back(tapsOf(place, from, to, antialiased));
  std::vector<float> out(static_cast<size_t>(to * to * width));
  std::vector<double> sums(static_cast<size_t>(width));
  for (int64_t place = 0; place < to * to; ++place) {
    std::fill(sums.begin(), sums.end(), 0.0);
    for (auto [row, down] : taps[size_t(place / to)])
      for (auto [column, across] : taps[size_t(place % to)])
        for (int64_t i = 0; i < width; ++i)
          sums[size_t(i)] += down * across * double(table[size_t((row * from + column) * width + i)]);
    std::transform(sums.begin(), sums.end(), out.begin() + place * width, [](double sum) { return float(sum); });
  }
  return out;
}

} // namespace heddle
