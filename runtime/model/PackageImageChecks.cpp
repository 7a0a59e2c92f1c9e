// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/model/PackageChecks.h"

#include <cmath>

namespace heddle {

Status wrong(const std::string &path, const char *field, double value, const char *expected) {
  return damagedFile(format("%s: package: %s is %.17g, expected %s", path.c_str(), field, value, expected));
}

Status checkImageProcessing(const package::Package &root, const std::string &path) {
  constexpr uint32_t mostPixels = 1 << 14, mostFilters = 6; // of a side; of Pillow
  const package::ImageProcessing *processing = root.image_processing();
  if (!processing)
    return Status();
  for (auto [name, value] : {std::pair{"image_processing.size", processing->size()},
                             {"image_processing.height", processing->height()},
                             {"image_processing.width", processing->width()},
                             {"image_processing.shortest_edge", processing->shortest_edge() / 16}, // of a share to crop
                             {"image_processing.crop_height", processing->crop_height()},
                             {"image_processing.crop_width", processing->crop_width()}})
    if (value > mostPixels)
      return wrong(path, name, value, "at most 2^14");
  if (processing->size() == 0)
    return wrong(path, "image_processing.size", 0, "a size above 0");
  if (!processing->height() != !processing->width() || (processing->height() && processing->shortest_edge()))
    return wrong(path, "image_processing.height", processing->height(), "beside a width, without a shortest edge");
  if (!processing->crop_height() != !processing->crop_width())
    return wrong(path, "image_processing.crop_height", processing->crop_height(), "beside a width");
  constexpr uint32_t mostTiles = 1 << 10;
  if (processing->max_tiles() > mostTiles || processing->min_tiles() > processing->max_tiles())
    return wrong(path, "image_processing.max_tiles", processing->max_tiles(), "at most 1024, and min_tiles or more");
  if (processing->filter() >= mostFilters)
    return wrong(path, "image_processing.filter", processing->filter(), "0 … 5");
  if (!std::isfinite(processing->factor()))
    return wrong(path, "image_processing.factor", processing->factor(), "a finite number");
  uint32_t means = processing->mean() ? processing->mean()->size() : 0;
  uint32_t deviations = processing->deviation() ? processing->deviation()->size() : 0;
  if (means != deviations || (means != 0 && means != 3))
    return wrong(path, "image_processing.mean", means, "3 beside as many deviations, or none");
  for (uint32_t i = 0; i < means; ++i)
    if (!std::isfinite(processing->mean()->Get(i)) || !(processing->deviation()->Get(i) > 0))
      return wrong(path, "image_processing.deviation", processing->deviation()->Get(i), "a number above 0");
  return Status();
}

Status checkGivenText(const package::GivenRows &given, const std::string &path) {
  const package::GivenText *text = given.text();
  if (!text)
    return Status();
  for (const flatbuffers::String *part :
       {text->marker(), text->unmentioned(), text->whole(), text->tile(), text->between_rows(), text->behind_tiles()})
    if (!part)
      return damagedFile(path + ": package: given.text lacks a part");
  return text->marker()->size() ? Status() : damagedFile(path + ": package: given.text.marker is empty");
}

Status checkGrid(const package::Package &root, const package::GivenGrid &grid, const std::string &path) {
  constexpr uint32_t mostOnSide = 1 << 10, mostFrames = 1 << 10;
  for (auto [name, value] : {std::pair{"given.grid.patch", grid.patch()},
                             {"given.grid.merge", grid.merge()},
                             {"given.grid.frames", grid.frames()},
                             {"given.grid.head_dim", grid.head_dim()}})
    if (value == 0 || value > mostOnSide)
      return wrong(path, name, value, "1 … 1024");
  constexpr uint32_t mostChannels = 64, colors = 3;
  if (grid.channels() == 0 || grid.channels() > mostChannels || (root.image_processing() && grid.channels() != colors))
    return wrong(path, "given.grid.channels", grid.channels(), "1 … 64, 3 where files of images are read");
  if (grid.head_dim() % 4 || !(grid.theta() > 0) || !std::isfinite(grid.theta()))
    return wrong(path, "given.grid.head_dim", grid.head_dim(), "a multiple of 4, beside a theta above 0");
  if (grid.window() > mostFrames)
    return wrong(path, "given.grid.window", grid.window(), "at most 1024");
  if (grid.whole_images() && grid.frames() != 1)
    return wrong(path, "given.grid.frames", grid.frames(), "1 of images that are given whole");
  const package::ImageProcessing *processing = root.image_processing();
  if (processing && processing->at_most() &&
      (!processing->height() || processing->size() != grid.patch() * grid.merge()))
    return wrong(path, "image_processing.at_most", true, "beside a height, and the size that patches make");
  if (processing && !processing->at_most())
    if (!processing->most_pixels() || processing->least_pixels() > processing->most_pixels() ||
        processing->most_pixels() > uint64_t(1) << 27)
      return wrong(path, "image_processing.most_pixels", processing->most_pixels(), "1 … 2^27, least_pixels or more");
  return Status();
}

Status checkTiles(const package::Package &root, const package::GivenRows &given, const package::GivenTiles &tiles,
                  const std::string &path) {
  constexpr uint32_t mostOnSide = 1 << 14, mostSizes = 1 << 7, mostTiles = 1 << 10, mostPixels = 1 << 27;
  uint32_t side = tiles.side(), grid = tiles.grid(), count = tiles.sizes() ? tiles.sizes()->size() : 0;
  if (side == 0 || side > mostOnSide || grid == 0 || grid > side || given.grid())
    return wrong(path, "given.tiles.side", side, "1 … 2^14, beside a smaller grid");
  if (uint64_t(grid) * grid + 1 != given.count())
    return wrong(path, "given.tiles.grid", grid, "the root of given.count, less 1");
  if (count == 0 || count % 2 || count > mostSizes)
    return wrong(path, "given.tiles.sizes", count, "2 … 128 numbers, in pairs");
  for (uint32_t i = 0; i < count; i += 2) {
    uint32_t height = tiles.sizes()->Get(i), width = tiles.sizes()->Get(i + 1);
    if (height == 0 || width == 0 || height % side || width % side ||
        uint64_t(height / side) * (width / side) > mostTiles || uint64_t(height) * width > mostPixels)
      return wrong(path, "given.tiles.sizes", height,
                   "multiples of given.tiles.side, up to 1024 tiles and 2^27 pixels");
  }
  if (root.image_processing() && root.image_processing()->size() != side)
    return wrong(path, "image_processing.size", root.image_processing()->size(), "given.tiles.side");
  return Status();
}

} // namespace heddle
