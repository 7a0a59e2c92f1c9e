// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What families that take images have in common.
#ifndef HEDDLE_FRONTENDS_FAMILIES_IMAGES_H
#define HEDDLE_FRONTENDS_FAMILIES_IMAGES_H

#include "frontends/ModelConfig.h"

namespace heddle {

class JsonObject;

// num_channels, image_size and patch_size, which is `patch` where config.json does not say it.
void readImage(JsonObject &object, ImageConfig &image, int64_t patch);

// A table of positions, (from * from, width), as one of (to * to, width) by bicubic interpolation (Keys 1981) between the centers of patches. As torch
// has it: four rows on a side with a = -3/4, or, where it is antialiased, as many as become one with a = -1/2.
std::vector<float> interpolateGrid(const std::vector<float> &table, int64_t from, int64_t to, int64_t width,
                                   bool antialiased);

} // namespace heddle

#endif
