// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/image/ImageResize.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace heddle {
namespace {

constexpr int fractionBits =
    22; // of a weight: 8 bits of a pixel and 2 for filters that go below 0 and above 1 are left of 32
constexpr int64_t channels = 3;

struct Filter {
  double support; // it is 0 from here on
  double (*at)(double x);
};

double sinc(double x) {
  return x == 0 ? 1 : std::sin(x * M_PI) / (x * M_PI);
}

double lanczos(double x) {
  return x >= -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0;
}

double bilinear(double x) {
  return std::max(1 - std::fabs(x), 0.0);
}

// Keys 1981, with a = -1/2.
double bicubic(double x) {
  constexpr double a = -0.5;
  x = std::fabs(x);
  if (x < 1)
    return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

double box(double x) {
  return x > -0.5 && x <= 0.5 ? 1 : 0;
}

double hamming(double x) {
  return std::fabs(x) < 1 ? sinc(x) * (0.54 + 0.46 * std::cos(x * M_PI)) : 0;
}

Filter filterOf(Resampling kind) {
  switch (kind) {
  case Resampling::Lanczos:
    return {3, lanczos};
  case Resampling::Bicubic:
    return {2, bicubic};
  case Resampling::Box:
    return {0.5, box};
  case Resampling::Hamming:
    return {1, hamming};
  case Resampling::Nearest:
  case Resampling::Bilinear:
    break;
  }
  return {1, bilinear};
}

// What an output pixel of a side takes.
struct Taps {
  int64_t first = 0;
  std::vector<int32_t> weights; // of the input's pixels from the first on
};

std::vector<Taps> tapsOf(int64_t in, int64_t out, Filter filter) {
  double scale = double(in) / double(out), stretch = std::max(scale, 1.0), support = filter.support * stretch;
  std::vector<Taps> all(static_cast<size_t>(out));
  std::vector<double> weights;
  for (int64_t o = 0; o < out; ++o) {
    double center = (double(o) + 0.5) * scale, sum = 0;
    int64_t first = std::max<int64_t>(int64_t(center - support + 0.5), 0);
    int64_t end = std::min(int64_t(center + support + 0.5), in);
    weights.clear();
    for (int64_t i = first; i < end; ++i) {
      weights.push_back(filter.at((double(i) - center + 0.5) / stretch));
      sum += weights.back();
    }
    Taps &taps = all[size_t(o)];
    taps.first = first;
    for (double weight : weights) {
      double scaled = (sum != 0 ? weight / sum : weight) * (1 << fractionBits);
      taps.weights.push_back(int32_t(scaled + (scaled < 0 ? -0.5 : 0.5)));
    }
  }
  return all;
}

// Sums are those of 8 bits and weights whose magnitudes add up to less than 4.
uint8_t rounded(int32_t sum) {
  return uint8_t(std::clamp(sum >> fractionBits, 0, 255));
}

constexpr int32_t half = 1 << (fractionBits - 1);

Image resizedRows(const Image &image, int64_t width, Filter filter) {
  Image out = {width, image.height, std::vector<uint8_t>(size_t(width * image.height * channels))};
  std::vector<Taps> taps = tapsOf(image.width, width, filter);
  for (int64_t y = 0; y < image.height; ++y) {
    uint8_t *to = out.rgb.data() + y * width * channels;
    for (const Taps &tap : taps) {
      const uint8_t *from = image.rgb.data() + (y * image.width + tap.first) * channels;
      int32_t red = half, green = half, blue = half;
      for (int32_t weight : tap.weights) {
        red += weight * from[0], green += weight * from[1], blue += weight * from[2];
        from += channels;
      }
      to[0] = rounded(red), to[1] = rounded(green), to[2] = rounded(blue);
      to += channels;
    }
  }
  return out;
}

Image resizedColumns(const Image &image, int64_t height, Filter filter) {
  int64_t row = image.width * channels;
  Image out = {image.width, height, std::vector<uint8_t>(size_t(height * row))};
  std::vector<Taps> taps = tapsOf(image.height, height, filter);
  std::vector<int32_t> sums(static_cast<size_t>(row));
  for (int64_t y = 0; y < height; ++y) {
    const Taps &tap = taps[size_t(y)];
    std::fill(sums.begin(), sums.end(), half);
    const uint8_t *from = image.rgb.data() + tap.first * row;
    for (int32_t weight : tap.weights) {
      for (int64_t i = 0; i < row; ++i)
        sums[size_t(i)] += weight * from[i];
      from += row;
    }
    std::transform(sums.begin(), sums.end(), out.rgb.begin() + y * row, rounded);
  }
  return out;
}

// Steps are added up, not multiplied, as the reference does: it decides where pixels are equally near.
std::vector<int64_t> nearestOf(int64_t in, int64_t out) {
  double scale = double(in) / double(out), place = scale * 0.5;
  std::vector<int64_t> from(static_cast<size_t>(out));
  for (int64_t &pixel : from) {
    pixel = std::min(int64_t(place), in - 1);
    place += scale;
  }
  return from;
}

Image nearest(const Image &image, int64_t width, int64_t height) {
  Image out = {width, height, std::vector<uint8_t>(size_t(width * height * channels))};
  std::vector<int64_t> columns = nearestOf(image.width, width), rows = nearestOf(image.height, height);
  uint8_t *to = out.rgb.data();
  for (int64_t row : rows)
    for (int64_t column : columns) {
      memcpy(to, image.rgb.data() + (row * image.width + column) * channels, channels);
      to += channels;
    }
  return out;
}

} // namespace

Image resized(const Image &image, int64_t width, int64_t height, Resampling filter) {
  if (width == image.width && height == image.height)
    return image;
  if (filter == Resampling::Nearest)
    return nearest(image, width, height);
  Filter weights = filterOf(filter);
  auto rows = [&](const Image &from) { return from.width == width ? from : resizedRows(from, width, weights); };
  auto columns = [&](const Image &from) {
    return from.height == height ? from : resizedColumns(from, height, weights);
  };
  bool columnsFirst = image.height > height && image.height - height > 2 * (image.width - width);
  return columnsFirst ? rows(columns(image)) : columns(rows(image));
}

} // namespace heddle
