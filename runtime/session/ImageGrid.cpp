// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/session/ImageGrid.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>

namespace heddle {

// Without windows the rows stand as they are; with them window by window, those that the image fills in part filled up behind.
ImageGrid::ImageGrid(const package::GivenGrid &about, int64_t height, int64_t width)
    : about(about), height(height), width(width), merge(about.merge()) {
  int64_t down = height / merge, across = width / merge, window = about.window();
  if (!window) {
    for (int64_t row = 0; row < down * across; ++row)
      rowOf.push_back(int32_t(row));
    return;
  }
  runs = 0;
  for (int64_t top = 0; top < down; top += window)
    for (int64_t left = 0; left < across; left += window, ++runs) {
      for (int64_t y = top; y < std::min(top + window, down); ++y)
        for (int64_t x = left; x < std::min(left + window, across); ++x)
          rowOf.push_back(int32_t(y * across + x));
      rowOf.resize(size_t((runs + 1) * window * window), -1);
    }
}

// Half of a head's numbers rotate by the patch's row, half by its column; both halves of the head are rotated alike.
void ImageGrid::addPlace(int64_t row, int64_t column) {
  int64_t dim = about.head_dim(), half = dim / 2, quarter = dim / 4;
  size_t at = cosines.size();
  cosines.resize(at + size_t(dim));
  sines.resize(at + size_t(dim));
  for (int64_t i = 0; i < half; ++i) {
    // As the reference rounds: powers and angles in f32.
    float exponent = float(2 * (i % quarter)) / float(half);
    float angle = float(i < quarter ? row : column) * (1.0F / std::pow(float(about.theta()), exponent));
    auto sine = float(std::sin(double(angle)));
    cosines[at + size_t(i)] = cosines[at + size_t(half + i)] = float(std::cos(double(angle)));
    sines[at + size_t(i)] = -sine;
    sines[at + size_t(half + i)] = sine;
  }
}

std::vector<StoredTensor> ImageGrid::inputs(const float *patches) {
  int64_t square = merge * merge, across = width / merge, wide = patchWidth(about), dim = about.head_dim();
  auto count = int64_t(rowOf.size()) * square, ofRun = count / runs;
  cosines.clear(), sines.clear(), mask.clear();
  pixels.assign(size_t(count * wide), 0);
  for (size_t place = 0; place < rowOf.size(); ++place) {
    int64_t row = rowOf[place];
    if (row >= 0)
      memcpy(pixels.data() + int64_t(place) * square * wide, patches + row * square * wide,
             size_t(square * wide) * sizeof(float));
    for (int64_t part = 0; part < square; ++part) {
      addPlace(row < 0 ? 0 : row / across * merge + part / merge, row < 0 ? 0 : row % across * merge + part % merge);
      mask.push_back(row < 0 ? -FLT_MAX : 0);
    }
  }
  auto tensor = [&](const char *name, int64_t last, const std::vector<float> &numbers) {
    return StoredTensor{name,
                        "F32",
                        {runs, ofRun, last},
                        reinterpret_cast<const uint8_t *>(numbers.data()),
                        numbers.size() * sizeof(float)};
  };
  std::vector<StoredTensor> all = {tensor("pixel_values", wide, pixels), tensor("cosines", dim, cosines),
                                   tensor("sines", dim, sines)};
  if (about.window())
    all.push_back(tensor("mask", 1, mask));
  return all;
}

std::vector<const char *> gridInputs() {
  return {"pixel_values", "image_grid_thw"};
}

Status readGrids(const std::vector<StoredTensor> &tensors, const std::string &where, const package::GivenGrid &about,
                 std::vector<std::pair<int64_t, int64_t>> &outSizes, const float *&outPatches) {
  auto find = [&](const char *name) -> const StoredTensor * {
    for (const StoredTensor &tensor : tensors)
      if (tensor.name == name)
        return &tensor;
    return nullptr;
  };
  const StoredTensor *pixels = find("pixel_values"), *grids = find("image_grid_thw");
  if (!pixels || !grids)
    return invalidInput(where + ": no tensor '" + (pixels ? "image_grid_thw" : "pixel_values") + "'");
  int64_t wide = ImageGrid::patchWidth(about), merge = about.merge(), total = 0;
  if (pixels->dtype != "F32" || pixels->shape.size() != 2 || pixels->shape[1] != wide)
    return invalidInput(where + ": tensor 'pixel_values' is " + std::string(pixels->dtype) + " " +
                        shapeText(pixels->shape) + ", expected F32 (patches, " + std::to_string(wide) + ")");
  if (grids->dtype != "I64" || grids->shape.size() != 2 || grids->shape[1] != 3)
    return invalidInput(where + ": tensor 'image_grid_thw' is " + std::string(grids->dtype) + " " +
                        shapeText(grids->shape) + ", expected I64 (images, 3)");
  constexpr int64_t mostOnSide = 1 << 14;
  for (int64_t image = 0; image < grids->shape[0]; ++image) {
    int64_t size[3];
    memcpy(size, grids->data + image * int64_t(sizeof size), sizeof size);
    auto [frames, height, width] = size;
    if (frames != 1 || height < merge || width < merge || height > mostOnSide || width > mostOnSide || height % merge ||
        width % merge)
      return invalidInput(
          format("%s: image_grid_thw[%lld] is %lld, %lld, %lld, expected 1 and multiples of %lld up to %lld",
                 where.c_str(), (long long)image, (long long)frames, (long long)height, (long long)width,
                 (long long)merge, (long long)mostOnSide));
    outSizes.emplace_back(height, width);
    total += height * width;
  }
  if (total != pixels->shape[0])
    return invalidInput(format("%s: pixel_values has %lld patches, image_grid_thw says %lld", where.c_str(),
                               (long long)pixels->shape[0], (long long)total));
  outPatches = reinterpret_cast<const float *>(pixels->data);
  return Status();
}

} // namespace heddle
