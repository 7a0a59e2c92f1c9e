// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/session/ImageGrid.h"

#include <algorithm>
#include <array>
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

// Half of a head's numbers rotate by the patch's row, half by its column, both by the same powers of theta or in turn; both halves of the head are rotated
// alike.
void ImageGrid::addPlace(int64_t row, int64_t column) {
  int64_t dim = about.head_dim(), half = dim / 2, quarter = dim / 4;
  size_t at = cosines.size();
  cosines.resize(at + size_t(dim));
  sines.resize(at + size_t(dim));
  for (int64_t i = 0; i < half; ++i) {
    // As the reference rounds: powers and angles in f32.
    int64_t power = 2 * (i % quarter) + (about.alternates() && i >= quarter ? 1 : 0);
    float exponent = float(2 * power) / float(dim);
    float angle = float(i < quarter ? row : column) * (1.0F / std::pow(float(about.theta()), exponent));
    auto sine = float(std::sin(double(angle)));
    cosines[at + size_t(i)] = cosines[at + size_t(half + i)] = float(std::cos(double(angle)));
    sines[at + size_t(i)] = -sine;
    sines[at + size_t(half + i)] = sine;
  }
}

// Bilinear interpolation, in f32 as the reference computes it: the first and the last of a side's positions are those of its first and last patch.
void ImageGrid::addLearned(int64_t row, int64_t column) {
  int64_t side = about.places();
  size_t at = learned.size();
  learned.resize(at + size_t(side * side));
  auto taps = [&](int64_t index, int64_t size) {
    float place = float(index) * float(side - 1) / float(std::max<int64_t>(size - 1, 1));
    auto first = int64_t(std::floor(place));
    float behind = place - float(first);
    return std::array<std::pair<int64_t, float>, 2>{
        std::pair{std::min(first, side - 1), 1.0F - behind},
        std::pair{std::min(first + 1, side - 1), std::max(0.0F, 1.0F - std::fabs(behind - 1.0F))}};
  };
  for (auto [y, down] : taps(row, height))
    for (auto [x, across] : taps(column, width))
      learned[at + size_t(y * side + x)] += down * across;
}

