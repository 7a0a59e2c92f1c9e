// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An image as the numbers that a model sees: what transformers' image processors compute with Pillow.
#ifndef HEDDLE_RUNTIME_IMAGE_PIXELVALUES_H
#define HEDDLE_RUNTIME_IMAGE_PIXELVALUES_H

#include "runtime/image/ImageResize.h"

#include <array>

namespace heddle {

struct PixelOptions {
  // do_resize: to height and width, or, where shortestEdge is not 0, so that the shorter side has its size and the other one keeps its ratio, rounded
  // down. No side of either kind: the size stays.
  int64_t height = 0, width = 0, shortestEdge = 0;
  // Instead: the longer side has that size and the other one keeps its ratio, rounded down and then up to an even number; at most 4096 pixels.
  int64_t longestEdge = 0;
  bool tiles = false; // of computePixelTiles()
  // Of computePixelTiles(), instead: the image becomes the grid of so many squares whose ratio is nearest to its own, at most 2^10; 0: it does not.
  int64_t minTiles = 0, maxTiles = 0;
  // Of computePatches(): how many pixels an image becomes, at least and at most; or, isAtMost, the sides that it has at most before they are rounded up.
  int64_t leastPixels = 0, mostPixels = 0;
  bool isAtMost = false;
  Resampling filter = Resampling::Bilinear;
  // do_center_crop: 0 by 0 for none. Where the image is smaller, black is around it.
  int64_t cropHeight = 0, cropWidth = 0;
  double factor = 1;       // do_rescale
  bool normalizes = false; // do_normalize
  std::array<float, 3> mean = {}, deviation = {};
};

// values[c, y, x] = (factor * pixel[y, x, c] - mean[c]) / deviation[c], of the image that is resized, then cropped. `outValues`: (3, side, side), the size
// that the model sees, of which an image of another one is refused; `path` begins the message.
Status computePixelValues(const std::string &path, const Image &image, const PixelOptions &options, int64_t side,
                          std::vector<float> &outValues);

// The same of an image that is cut into tiles, or of one that is not: then its size becomes the model's at last. With `options.tiles` both sides become
// multiples of `side`; where that is more than one square, there are outRows * outColumns of these, before the whole, resized to one. Else both are 0.
Status computePixelTiles(const std::string &path, const Image &image, const PixelOptions &options, int64_t side,
                         std::vector<float> &outValues, int64_t &outRows, int64_t &outColumns);

// An image as squares of `side`: the whole, resized to one, then those of an image of fittedHeight by fittedWidth, multiples of `side`, in whose middle it
// stands as large as it fits, black around it. `outValues`: (1 + squares, 3, side, side).
Status computeMosaic(const std::string &path, const Image &image, const PixelOptions &options, int64_t side,
                     int64_t fittedHeight, int64_t fittedWidth, std::vector<float> &outValues);

// How an image of any size becomes patches: each of `frames` times the same, squares of merge by merge of them side by side.
struct PatchShape {
  int64_t patch = 0, frames = 0, merge = 0;
};

// An image whose sides become the nearest multiples of patch * merge within the options' pixels, or the next ones: (outHeight * outWidth,
// 3 * frames * patch * patch), square by square.
Status computePatches(const std::string &path, const Image &image, const PixelOptions &options, const PatchShape &shape,
                      std::vector<float> &outValues, int64_t &outHeight, int64_t &outWidth);

} // namespace heddle

#endif
