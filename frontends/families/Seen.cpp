// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/families/Seen.h"

#include "frontends/Family.h"

namespace heddle {

void readImageToken(JsonObject &object, const ModelConfig &text, ModelConfig &tower, int64_t fallback) {
  const char *key = object.has("image_token_id") ? "image_token_id" : "image_token_index";
  tower.seen.token = object.bounded(key, object.integer(key).value_or(fallback), 0, text.vocabSize - 1);
}

void seeLast(ModelConfig &tower) {
  tower.seen.layers = {tower.encoder.numLayers + 1};
}

void readSquares(JsonObject &object, ModelConfig &tower, const char *key, int64_t side, bool sideBySide) {
  int64_t grid = tower.image.grid();
  if (side < 1 || side > grid || grid % side) {
    object.unsupported(key, "makes a token of " + std::to_string(side) + " by " + std::to_string(side) +
                                " patches, expected a divisor of the " + std::to_string(grid) +
                                " on a side of an image");
    side = 1;
  }
  tower.seen.side = side;
  tower.seen.sideBySide = sideBySide;
}

TensorHandle beginSeen(ModelBuilder &b) {
  const ModelConfig &c = b.config();
  b.beginEntry("image", "images");
  std::vector<TensorHandle> states = c.family->hiddenStates(b), chosen;
  for (int64_t layer : c.seen.layers)
    chosen.push_back(states[size_t(layer)]);
  return chosen.size() > 1 ? b.sideBySide(chosen) : chosen.front();
}

TensorHandle squares(ModelBuilder &b, TensorHandle patches) {
  const SeenConfig &seen = b.config().seen;
  int64_t grid = b.config().image.grid(), side = seen.side;
  std::vector<int32_t> order;
  order.reserve(size_t(grid * grid));
  for (int64_t top = 0; top < grid; top += side)
    for (int64_t left = 0; left < grid; left += side)
      for (int64_t place = 0; place < side * side; ++place)
        order.push_back(int32_t((top + place / side) * grid + left + place % side));
  TensorHandle joined = b.gatherTokens(patches, order, /*group=*/side * side, "");
  if (seen.sideBySide || side == 1)
    return joined;
  int64_t width = b.config().encoder.hiddenSize;
  TensorHandle sum = b.columns(joined, 0, width);
  for (int64_t place = 1; place < side * side; ++place)
    sum = b.add(sum, b.columns(joined, place * width, (place + 1) * width));
  return b.scale(sum, 1.0 / double(side * side));
}

} // namespace heddle
