// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An image that a tower sees whole, and again larger in tiles: its rows are those of the whole, then those of the tiles as they lie side by side, without
// what was filled up around the image, each line of them with one row more at its end (LLaVA-NeXT).
#ifndef HEDDLE_RUNTIME_SESSION_MOSAIC_H
#define HEDDLE_RUNTIME_SESSION_MOSAIC_H

#include "bytes/Safetensors.h"
#include "bytes/Status.h"
#include "runtime/model/PackageFile.h"

#include <string>
#include <utility>
#include <vector>

namespace heddle {

class Mosaic {
public:
  // Of an image of so many pixels.
  Mosaic(const package::GivenTiles &about, int64_t height, int64_t width);

  // Pixels that the image is fitted into: of the sizes that the model knows the one in which most of its pixels count, then the smallest.
  int64_t fittedHeight() const { return rows * side; }
  int64_t fittedWidth() const { return columns * side; }
  // Images that the tower sees: the whole, and the tiles row by row.
  int64_t tiles() const { return 1 + rows * columns; }
  // Which of the rows that the tower gives, tile by tile, stand for the image; each tile's last one is that of the end of a line.
  std::vector<int32_t> order() const;

private:
  const int64_t height, width, side, grid;
  int64_t rows = 0, columns = 0; // of tiles
};

// What --io calls the inputs of such a model.
std::vector<const char *> mosaicInputs();
// Heights and widths of the images that they hold, and the numbers of each one's tiles, (most tiles of an image, channels, side, side).
Status readMosaics(const std::vector<StoredTensor> &tensors, const std::string &where, const package::GivenTiles &about,
                   std::vector<std::pair<int64_t, int64_t>> &outSizes, const StoredTensor *&outPixels);

} // namespace heddle

#endif