std::vector<StoredTensor> ImageGrid::inputs(const float *patches) {
  int64_t square = merge * merge, across = width / merge, wide = patchWidth(about), dim = about.head_dim();
  auto count = int64_t(rowOf.size()) * square, ofRun = count / runs;
  cosines.clear(), sines.clear(), mask.clear(), learned.clear();
  pixels.assign(size_t(count * wide), 0);
  for (size_t place = 0; place < rowOf.size(); ++place) {
    int64_t row = rowOf[place];
    if (row >= 0)
      memcpy(pixels.data() + int64_t(place) * square * wide, patches + row * square * wide,
             size_t(square * wide) * sizeof(float));
    for (int64_t part = 0; part < square; ++part) {
      int64_t y = row < 0 ? 0 : row / across * merge + part / merge;
      int64_t x = row < 0 ? 0 : row % across * merge + part % merge;
      addPlace(y, x);
      if (about.places())
        addLearned(y, x);
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
  if (about.places())
    all.push_back(tensor("places", int64_t(about.places()) * about.places(), learned));
  if (about.window())
    all.push_back(tensor("mask", 1, mask));
  return all;
}

namespace {

constexpr int64_t mostOnSide = 1 << 14; // patches

const StoredTensor *find(const std::vector<StoredTensor> &tensors, const char *name) {
  auto found =
      std::find_if(tensors.begin(), tensors.end(), [&](const StoredTensor &tensor) { return tensor.name == name; });
  return found == tensors.end() ? nullptr : &*found;
}

// (1, height, width) of each image, in patches.
Status readCounts(const StoredTensor &grids, const std::string &where, int64_t merge, GivenPatches &out) {
  for (int64_t image = 0; image < grids.shape[0]; ++image) {
    int64_t size[3];
    memcpy(size, grids.data + image * int64_t(sizeof size), sizeof size);
    auto [frames, height, width] = size;
    if (frames != 1 || height < merge || width < merge || height > mostOnSide || width > mostOnSide || height % merge ||
        width % merge)
      return invalidInput(
          format("%s: image_grid_thw[%lld] is %lld, %lld, %lld, expected 1 and multiples of %lld up to %lld",
                 where.c_str(), (long long)image, (long long)frames, (long long)height, (long long)width,
                 (long long)merge, (long long)mostOnSide));
    out.sizes.emplace_back(height, width);
  }
  return Status();
}

// The patches of a whole image, (channels, of its batch's height and width), as those that were cut before: those of its own size alone.
void cutPatches(const float *image, int64_t batchHeight, int64_t batchWidth, int64_t height, int64_t width,
                const package::GivenGrid &about, std::vector<float> &patches) {
  int64_t patch = about.patch(), merge = about.merge(), channels = about.channels();
  for (int64_t top = 0; top < height; top += merge)
    for (int64_t left = 0; left < width; left += merge)
      for (int64_t part = 0; part < merge * merge; ++part) {
        int64_t y = (top + part / merge) * patch, x = (left + part % merge) * patch;
        for (int64_t plane = 0; plane < channels * patch; ++plane) {
          const float *row = image + (plane / patch * batchHeight + y + plane % patch) * batchWidth + x;
          patches.insert(patches.end(), row, row + patch);
        }
      }
}

// Whole images, (images, channels, height, width), as high and as wide as image_sizes says.
Status readWhole(const StoredTensor &pixels, const StoredTensor &sizes, const std::string &where,
                 const package::GivenGrid &about, GivenPatches &out) {
  int64_t unit = int64_t(about.patch()) * about.merge();
  if (pixels.dtype != "F32" || pixels.shape.size() != 4 || pixels.shape[1] != int64_t(about.channels()))
    return invalidInput(where + ": tensor 'pixel_values' is " + std::string(pixels.dtype) + " " +
                        shapeText(pixels.shape) + ", expected F32 (images, " + std::to_string(about.channels()) +
                        ", height, width)");
  if (sizes.dtype != "I64" || sizes.shape != std::vector<int64_t>{pixels.shape[0], 2})
    return invalidInput(where + ": tensor 'image_sizes' is " + std::string(sizes.dtype) + " " + shapeText(sizes.shape) +
                        ", expected I64 (" + std::to_string(pixels.shape[0]) + ", 2)");
  int64_t batchHeight = pixels.shape[2], batchWidth = pixels.shape[3];
  const auto *image = reinterpret_cast<const float *>(pixels.data);
  for (int64_t i = 0; i < pixels.shape[0]; ++i, image += about.channels() * batchHeight * batchWidth) {
    int64_t size[2];
    memcpy(size, sizes.data + i * int64_t(sizeof size), sizeof size);
    auto [height, width] = size;
    if (height < unit || width < unit || height > batchHeight || width > batchWidth || height % unit || width % unit ||
        std::max(height, width) / int64_t(about.patch()) > mostOnSide)
      return invalidInput(format("%s: image_sizes[%lld] is %lld, %lld, expected multiples of %lld up to %lld, %lld",
                                 where.c_str(), (long long)i, (long long)height, (long long)width, (long long)unit,
                                 (long long)batchHeight, (long long)batchWidth));
    height /= about.patch(), width /= about.patch();
    out.sizes.emplace_back(height, width);
    cutPatches(image, batchHeight, batchWidth, height, width, about, out.cut);
  }
  out.patches = out.cut.data();
  return Status();
}

} // namespace

std::vector<const char *> gridInputs(const package::GivenGrid &about) {
  return {"pixel_values", about.whole_images() ? "image_sizes" : "image_grid_thw"};
}

Status readGrids(const std::vector<StoredTensor> &tensors, const std::string &where, const package::GivenGrid &about,
                 GivenPatches &out) {
  // Files of images are patches, whatever --io takes.
  const char *ofSizes = find(tensors, "image_grid_thw") ? "image_grid_thw" : gridInputs(about).back();
  const StoredTensor *pixels = find(tensors, "pixel_values"), *sizes = find(tensors, ofSizes);
  if (!pixels || !sizes)
    return invalidInput(where + ": no tensor '" + (pixels ? ofSizes : "pixel_values") + "'");
  if (!strcmp(ofSizes, "image_sizes"))
    return readWhole(*pixels, *sizes, where, about, out);
  int64_t wide = ImageGrid::patchWidth(about), total = 0;
  if (pixels->dtype != "F32" || pixels->shape.size() != 2 || pixels->shape[1] != wide)
    return invalidInput(where + ": tensor 'pixel_values' is " + std::string(pixels->dtype) + " " +
                        shapeText(pixels->shape) + ", expected F32 (patches, " + std::to_string(wide) + ")");
  if (sizes->dtype != "I64" || sizes->shape.size() != 2 || sizes->shape[1] != 3)
    return invalidInput(where + ": tensor 'image_grid_thw' is " + std::string(sizes->dtype) + " " +
                        shapeText(sizes->shape) + ", expected I64 (images, 3)");
  HEDDLE_RETURN_IF_ERROR(readCounts(*sizes, where, about.merge(), out));
  for (auto [height, width] : out.sizes)
    total += height * width;
  if (total != pixels->shape[0])
    return invalidInput(format("%s: pixel_values has %lld patches, image_grid_thw says %lld", where.c_str(),
                               (long long)pixels->shape[0], (long long)total));
  out.patches = reinterpret_cast<const float *>(pixels->data);
  return Status();
}

} // namespace heddle
