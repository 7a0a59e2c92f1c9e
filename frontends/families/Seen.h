// Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What rows have in common that join a tower to a decoder: which of its hidden states count, and how patches become tokens of a prompt.
#ifndef HEDDLE_FRONTENDS_FAMILIES_SEEN_H
#define HEDDLE_FRONTENDS_FAMILIES_SEEN_H

#include "frontends/Family.h"
#include "frontends/families/ModelBuilder.h"
#include "frontends/huggingface/JsonObject.h"

namespace heddle {

// LLaVA's two linear layers, by which what a tower gives becomes tokens of a decoder.
#define HEDDLE_SEEN_PROJECTOR                                                                                          \
  {"multi_modal_projector.linear_1.weight", nullptr, ConfigDim::Projection, ConfigDim::Seen},                          \
      {"multi_modal_projector.linear_1.bias", nullptr, ConfigDim::Projection, ConfigDim::None, When::HeadBias},        \
      {"multi_modal_projector.linear_2.weight", nullptr, ConfigDim::Projection, ConfigDim::Projection}, {              \
    "multi_modal_projector.linear_2.bias", nullptr, ConfigDim::Projection, ConfigDim::None, When::HeadBias             \
  }

// tower.seen.token: the id that stands for an image's tokens in prompts. Where a file has both names, the reference takes the first.
void readImageToken(JsonObject &object, const ModelConfig &text, ModelConfig &tower, int64_t fallback);
// tower.seen.layers, from vision_feature_layer; tower.seen.skipsFirst, from vision_feature_select_strategy; tower.headActivation, from projector_hidden_act.
void readSeenLayers(JsonObject &object, ModelConfig &tower, int64_t fallback);
void readSeenStrategy(JsonObject &object, ModelConfig &tower);
void readSeenActivation(JsonObject &object, ModelConfig &tower);
// All that LLaVA's config says of what stands between.
void readProjector(JsonObject &object, ModelConfig &text, ModelConfig &tower);
// tower.seen.layers: what the whole tower gives, behind its norm.
void seeLast(ModelConfig &tower);
// tower.seen.side, from a number of patches on a side of a token's square, which must divide those of an image.
void readSquares(JsonObject &object, ModelConfig &tower, const char *key, int64_t side, bool sideBySide);

// Begins the entry of a joint: the hidden states that count, side by side, (images, tokens, width).
TensorHandle beginSeen(ModelBuilder &b);
// The patches, behind the first token where that does not count, of each square of seen.side by seen.side, square by square, row by row: as one token with all their numbers, or their mean.
TensorHandle squares(ModelBuilder &b, TensorHandle patches);

// What those layers make of a tower's hidden states; and the entry, which hands the row's head these, without the first token where that does not count.
TensorHandle projected(ModelBuilder &b, TensorHandle seen);
void buildSeen(ModelBuilder &b);

} // namespace heddle

#endif
