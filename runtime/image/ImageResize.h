// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Resizes images bit for bit as Pillow's Image.resize() does.
#ifndef HEDDLE_RUNTIME_IMAGE_IMAGERESIZE_H
#define HEDDLE_RUNTIME_IMAGE_IMAGERESIZE_H

#include "runtime/image/ImageFile.h"

namespace heddle {

// Pillow's Image.Resampling, by its numbers.
enum class Resampling : uint8_t { Nearest = 0, Lanczos = 1, Bilinear = 2, Bicubic = 3, Box = 4, Hamming = 5 };

// With s = in / out pixels of a side, r = max(s, 1), and c = (o + 0.5) s the place of output pixel o among the input's:
//
//   out[o] = sum over i of w(i) in[i] / sum over i of w(i),  w(i) = filter((i + 0.5 - c) / r)
//
// so that a filter is as wide as what becomes one pixel. Rows are done first, then columns; as of Pillow 13 columns are first where the height shrinks
// by more than twice the pixels that the width does. Weights have 22 bits behind the point, either pass is rounded to 8 bits, and a side
// that keeps its size keeps its pixels. Nearest takes the pixel at c. Sizes are above 0, and bounded by the caller.
Image resized(const Image &image, int64_t width, int64_t height, Resampling filter);

} // namespace heddle

#endif
