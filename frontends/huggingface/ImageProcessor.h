// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a folder says of how a file of an image becomes pixel_values: preprocessor_config.json, or image_processor in processor_config.json.
#ifndef HEDDLE_FRONTENDS_HUGGINGFACE_IMAGEPROCESSOR_H
#define HEDDLE_FRONTENDS_HUGGINGFACE_IMAGEPROCESSOR_H

#include "frontends/ModelFiles.h"
#include "frontends/huggingface/JsonObject.h"

#include <utility>
#include <vector>

namespace heddle {

struct ModelConfig;

// config.imageProcessing, once config.json is read; none where the folder does not say it. Where the family's positions are interpolated, config.image
// takes the size that images are made, else another size than config.json's is refused.
Status readImageProcessor(ModelFiles &files, ModelConfig &config);
// The same of an object that holds what the first of those files would.
Status readImageProcessor(JsonObject &object, ModelConfig &config);

// image_grid_pinpoints: heights and widths, multiples of `side`, one of which an image is fitted into.
std::vector<std::pair<int64_t, int64_t>> readResolutions(JsonObject &object, int64_t side);

} // namespace heddle

#endif
