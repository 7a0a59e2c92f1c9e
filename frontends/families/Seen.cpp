// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "frontends/families/Seen.h"

#include "frontends/huggingface/Config.h"

namespace heddle {

void readImageToken(JsonObject &object, const ModelConfig &text, ModelConfig &tower, int64_t fallback) {
  const char *key = object.has("image_token_id") ? "image_token_id" : "image_token_index";
  tower.seen.token = object.bounded(key, object.integer(key).value_or(fallback), 0, text.vocabSize - 1);
}

// Negative numbers of hidden states count from the last.
void readSeenLayers(JsonObject &object, ModelConfig &tower, int64_t fallback) {
  int64_t count = tower.encoder.numLayers + 1;
  std::vector<int64_t> layers = object.integers("vision_feature_layer");
  if (!object.has("vision_feature_layer"))
    layers = {fallback};
  if (layers.empty() || layers.size() > 64)
    object.fail("vision_feature_layer",
                "has " + std::to_string(layers.size()) + " layers, expected one, or a list of 1 to 64");
  for (int64_t layer : layers) {
    if (layer < -count || layer >= count)
      return object.fail("vision_feature_layer", "is " + std::to_string(layer) +
                                                     ", expected a hidden state of vision_config's " +
                                                     std::to_string(count - 1) + " layers, " + std::to_string(-count) +
                                                     " to " + std::to_string(count - 1));
    tower.seen.layers.push_back(layer < 0 ? layer + count : layer);
  }
}

void readSeenStrategy(JsonObject &object, ModelConfig &tower) {
  std::string strategy = object.string("vision_feature_select_strategy").value_or("default");
  if (strategy != "default" && strategy != "full")
    object.unsupported("vision_feature_select_strategy",
                       "is '" + printable(strategy, 64) + "', which is not supported; expected default or full");
  tower.seen.skipsFirst = strategy == "default";
  if (tower.seen.skipsFirst && tower.image.hasAnySize)
    object.unsupported("vision_feature_select_strategy",
                       "is default, which is not supported of images of any size: expected full");
  else if (tower.seen.skipsFirst && tower.image.tokens() < 2)
    object.fail("vision_feature_select_strategy", "is default, which leaves no token of an image");
}

void readSeenActivation(JsonObject &object, ModelConfig &tower) {
  std::string activation = object.string("projector_hidden_act").value_or("gelu");
  if (std::optional<Activation> known = activationNamed(activation))
    tower.headActivation = *known;
  else
    object.fail("projector_hidden_act",
                "is '" + printable(activation, 64) + "', an unknown activation; known: " + knownActivations());
}

void readProjector(JsonObject &object, ModelConfig &text, ModelConfig &tower) {
  readSeenLayers(object, tower, -2);
  readSeenStrategy(object, tower);
  readSeenActivation(object, tower);
  tower.hasHeadBias = object.boolean("multimodal_projector_bias").value_or(true);
  readImageToken(object, text, tower, 32000);
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

TensorHandle projected(ModelBuilder &b, TensorHandle seen) {
  TensorHandle wide = b.activation(b.linear(seen, "multi_modal_projector.linear_1"), b.config().headActivation);
  return b.linear(wide, "multi_modal_projector.linear_2");
}

// What the decoder is given of an image: (images, tokens, hidden_size).
void buildSeen(ModelBuilder &b) {
  const ModelConfig &c = b.config();
  TensorHandle seen = beginSeen(b);
  if (c.seen.skipsFirst) {
    std::vector<int32_t> tokens;
    for (int64_t token = 1; token < c.image.tokens(); ++token)
      tokens.push_back(int32_t(token));
    seen = b.gatherTokens(seen, tokens, /*group=*/1, "");
  }
  c.head->build(b, seen, {});
}

TensorHandle squares(ModelBuilder &b, TensorHandle patches) {
  const SeenConfig &seen = b.config().seen;
  int64_t grid = b.config().image.grid(), side = seen.side;
  int64_t first = seen.skipsFirst ? 1 : 0;
  std::vector<int32_t> order;
  order.reserve(size_t(grid * grid));
  for (int64_t top = 0; top < grid; top += side)
    for (int64_t left = 0; left < grid; left += side)
      for (int64_t place = 0; place < side * side; ++place)
        order.push_back(int32_t(first + (top + place / side) * grid + left + place % side));
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
