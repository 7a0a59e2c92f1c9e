// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// LLaVA-NeXT (1.6, 2024): LLaVA that sees an image whole, and again in tiles of the size, of a list, that fits it best; what was filled up around it is left
// out, and a learned row ends each line of the tiles.

#include "frontends/families/Families.h"
#include "frontends/families/Seen.h"
#include "frontends/huggingface/ImageProcessor.h"

namespace heddle {

static constexpr TensorRule projectorRules[] = {
    HEDDLE_SEEN_PROJECTOR,
    {"image_newline", nullptr, ConfigDim::Projection},
};

static void readJoint(JsonObject &object, ModelConfig &text, ModelConfig &tower) {
  readProjector(object, text, tower);
  if (tower.image.hasAnySize || tower.image.specialTokens != (tower.seen.skipsFirst ? 1 : 0))
    return object.unsupported("vision_feature_select_strategy",
                              std::string("is ") + (tower.seen.skipsFirst ? "default" : "full") +
                                  ", which does not leave the tokens of the patches alone");
  tower.seen.resolutions = readResolutions(object, tower.image.size);
}

// The rows of the patches, then that of the end of a line.
static void project(ModelBuilder &b, TensorHandle seen, TensorHandle) {
  std::vector<int32_t> rows;
  int64_t grid = b.config().image.grid();
  rows.reserve(size_t(grid * grid + 1));
  for (int64_t row = 0; row < grid * grid; ++row)
    rows.push_back(int32_t(row));
  rows.push_back(-1);
  b.output("image_features", b.gatherTokens(projected(b, seen), rows, /*group=*/1, "image_newline"));
}

static constexpr Head heads[] = {{"LlavaNextForConditionalGeneration", projectorRules, project}};

static constexpr Family describeLlavaNext() {
  Family row;
  row.modelType = "llava_next";
  row.textModel = "llama";
  row.towerModel = "clip_vision_model";
  row.imageProcessor = "LlavaNextImageProcessor";
  row.heads = heads;
  row.readers.huggingFaceJoint = readJoint;
  row.build = buildSeen;
  return row;
}
const Family family::llavaNext = describeLlavaNext();

} // namespace heddle
