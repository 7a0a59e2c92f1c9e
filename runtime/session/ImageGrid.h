// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An image of any size as a tower takes it: runs of patches with their places, and where in what it gives each row of the image is.
#ifndef HEDDLE_RUNTIME_SESSION_IMAGEGRID_H
#define HEDDLE_RUNTIME_SESSION_IMAGEGRID_H

#include "bytes/Safetensors.h"
#include "bytes/Status.h"
#include "runtime/model/PackageFile.h"

#include <string>
#include <vector>

namespace heddle {

// Of one image: a grid of `height` by `width` patches, whole squares of merge by merge.
class ImageGrid {
public:
  ImageGrid(const package::GivenGrid &about, int64_t height, int64_t width);

  // The inputs of the graph, of patches (height * width, patch width), square by square; valid until the next, or until this ends.
  std::vector<StoredTensor> inputs(const float *patches);
  // Rows of the image, and which of them a row of what the graph gives is; -1: none, it fills a run up.
  int64_t rows() const { return height * width / (merge * merge); }
  int64_t columns() const { return width / merge; }
  const std::vector<int32_t> &order() const { return rowOf; }
  // Numbers of a patch.
  static int64_t patchWidth(const package::GivenGrid &about) {
    return int64_t(about.channels()) * about.frames() * about.patch() * about.patch();
  }

private:
  void addPlace(int64_t row, int64_t column);
  void addLearned(int64_t row, int64_t column);

  const package::GivenGrid &about;
  const int64_t height, width, merge;
  int64_t runs = 1;
  std::vector<int32_t> rowOf; // (runs * rows of a run)
  std::vector<float> pixels, cosines, sines, mask, learned;
};

// Images of any size, one behind another: rows and columns of patches of each, and the patches of all, (patches, patch width), square by square.
struct GivenPatches {
  std::vector<std::pair<int64_t, int64_t>> sizes;
  const float *patches = nullptr; // of the tensors that were read, or of `cut`
  std::vector<float> cut;
};

// What --io calls the inputs of such a model.
std::vector<const char *> gridInputs(const package::GivenGrid &about);
// What they hold: patches beside image_grid_thw, or whole images beside image_sizes.
Status readGrids(const std::vector<StoredTensor> &tensors, const std::string &where, const package::GivenGrid &about,
                 GivenPatches &out);

} // namespace heddle

#endif
